"""What this machine is, apart from its GPUs: processor, memory, system, container, source tree."""

import os
import platform
import re
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

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
