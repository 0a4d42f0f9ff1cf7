"""What the drops of one study tell a search that is under way."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.search.prior import lengths
from analysis.search.space import Launch, Seen, Space
from analysis.service.slo import parse
from answers.ground import excluded_cells
from answers.search.counted import bounded, broken, own_lengths, rates_by_position
from answers.search.recorded import LINE, spans_of, timed
from answers.search.values import Terms
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

#: Flags of a machine on which nothing is to be measured until it is itself again.
_TROUBLES = ("throttled", "gpu_neighbour")


@dataclass(frozen=True)
class Measured:
    """``space`` with the minutes that were measured; ``seen``: the launches in the order in which they
    were measured; ``ids``: in the study's plan, of all launches with a good cell (for a mix: with all its
    datasets at a load), also of those whose cells decide nothing; ``troubles``: what the machine did during the last launch and those beside
    it, in words; ``abreast``: share (0-1) of the launches' minutes that passed on the clock, 1 where
    none ran beside another."""

    space: Space
    seen: Seen
    ids: frozenset[str]
    troubles: tuple[str, ...] = ()
    abreast: float = 1.0


def measured(reader: Reader, study: str, space: Space, terms: Terms) -> Measured:
    """Return what the good cells of a study say. The arms of the space are labelled by the study's
    own names."""
    filters = Filters(study=(study,))
    metric, statistic = LINE[terms.latency]
    values = queries.measurements(reader, filters, [metric], [statistic]).to_pandas()
    values = values.drop_duplicates("cell_id")[["cell_id", "value"]].astype({"cell_id": object})
    every = queries.cells(reader, filters).to_pandas().astype({"cell_id": object})
    every = every[every["status"] == "good"]
    placed = _placed(reader, every, space)
    cells = placed.merge(values[values["value"] > 0], on="cell_id")
    order = cells.groupby("launch")["started"].min().sort_values()
    launches = tuple(
        _launch(cells[cells["launch"] == name], space, terms.latency) for name in order.index
    )
    told = lengths(
        space, own_lengths(queries.acceptance(reader, filters).to_pandas(), cells, space),
        rates_by_position(
            queries.acceptance_by_position(reader, filters).to_pandas(), cells, space
        ),
        {launch.arm for launch in launches},
    )  # fmt: skip
    slo = None if terms.slo is None else parse(terms.slo)
    barred = None if slo is None else broken(bounded(reader, filters, slo), slo, placed, space)
    seen = Seen(launches, told, barred=barred)
    ids = _whole(every, terms)
    spans = spans_of(cells)
    last = spans.index[spans["ended"] >= spans["started"].max()]
    troubles = _troubles(reader, list(cells.loc[cells["launch"].isin(last), "cell_id"]))
    return Measured(timed(space, cells), seen, ids, troubles, _abreast(spans))


def _whole(cells: pd.DataFrame, terms: Terms) -> frozenset[str]:
    """Return the launches that are not to be measured any more: those with a good cell; for a mix those
    with all its datasets at a load, since a launch that was cut short before says nothing of it."""
    if not terms.mix:
        return frozenset(map(str, cells["launch"]))
    names = {name for name, _ in terms.mix}
    mine = (
        cells[cells["dataset"].isin(names)].groupby(["launch", "concurrency"])["dataset"].nunique()
    )
    return frozenset(str(launch) for launch, _ in mine.index[mine == len(names)])


def _abreast(spans: pd.DataFrame) -> float:
    """Return the share of the launches' seconds that passed on the clock."""
    until = spans["ended"].cummax().shift(fill_value=-np.inf)
    alone = spans["ended"] - np.maximum(spans["started"], until)
    whole = float((spans["ended"] - spans["started"]).sum())
    return float(alone.clip(lower=0).sum()) / whole if whole else 1.0


def _troubles(reader: Reader, cell_ids: list[str]) -> tuple[str, ...]:
    """Return what the flags of some cells say of a machine that did not run as it does else."""
    flags = queries.flags(reader, cell_ids).to_pandas()
    return tuple(dict.fromkeys(flags.loc[flags["name"].isin(_TROUBLES), "sentence"]))


def _launch(rows: pd.DataFrame, space: Space, latency: bool) -> Launch:
    speed = np.full(len(space.places), np.nan)
    value = np.log(rows["value"].to_numpy(dtype=np.float64))
    speed[rows["place"].to_numpy()] = -value if latency else value
    return Launch(int(rows["number"].iloc[0]), speed)


def _placed(reader: Reader, cells: pd.DataFrame, space: Space) -> pd.DataFrame:
    """Those good cells that decide something: cell_id, number of the arm, place, launch, started (s),
    duration (s)."""
    flags = queries.flags(reader, list(cells.loc[cells["flags"] > 0, "cell_id"])).to_pandas()
    cells = cells[~cells["cell_id"].isin(excluded_cells(cells, flags))]
    arms = {arm.label: at for at, arm in enumerate(space.arms)}
    at = {(place.traffic, place.load): number for number, place in enumerate(space.places)}
    started = pd.to_datetime(cells["started_at"], utc=True)
    rows = cells[["cell_id", "launch", "duration"]].assign(
        number=[arms.get(str(name), -1) for name in cells["arm"]],
        place=[at.get((str(name), float(load)), -1)
               for name, load in zip(cells["dataset"], cells["concurrency"], strict=True)],
        started=(started - started.min()).dt.total_seconds(),
    )  # fmt: skip
    kept: pd.DataFrame = rows[(rows["number"] >= 0) & (rows["place"] >= 0)]
    return kept
