"""Which cells a decision is about, as filters: what stands beside its money is of these alone."""

from dataclasses import replace

from answers.decide.values import Decision
from warehouse.filters import UNKNOWN, Filters


def kept_to(one: Decision, chosen: Filters) -> Filters:
    """The chosen filters, kept to a decision's subject and datasets; arms keep the baseline."""
    about, names = one.subject, [name for name, _ in one.traffic.mix]
    return replace(
        chosen,
        arm=tuple(sorted({*chosen.arm, "baseline"})) if chosen.arm else (),
        dataset=tuple(names) or _only(one.traffic.dataset), model=_only(about.model),
        gpu=_only(about.gpu), engine_version=_only(about.engine_version), study=_only(about.study),
        tensor_parallel_size=_only(about.tensor_parallel_size),
    )  # fmt: skip


def _only(value: str | int | None) -> tuple[str, ...]:
    return (UNKNOWN if value is None else str(value),)
