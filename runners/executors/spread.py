"""GPUs of this machine that nobody uses, and the launches of a study spread over them."""

from collections.abc import Mapping, Sequence

from runners.executors import gpus_needed
from runners.executors.local import Local
from runners.executors.settings import LocalSettings
from runners.planning.packing import Node, allowed, pack
from runners.planning.plan import Launch
from runners.planning.study import Study
from runners.surroundings.gpu import Gpu, Survey, offered

#: A card that nobody uses still holds some memory for its driver.
_FREE_MEMORY = 0.95


def spread(
    study: Study, launches: Sequence[Launch], found: Survey, env: Mapping[str, str]
) -> Local | None:
    """Return an executor that runs launches side by side on GPUs that are free now; None where only
    one fits at a time, or where the study keeps its servers apart."""
    if fitting(study, launches, found, env) < 2:
        return None
    free = _free(found, env)
    return Local(LocalSettings(parallel=min(len(launches), len(free)), gpus=free))


def fitting(study: Study, launches: Sequence[Launch], found: Survey, env: Mapping[str, str]) -> int:
    """Return how many of the launches fit side by side on GPUs that are free now; 1 where the study
    keeps its servers apart."""
    free = _free(found, env)
    if not allowed(study) or len(launches) < 2:
        return 1
    if max(gpus_needed(study, launch) for launch in launches) > len(free):
        return 1
    return pack(study, [(launch, 1.0) for launch in launches], Node(len(free))).at_once


def _free(found: Survey, env: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name, gpu in offered(found, env) if _is_free(gpu))


def _is_free(gpu: Gpu) -> bool:
    """Return whether nobody computes on the GPU and its memory is empty; one that does not answer
    is not free."""
    if gpu.memory_bytes is None or gpu.free_bytes is None or gpu.mig:
        return False
    return not gpu.processes and gpu.free_bytes >= _FREE_MEMORY * gpu.memory_bytes
