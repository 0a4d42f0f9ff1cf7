"""Why cells are not good, each launch once, and what to do about it."""

from collections.abc import Sequence
from pathlib import Path

from runners.measuring.launch import Failed
from runners.measuring.layout import Layout
from runners.planning.plan import Plan

_AGAIN = "the same command then tries only what is missing"


def reasons(plan: Plan, failed: Sequence[Failed]) -> list[str]:
    """Return why cells are not good; a launch whose server did not come up is one reason, however
    many cells it has."""
    launch_of = {cell.key: x.launch_id for x in plan.launches for cell in x.cells}
    named = (
        (launch_of.get(one.cell.key, one.cell.key) if one.no_server else one.cell.key, one)
        for one in failed
    )
    return list(dict.fromkeys(f"{name}: {one.problem.sentence}" for name, one in named))


def next_step(plan: Plan, failed: Sequence[Failed], layout: Layout, study: Path) -> str:
    """Say in one sentence what to do after cells failed; empty where none did."""
    if not failed:
        return ""
    launch_of = {cell.key: x.launch_id for x in plan.launches for cell in x.cells}
    unstarted = [one for one in failed if one.no_server]
    if unstarted:
        log = layout.server_log(launch_of.get(unstarted[0].cell.key, ""))
        return (
            f"Next: `draftboard doctor {study}` looks for what keeps its server from starting, and "
            f"{log} holds what it printed; {_AGAIN}."
        )
    launch_id = launch_of.get(failed[0].cell.key, "")
    return f"Next: look into {layout.load_log(launch_id)} and {layout.server_log(launch_id)}; {_AGAIN}."


def next_step_elsewhere(launches: Sequence[str], layout: Layout, place: str, study: Path) -> str:
    """Say what to do after launches failed on a cluster; empty where none did."""
    if not launches:
        return ""
    if place in ("slurm", "kubernetes"):
        asked = f"`draftboard cluster logs {study} {launches[0]} --results {layout.results}`"
        return f"Next: {asked} prints what it said; {_AGAIN}."
    return f"Next: look into the logs of {launches[0]} in {layout.root / 'logs'}; {_AGAIN}."
