"""A cell that was measured again, held against its original by the rules of every decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.evidence.effects import ENDS
from analysis.evidence.effects import again as evidence
from analysis.evidence.output_check import COLUMNS, check_outputs
from analysis.evidence.words import EQUIVALENCE, OPEN, SETTLED
from analysis.frames import plain, records
from analysis.matching.comparison import STUDY_TABLE
from answers.compare.subjects import DifferingSetting, NamedPair, configuration
from answers.compare.values import JudgedChange, metric_name, number, with_unit
from answers.decide.tables import greedy
from answers.ground import JUDGED, WarehouseRows, rows_of
from answers.wording import directed, interval, percent
from warehouse import queries
from warehouse.catalogue import METRICS
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.store import Reader

# --- A cell measured again beside its original, as values: the command and its JSON render these.


Status = Literal["differs", "likely differs", "open", "repeats"]


@dataclass(frozen=True)
class RepeatedLine(JudgedChange):
    """One figure then and now: ``again`` is the geometric mean of the launches, ``lowest`` and
    ``highest`` theirs; positive is better than the original."""

    metric: str
    statistic: str
    original: float
    again: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class Again:
    """What measuring a cell again has shown. ``launches``: of the repetition; ``siblings``: other
    repeats of the original, which tell how much launches scatter, and nothing else. ``differs``:
    settings, those of the original as the reference. ``outputs``: whether they answer the same;
    ``doubts``: what speaks against a figure of either."""

    cell: str
    status: Status
    headline: str
    launches: int
    siblings: int
    lines: tuple[RepeatedLine, ...]
    differs: tuple[DifferingSetting, ...]
    outputs: tuple[str, ...]
    doubts: tuple[str, ...]


# --- A repetition in words and lines of text.


#: The figure that the headline tells where none differs.
MAIN = ("output_throughput", "mean")
HEADER = ("metric", "original", "again", "launches", "better", "95 % interval", "adjusted", "word")
_NOTHING = 10.0  # ten times better or worse
_UNBOUNDED = "beyond ±1000 %"
_UNSURE = "one launch each says nothing of how much launches scatter"


def outcome(lines: Sequence[RepeatedLine]) -> tuple[Status, str]:
    """Return the word for the outcome, and whether the cell came out as it did, in one sentence.

    *differs*: a difference is settled; *likely differs*: one is likely; *repeats*: neither, and the main
    figure's adjusted interval lies within EQUIVALENCE; else *open*.
    """
    main = next((line for line in lines if (line.metric, line.statistic) == MAIN), None)
    settled = [line for line in lines if line.word in SETTLED]
    worst = settled or [line for line in lines if line.word != OPEN]
    if worst:
        first = main if main is not None and main in worst else worst[0]
        better = first.improvement >= 0
        change = METRICS[first.metric].changes[0 if better else 1]
        size, sure = percent(first.improvement, sign=False), directed(first.low, first.high, better)
        told = f"{metric_name(first.metric, first.statistic)}: {size} {change} (95 %: {sure}): {first.word}"
        count = f"{len(worst)} of {len(lines)} figures"
        if settled:
            return "differs", f"It does not repeat: {count} differ, {told}."
        return (
            "likely differs",
            f"It probably does not repeat: {count} are likely to differ, {told}.",
        )
    if main is None or main.low is None:
        return "open", f"Open: {_UNSURE}; --repeats 3 measures it more often."
    told = f"{METRICS[main.metric].label.lower()} {percent(main.improvement)}"
    sure = f"95 %: {interval(main.low, main.high)}"
    low, high = main.adjusted_low, main.adjusted_high
    if low is not None and high is not None and low >= -EQUIVALENCE and high <= EQUIVALENCE:
        return "repeats", f"It repeats: no figure is shown to differ, {told} ({sure})."
    return "open", f"Open: no figure is shown to differ, and none to be the same: {told} ({sure})."


def is_shown(line: RepeatedLine) -> bool:
    """Whether a line stands in the table: those of the study's table, and what is not open."""
    return (line.metric, line.statistic) in STUDY_TABLE or line.word != OPEN


def row(line: RepeatedLine) -> tuple[str, ...]:
    """Return a line of the table under HEADER."""
    span = f"{number(line.lowest, line.metric)} to {number(line.highest, line.metric)}"
    return (
        with_unit(line.metric, line.statistic), number(line.original, line.metric),
        number(line.again, line.metric), span, percent(line.improvement),
        _interval_or_none(line.low, line.high), _interval_or_none(line.adjusted_low, line.adjusted_high), line.word,
    )  # fmt: skip


