"""Whether an engine other than vLLM can be asked for what the study wants of it."""

from collections.abc import Iterator

from runners.checks.finding import Finding, Situation, configurations
from runners.serving.engines import engine_of
from warehouse.errors import RunnerError

CHECK = "engine"


def check(situation: Situation) -> Iterator[Finding]:
    """Check that the engine can be asked for each arm: each server command is put together. More is
    known of vLLM alone."""
    plan = situation.plan
    if plan is None or plan.study.engine == "vllm":
        return
    engine = engine_of(plan.study)
    for launch in configurations(plan):
        try:
            engine.command(plan.study, launch.variant, launch.tensor_parallel_size)
        except RunnerError as error:
            yield Finding(CHECK, "blocker", str(error), "Correct the arm or the study's sizes.")
    yield Finding(
        CHECK,
        "unknown",
        f"Methods, settings, heads, memory, lengths and vocabularies are looked at for vLLM alone; "
        f"{engine.title} says at its start what it refuses.",
        "Try the study with one dataset and one load first.",
    )
