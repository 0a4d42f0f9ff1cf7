"""Acceptance lengths as each arm counted them, by arm and place."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.drafts.acceptance_tables import believed
from analysis.search.space import Floats, Space
from analysis.service.slo import Slo
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader


def bounded(reader: Reader, filters: Filters, slo: Slo) -> pd.DataFrame:
    """Return the values that the bounds are on: cell_id, metric, statistic, value."""
    rows = queries.measurements(reader, filters, list(slo.metrics), list(slo.statistics))
    found: pd.DataFrame = rows.to_pandas()[["cell_id", "metric", "statistic", "value"]]
    once = found.drop_duplicates(["cell_id", "metric", "statistic"])
    return once.astype({"cell_id": object})


def broken(values: pd.DataFrame, slo: Slo, cells: pd.DataFrame, space: Space) -> NDArray[np.bool_]:
    """Return (arms, places): whether the cells there break a bound, or lack its value.

    ``values`` as ``bounded`` returns them; ``cells``: cell_id, number of the arm, place. False where
    there is no cell.
    """
    shape = (len(space.arms), len(space.places))
    there, held = np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)
    there[cells["number"], cells["place"]] = True
    for bound in slo.bounds:
        mine = (values["metric"] == bound.metric) & (values["statistic"] == bound.statistic)
        rows = cells.astype({"cell_id": object}).merge(values[mine], on="cell_id")
        means = rows.groupby(["number", "place"])["value"].mean().reset_index()
        told = np.full(shape, np.nan)
        told[means["number"], means["place"]] = means["value"]
        held &= bound.holds_each(told)
    return there & ~held


def own_lengths(acceptance: pd.DataFrame, cells: pd.DataFrame, space: Space) -> Floats:
    """Return (arms, places): mean acceptance lengths, NaN where not counted.

    ``acceptance`` as the query of that name; ``cells``: cell_id, number of the arm, place.
    """
    found = believed(acceptance.dropna(subset=["mean_length"]))[["cell_id", "mean_length"]]
    rows = cells.astype({"cell_id": object}).merge(found.astype({"cell_id": object}), on="cell_id")
    told = np.full((len(space.arms), len(space.places)), np.nan)
    means = rows.groupby(["number", "place"])["mean_length"].mean().reset_index()
    told[means["number"], means["place"]] = means["mean_length"]
    return told


def rates_by_position(positions: pd.DataFrame, cells: pd.DataFrame, space: Space) -> Floats:
    """Return (arms, places, positions): the share of drafts whose token there was accepted.

    ``positions`` as the query ``acceptance_by_position``; ``cells`` as above.
    """
    most = max(arm.k for arm in space.arms)
    told = np.full((len(space.arms), len(space.places), most), np.nan)
    one = positions.drop_duplicates(["cell_id", "position"]).astype({"cell_id": object})
    rows = cells.astype({"cell_id": object}).merge(one[one["position"] < most], on="cell_id")
    means = rows.groupby(["number", "place", "position"])["rate"].mean().reset_index()
    told[means["number"], means["place"], means["position"]] = means["rate"]
    return told
