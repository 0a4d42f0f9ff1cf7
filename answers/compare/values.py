"""How arms compare, as values and as JSON: the Compare page and the command render these."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from analysis.evidence.words import WORDS, Word
from analysis.matching.arms import BASELINE
from answers.decide.values import DecisionSubject, ExcludedCell
from answers.wording import UNKNOWN, interval, known, percent
from warehouse.catalogue import METRICS, percentile_label
from warehouse.filters import Filters
from warehouse.loads import Load

#: metric, statistic
MetricLine = tuple[str, str]


@dataclass(frozen=True)
class CompareQuestion:
    """What is asked of a comparison. ``filters`` choose what is shown, and never what it stands on.
    ``allow``: fields in which pairs may differ; ``reference``: the arm that the others are compared
    with; ``also``: lines shown beside those of the study's table."""

    filters: Filters = Filters()
    allow: tuple[str, ...] = ()
    reference: str = BASELINE
    also: tuple[MetricLine, ...] = ()


@dataclass(frozen=True)
class RepeatSpan:
    """A mean over repeats (geometric), and the lowest and highest repeat."""

    mean: float | None
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class JudgedChange:
    """A change (ratio, positive is better) with its plain 95 % interval and the one adjusted for all that is
    judged beside it; None for one launch."""

    improvement: float
    low: float | None
    high: float | None
    adjusted_low: float | None
    adjusted_high: float | None
    word: Word


@dataclass(frozen=True)
class ArmChange:
    """One line of an arm at one load, beside the reference: ratios, positive is better.

    ``load`` is None where it is not known. ``compared`` is False where the line only says what was
    offered (throughput at a fixed rate that every arm keeps up with); then, and where neither
    direction is better, there is no ``improvement``. ``low`` and ``high`` are the plain 95 %
    interval, ``adjusted_*`` the study-adjusted one, None for one launch; ``word`` is None where
    nothing is judged. ``launches``: of the arm with fewer, ``repeats``: pairs. ``cells``: one of
    the reference and one of the arm.
    """

    load: Load | None
    metric: str
    statistic: str
    compared: bool
    reference: RepeatSpan
    arm: RepeatSpan
    improvement: float | None
    low: float | None
    high: float | None
    adjusted_low: float | None
    adjusted_high: float | None
    word: Word | None
    launches: int
    repeats: int
    cells: tuple[str, str]

    @property
    def line(self) -> MetricLine:
        return self.metric, self.statistic


@dataclass(frozen=True)
class GeometricMean:
    """A line of the study's table: geometric means over the loads that both arms have. Nobody runs
    at such a mean, so it has no word of certainty and carries no money. ``loads``: their names;
    ``only_*``: of loads that one arm alone has."""

    metric: str
    statistic: str
    reference: float | None
    arm: float | None
    improvement: float | None
    loads: tuple[str, ...]
    only_reference: tuple[str, ...]
    only_arm: tuple[str, ...]


@dataclass(frozen=True)
class PairDoubt:
    """What a flag says of pairs; ``loads``: names of those at which it was raised."""

    severity: str
    name: str
    sentence: str
    loads: tuple[str, ...]


@dataclass(frozen=True)
class CellPair:
    """Two cells that were compared; ``flags``: names of the doubts about them."""

    load: Load | None
    repeat: int | None
    reference_cell: str
    arm_cell: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class PairLine:
    """One line of one pair, unrounded."""

    setting: str
    arm: str
    pair: CellPair
    metric: str
    statistic: str
    reference: float
    value: float
    improvement: float | None
    allowed: tuple[str, ...]


@dataclass(frozen=True)
class ComparedArm:
    """One arm beside the reference. ``changes``: by load, lines in their order; ``allowed``: fields
    in which its pairs differ by permission; ``badges``: what a reader must know of its origin;
    ``launches_stated``: whether the server start of every cell is known."""

    name: str
    label: str
    badges: tuple[str, ...]
    changes: tuple[ArmChange, ...]
    means: tuple[GeometricMean, ...]
    pairs: tuple[CellPair, ...]
    allowed: tuple[str, ...]
    doubts: tuple[PairDoubt, ...]
    launches_stated: bool


