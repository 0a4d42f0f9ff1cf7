"""This machine: processor, memory, GPUs, system, container; and what of it may be written down.

GPUs are read by NVML through ``nvidia-ml-py`` where that is installed. Nothing here raises for a
machine without one: what cannot be read is ``None``, and a survey without GPUs says why.
"""

import getpass
import importlib
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from warehouse.secrets import scrub
from warehouse.secrets.shapes import REMOVED, is_secret_name

_ETC = Path("/etc/os-release")
_DOCKER, _MOUNTS = Path("/.dockerenv"), Path("/proc/mounts")


def cpu() -> dict[str, Any]:
    """Return model name, cores of the machine, cores that this process may use, sockets, frequency
    governor."""
    packages = set(re.findall(r"^physical id\s*:\s*(\d+)", _text(Path("/proc/cpuinfo")), re.M))
    governor = _text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")).strip()
    return {
        "model": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(usable_cores()),
        "sockets": len(packages) or None,
        "governor": governor or None,
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
    name = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", _text(Path("/proc/cpuinfo")), re.M)
    return name[1].strip() if name else (platform.processor() or None)


def memory_bytes(kind: str = "MemTotal") -> int | None:
    """Return the ``MemTotal`` or ``MemAvailable`` of this machine in bytes, or less where a
    container has less."""
    kilobytes = re.search(rf"^{kind}:\s+(\d+) kB", _text(Path("/proc/meminfo")), re.M)
    limits = [int(kilobytes[1]) * 1024] if kilobytes else []
    limit, used = (
        _text(Path("/sys/fs/cgroup", name)).strip() for name in ("memory.max", "memory.current")
    )
    if limit.isdigit():
        taken = int(used) if used and kind == "MemAvailable" else 0
        limits.append(max(0, int(limit) - taken))
    return min(limits, default=None)


def system() -> dict[str, Any]:
    """Return kernel and distribution; no host name, because it says more about people than about
    speed."""
    name = re.search(r"^PRETTY_NAME=\"?([^\"\n]+)", _text(_ETC), re.M)
    return {
        "kernel": platform.release(),
        "os": name[1] if name else platform.system(),
        "architecture": platform.machine(),
    }


def container() -> dict[str, Any] | None:
    """Return the kind of container, and its image where that can be known. None outside of one.

    Docker does not tell a process its image: DRAFTBOARD_IMAGE does, best with a digest.
    """
    image = os.environ.get("DRAFTBOARD_IMAGE")
    # A virtual machine made of an image has Docker's file too, and a disk of its own as its root.
    on_disk = re.search(r"^/dev/(?!.*docker)\S+ / ", _text(_MOUNTS), re.M) is not None
    marks = {
        "kubernetes": "KUBERNETES_SERVICE_HOST" in os.environ,
        "apptainer": not os.environ.keys().isdisjoint(("APPTAINER_NAME", "SINGULARITY_NAME")),
        "podman": Path("/run/.containerenv").exists(),
        "docker": _DOCKER.exists() and not on_disk,
    }
    kind = next((name for name, is_there in marks.items() if is_there), None)
    if kind is None and image is None:
        return None
    podman = re.search(r"^image=\"?([^\"\n]+)", _text(Path("/run/.containerenv")), re.M)
    image = image or (podman[1] if podman else None) or os.environ.get("APPTAINER_NAME")
    return {"kind": kind, "image": image or os.environ.get("SINGULARITY_NAME") or None}


def scheduler() -> dict[str, str] | None:
    """Return the job of a scheduler in which this runs: identifiers, no host or user."""
    names = ("SLURM_JOB_ID", "SLURM_JOB_PARTITION", "SLURM_RESTART_COUNT", "SLURM_GPUS_ON_NODE")
    return {name: os.environ[name] for name in names if name in os.environ} or None


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
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


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


def near(nodes: Iterable[int | None], usable: frozenset[int], root: Path = _NODES) -> Near | None:
    """Return the usable cores of these memories; None where one is unknown, or where those are all
    cores."""
    cores: set[int] = set()
    numbers = set(nodes)
    for node in numbers:
        text = "" if node is None else _text(root / f"node{node}" / "cpulist").strip()
        if not text:
            return None
        cores |= listed(text)
    left = usable.intersection(cores)
    known = tuple(sorted(node for node in numbers if node is not None))
    return Near(known, left) if left and left != usable else None


def listed(text: str) -> frozenset[int]:
    """Return cores from the text in which Linux writes them: "0-3,8" as {0, 1, 2, 3, 8}."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text)
    return frozenset(
        core for first, last in ranges for core in range(int(first), int(last or first) + 1)
    )


# --- GPUs, by NVML.


NO_BINDING = "nvidia-ml-py is not installed here, so that no GPU can be read"
NO_DRIVER = "there is no NVIDIA driver on this machine (libnvidia-ml.so.1 was not found)"
_DEVICES = Path("/sys/bus/pci/devices")


class NoNvml(Exception):
    """NVML cannot be used here; the text says why."""


def initialised() -> ModuleType:
    """Return the binding, started; whoever calls this calls its ``nvmlShutdown``. Raises NoNvml."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        raise NoNvml(NO_BINDING) from None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        missing = error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND
        raise NoNvml(NO_DRIVER if missing else f"NVML does not start: {error}") from None
    return nvml


def ask(nvml: ModuleType, question: Callable[..., Any], *args: Any) -> Any:
    """Return the answer, or None where this driver or card does not give one."""
    try:
        return question(*args)
    except nvml.NVMLError:
        return None


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML numbers it (by PCI bus). None: this driver or card does not say."""

    index: int
    name: str
    uuid: str | None = None
    memory_bytes: int | None = None
    free_bytes: int | None = None
    power_cap_watts: float | None = None
    power_cap_default_watts: float | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    temperature_celsius: int | None = None
    compute_capability: str | None = None
    mig: bool | None = None
    ecc: bool | None = None
    persistence_mode: bool | None = None
    #: compute processes that anybody runs on it
    processes: int | None = None
    #: the memory of the machine (NUMA) that it hangs on
    numa_node: int | None = None


#: GB that the memory of a GPU yields in a second, by words that stand in its name: NVIDIA's datasheets,
#: as its own TensorRT-LLM quotes them. One that is not here was not looked up.
_BANDWIDTHS = {
    "h200": 4800, "h100 hbm3": 3350, "h100 sxm": 3350, "h100 sxm5": 3350, "h100 pcie": 2000,
    "a100 sxm4 80gb": 2039, "a100 sxm 80gb": 2039, "a100 pcie 80gb": 1935, "a100 40gb": 1555,
    "l40s": 864, "l40": 864, "a40": 696, "a30": 933, "a10": 600, "l4": 300,
}  # fmt: skip


def memory_bandwidth(gpu: str) -> float | None:
    """Return how many bytes the memory of a GPU yields in a second, by the GPU's name (``NVIDIA H200``);
    None where that is not known here."""
    words = set(re.split(r"[^a-z0-9]+", gpu.casefold()))
    return next((1e9 * gb for name, gb in _BANDWIDTHS.items() if words >= set(name.split())), None)


@dataclass(frozen=True)
class Survey:
    """The GPUs of a machine; ``reason`` says why there are none, ``cuda`` is the driver's newest."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    reason: str | None = None


def survey() -> Survey:
    """Return every GPU that this process may see."""
    try:
        nvml = initialised()
    except NoNvml as error:
        return Survey(reason=str(error))
    try:
        count = ask(nvml, nvml.nvmlDeviceGetCount) or 0
        cuda = ask(nvml, nvml.nvmlSystemGetCudaDriverVersion)
        return Survey(
            gpus=tuple(_gpu(nvml, index) for index in range(count)),
            driver=_decoded(ask(nvml, nvml.nvmlSystemGetDriverVersion)),
            # 13010 is "13.1": thousands are the major version, tens the minor one.
            cuda=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
            reason=None if count else "the NVIDIA driver lists no GPU",
        )
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: ModuleType, index: int) -> Gpu:
    handle = ask(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return Gpu(index=index, name="unknown")

    def get(quantity: str, *args: Any) -> Any:
        return ask(nvml, getattr(nvml, f"nvmlDeviceGet{quantity}"), handle, *args)

    memory, processes, pci = get("MemoryInfo"), get("ComputeRunningProcesses"), get("PciInfo")
    cap, default = get("PowerManagementLimit"), get("PowerManagementDefaultLimit")
    mig, ecc, persistence = get("MigMode"), get("EccMode"), get("PersistenceMode")
    capability = get("CudaComputeCapability")
    return Gpu(
        index=index,
        name=_decoded(get("Name")) or "unknown",
        uuid=_decoded(get("UUID")),
        memory_bytes=None if memory is None else int(memory.total),
        free_bytes=None if memory is None else int(memory.free),
        power_cap_watts=None if cap is None else cap / 1000,
        power_cap_default_watts=None if default is None else default / 1000,
        sm_clock_mhz=get("ClockInfo", nvml.NVML_CLOCK_SM),
        sm_clock_max_mhz=get("MaxClockInfo", nvml.NVML_CLOCK_SM),
        memory_clock_max_mhz=get("MaxClockInfo", nvml.NVML_CLOCK_MEM),
        temperature_celsius=get("Temperature", nvml.NVML_TEMPERATURE_GPU),
        compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        mig=None if mig is None else bool(mig[0]),
        ecc=None if ecc is None else bool(ecc[0]),
        persistence_mode=None if persistence is None else bool(persistence),
        processes=None if processes is None else len(processes),
        numa_node=None if pci is None else _numa_node(_decoded(pci.busId)),
    )


def _numa_node(address: str | None) -> int | None:
    # Linux names a device by four digits of its domain, NVML by eight; -1 is Linux's unknown.
    text = _text(_DEVICES / address[-12:].lower() / "numa_node") if address else ""
    return int(text) if text and int(text) >= 0 else None


def _decoded(answer: str | bytes | None) -> str | None:
    # Old bindings answer in bytes.
    return answer.decode() if isinstance(answer, bytes) else answer


def visible(machine: Survey, env: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA would use under ``env``, in its order.

    CUDA stops at the first entry of CUDA_VISIBLE_DEVICES that it does not know; so does this.
    """
    entries = env.get("CUDA_VISIBLE_DEVICES")
    if entries is None:
        return machine.gpus
    chosen: list[Gpu] = []
    for entry in (entry.strip() for entry in entries.split(",")):
        for gpu in machine.gpus:
            by_uuid = entry.startswith("GPU-") and (gpu.uuid or "").startswith(entry)
            if entry == str(gpu.index) or by_uuid:
                chosen.append(gpu)
                break
        else:
            break
    return tuple(chosen)


def offered(machine: Survey, env: Mapping[str, str]) -> tuple[tuple[str, Gpu], ...]:
    """Return the visible GPUs, each with the name that CUDA_VISIBLE_DEVICES takes for it."""
    gpus, entries = visible(machine, env), env.get("CUDA_VISIBLE_DEVICES")
    names = [str(gpu.index) for gpu in gpus] if entries is None else entries.split(",")
    return tuple(zip((name.strip() for name in names), gpus, strict=False))


def answering(machine: Survey, names: Iterable[str]) -> list[str]:
    """Return those of the named GPUs that still answer; all, where nobody can tell."""
    if not machine.gpus:
        return list(names)
    by_name = ((name, visible(machine, {"CUDA_VISIBLE_DEVICES": name})) for name in names)
    return [name for name, gpus in by_name if gpus and gpus[0].memory_bytes is not None]


# --- What may be written down: no credentials, no user names, no path that holds one.


_HOME = re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s\"':,]+|(?<![\w.])/root(?=[/\s\"':,]|$)")
#: Credentials that came from elsewhere, e.g. the file of an API key.
_HIDDEN: set[str] = set()


def public(value: Any) -> Any:
    """Return a JSON value as a record may hold it; dictionaries and lists are copied.

    Home folders become ``~``, this user's name in a path ``[user]``, credentials ``[removed]``.
    """
    return _placeless(scrub(value))


def hide(secret: str) -> None:
    """Take this credential out of everything that is made fit for a record from now on."""
    _HIDDEN.add(secret)


def _placeless(value: Any) -> Any:
    if isinstance(value, str):
        return _placeless_text(value)
    if isinstance(value, Mapping):
        return {name: _placeless(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_placeless(member) for member in value]
    return value


def _placeless_text(text: str) -> str:
    # Credentials of this process's environment are taken out wherever they were copied to.
    own = [v for name, v in os.environ.items() if len(v) >= 8 and is_secret_name(name)]
    for secret in (*own, *_HIDDEN):
        text = text.replace(secret, REMOVED)
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=[/\s\"':,]|$)", "~", text)
    text = _HOME.sub("~", text)
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        return text
    # Root is nobody, so the name says nothing.
    return text if user == "root" else re.sub(rf"(?<=/){re.escape(user)}(?=/|$)", "[user]", text)
