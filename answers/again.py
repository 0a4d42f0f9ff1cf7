"""A cell that was measured again, held against its original by the rules of every decision."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence.effects import again as evidence
from analysis.evidence.output_check import COLUMNS, OutputCheck, check_outputs
from analysis.evidence.words import EQUIVALENCE, OPEN, SETTLED, Word
from analysis.frames import records
from analysis.matching.comparison import STUDY_TABLE
from answers.compare.pair import Differs, Pair, configuration
from answers.compare.words import metric_name, number, with_unit
from answers.ground import JUDGED, Rows, rows_of
from answers.wording import directed, interval, percent
from warehouse import queries
from warehouse.catalogue import METRICS
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.store_read import Reader

# --- A repetition in words and lines of text.


# --- A cell measured again beside its original, as values: the command and its JSON render these.


Status = Literal["differs", "likely differs", "open", "repeats"]


@dataclass(frozen=True)
class RepeatedLine:
    """One figure then and now: ``again`` is the geometric mean of the launches, ``lowest`` and
    ``highest`` theirs. ``improvement`` and its intervals are ratios, positive is better than the
    original; None where nothing repeats."""

    metric: str
    statistic: str
    original: float
    again: float
    lowest: float
    highest: float
    improvement: float
    low: float | None
    high: float | None
    adjusted_low: float | None
    adjusted_high: float | None
    word: Word

    @property
    def settled(self) -> bool:
        """Whether the figure differs beyond chance, all figures that were compared taken
        together."""
        return self.word in SETTLED


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
    differs: tuple[Differs, ...]
    outputs: tuple[str, ...]
    doubts: tuple[str, ...]


# --- A repetition as JSON. Unknown is null.


SCHEMA_VERSION = 1


def as_json(found: Again) -> dict[str, Any]:
    """Return all that the answer holds, and ``schema_version``."""
    return {"schema_version": SCHEMA_VERSION, **asdict(found)}


# --- A repetition in words and lines of text.


#: The figure that the headline tells where none differs.
MAIN = ("output_throughput", "mean")
HEADER = ("metric", "original", "again", "launches", "better", "95 % interval", "adjusted", "word")
_NOTHING = 10.0  # ten times better or worse
_UNBOUNDED = "beyond ±1000 %"
_UNSURE = "one launch each says nothing of how much launches scatter"


def status_of(lines: Sequence[RepeatedLine]) -> Status:
    """Return the word for the outcome. *differs*: a difference is settled; *likely differs*: one is
    likely; *repeats*: neither, and the main figure's adjusted interval lies within EQUIVALENCE;
    else *open*."""
    words = {line.word for line in lines}
    if words & SETTLED:
        return "differs"
    if words - {OPEN}:
        return "likely differs"
    main = _main(lines)
    if main is None or main.adjusted_low is None or main.adjusted_high is None:
        return "open"
    within = main.adjusted_low >= -EQUIVALENCE and main.adjusted_high <= EQUIVALENCE
    return "repeats" if within else "open"


def headline(lines: Sequence[RepeatedLine]) -> str:
    """Say in one sentence whether the cell came out as it did."""
    status, main = status_of(lines), _main(lines)
    if status in ("differs", "likely differs"):
        chosen = [line for line in lines if line.settled or status == "likely differs"]
        worst = [line for line in chosen if line.word != OPEN]
        first = main if main in worst else worst[0]
        assert first is not None
        does = "It does not repeat" if status == "differs" else "It probably does not repeat"
        how = "differ" if status == "differs" else "are likely to differ"
        return f"{does}: {len(worst)} of {len(lines)} figures {how}, {_difference(first)}."
    if main is None or main.low is None:
        return f"Open: {_UNSURE}; --repeats 3 measures it more often."
    told = f"{METRICS[main.metric].label.lower()} {percent(main.improvement)}"
    sure = f"95 %: {interval(main.low, main.high)}"
    if status == "repeats":
        return f"It repeats: no figure is shown to differ, {told} ({sure})."
    return f"Open: no figure is shown to differ, and none to be the same: {told} ({sure})."


def _main(lines: Sequence[RepeatedLine]) -> RepeatedLine | None:
    return next((line for line in lines if (line.metric, line.statistic) == MAIN), None)


def _difference(line: RepeatedLine) -> str:
    better = line.improvement >= 0
    change = METRICS[line.metric].changes[0 if better else 1]
    name = metric_name(line.metric, line.statistic)
    sure = directed(line.low, line.high, better)
    return f"{name}: {percent(line.improvement, sign=False)} {change} (95 %: {sure}): {line.word}"


def is_shown(line: RepeatedLine) -> bool:
    """Whether a line stands in the table: those of the study's table, and what is not open."""
    return (line.metric, line.statistic) in STUDY_TABLE or line.word != OPEN


