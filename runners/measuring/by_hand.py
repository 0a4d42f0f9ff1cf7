"""The command lines of a plan as somebody would type them: with port, prompts and report filled in."""

from pathlib import Path

from runners.measuring.guidellm import planned_command
from runners.measuring.layout import REPORT, Layout
from runners.measuring.load_request import Places
from runners.planning.plan import Launch, Plan
from runners.planning.vllm_command import PORT
from runners.serving.engines import engine_of

#: A run takes any free port.
_PORT = "8000"
Written = list[tuple[str, list[str]]]


def written_out(plan: Plan, results: Path) -> Written:
    """Return the command line of each launch's server, then of the load of each of its cells, each
    with what it is for."""
    layout = Layout(results, plan.study.name)
    found: Written = []
    for launch in plan.launches:
        found.append((f"{launch.launch_id}: the server", server_by_hand(plan, launch)))
        for cell in launch.cells:
            places = Places(
                f"http://127.0.0.1:{_PORT}",
                str(layout.prompts(cell.dataset, cell.load)),
                str(layout.cell(cell.key) / REPORT),
            )
            label = f"{launch.launch_id}: the load of {cell.key}"
            found.append((label, planned_command(plan.study, cell, places)))
    return found


def server_by_hand(plan: Plan, launch: Launch) -> list[str]:
    """Return the command line of a launch's server."""
    command = engine_of(plan.study).command
    words = command(plan.study, launch.variant, launch.tensor_parallel_size)
    return [word.replace(PORT, _PORT) for word in words]
