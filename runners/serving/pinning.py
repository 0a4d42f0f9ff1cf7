"""Cores for the engine and cores for those who talk to it, where a CPU does the work of a GPU.

Unpinned, an engine that spins on every core starves its API server and the load generator, and a
baseline on a small machine becomes bimodal.
"""

import contextlib
import os
from collections.abc import Sequence

import psutil

from runners.serving.processes import Guarded

#: vLLM names its processes; with several API servers they are children of the first.
_API_TITLE = "VLLM::APIServer"
_RANKS = "--tensor-parallel-size"


def environment(engine_cpus: frozenset[int] | None, argv: Sequence[str]) -> dict[str, str]:
    """Return what tells vLLM's CPU backend where its threads compute; nothing for several ranks.

    With more than one rank each needs a list of its own: the study gives it in its environment.
    """
    ranks = argv[argv.index(_RANKS) + 1] if _RANKS in argv else "1"
    if not engine_cpus or ranks != "1":
        return {}
    return {"VLLM_CPU_OMP_THREADS_BIND": ",".join(str(cpu) for cpu in sorted(engine_cpus))}


def pin(server: Guarded, engine_cpus: frozenset[int], api_cpus: frozenset[int]) -> None:
    """Keep a running server's API process on ``api_cpus`` and everything below on ``engine_cpus``."""
    for process in server.tree():
        api = process.pid == server.pid or _title(process).startswith(_API_TITLE)
        _keep(process, api_cpus if api else engine_cpus)


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _keep(process: psutil.Process, cpus: frozenset[int]) -> None:
    """Pin every thread of a process that may run elsewhere to the cores: a mask is a thread's, not
    a process's.

    A thread that OpenMP bound to one of the cores stays on that one.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    with contextlib.suppress(psutil.Error):
        for thread in process.threads():
            with contextlib.suppress(ProcessLookupError):
                if not os.sched_getaffinity(thread.id) <= cpus:
                    os.sched_setaffinity(thread.id, cpus)
