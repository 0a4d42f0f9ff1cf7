"""Doubts that the machine raises: throttling, others on its GPUs or processor, launches beside."""

from collections.abc import Iterator
from statistics import fmean

from warehouse.rows import Cell, Flag

Flags = Iterator[Flag]

#: Names of the samples, and how many busy cores of others are too many. An engine on a CPU competes
#: for the cores themselves; beside a GPU they only feed it.
OTHERS = "cpu_cores_used_by_others"
OTHERS_ON_CPU, OTHERS_BESIDE_GPU = 0.15, 1.0
HOT, BRAKED, CAPPED = "gpu_hot", "gpu_braked", "gpu_power_capped"
STRANGERS, STEAL = "gpu_processes_of_others", "cpu_steal_share"
#: Shares of the measurement: throttled for so long, at the power limit for so long, stolen so much.
THROTTLED, AT_LIMIT, STOLEN = 0.01, 0.10, 0.02


def throttled(cell: Cell) -> Flags:
    """Yield a flag where heat or the power brake held a GPU's clock back, and one that only tells
    where a GPU was at its power limit."""
    why = {"too hot": _mean(cell, HOT), "power brake": _mean(cell, BRAKED)}
    told = [f"{word} {share:.0%}" for word, share in why.items() if share and share > THROTTLED]
    if told:
        yield Flag(
            "throttled",
            "warning",
            f"A GPU's clock was held back during the measurement ({', '.join(told)} of the time), so "
            "it is slower than the card.",
        )
    capped = _mean(cell, CAPPED)
    if capped and capped > AT_LIMIT:
        yield Flag(
            "power_limited",
            "info",
            f"A GPU was at its power limit for {capped:.0%} of the measurement, so its clock "
            "followed its power.",
        )


def neighbours(cell: Cell) -> Flags:
    """Yield a flag where others computed on the GPUs, or kept the machine busy."""
    strangers = _values(cell, STRANGERS)
    if most := max(strangers, default=0.0):
        share = fmean(value > 0 for value in strangers)
        yield Flag(
            "gpu_neighbour",
            "warning",
            f"{_counted(most)} of somebody else computed on its GPUs for {share:.0%} of the "
            "measurement.",
        )
    cores = _mean(cell, OTHERS)
    limit = OTHERS_ON_CPU if cell.facts.evidence == "cpu" else OTHERS_BESIDE_GPU
    if cores is not None and cores > limit:
        yield Flag(
            "busy_machine",
            "warning",
            f"Other processes kept {cores:.2f} cores of the machine busy during the "
            f"measurement (more than {limit:g} disturbs it).",
        )


def stolen(cell: Cell) -> Flags:
    """Yield a flag where a hypervisor gave the processor's time to others."""
    share = _mean(cell, STEAL)
    if share is not None and share > STOLEN:
        yield Flag(
            "steal",
            "warning",
            f"The hypervisor gave {share:.1%} of the processor's time to others during the "
            f"measurement (more than {STOLEN:.0%} disturbs it).",
        )


def _values(cell: Cell, name: str) -> list[float]:
    return [sample.value for sample in cell.samples if sample.name == name]


def _mean(cell: Cell, name: str) -> float | None:
    values = _values(cell, name)
    return fmean(values) if values else None


def _counted(most: float) -> str:
    return "A process" if most == 1 else f"Up to {most:.0f} processes"


CHECKS = (throttled, neighbours, stolen)
