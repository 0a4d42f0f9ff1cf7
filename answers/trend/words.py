"""A trend in words: the same on a page, in a terminal and in a message."""

from collections.abc import Sequence
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING

from analysis.nightly.nights import as_improvement
from answers.wording import UNKNOWN, between, points, size
from warehouse.catalogue import METRICS, counted

if TYPE_CHECKING:
    from analysis.matching.difference import Change
    from analysis.nightly.regressions import Assessment, Reason, SeriesDrift

#: Direction that is better -> what the better and the worse move of one side is called.
_MOVES = {"higher": ("faster", "slower"), "lower": ("better", "worse")}
#: A smaller move of one side is not told (ratio).
_MOVED = 0.01
NOTHING = "Did something get worse? No night was measured yet"
TOO_FEW = "Did something get worse? Not known yet: nothing was measured in three nights"
#: Why a series is judged as it is.
WHY: "dict[Reason, str]" = {
    "one night": "there is one night only, so nothing to hold it against",
    "two nights": "there are two nights only: a third tells how far nights lie apart by chance",
    "no noise": "nothing tells how far nights lie apart by chance",
    "accepted": "accepted as it is, and no night since then",
    "worse": "worse by more than the budget, and noise does not explain it",
    "lasts": "it became worse by more than the budget, and its end is not shown; "
    "mend it, or accept it with draftboard gate accept",
    "excluded": "a regression beyond the budget is excluded",
    "chance": "worse by itself, but among so many series chance gives one like it",
    "more repeats": "the interval reaches beyond the budget: run more repeats a night",
    "more nights": "the interval reaches beyond the budget: more nights settle it, and more "
    "repeats a night do not",
}


def percent(ratio: float | None) -> str:
    """Return an improvement in words: ``-62.1 %``, ``+0.4 %``; a loss of more than everything, as
    latency knows it, as ``14.9 times worse``."""
    if ratio is None:
        return UNKNOWN
    return f"{size(ratio)} worse" if ratio <= -1 else f"{points(ratio)} %"


def interval(low: float | None, high: float | None) -> str:
    """Return an interval in words: ``-65.9 % to -58.0 %``, ``8.7 to 25.5 times worse``."""
    if low is not None and high is not None and -inf < low <= high <= -1:
        return f"{size(high).removesuffix(' times')} to {size(low)} worse"
    return between(low, high, percent) or UNKNOWN


def sized(line: str, improvement: float, low: float, high: float) -> str:
    """Write a metric with its change: ``Output throughput -62.1 % (95 %: -65.9 % to -58.0 %)``."""
    return f"{line} {percent(improvement)} (95 %: {interval(low, high)})"


def few(settings: int) -> str:
    """Say how many settings cannot be judged yet; empty for none."""
    what = counted(settings, "setting has", "settings have")
    told = f"{what} fewer than three nights: nothing to hold against each other yet."
    return told if settings else ""


def through(changed: "Sequence[Change]") -> str:
    """Say what changed, ``with engine_version 1.0 → 2.0``: two changes are named, of more the
    first."""
    if not changed:
        return "and nothing that is recorded changed with it"
    first, *others = [change.sentence.replace(": ", " ", 1) for change in changed]
    if len(others) > 1:
        return f"with {first} and {len(others)} more changes"
    return f"with {' and '.join([first, *others])}"


def drift(one: "SeriesDrift") -> str:
    """Say a drift in a clause; with two decimals, since what is lost in a night is small."""
    return f"drifts by {one.per_night * 100:+.2f} % a night since {one.since}, {percent(one.total)} so far"


def said(assessment: "Assessment") -> str:
    """Say what one series shows, in a sentence or three: also for those who cannot see its
    chart."""
    level, by = (
        "" if assessment.improvement is None else "No move of the level is shown.",
        assessment.accepted,
    )
    if assessment.moves:
        last = assessment.moves[-1]
        more = f", the last of {len(assessment.moves)} moves" if len(assessment.moves) > 1 else ""
        moved = f"{percent(last.improvement)} (95 %: {interval(last.low, last.high)})"
        level = f"The level moved: {moved} with {last.first}{more}."
    parts = (
        _standing(assessment),
        level,
        "" if assessment.drift is None else f"It {drift(assessment.drift)}.",
        f"Judged from there on: night {by.night} was accepted by {by.by}: {by.why}." if by else "",
    )
    return " ".join(filter(None, parts))


def gain(assessment: "Assessment") -> str | None:
    """Say what became of an arm's gain, and who moved: ``the gain of eagle3 K=3 over the baseline
    fell from +30.0 to +8.3 %: the baseline became 20.0 % faster``; None where it is no gain."""
    over, metric = assessment.series.over, assessment.series.metric
    if over is None or assessment.against is None or assessment.now is None:
        return None
    arm = assessment.series.about.get("arm_label") or UNKNOWN
    old, new, base_old, base_new = (
        fmean(night.mean for night in series.nights[nights])
        for series in (assessment.series, over)
        for nights in (slice(*assessment.against), slice(assessment.now, None))
    )
    was, now, base, own = (
        as_improvement(log, metric)
        for log in (old, new, base_new - base_old, new - old + base_new - base_old)
    )
    moved = [
        f"{name} became {size(by)} {_MOVES[METRICS[metric].better][by < 0]}"
        for name, by in (("the baseline", base), (arm, own))
        if abs(by) >= _MOVED
    ]
    why = f": {' and '.join(moved)}" if moved else ""
    return f"the gain of {arm} over the baseline fell from {points(was)} to {points(now)} %{why}"


def _standing(assessment: "Assessment") -> str:
    labels = [night.label for night in assessment.series.nights]
    if assessment.improvement is None or assessment.against is None or assessment.now is None:
        return f"{counted(len(labels), 'night')}: {WHY[assessment.reason]}."
    since = f" since {labels[assessment.since]}" if assessment.since is not None else ""
    fell = gain(assessment)
    return (f"{fell[:1].upper()}{fell[1:]}. " if fell else "") + (
        f"{percent(assessment.improvement)} (95 %: {interval(assessment.low, assessment.high)}){since}: "
        f"{_stretch(labels[assessment.now :])} against the best level before, {against(assessment)}. "
        f"Verdict: {assessment.status}, {WHY[assessment.reason]}."
    )


def against(assessment: "Assessment") -> str:
    """Return the nights that the last ones are compared with: ``2026-11-02 to 2026-11-06``."""
    if assessment.against is None:
        return UNKNOWN
    return _stretch([night.label for night in assessment.series.nights[slice(*assessment.against)]])


def _stretch(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
