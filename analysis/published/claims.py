"""Published tables, judged: which figures do not follow from their own row, and why."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from analysis.matching.comparison import geometric_mean, improvement
from analysis.metric_words import read_metric
from analysis.money.paying import PRICES, Price
from analysis.published.claims_costs import costs
from analysis.published.claims_file import Row, Tables, number, positive
from analysis.published.printed import (
    NAMED,
    Printed,
    PrintedRange,
    convention_of,
    decimal,
    exactly,
    follows,
    gains,
    measures,
    printed,
    told,
)
from analysis.verdicts.finding import Figure, Finding, shown
from warehouse.catalogue import Better
from warehouse.errors import InvalidInput

# --- Published improvements and geometric means, recomputed from their rows.
#
# A column of a section is read by the convention that most of its rows follow (``conventions``); only
# what contradicts its row under that convention is flagged.


#: What a row's ``concurrency`` says where it is the mean over the levels.
MEAN = ("geomean", "geometric mean", "geometric_mean")
_VALUES = ("baseline", "speculative")


def _improvements(rows: Sequence[Row]) -> tuple[list[Finding], list[str]]:
    """Return every printed gain, in order, and a sentence on the convention of each column; two
    whose values are exchanged say so."""
    columns: dict[tuple[str, str, str], list[Printed]] = defaultdict(list)
    read = []
    for row in rows:
        old, new = (printed(positive(row, name)) for name in _VALUES)
        for name in gains(row.fields):
            one = Printed(name, str(number(row, name)), (old, new), better_of(row))
            columns[row.section, one.column, one.form].append(one)
            read.append((row, one))
    chosen = {key: convention_of(found) for key, found in columns.items()}
    figures = []
    for row, one in read:
        by = chosen[row.section, one.column, one.form]
        figures.append(
            Figure(
                row.section, row.about, row.name, printed(one.text),
                by.follows(one.values, one.better), by.unit, by.name, one.better,
            )
        )  # fmt: skip
    said = [f"{key[0]}, {key[1]}: {told(columns[key], one)}" for key, one in chosen.items()]
    return [_judge(one, figures) for one in figures], said


def as_improvement(finding: Finding) -> Finding:
    """Return a printed gain in ``%`` with positive being better, whatever its convention."""
    by, better = NAMED[finding.convention], finding.better
    if better is None or by.name == "improvement":
        return finding
    ends = (finding.published, finding.recomputed, finding.low, finding.high)
    published, recomputed, *span = (by.improvement(value, better) for value in ends)
    return replace(
        finding, published=published, recomputed=recomputed, low=min(span), high=max(span),
        unit="%", convention="improvement",
    )  # fmt: skip


def _means(rows: Sequence[Row]) -> Iterator[Finding]:
    """Yield every printed mean over the load, for which the file has the levels too."""
    groups: dict[tuple[str, ...], dict[bool, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        about = (f"{k}={v}" for k, v in sorted(row.about.items()) if k != "concurrency")
        is_mean = str(row.fields.get("concurrency", "")).strip().casefold() in MEAN
        groups[row.section, row.name, *about][is_mean].append(row)
    for group in groups.values():
        levels = group[False]
        if len([level for level in levels if "concurrency" in level.fields]) < 2:
            continue
        for row, arm in product(group[True], _VALUES):
            values = [printed(positive(level, arm)) for level in levels]
            value, low, high = (
                geometric_mean([getattr(one, end) for one in values])
                for end in ("value", "low", "high")
            )
            mean = float("nan") if value is None else value
            follows = exactly(mean)
            if low is not None:
                follows = PrintedRange(mean, low, float("nan") if high is None else high)
            named = {**row.about, "arm": arm, "levels": str(len(levels))}
            claimed = printed(positive(row, arm))
            name = f"geometric mean of {row.name}"
            figure = Figure(row.section, named, name, claimed, follows, "")
            yield figure.finding() if figure.agrees else figure.differs()


def better_of(row: Row) -> Better:
    """Return the direction of a row's metric. Raises InvalidInput where neither file nor catalogue
    say."""
    told = row.fields.get("better")
    if told in ("higher", "lower"):
        return "higher" if told == "higher" else "lower"
    known = read_metric(row.name)
    if known is None:
        raise InvalidInput(
            f"{row.place}: {row.name!r} is no metric of the catalogue; add better: higher or "
            "better: lower to the row."
        )
    return known.better


def _judge(figure: Figure, others: Sequence[Figure]) -> Finding:
    if figure.agrees:
        return figure.finding()
    if figure.unit == "%" and figure.printed.scaled(-1).meets(figure.follows):
        loses = (figure.follows.value < 0) == (
            figure.convention != "change" or figure.better == "higher"
        )
        word = "regression" if loses else "improvement"
        return figure.finding(
            f"Its own row is a {word} of {abs(figure.follows.value):.1f} %, printed as "
            f"{shown(figure.printed.value, '%')}: the sign is wrong.",
            "sign",
        )
    for other in others:
        # Two rows of one printed table are alike in all but the metric.
        together = (figure.section, figure.about) == (other.section, other.about)
        crosswise = figure.printed.meets(other.follows) and other.printed.meets(figure.follows)
        if other is not figure and together and crosswise and not other.agrees:
            return figure.finding(
                f"Its own row gives {shown(figure.follows.value, figure.unit)}; the printed "
                f"{shown(figure.printed.value, figure.unit)} is what the {other.metric} row gives: "
                "the two are swapped.",
                "swapped",
            )
    return figure.differs()


# --- Published acceptance, recomputed wherever it stands in a table, and speedups that it cannot explain.


_METRICS = {"length": "mean_acceptance_length", "rate": "acceptance_rate"}
#: Fields that say which servers a row is about.
_LABEL = re.compile(
    r"(.*[ _])?(model|method|arm|dataset|task|tp|k|num_speculative_tokens|concurrency|batch[ _]size)"
)
#: Prompts are not drafted, and drafts are not gained from drafts.
_NOT_DRAFTED = ("ttft", "acceptance_rate", "mean_acceptance_length")


def _acceptances(rows: Sequence[Row]) -> Iterator[Finding]:
    """Recompute printed lengths and rates: length = 1 + accepted / drafts, 1 + the sum over the
    positions, or 1 + K x rate where every draft has K tokens; rate = accepted / drafted tokens."""
    for row in rows:
        told, about = measures(row.fields), _labels(row) or {"row": str(row.number)}
        for what, given in follows(told).items():
            if what in told:
                figure = Figure(row.section, about, _METRICS[what], told[what], given, "")
                yield figure.finding() if figure.agrees else figure.differs()


def _labels(row: Row) -> dict[str, str]:
    """Return the fields that say which server and load a row is about."""
    return {name: str(v) for name, v in row.fields.items() if _LABEL.fullmatch(name.casefold())}


def _beyond_drafts(rows: Sequence[Row], acceptance: Sequence[Row]) -> Iterator[Finding]:
    """Yield the speedups at one request at once that are above the tokens of a step: there a step
    with drafts takes no less time than one without, so something else made the server faster.

    ``acceptance``: the rows that say the tokens of a step, by themselves or of the same server.
    """
    for row in rows:
        named, loads = read_metric(row.name), {v for n, v in _labels(row).items() if _is_load(n)}
        if loads != {"1"} or named is None or named.metric in _NOT_DRAFTED:
            continue
        values = [printed(positive(row, name)) for name in _VALUES]
        speedup = NAMED["factor"].follows(values, better_of(row))
        steps: list[PrintedRange] = []
        for those in ([row], [other for other in acceptance if _same_server(row, other)]):
            # The tokens of a step as rows print them, else as they follow.
            measured = [measures(one.fields) for one in those]
            found = [told.get("length", follows(told).get("length")) for told in measured]
            steps = steps or [step for step in found if step is not None and step.value > 1]
        most = max(steps, key=lambda step: step.high, default=speedup)
        if speedup.low > most.high:
            yield Figure(row.section, row.about, row.name, speedup, most, "x").finding(
                f"{speedup.value:.2f}x at one request at once is more than the "
                f"{most.value:.2f} tokens of a step: not from these drafts alone.",
                "drafts",
            )


def _is_load(label: str) -> bool:
    return label.casefold().endswith(("concurrency", "batch_size", "batch size"))


def _same_server(one: Row, other: Row) -> bool:
    ours, theirs = _labels(one), _labels(other)
    return all(ours[n] == theirs[n] for n in ours.keys() & theirs.keys() if not _is_load(n))


# --- The errors behind flagged figures: one wrong price is one error, whatever was calculated with it.


#: Two figures are wrong by the same factor where they differ by no more than this (ratio).
_SAME_FACTOR = 0.02


@dataclass(frozen=True)
class Error:
    """One mistake. ``findings``: the flagged figures, the first is where it was made; ``sentence``
    says what went wrong, and which other figures follow from it."""

    kind: str
    sentence: str
    findings: tuple[Finding, ...]


def _same_error(first: Finding, other: Finding) -> bool:
    """Return whether both figures stand in one row or table and were made wrong by the same
    thing."""
    if (first.section, first.about, first.kind) != (other.section, other.about, other.kind):
        return False
    if first.kind == "swapped":
        return first.low <= other.published <= first.high or _near(
            first.recomputed, other.published
        )
    if first.kind == "basis":
        return True
    money = (one.unit == "USD" and one.kind == "arithmetic" and one.recomputed
             for one in (first, other))  # fmt: skip
    return all(money) and _near(*(one.published / one.recomputed for one in (first, other)))


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME_FACTOR * max(abs(one), abs(other))


def _error(group: tuple[Finding, ...]) -> Error:
    first, count = group[0], len(group) - 1
    kind = first.kind or ""
    if not count or kind == "swapped":
        return Error(kind, first.reason, group)
    if kind == "basis":
        told = first.reason.partition(" On the per-GPU basis")[0]
        figures = "figure stands" if count == 1 else "figures stand"
        return Error(kind, f"{told} {count} more {figures} on the same price.", group)
    more = "figure of this row is" if count == 1 else "figures of this row are"
    factor = first.published / first.recomputed
    told = f"That is {factor:.3g} times what follows, and {count} more {more} wrong"
    return Error(kind, f"{first.reason} {told} by the same factor.", group)


# --- Published tables, judged: which figures do not follow from their own row, and why.


@dataclass(frozen=True)
class Claims:
    """The judgement of published tables. ``findings``: a row for each figure that could be
    recomputed, in the file's order. ``unclaimed``: sentences on rows that print two values but no
    improvement, and on parts of the file that hold nothing to recompute: silence about them would
    look like consent. ``conventions``: for each column of gains the sentence how it is printed."""

    findings: tuple[Finding, ...]
    unclaimed: tuple[str, ...]
    conventions: tuple[str, ...] = ()

    @property
    def flagged(self) -> tuple[Finding, ...]:
        """The figures that do not follow from their row, or whose price is that of other GPUs."""
        return tuple(finding for finding in self.findings if finding.flagged)

    @property
    def errors(self) -> tuple[Error, ...]:
        """The flagged figures, each under the error that it comes from, in the order of the file."""
        found, waiting = [], list(self.flagged)
        while waiting:
            first = waiting[0]
            group = [one for one in waiting if one is first or _same_error(first, one)]
            found.append(_error(tuple(group)))
            waiting = [one for one in waiting if not any(one is taken for taken in group)]
        return tuple(found)

    def as_json(self) -> dict[str, Any]:
        """Return ``{"checked", "flagged", "errors": [...], "rows": [...], "not_checked": [...],
        "conventions": [...]}``; an error holds the places of its figures in ``rows``, that where it was made first."""
        places = {id(finding): at for at, finding in enumerate(self.findings)}
        return {
            "checked": len(self.findings),
            "flagged": len(self.flagged),
            "errors": [
                {
                    "kind": error.kind,
                    "sentence": error.sentence,
                    "rows": [places[id(finding)] for finding in error.findings],
                }
                for error in self.errors
            ],
            "rows": [finding.as_json() for finding in self.findings],
            "not_checked": list(self.unclaimed),
            "conventions": list(self.conventions),
        }


def judge(tables: Tables, prices: Sequence[Price] = PRICES) -> Claims:
    """Recompute everything in the tables. Raises InvalidInput that names a row it cannot read."""
    gained, conventions = _improvements(tables.improvements)
    findings = [
        *gained,
        *_means(tables.improvements),
        *_acceptances(tables.acceptances),
        *_beyond_drafts(tables.improvements, tables.acceptances),
        *costs(tables.costs, tables.improvements, prices),
    ]
    unclaimed = []
    for row in tables.improvements:
        if not gains(row.fields):
            old, new = (float(decimal(positive(row, name))) for name in _VALUES)
            value = improvement(old, new, better_of(row))
            about = ", ".join(f"{name} {text}" for name, text in row.about.items())
            unclaimed.append(
                f"{row.place} ({row.name}, {about}) prints no improvement; its values give "
                f"{shown(100 * (value or 0.0), '%')}."
            )
    alone = "its means over the load stand without the levels they are taken over."
    unclaimed += [f"{row.place}: {alone}" for row in tables.acceptances if "geomean" in row.fields]
    unclaimed += [f"{name}: nothing to recompute." for name in tables.ignored]
    return Claims(tuple(findings), tuple(unclaimed), tuple(conventions))
