"""``--only FIELD=VALUE[,VALUE]``, ``--launch`` and ``--cell``: which cells of a plan to run."""

from collections.abc import Sequence

from runners.planning.plan import Plan, PlannedCell
from warehouse.errors import RunnerError

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
