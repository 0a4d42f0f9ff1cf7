"""Acceptance lengths as each arm counted them, by arm and place."""

import numpy as np
import pandas as pd

from analysis.drafts.acceptance_tables import believed
from analysis.search.space import Floats, Space


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
