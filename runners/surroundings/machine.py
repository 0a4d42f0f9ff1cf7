"""What this machine is, apart from its GPUs: processor, memory, system, container, source tree."""

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from runners.planning.plan import Launch, gpus_needed
from runners.planning.study import Study
from runners.surroundings import gpu

_ETC = Path("/etc/os-release")
_DOCKER, _MOUNTS = Path("/.dockerenv"), Path("/proc/mounts")


def cpu() -> dict[str, Any]:
    """Return model name, cores of the machine, cores that this process may use, sockets, frequency
    governor."""
    return {
        "model": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(usable_cores()),
        "sockets": _sockets(),
        "governor": _line(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
    }


def usable_cores() -> frozenset[int]:
    """Return the cores that this process may use; where the system does not say, all of them."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


#: Variables by which an executor tells a launch how it came to run where it runs.
EXECUTOR, PARALLEL = "DRAFTBOARD_EXECUTOR", "DRAFTBOARD_PARALLEL"


def placement(environ: Mapping[str, str] | None = None) -> dict[str, str | int]:
    """Return ``executor``, and ``launches_side_by_side`` where this machine may run several at once:
    a neighbour is a reason for noise."""
    env = os.environ if environ is None else environ
    placed: dict[str, str | int] = {
        "executor": env.get(EXECUTOR, "slurm" if "SLURM_JOB_ID" in env else "local")
    }
    if PARALLEL in env:
        placed["launches_side_by_side"] = int(env[PARALLEL])
    return placed


@lru_cache
def cpu_model() -> str | None:
    """Return the processor's name, e.g. "AMD EPYC 9654 96-Core Processor"."""
    named = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", _text(Path("/proc/cpuinfo")), re.M)
    return named[1].strip() if named else (platform.processor() or None)


def memory_bytes(kind: str = "MemTotal") -> int | None:
    """Return the ``MemTotal`` or ``MemAvailable`` of this machine in bytes, or less where a
    container has less."""
    found = re.search(rf"^{kind}:\s+(\d+) kB", _text(Path("/proc/meminfo")), re.M)
    limits = [int(found[1]) * 1024] if found else []
    limit, used = (_line(Path("/sys/fs/cgroup", name)) for name in ("memory.max", "memory.current"))
    if limit is not None and limit.isdigit():
        taken = int(used) if used is not None and kind == "MemAvailable" else 0
        limits.append(max(0, int(limit) - taken))
    return min(limits, default=None)


def system() -> dict[str, Any]:
    """Return kernel and distribution; no host name, because it says more about people than about
    speed."""
    named = re.search(r"^PRETTY_NAME=\"?([^\"\n]+)", _text(_ETC), re.M)
    return {
        "kernel": platform.release(),
        "os": named[1] if named else platform.system(),
        "architecture": platform.machine(),
    }


def container() -> dict[str, Any] | None:
    """Return the kind of container, and its image where that can be known. None outside of one.

    Docker does not tell a process its image: DRAFTBOARD_IMAGE does, best with a digest.
    """
    image = os.environ.get("DRAFTBOARD_IMAGE")
    kind = _container_kind()
    if kind is None and image is None:
        return None
    return {"kind": kind, "image": image or _container_image()}


def _container_kind() -> str | None:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if "APPTAINER_NAME" in os.environ or "SINGULARITY_NAME" in os.environ:
        return "apptainer"
    if Path("/run/.containerenv").exists():
        return "podman"
    # A virtual machine made of an image has Docker's file too, and a disk of its own as its root.
    on_disk = re.search(r"^/dev/(?!.*docker)\S+ / ", _text(_MOUNTS), re.M) is not None
    return "docker" if _DOCKER.exists() and not on_disk else None


def _container_image() -> str | None:
    named = re.search(r"^image=\"?([^\"\n]+)", _text(Path("/run/.containerenv")), re.M)
    names = (os.environ.get(name) for name in ("APPTAINER_NAME", "SINGULARITY_NAME"))
    return named[1] if named else next((name for name in names if name), None)


def scheduler() -> dict[str, str] | None:
    """Return the job of a scheduler in which this runs: identifiers, no host or user."""
    names = ("SLURM_JOB_ID", "SLURM_JOB_PARTITION", "SLURM_RESTART_COUNT", "SLURM_GPUS_ON_NODE")
    found = {name: os.environ[name] for name in names if name in os.environ}
    return found or None


@lru_cache
def git_state(folder: Path) -> dict[str, Any] | None:
    """Return the commit of the working tree around ``folder`` and whether it was changed; None
    outside one."""
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "changed": None if changed is None else bool(changed)}


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _sockets() -> int | None:
    packages = set(re.findall(r"^physical id\s*:\s*(\d+)", _text(Path("/proc/cpuinfo")), re.M))
    return len(packages) or None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _line(path: Path) -> str | None:
    return _text(path).strip() or None


# --- Which cores lie near which GPUs: a machine with two sockets has two memories (NUMA).
#
# A server whose processes run beside the other socket's GPUs moves every batch across the machine,
# and where they run is chance. So they are kept on the cores of the memory that its GPUs hang on.


_NODES = Path("/sys/devices/system/node")


@dataclass(frozen=True)
class Near:
    """The cores near some GPUs, and the numbers of the memories (NUMA nodes) that those GPUs hang
    on."""

    nodes: tuple[int, ...]
    cores: frozenset[int]


def near_gpus(study: Study, launch: Launch) -> Near | None:
    """Return the cores near the GPUs that a launch gets on this machine; None where nothing is to
    be kept apart, or where study or engine see to it themselves."""
    if study.numa == "leave" or study.cpus is not None or _engine_binds(study, launch):
        return None
    seen = gpu.visible(gpu.survey(), {**os.environ, **study.environment})
    used = seen[: gpus_needed(study, launch)]
    return near([each.numa_node for each in used], usable_cores())


def near(nodes: Iterable[int | None], usable: frozenset[int], root: Path = _NODES) -> Near | None:
    """Return the usable cores of these memories; None where one is unknown, or where those are all
    cores."""
    wanted = sorted(set(nodes), key=lambda node: -1 if node is None else node)
    cores: set[int] = set()
    known: list[int] = []
    for node in wanted:
        text = "" if node is None else _text_of(root / f"node{node}" / "cpulist")
        if node is None or not text:
            return None
        known.append(node)
        cores |= listed(text)
    left = usable.intersection(cores)
    return Near(tuple(known), left) if left and left != usable else None


def listed(text: str) -> frozenset[int]:
    """Return cores from the text in which Linux writes them: "0-3,8" as {0, 1, 2, 3, 8}."""
    found = re.findall(r"(\d+)(?:-(\d+))?", text)
    ranges = (range(int(first), int(last or first) + 1) for first, last in found)
    return frozenset(core for cores in ranges for core in cores)


def _engine_binds(study: Study, launch: Launch) -> bool:
    """Return whether vLLM is told to bind its workers itself (``--numa-bind``)."""
    given = {**study.target.engine_args, **launch.variant.engine_args}
    return any(name.lstrip("-").replace("_", "-").startswith("numa-bind") for name in given)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
