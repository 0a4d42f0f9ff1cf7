"""Whether a level has prompts enough to say anything; said before anything starts."""

from runners.planning.plan import Plan

#: Prompts for each request in flight, below which ramp and drain fill much of a level.
ENOUGH = 5


def few_prompts(plan: Plan) -> list[str]:
    """Return one sentence for each dataset with too few prompts at some levels; empty where all is
    well."""
    return [sentence for dataset in _planned(plan).items() for sentence in _sentences(*dataset)]


def _planned(plan: Plan) -> dict[str, dict[int, int]]:
    """Return the number of prompts by dataset and concurrency; other loads fill themselves."""
    found: dict[str, dict[int, int]] = {}
    for cell in plan.cells:
        if cell.concurrency is None:
            continue
        found.setdefault(cell.dataset, {})[cell.concurrency] = cell.prompts
    return found


def _sentences(dataset: str, levels: dict[int, int]) -> list[str]:
    starved = {c: n for c, n in levels.items() if n < c}
    short = {c: n for c, n in levels.items() if c <= n < ENOUGH * c}
    said = []
    if starved:
        said.append(
            f"{dataset}: {_list(starved)}: fewer prompts than requests in flight, so that "
            "concurrency is never reached; raise prompts_per_level."
        )
    if short:
        said.append(
            f"{dataset}: {_list(short)}: under {ENOUGH} prompts for each request in flight, so "
            "ramp and drain weigh on the result; raise prompts_per_level."
        )
    return said


def _list(levels: dict[int, int]) -> str:
    return ", ".join(f"{n} prompts at concurrency {c}" for c, n in sorted(levels.items()))