@dataclass(frozen=True)
class ComparedSetting:
    """What the arms share: a dataset on one hardware with one engine. ``name`` is short and no other
    setting's."""

    name: str
    subject: DecisionSubject
    dataset: str | None
    arms: tuple[ComparedArm, ...]


@dataclass(frozen=True)
class UnmatchedCell:
    """A cell without a partner, and why. ``load``: its name, None for unknown."""

    cell: str
    arm: str | None
    dataset: str | None
    load: str | None
    model: str | None
    gpu: str | None
    path: str | None
    reason: str


@dataclass(frozen=True)
class ArmComparison:
    """All that the filters show. ``excluded``: cells that decide nothing, and why; ``why_none``:
    where no arm is compared, why."""

    settings: tuple[ComparedSetting, ...]
    unmatched: tuple[UnmatchedCell, ...]
    excluded: tuple[ExcludedCell, ...]
    reference: str
    why_none: str | None = None


# --- A comparison as JSON. Unknown is null.


SCHEMA_VERSION = 1


def comparison_json(comparison: ArmComparison) -> dict[str, Any]:
    """Return ``schema_version``, ``settings`` with their arms, ``unmatched`` and ``excluded``
    cells, as a dict for JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "reference": comparison.reference,
        "settings": [
            {
                "name": setting.name,
                **to_builtins(setting.subject),
                "dataset": setting.dataset,
                "arms": [
                    {
                        "arm": arm.name,
                        "badges": list(arm.badges),
                        "levels": [_change(change) for change in arm.changes],
                        "means": to_builtins(arm.means),
                        "pairs": to_builtins(arm.pairs),
                        "allowed": list(arm.allowed),
                        "flags": to_builtins(arm.doubts),
                    }
                    for arm in setting.arms
                ],
            }
            for setting in comparison.settings
        ],
        "unmatched": to_builtins(comparison.unmatched),
        "excluded": to_builtins(comparison.excluded),
        "why_none": comparison.why_none,
    }


def _change(change: ArmChange) -> dict[str, Any]:
    last = {
        "reference": change.reference.mean,
        "arm": change.arm.mean,
        "cells": dict(zip(("reference", "arm"), change.cells, strict=True)),
    }
    return {k: value for k, value in to_builtins(change).items() if k not in last} | last


# --- A comparison in words and lines of text: what a terminal and a page show of each number.


TextRow = tuple[str, ...]
#: What stands where nothing is compared: both serve what is offered.
KEPT_UP = "both keep up with the rate"
ONE_LAUNCH = "none: one launch"
CAPPED = (
    "Which cells share a server start is not stated (ingest --set launch=…), so that nothing is "
    "more than likely."
)
LEVEL_HEADER: TextRow = (
    "load", "metric", "reference", "arm", "improvement", "95 % interval", "adjusted", "word",
    "launches",
)  # fmt: skip
MEAN_HEADER: TextRow = ("metric (geometric mean)", "reference", "arm", "improvement", "loads")
UNMATCHED_HEADER: TextRow = ("arm", "dataset", "load", "from", "why it is not compared")


def why_none(nothing_shown: bool, unmatched: Sequence[UnmatchedCell]) -> str:
    """Say in one sentence why no arm is compared."""
    if nothing_shown:
        return "No cell matches these filters; `draftboard runs` lists what there is."
    if unmatched:
        return f"No pair matches, for example: {unmatched[0].reason}"
    return "No pair matches: there is no arm beside the one that others are compared with."


def metric_name(metric: str, statistic: str) -> str:
    """Return a metric and its statistic in words: ``Time to first token (TTFT), P95``."""
    told = METRICS[metric]
    return f"{told.label}, {percentile_label(statistic)}" if told.distribution else told.label


def short_name(metric: str, statistic: str) -> str:
    """Return the short name of a metric for the title of a small chart: ``TTFT P95``."""
    told = METRICS[metric]
    label = told.label.partition(" (")[2].rstrip(")") or told.label
    return f"{label} {percentile_label(statistic)}" if told.distribution else label


def with_unit(metric: str, statistic: str) -> str:
    return f"{metric_name(metric, statistic)} ({METRICS[metric].unit})"


def number(value: float | None, metric: str) -> str:
    """Write a value in the metric's decimals: ``1,171.7``; an unknown one is said so, never 0."""
    return UNKNOWN if value is None else f"{value:,.{METRICS[metric].decimals}f}"