def _interval_or_none(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "none: one launch each"
    return interval(low, high) if max(-low, high) < _NOTHING else _UNBOUNDED


def stands_on(found: Again) -> str:
    """Say how many launches of the original and of the repetition were compared."""
    again = "1 launch" if found.launches == 1 else f"{found.launches} launches"
    more = "" if found.siblings == 0 else (
        f"; how much launches scatter is told by them and {found.siblings} more of the original"
    )  # fmt: skip
    return f"The original launch against {again} of the repetition{more}."


# --- The original and its repetition, compared.


#: What says when, where and by which command something was measured: what matters of it is a fact, and
#: the prompts were found to be the same.
_PASSING = (
    "commands", "environment.asked", "environment.dataset", "environment.folder", "environment.placement",
    "environment.scheduler", "settings", "study",
)  # fmt: skip


def again(reader: Reader, original: str, siblings: Sequence[str], launches: Sequence[str]) -> Again:
    """Return whether a cell that was measured again came out as it did before. ``original``,
    ``siblings`` and ``launches`` are the paths that the drops were ingested from.

    Raises InvalidInput where one of them is not in the warehouse.
    """
    rows = rows_of(reader, queries.cells(reader, Filters()).to_pandas(), Filters())
    cells = dict(zip(rows.cells["path"], rows.cells["cell_id"].astype(str), strict=True))
    missing = [path for path in (original, *siblings, *launches) if path not in cells]
    if missing:
        raise InvalidInput(f"{missing[0]} holds no result that can be compared.")
    one, others, later = cells[original], [cells[p] for p in siblings], [cells[p] for p in launches]
    lines, pair = _lines(rows, one, others, later), (one, later[0])
    then, now = (queries.requests(reader, cell, COLUMNS).to_pandas() for cell in pair)
    check, outputs = check_outputs(then, now, greedy(reader, pair)), []
    if check.median_tokens is not None:
        before, since = check.median_tokens
        outputs.append(
            f"Median answer over {check.prompts} prompts: {before:.0f} tokens then, {since:.0f} now."
        )
    if check.identical is not None:
        outputs.append(f"{check.identical:.0%} of the texts are identical at temperature 0.")
    differs = configuration(reader, NamedPair("", *pair, "original", "again", ()))
    run = rows.cells.set_index("cell_id").loc[one, "run_id"]
    return Again(
        str(run).rpartition("#")[0], *outcome(lines), len(later), len(others), lines,
        tuple(
            each
            for each in differs
            if not any(each.setting == p or each.setting.startswith(f"{p}.") for p in _PASSING)
        ),
        tuple(outputs), _doubts(rows, one, later),
    )  # fmt: skip


def _lines(
    rows: WarehouseRows, one: str, others: list[str], later: list[str]
) -> tuple[RepeatedLine, ...]:
    wide = rows.measurements.astype({"metric": str, "statistic": str}).pivot(
        index="cell_id", columns=["metric", "statistic"], values="value"
    )
    names = [line for line in JUDGED if line in wide.columns]
    table = wide[names].reindex([one, *others, *later])
    whole = [name for name in names if bool((table[name] > 0).all())]
    if not whole:
        return ()
    values = table[whole].to_numpy(dtype=np.float64)
    split = 1 + len(others)
    lower = np.array([METRICS[metric].better == "lower" for metric, _ in whole])
    told = records(evidence(values[0], values[1:split], values[split:], lower))
    found = []
    for at, (name, row) in enumerate(zip(whole, told, strict=True)):
        now = values[split:, at]
        found.append(
            RepeatedLine(
                *name, original=float(values[0, at]), again=float(np.exp(np.log(now).mean())),
                lowest=float(now.min()), highest=float(now.max()),
                improvement=float(row["improvement"]), **{end: plain(row[end]) for end in ENDS},
                word=row["word"],
            )
        )  # fmt: skip
    return tuple(found)


def _doubts(rows: WarehouseRows, one: str, later: list[str]) -> tuple[str, ...]:
    flags = rows.flags[rows.flags["severity"] != "info"]
    then, now = (
        list(dict.fromkeys(flags.loc[flags["cell_id"].isin(cells), "sentence"].astype(str)))
        for cells in ([one], later)
    )
    return (
        *(sentence for sentence in then if sentence in now),
        *(f"original: {sentence}" for sentence in then if sentence not in now),
        *(f"again: {sentence}" for sentence in now if sentence not in then),
    )
