"""A decision as tables and charts of a page."""

from collections.abc import Iterable, Sequence

import pandas as pd

from answers.decide import tables
from answers.decide.accepted import Accepted, acceptance_rows, rule_rows, rules
from answers.decide.overview import badge
from answers.decide.tables import NO_DRAFTS, Rows
from answers.decide.values import Cell, Decision
from answers.wording import UNKNOWN, percent
from dashboard.answers import Drawing, drawn
from dashboard.charts import drafts as charts_drafts
from dashboard.charts import nothing
from dashboard.components import Shown, shown
from warehouse.loads import Load

#: Words whose direction is not settled: such fields are hatched.
_UNSETTLED = ("likely gain", "open", "likely loss")


def table(rows: Rows) -> Shown:
    """Rows of text as they are sent; an empty place is a dash."""
    header, lines = rows
    names = [name or "taken" for name in header]
    return shown(pd.DataFrame([[text or "–" for text in line] for line in lines], columns=names))


def listed(sentences: Iterable[str]) -> tuple[str, ...]:
    """Sentences, each once."""
    return tuple(dict.fromkeys(sentences))


def rows(found: Sequence[Decision]) -> pd.DataFrame:
    """Every arm at every load of every decision, unrounded, for a file."""
    return pd.DataFrame([_row(one, cell) for one in found for cell in one.arms])


def _row(one: Decision, cell: Cell) -> dict[str, object]:
    told = cell.difference
    return {
        "model": one.subject.model, "gpu": one.subject.gpu,
        "tensor_parallel_size": one.subject.tensor_parallel_size,
        "engine_version": one.subject.engine_version, "evidence": one.subject.evidence,
        "traffic": one.traffic.name, "load": cell.load.text, "arm": cell.arm,
        "metric": told.metric, "statistic": told.statistic, "expected": told.improvement,
        "low": told.low, "high": told.high, "adjusted_low": told.adjusted_low,
        "adjusted_high": told.adjusted_high, "word": told.word, "launches": cell.launches,
        "taken": cell.taken,
    }  # fmt: skip


def heat_map(one: Decision) -> Drawing:
    """Loads across, arms down, the expected improvement in each field. Exactly one field of a load
    is outlined: the arm taken, or that nothing is drafted."""
    marks = pd.DataFrame([*_off(one), *(_mark(cell, one) for cell in one.arms)])
    if marks.empty:
        return drawn(nothing(f"{one.traffic.name}: nothing to compare"))
    loads = sorted({cell.load for cell in one.arms}, key=lambda load: load.order)
    places = {load.text: at for at, load in enumerate(loads)}
    arms = {arm: at for at, arm in enumerate(_arms(one))}
    marks = marks.assign(
        concurrency=[places[text] for text in marks["load_text"]],
        k=[arms[arm] for arm in marks["draft"]],
    ).drop(columns="load_text")
    return drawn(
        charts_drafts.gain_by_load(
            marks, (f"{tables.traffic_short(one)}{badge(one.subject.evidence)}", _SUBTITLE)
        )
    )


_SUBTITLE = "expected improvement over the baseline; outlined: taken"


def _arms(one: Decision) -> list[str]:
    """The rows, no drafts at the bottom."""
    order = sorted(one.arms, key=lambda c: (c.method, c.num_speculative_tokens or 0, c.arm))
    return [NO_DRAFTS, *dict.fromkeys(cell.arm for cell in order)]


def _off(one: Decision) -> list[dict[str, object]]:
    """A field for each load: taken where no arm is."""
    taken = {cell.load for cell in one.arms if cell.taken}
    loads = dict.fromkeys(cell.load for cell in one.arms)
    return [
        {
            "load": load.short, "load_text": load.text, "draft": NO_DRAFTS, "gain": 0.0,
            "text": "0 %", "interval": "this is the baseline", "value": "", "repeats": 0,
            "taken": load not in taken, "unsettled": False,
            "square": square(NO_DRAFTS, load),
        }
        for load in loads
    ]  # fmt: skip


def _mark(cell: Cell, one: Decision) -> dict[str, object]:
    told = cell.difference
    return {
        "load": cell.load.short, "load_text": cell.load.text, "draft": cell.arm,
        "gain": float("nan") if told.improvement is None else told.improvement,
        "text": UNKNOWN if told.improvement is None else percent(told.improvement),
        "interval": f"{tables.size(told)}, {told.word}", "value": tables.line_name(told),
        "repeats": cell.launches, "taken": cell.taken,
        "unsettled": told.word in _UNSETTLED, "square": square(cell.arm, cell.load),
    }  # fmt: skip


def square(arm: str, load: Load) -> str:
    """What a field is called."""
    return f"{arm} at {load.text}"


def squares(one: Decision) -> dict[str, frozenset[str]]:
    """Name of a field -> the cells behind it; those of the baseline where nothing is drafted."""
    found: dict[str, frozenset[str]] = {}
    for cell in one.arms:
        off = square(NO_DRAFTS, cell.load)
        found[off] = found.get(off, frozenset()) | {old for old, _ in cell.pairs}
        found[square(cell.arm, cell.load)] = frozenset(new for _, new in cell.pairs)
    return found


def rule_table(one: Decision, found: Sequence[Accepted]) -> Shown:
    """The published rules of thumb beside what is expected."""
    return table(rule_rows(rules(one, found)))


def acceptance_table(found: Sequence[Accepted]) -> Shown:
    """Acceptance in numbers."""
    return table(acceptance_rows(found))
