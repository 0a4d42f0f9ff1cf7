"""Disk: room for the results, for weights that have yet to come, and for shared memory."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from runners.checks.finding import Finding, Situation
from runners.planning.estimate import Assumed, Recorded, estimate
from runners.surroundings.models import GIB, ModelFiles, gib, hub_cache

CHECK = "disk"
#: Logs, temporary files and vLLM's compile cache, on top of the results.
_SPARE = GIB
_SHARED = Path("/dev/shm")


def check(situation: Situation) -> Iterator[Finding]:
    """Check each place that a run writes to."""
    yield _results(situation)
    missing = [m for m in situation.models.values() if m.origin == "hub" and m.weight_bytes]
    if missing:
        yield _downloads(situation, missing)
    yield from _shared_memory(situation)


def _results(situation: Situation) -> Finding:
    folder = _existing(situation.results)
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return Finding(
            CHECK,
            "blocker",
            f"The results folder {situation.results} cannot be written.",
            "Choose another with --results, or ask for the right to write there.",
        )
    needed, free = _SPARE + _report_bytes(situation), shutil.disk_usage(folder).free
    if free < needed:
        return Finding(
            CHECK,
            "blocker",
            f"{gib(free)} of disk is free at {situation.results}, and a run takes {gib(needed)}.",
            "Make room, or choose another folder with --results.",
        )
    return Finding(
        CHECK, "ok", f"{gib(free)} of disk is free at {situation.results}; {gib(needed)} is enough."
    )


def _report_bytes(situation: Situation) -> int:
    plan = situation.plan
    return 0 if plan is None else estimate(plan, Recorded(), Assumed()).disk_bytes


def _downloads(situation: Situation, missing: list[ModelFiles]) -> Finding:
    cache = hub_cache(situation.env)
    needed, free = (
        sum(m.weight_bytes or 0 for m in missing),
        shutil.disk_usage(_existing(cache)).free,
    )
    names = ", ".join(model.model for model in missing)
    if free < needed:
        return Finding(
            CHECK,
            "blocker",
            f"{names} must still be fetched, {gib(needed)}, and {gib(free)} is free in the cache of "
            "the hub.",
            "Make room, or set HF_HOME to a larger disk.",
        )
    return Finding(
        CHECK,
        "warning",
        f"{names} must still be fetched, {gib(needed)}; the first server start waits for it.",
        "Run `hf download` for each before the study, or raise limits.server_ready_s.",
    )


def _shared_memory(situation: Situation) -> Iterator[Finding]:
    """Check the size of /dev/shm: workers of one server talk through it, and containers often get
    64 MB."""
    plan = situation.plan
    split = plan is not None and any(launch.tensor_parallel_size > 1 for launch in plan.launches)
    if not split or not _SHARED.is_dir():
        return
    size = shutil.disk_usage(_SHARED).total
    if size < GIB:
        yield Finding(
            CHECK,
            "warning",
            f"{_SHARED} has {gib(size)}, which is little for a server on several GPUs.",
            "Start the container with --ipc=host or --shm-size=8g.",
        )


def _existing(folder: Path) -> Path:
    """Return the folder itself, or the nearest folder above it that exists."""
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if place.exists())
