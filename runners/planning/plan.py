"""What a study needs: its cells, and the fewest server launches that measure them.

A launch is one server configuration (arm x tensor parallel size) in one block (repeat); every
dataset and every level of that block shares it. The arms of a block run one after the other in an
order of its own, so that a drift of the machine falls on all of them.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runners.planning.asked import asked, fingerprint
from runners.planning.datasets import Dataset
from runners.planning.loads import LoadLevel
from runners.planning.study import Study, Variant


@dataclass(frozen=True)
class PlannedCell:
    """One arm x dataset x load x repeat. ``key`` is also its folder under the study's."""

    key: str
    arm: str
    dataset: str
    tensor_parallel_size: int
    level: LoadLevel
    repeat: int
    order: int
    prompts: int
    fingerprint: str
    """Hash of ``asked``."""
    asked: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What the study says of this cell and decides its result; anything else is another cell."""

    @property
    def concurrency(self) -> int | None:
        """The requests in flight, where the load holds them at a number; else None."""
        return self.level.at_once

    @property
    def load(self) -> str:
        """The short name of the cell's load."""
        return self.level.name

    @property
    def most_at_once(self) -> int:
        """The requests that may be in flight: all of them, where nothing holds them back."""
        return min(self.level.at_once or self.prompts, self.prompts)


@dataclass(frozen=True)
class Launch:
    """One server start and the cells that are measured on it, in order."""

    launch_id: str
    variant: Variant
    tensor_parallel_size: int
    repeat: int
    cells: tuple[PlannedCell, ...]


@dataclass(frozen=True)
class Plan:
    """Everything that a study asks for, in the order in which it is run."""

    study: Study
    launches: tuple[Launch, ...]

    @property
    def cells(self) -> tuple[PlannedCell, ...]:
        """All cells, in the order in which they are run."""
        return tuple(cell for launch in self.launches for cell in launch.cells)

    def launch(self, launch_id: str) -> Launch:
        """Return the launch of that id. KeyError where there is none."""
        return {launch.launch_id: launch for launch in self.launches}[launch_id]


def make_plan(study: Study) -> Plan:
    """Lay a study out. Reads no dataset, asks no server; StudyError for a trace that is not there."""
    order = 0
    launches = []
    for repeat in range(study.repeats):
        for variant, size in _block(study, repeat):
            cells = tuple(_cells(study, variant, size, repeat, order))
            order += len(cells)
            if cells:
                launch_id = f"r{repeat}-{variant.name}-tp{size}"
                launches.append(Launch(launch_id, variant, size, repeat, cells))
    return Plan(study, tuple(launches))


def _block(study: Study, repeat: int) -> list[tuple[Variant, int]]:
    """Return the server configurations of one repeat, in that repeat's own order; the first keeps
    the file's."""
    sizes = sorted(
        set(study.tensor_parallel_sizes).union(
            *(d.tensor_parallel_sizes or () for d in study.measured_on)
        )
    )
    block = [(variant, size) for size in sizes for variant in study.variants]
    if repeat:
        random.Random(f"{study.order_seed}-{repeat}").shuffle(block)
    return block


def _cells(
    study: Study, variant: Variant, size: int, repeat: int, first: int
) -> Iterator[PlannedCell]:
    order = first
    for dataset in study.measured_on:
        if not wanted(study, variant, size, dataset):
            continue
        for level in study.levels(dataset, size):
            facts = asked(study, variant, size, dataset, level)
            yield PlannedCell(
                key=f"{variant.name}/tp{size}/{dataset.name}/{level.name}-r{repeat}",
                arm=variant.name,
                dataset=dataset.name,
                tensor_parallel_size=size,
                level=level,
                repeat=repeat,
                order=order,
                prompts=facts["prompts"],
                fingerprint=fingerprint(facts),
                asked=facts,
            )
            order += 1


def wanted(study: Study, variant: Variant, size: int, dataset: Dataset) -> bool:
    """Return whether the study measures this server configuration on this dataset."""
    if dataset.arms is not None and not {variant.name, variant.arm} & set(dataset.arms):
        return False
    sizes = dataset.tensor_parallel_sizes or study.tensor_parallel_sizes
    allowed = variant.tensor_parallel_sizes
    return size in sizes and (allowed is None or size in allowed)
