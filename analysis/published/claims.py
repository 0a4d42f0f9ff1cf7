"""Published tables, judged: which figures do not follow from their own row, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.matching.comparison import improvement
from analysis.money.paying import PRICES, Price
from analysis.published.claims_acceptance import acceptances, beyond_drafts
from analysis.published.claims_costs import costs
from analysis.published.claims_file import Row, Tables, positive
from analysis.published.claims_improvements import better_of, improvements, means
from analysis.published.conventions import gains
from analysis.published.printed import decimal
from analysis.verdicts.finding import Finding, shown

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

    @property
    def consequences(self) -> tuple[Finding, ...]:
        """The figures that are wrong because the first one is."""
        return self.findings[1:]


def errors(flagged: Sequence[Finding]) -> tuple[Error, ...]:
    """Put each flagged figure under the error that it comes from, in the order of the file."""
    return tuple(_error(group) for group in _groups(flagged))


def _groups(flagged: Sequence[Finding]) -> Iterator[tuple[Finding, ...]]:
    waiting = list(flagged)
    while waiting:
        first = waiting[0]
        group = [one for one in waiting if one is first or _same_error(first, one)]
        yield tuple(group)
        waiting = [one for one in waiting if not any(one is taken for taken in group)]


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
    return _is_money(first) and _is_money(other) and _near(_factor(first), _factor(other))


def _is_money(one: Finding) -> bool:
    return one.unit == "USD" and one.kind == "arithmetic" and bool(one.recomputed)


def _factor(one: Finding) -> float:
    return one.published / one.recomputed


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME_FACTOR * max(abs(one), abs(other))


def _error(group: tuple[Finding, ...]) -> Error:
    first, *others = group
    kind = first.kind or ""
    if not others or kind == "swapped":
        return Error(kind, first.reason, group)
    if kind == "basis":
        told = first.reason.partition(" On the per-GPU basis")[0]
        return Error(kind, f"{told} {_also(len(others))}", group)
    more = "figure of this row is" if len(others) == 1 else "figures of this row are"
    told = f"That is {_factor(first):.3g} times what follows, and {len(others)} more {more} wrong"
    return Error(kind, f"{first.reason} {told} by the same factor.", group)


def _also(count: int) -> str:
    figures = "figure stands" if count == 1 else "figures stand"
    return f"{count} more {figures} on the same price."


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
        """The flagged figures, each under the error that it comes from."""
        return errors(self.flagged)

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
    printed, conventions = improvements(tables.improvements)
    findings = [
        *printed,
        *means(tables.improvements),
        *acceptances(tables.acceptances),
        *beyond_drafts(tables.improvements, tables.acceptances),
        *costs(tables.costs, tables.improvements, prices),
    ]
    silent = [row for row in tables.improvements if not gains(row.fields)]
    return Claims(
        tuple(findings),
        (
            *(_unprinted(row) for row in silent),
            *(_alone(row) for row in tables.acceptances if "geomean" in row.fields),
            *(f"{name}: nothing to recompute." for name in tables.ignored),
        ),
        tuple(conventions),
    )


def _unprinted(row: Row) -> str:
    old, new = (float(decimal(positive(row, name))) for name in ("baseline", "speculative"))
    value = improvement(old, new, better_of(row))
    about = ", ".join(f"{name} {text}" for name, text in row.about.items())
    return (
        f"{row.place} ({row.name}, {about}) prints no improvement; its values give "
        f"{shown(100 * (value or 0.0), '%')}."
    )


def _alone(row: Row) -> str:
    return f"{row.place}: its means over the load stand without the levels they are taken over."
