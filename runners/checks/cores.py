"""Cores: those that a study pins to must be here, and a CPU server that is not pinned is noisy."""

from collections.abc import Iterator

from runners.checks.finding import Finding, Situation
from runners.surroundings import machine

CHECK = "cores"


def check(situation: Situation) -> Iterator[Finding]:
    """Compare the cores that the study names with those that this process may use."""
    study = situation.study
    if study is not None and study.cpus is not None:
        yield _named({*study.cpus.engine, *study.cpus.client})
    elif study is not None and situation.on_gpu is False:
        yield Finding(
            CHECK,
            "warning",
            "The server computes on cores that it shares with its clients: expect repeats to "
            "differ more than with cores of its own.",
            "Name cores for both under cpus, where there are two or more.",
        )


def _named(cores: set[int]) -> Finding:
    usable = machine.usable_cores()
    missing = sorted(cores - usable)
    if not missing:
        said = f"The cores that the study names are among the {len(usable)} usable ones."
        return Finding(CHECK, "ok", said)
    return Finding(
        CHECK,
        "blocker",
        f"The study names core {', '.join(map(str, missing))}, and this process may use "
        f"{', '.join(map(str, sorted(usable)))}.",
        "Correct cpus in the study, or leave it out.",
    )
