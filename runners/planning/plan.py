"""What a study needs: its cells, the fewest server launches that measure them, and which of them to run.

A launch is one server configuration (arm x tensor parallel size) in one block (repeat); every
dataset and every level of that block shares it. The arms of a block run one after the other in an
order of its own, so that a drift of the machine falls on all of them.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runners.planning.asked import asked, fingerprint
from runners.planning.datasets import Dataset
from runners.planning.loads import LoadLevel
from runners.planning.study import Study, Variant
from warehouse.errors import RunnerError


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


#: Engine arguments that multiply the GPUs of one server.
_MULTIPLIERS = ("pipeline-parallel-size", "data-parallel-size")


def gpus_needed(study: Study, launch: Launch) -> int:
    """Return how many GPUs one launch takes; 0 where the study says that a CPU does the work."""
    if study.cpus is not None or study.evidence in ("cpu", "mock"):
        return 0
    arguments = study.engine_arguments(launch.variant)
    count = launch.tensor_parallel_size
    for name in _MULTIPLIERS:
        count *= int(arguments.get(name, 1))
    return count


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


# --- ``--only FIELD=VALUE[,VALUE]``, ``--launch`` and ``--cell``: which cells of a plan to run.


FIELDS = {
    "arm": "arm",
    "dataset": "dataset",
    "tp": "tensor_parallel_size",
    "concurrency": "concurrency",
    "load": "load",
    "repeat": "repeat",
}


def select(
    plan: Plan, only: Sequence[str], launch_id: str | None, keys: Sequence[str] = ()
) -> tuple[PlannedCell, ...]:
    """Return the cells that every ``only`` allows, of one launch or of all; of these ``keys`` alone where
    some are named. Raises RunnerError."""
    cells = plan.cells if launch_id is None else _of_launch(plan, launch_id)
    cells = _of_keys(plan, cells, keys) if keys else cells
    for term in only:
        field, values = _read(term)
        known = sorted({str(getattr(cell, field)) for cell in plan.cells})
        if unknown := [value for value in values if value not in known]:
            raise RunnerError(
                f"--only {term}: the study has no {unknown[0]!r} there; it has {', '.join(known)}."
            )
        cells = tuple(cell for cell in cells if str(getattr(cell, field)) in values)
    if not cells:
        raise RunnerError("No cell of the study is left; loosen --only, --launch or --cell.")
    return cells


def _of_keys(
    plan: Plan, cells: tuple[PlannedCell, ...], keys: Sequence[str]
) -> tuple[PlannedCell, ...]:
    known = {cell.key for cell in plan.cells}
    if unknown := [key for key in keys if key not in known]:
        raise RunnerError(
            f"The study has no cell {unknown[0]!r}; `draftboard plan STUDY --json` names them."
        )
    wanted = set(keys)
    return tuple(cell for cell in cells if cell.key in wanted)


def _of_launch(plan: Plan, launch_id: str) -> tuple[PlannedCell, ...]:
    try:
        return plan.launch(launch_id).cells
    except KeyError:
        known = ", ".join(launch.launch_id for launch in plan.launches)
        raise RunnerError(f"The study has no launch {launch_id!r}; it has {known}.") from None


def _read(term: str) -> tuple[str, list[str]]:
    name, equals, values = term.partition("=")
    if not equals or name not in FIELDS:
        raise RunnerError(
            f"--only {term}: write FIELD=VALUE[,VALUE] with one of {', '.join(FIELDS)}."
        )
    return FIELDS[name], [value.strip() for value in values.split(",")]
