"""What the SLO page reads, cached by warehouse generation; the requests only when asked for."""

from dataclasses import dataclass

from analysis.matching.arm_levels import ArmLevels, arm_levels
from analysis.money.paying import Paying
from analysis.service import pareto
from analysis.service.goodput import COLUMNS, Goodput, goodput, per_request
from analysis.service.goodput_levels import window
from analysis.service.slo import Slo, parse
from dashboard import data, slo_words
from dashboard.answers.arm_loads import arm_loads
from dashboard.answers.pareto import Trade, trade
from dashboard.answers.slo import Answer, answer
from dashboard.arm_places import places
from dashboard.cells import BEHIND, linked
from dashboard.components import Shown
from dashboard.shelf import Shelf, cached, frame, reader
from warehouse import queries
from warehouse.filters import Filters

#: Cells whose requests are read for one answer; beyond, a reader must choose.
MOST_CELLS = 400


@dataclass(frozen=True)
class Asked:
    """``slo`` in its normal form; ``goodput``: whether the requests are to be read."""

    filters: Filters
    slo: str
    paying: Paying
    goodput: bool


@cached(16)
def _offered(shelf: Shelf, filters: Filters) -> tuple[list[str], Slo | None]:
    names = (slo_words.SUGGESTED, slo_words.SUGGESTED_STATISTICS)
    measured = frame(queries.measurements(reader(shelf), filters, *names))
    return slo_words.suggestions(measured), slo_words.first_slo(measured)


def suggestions(shelf: Shelf, filters: Filters) -> list[str]:
    """Bounds to choose from; see ``slo_words.suggestions``."""
    return _offered(shelf, filters)[0]


def first_slo(shelf: Shelf, filters: Filters) -> Slo | None:
    """The SLO before one is written."""
    return _offered(shelf, filters)[1]


@cached(16)
def _levels(shelf: Shelf, filters: Filters, slo: str) -> ArmLevels:
    asked = parse(slo)
    metrics = [*asked.metrics, "output_throughput", "achieved_concurrency"]
    statistics = [*asked.statistics, "mean"]
    rows = frame(queries.measurements(reader(shelf), filters, metrics, statistics))
    return arm_levels(data.cells(shelf, filters), rows)


@cached(16, Asked)
def slo_answer(shelf: Shelf, asked: Asked) -> Answer:
    """What the page says of an SLO; see ``answers_slo.answer``."""
    levels, slo = _levels(shelf, asked.filters, asked.slo), parse(asked.slo)
    named = places(levels, data.cells(shelf, asked.filters))
    goodputs = _goodputs(shelf, asked.filters, asked.slo) if asked.goodput else {}
    return answer(arm_loads(levels, named, slo, asked.paying), levels, slo, goodputs)


def judged_cells(shelf: Shelf, filters: Filters, slo: str) -> int:
    """How many cells have requests that goodput would read."""
    return int(_levels(shelf, filters, slo).values["cell_id"].nunique())


@cached(4)
def _goodputs(shelf: Shelf, filters: Filters, slo: str) -> dict[str, Goodput | None]:
    bounds = per_request(parse(slo))
    if bounds is None:
        return {}
    known = data.cells(shelf, filters)
    wanted = _levels(shelf, filters, slo).values["cell_id"].unique()
    found: dict[str, Goodput | None] = {}
    for cell in known[known["cell_id"].isin(wanted)].to_dict("records"):
        rows = frame(queries.requests(reader(shelf), cell["cell_id"], COLUMNS))
        if not rows.empty:
            found[cell["cell_id"]] = goodput(rows, bounds, window(cell))
    return found


@cached(16)
def _rates(shelf: Shelf, filters: Filters) -> ArmLevels:
    names = (pareto.METRICS_READ, pareto.STATISTICS_READ)
    rows = frame(queries.measurements(reader(shelf), filters, *names))
    return arm_levels(data.cells(shelf, filters), rows)


@cached(16)
def trade_off(shelf: Shelf, filters: Filters) -> Trade:
    """The Pareto charts; see ``answers_pareto.trade``."""
    levels = _rates(shelf, filters)
    return trade(levels, places(levels, data.cells(shelf, filters)))


@cached(32)
def point_cells(shelf: Shelf, filters: Filters, point: str) -> Shown:
    """The cells behind one point of the Pareto chart, each with a link into the Runs page."""
    setting, arm_id, load = trade_off(shelf, filters).points[point]
    rows = _rates(shelf, filters).values
    mine = (rows["setting"] == setting) & (rows["arm_id"] == arm_id)
    ids = rows.loc[mine & (rows["load"] == load), "cell_id"].unique()
    known = data.cells(shelf, filters)
    chosen = known.loc[known["cell_id"].isin(ids), [*BEHIND, "cell_id"]]
    return linked(chosen.rename(columns=BEHIND))