def load_name(load: Load | None) -> str:
    """Return a load in words, such as ``16 at once``."""
    return f"{UNKNOWN} load" if load is None else load.text


def sure(change: ArmChange) -> str:
    """Return the plain interval as text; where there is none, say why."""
    if change.low is not None:
        return interval(change.low, change.high)
    return ONE_LAUNCH if change.word is not None else ""


def word(change: ArmChange) -> str:
    """Return one of the five words of certainty, or say why there is none."""
    return KEPT_UP if not change.compared else change.word or "not judged"


def level_row(change: ArmChange) -> TextRow:
    """Return a row of the table of loads, under LEVEL_HEADER."""
    return (
        load_name(change.load), with_unit(*change.line), number(change.reference.mean, change.metric),
        number(change.arm.mean, change.metric),
        percent(change.improvement) if change.compared else "", sure(change),
        interval(change.adjusted_low, change.adjusted_high), word(change), str(change.launches),
    )  # fmt: skip


def mean_row(mean: GeometricMean) -> TextRow:
    """Return a row of the study's table, under MEAN_HEADER."""
    return (
        with_unit(mean.metric, mean.statistic), number(mean.reference, mean.metric),
        number(mean.arm, mean.metric), percent(mean.improvement), ", ".join(mean.loads),
    )  # fmt: skip


def summary(arm: ComparedArm) -> str:
    """Say how many lines have which word, ``Of 18 lines: 12 gain, 6 open.``, and what keeps words
    from being surer."""
    words = Counter(change.word for change in arm.changes if change.word is not None)
    told = ", ".join(f"{words[word]} {word}" for word in WORDS if words[word])
    if not told:
        return "No line is judged."
    return f"Of {words.total()} lines: {told}." + ("" if arm.launches_stated else f" {CAPPED}")


def means_over(arm: ComparedArm) -> str:
    """Say which loads the means are over, and which only one arm has; empty without means."""
    if not arm.means:
        return ""
    mean = arm.means[0]
    sentence = (
        f"Geometric means over the loads {', '.join(mean.loads)}; no server runs at their mean. Here each arm's own "
        "launches speak; the decision weighs all arms and loads together."
    )
    for names, which in ((mean.only_reference, "reference"), (mean.only_arm, "arm")):
        if names:
            sentence += f" Only the {which} has {', '.join(names)}: left out."
    return sentence


def doubts(arm: ComparedArm) -> Iterator[str]:
    """Yield the flags of an arm's pairs, a line each."""
    for doubt in arm.doubts:
        yield f"{doubt.severity}: {doubt.name} at {', '.join(doubt.loads)}: {doubt.sentence}"


def title(setting: ComparedSetting, arm: ComparedArm, reference: str) -> str:
    """Return what a table is about, in one line."""
    return f"{arm.name} against {reference}: {where_measured(setting.subject, setting.dataset, arm.badges)}"


def where_measured(subject: DecisionSubject, dataset: str | None, badges: Sequence[str]) -> str:
    """Return where something was measured: ``code, lab/target, TP 1, NVIDIA H200 [dummy weights]``."""
    return (
        f"{known(dataset)}, {known(subject.model)}, TP {known(subject.tensor_parallel_size)}, "
        f"{known(subject.gpu)}{''.join(f' [{badge}]' for badge in badges)}"
    )


def unmatched_rows(comparison: ArmComparison) -> list[TextRow]:
    """Return the cells without a partner as a row per file, arm, dataset and reason."""
    groups: dict[tuple[str | None, str | None, str | None, str], list[str]] = {}
    for cell in comparison.unmatched:
        key = (cell.arm, cell.dataset, cell.path, cell.reason)
        groups.setdefault(key, []).append(known(cell.load))
    return [
        (known(arm), known(dataset), ", ".join(dict.fromkeys(loads)), known(path), reason)
        for (arm, dataset, path, reason), loads in groups.items()
    ]
