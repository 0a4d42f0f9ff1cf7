"""Which cells a decision is about, as filters: what stands beside its money is of these alone."""

from dataclasses import replace

from answers.decide.overview import narrowed
from answers.decide.values import Decision
from warehouse.filters import UNKNOWN, Filters


def kept_to(one: Decision, chosen: Filters) -> Filters:
    """Return the chosen filters, kept to a decision's subject and datasets; arms keep the
    baseline."""
    names = tuple(name for name, _ in one.traffic.mix)
    return replace(
        narrowed(one.subject, chosen),
        dataset=names or _only(one.traffic.dataset),
        tensor_parallel_size=_only(one.subject.tensor_parallel_size),
    )


def _only(value: str | int | None) -> tuple[str, ...]:
    return (UNKNOWN if value is None else str(value),)
