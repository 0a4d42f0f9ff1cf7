"""The errors behind flagged figures: one wrong price is one error, whatever was calculated with it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.verdicts.finding import Finding

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
