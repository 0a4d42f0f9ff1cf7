"""A repetition in words and lines of text."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from analysis.evidence.output_check import OutputCheck
from analysis.evidence.words import EQUIVALENCE, OPEN, SETTLED, Word
from analysis.matching.comparison import STUDY_TABLE
from answers.compare.subjects import DifferingSetting
from answers.compare.values import metric_name, number, with_unit
from answers.wording import directed, interval, percent
from warehouse.catalogue import METRICS

# --- A cell measured again beside its original, as values: the command and its JSON render these.


Status = Literal["differs", "likely differs", "open", "repeats"]


@dataclass(frozen=True)
class Line:
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
    lines: tuple[Line, ...]
    differs: tuple[DifferingSetting, ...]
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


def status_of(lines: Sequence[Line]) -> Status:
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


def headline(lines: Sequence[Line]) -> str:
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


def _main(lines: Sequence[Line]) -> Line | None:
    return next((line for line in lines if (line.metric, line.statistic) == MAIN), None)


def _difference(line: Line) -> str:
    better = line.improvement >= 0
    change = METRICS[line.metric].changes[0 if better else 1]
    name = metric_name(line.metric, line.statistic)
    sure = directed(line.low, line.high, better)
    return f"{name}: {percent(line.improvement, sign=False)} {change} (95 %: {sure}): {line.word}"


def is_shown(line: Line) -> bool:
    """Whether a line stands in the table: those of the study's table, and what is not open."""
    return (line.metric, line.statistic) in STUDY_TABLE or line.word != OPEN


def row(line: Line) -> tuple[str, ...]:
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
