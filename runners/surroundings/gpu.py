"""What the GPUs of this machine are, read by NVML through ``nvidia-ml-py`` where installed.

Nothing here raises for a machine without a GPU: what cannot be read is ``None``, and a survey
without GPUs says why.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

# --- NVML through ``nvidia-ml-py``, where that is installed and finds a driver.


NO_BINDING = "nvidia-ml-py is not installed here, so that no GPU can be read"
NO_DRIVER = "there is no NVIDIA driver on this machine (libnvidia-ml.so.1 was not found)"


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


@contextmanager
def opened() -> Iterator[ModuleType]:
    """Open the binding for the block. Raises NoNvml."""
    nvml = initialised()
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def ask(nvml: ModuleType, question: Callable[..., Any], *args: Any) -> Any:
    """Return the answer, or None where this driver or card does not give one."""
    try:
        return question(*args)
    except nvml.NVMLError:
        return None


# --- What the GPUs of this machine are, read by NVML through ``nvidia-ml-py`` where installed.


_DEVICES = Path("/sys/bus/pci/devices")


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
        with opened() as nvml:
            count = ask(nvml, nvml.nvmlDeviceGetCount) or 0
            return Survey(
                gpus=tuple(_gpu(nvml, index) for index in range(count)),
                driver=_text(ask(nvml, nvml.nvmlSystemGetDriverVersion)),
                cuda=_cuda(ask(nvml, nvml.nvmlSystemGetCudaDriverVersion)),
                reason=None if count else "the NVIDIA driver lists no GPU",
            )
    except NoNvml as error:
        return Survey(reason=str(error))


def visible(found: Survey, env: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA would use under ``env``, in its order.

    CUDA stops at the first entry of CUDA_VISIBLE_DEVICES that it does not know; so does this.
    """
    listed = env.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return found.gpus
    chosen: list[Gpu] = []
    for entry in listed.split(","):
        gpu = _named(found.gpus, entry.strip())
        if gpu is None:
            break
        chosen.append(gpu)
    return tuple(chosen)


def offered(found: Survey, env: Mapping[str, str]) -> tuple[tuple[str, Gpu], ...]:
    """Return the visible GPUs, each with the name that CUDA_VISIBLE_DEVICES takes for it."""
    gpus, listed = visible(found, env), env.get("CUDA_VISIBLE_DEVICES")
    names = [str(gpu.index) for gpu in gpus] if listed is None else listed.split(",")
    return tuple(zip((name.strip() for name in names), gpus, strict=False))


def answering(found: Survey, names: Iterable[str]) -> list[str]:
    """Return those of the named GPUs that still answer; all, where nobody can tell."""
    if not found.gpus:
        return list(names)
    one_by_one = ((name, visible(found, {"CUDA_VISIBLE_DEVICES": name})) for name in names)
    return [name for name, gpus in one_by_one if gpus and gpus[0].memory_bytes is not None]


def _named(gpus: Iterable[Gpu], entry: str) -> Gpu | None:
    for gpu in gpus:
        if entry == str(gpu.index):
            return gpu
        if entry.startswith("GPU-") and gpu.uuid is not None and gpu.uuid.startswith(entry):
            return gpu
    return None


def _gpu(nvml: ModuleType, index: int) -> Gpu:
    handle = ask(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return Gpu(index=index, name="unknown")
    memory = ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    mig = ask(nvml, nvml.nvmlDeviceGetMigMode, handle)
    processes = ask(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    return Gpu(
        index=index,
        name=_text(ask(nvml, nvml.nvmlDeviceGetName, handle)) or "unknown",
        uuid=_text(ask(nvml, nvml.nvmlDeviceGetUUID, handle)),
        memory_bytes=None if memory is None else int(memory.total),
        free_bytes=None if memory is None else int(memory.free),
        mig=None if mig is None else bool(mig[0]),
        processes=None if processes is None else len(processes),
        numa_node=_numa_node(ask(nvml, nvml.nvmlDeviceGetPciInfo, handle)),
        compute_capability=_capability(ask(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)),
        **_power(nvml, handle),
        **_clocks(nvml, handle),
        **_modes(nvml, handle),
    )


def _numa_node(pci: Any) -> int | None:
    """Return the NUMA node of a GPU. Linux names a device by four digits of its domain, NVML by
    eight; -1 is Linux's unknown."""
    address = None if pci is None else _text(pci.busId)
    if not address:
        return None
    try:
        text = (_DEVICES / address[-12:].lower() / "numa_node").read_text(encoding="ascii")
    except OSError:
        return None
    return int(text) if int(text) >= 0 else None


def _power(nvml: ModuleType, handle: Any) -> dict[str, Any]:
    cap = ask(nvml, nvml.nvmlDeviceGetPowerManagementLimit, handle)
    default = ask(nvml, nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)
    return {
        "power_cap_watts": None if cap is None else cap / 1000,
        "power_cap_default_watts": None if default is None else default / 1000,
    }


def _clocks(nvml: ModuleType, handle: Any) -> dict[str, Any]:
    return {
        "sm_clock_mhz": ask(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        "sm_clock_max_mhz": ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
        "memory_clock_max_mhz": ask(
            nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_MEM
        ),
        "temperature_celsius": ask(
            nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU
        ),
    }


def _modes(nvml: ModuleType, handle: Any) -> dict[str, Any]:
    ecc = ask(nvml, nvml.nvmlDeviceGetEccMode, handle)
    persistence = ask(nvml, nvml.nvmlDeviceGetPersistenceMode, handle)
    return {
        "ecc": None if ecc is None else bool(ecc[0]),
        "persistence_mode": None if persistence is None else bool(persistence),
    }


def _text(answer: str | bytes | None) -> str | None:
    """Return an answer as text; old bindings answer in bytes."""
    return answer.decode() if isinstance(answer, bytes) else answer


def _cuda(number: int | None) -> str | None:
    """Return CUDA's version, 13010 as "13.1": NVML's thousands are the major version, its tens the
    minor one."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"


def _capability(pair: tuple[int, int] | None) -> str | None:
    return None if pair is None else f"{pair[0]}.{pair[1]}"