def row(line: RepeatedLine) -> tuple[str, ...]:
    """Return a line of the table under HEADER."""
    span = f"{number(line.lowest, line.metric)} to {number(line.highest, line.metric)}"
    return (
        with_unit(line.metric, line.statistic), number(line.original, line.metric),
        number(line.again, line.metric), span, percent(line.improvement),
        _bounds(line.low, line.high), _bounds(line.adjusted_low, line.adjusted_high), line.word,
    )  # fmt: skip


def _bounds(low: float | None, high: float | None) -> str:
    """Write an interval; one so wide that it says nothing, as few launches give it, is not spelt
    out."""
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


def outputs(found: OutputCheck) -> tuple[str, ...]:
    """Say how long the answers of the original and the repetition were, and how many are
    identical."""
    told = []
    if found.median_tokens is not None:
        then, now = found.median_tokens
        told.append(
            f"Median answer over {found.prompts} prompts: {then:.0f} tokens then, {now:.0f} now."
        )
    if found.identical is not None:
        told.append(f"{found.identical:.0%} of the texts are identical at temperature 0.")
    return tuple(told)


# ---


Floats = NDArray[np.float64]
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
    lines = _lines(rows, one, others, later)
    found = rows.cells.set_index("cell_id")
    return Again(
        cell=str(found.loc[one, "run_id"]).rpartition("#")[0],
        status=status_of(lines),
        headline=headline(lines),
        launches=len(later),
        siblings=len(others),
        lines=lines,
        differs=_differs(reader, one, later[0]),
        outputs=_outputs(reader, rows, one, later[0]),
        doubts=tuple(_doubts(rows, one, later)),
    )


def _lines(rows: Rows, one: str, others: list[str], later: list[str]) -> tuple[RepeatedLine, ...]:
    """Return the judged figures that every launch has, where all of their values are above zero."""
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
    told = evidence(values[0], values[1:split], values[split:], lower)
    return tuple(
        _line(name, values[0, at], values[split:, at], row)
        for at, (name, row) in enumerate(zip(whole, records(told), strict=True))
    )


def _line(name: tuple[str, str], then: float, now: Floats, row: dict[str, Any]) -> RepeatedLine:
    ends = ("low", "high", "adjusted_low", "adjusted_high")
    low, high, adjusted_low, adjusted_high = (
        None if pd.isna(row[end]) else float(row[end]) for end in ends
    )
    return RepeatedLine(
        *name, original=float(then), again=float(np.exp(np.log(now).mean())),
        lowest=float(now.min()), highest=float(now.max()), improvement=float(row["improvement"]),
        low=low, high=high, adjusted_low=adjusted_low, adjusted_high=adjusted_high,
        word=row["word"],
    )  # fmt: skip


def _differs(reader: Reader, one: str, other: str) -> tuple[Differs, ...]:
    found = configuration(reader, Pair("", one, other, "original", "again", ()))
    return tuple(
        each
        for each in found
        if not any(each.setting == p or each.setting.startswith(f"{p}.") for p in _PASSING)
    )


def _outputs(reader: Reader, rows: Rows, one: str, other: str) -> tuple[str, ...]:
    then, now = (queries.requests(reader, cell, COLUMNS).to_pandas() for cell in (one, other))
    told = rows.cells.set_index("cell_id").loc[[one, other], "temperature"]
    greedy = None if told.isna().any() else bool((told == 0).all())
    return outputs(check_outputs(then, now, greedy))


def _doubts(rows: Rows, one: str, later: list[str]) -> list[str]:
    """Return what flags say of the original and of its repetition; what they say of both, once."""
    then, now = _sentences(rows, [one]), _sentences(rows, later)
    return [
        *(sentence for sentence in then if sentence in now),
        *(f"original: {sentence}" for sentence in then if sentence not in now),
        *(f"again: {sentence}" for sentence in now if sentence not in then),
    ]


def _sentences(rows: Rows, cells: list[str]) -> list[str]:
    flags = records(rows.flags[rows.flags["cell_id"].isin(cells)])
    return list(dict.fromkeys(str(f["sentence"]) for f in flags if f["severity"] != "info"))
