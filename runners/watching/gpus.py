"""What GPUs do during a load: clocks, power, heat, memory, throttling, and who else computes there."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from types import ModuleType
from typing import Any, Self

from runners.surroundings.machine import NoNvml, ask, initialised

#: Series of each GPU. Throttle reasons are NVML's bits (nvmlClocksEventReasons); processes of
#: others are told where one of our own is seen there, which a container may hide.
POWER, CLOCK, MEMORY_CLOCK = "gpu_power_watts", "gpu_sm_clock_mhz", "gpu_memory_clock_mhz"
HEAT, MEMORY, REASONS = "gpu_temperature_celsius", "gpu_memory_used_bytes", "gpu_throttle_reasons"
OTHERS = "gpu_processes_of_others"
#: Who computes on a GPU costs the driver more than all else together.
_PROCESSES_EVERY_S = 5.0
#: So many looks in a row without any answer, and a GPU is gone.
_SILENT_LOOKS = 3


class GpuWatch:
    """Reads GPUs from ``with`` on; empty where NVML is missing, and ``reason`` says why.

    ``gpus`` are NVML indices, None means all; ``ours`` gives the numbers of our own processes.
    """

    def __init__(self, gpus: Iterable[int] | None, ours: Callable[[], Collection[int]]) -> None:
        self.reason: str | None = None
        self._wanted = None if gpus is None else frozenset(gpus)
        self._ours = ours
        self._handles: dict[int, Any] = {}
        self._nvml: ModuleType | None = None
        self._silent: dict[int, int] = {}
        self._processes_at = float("-inf")

    def __enter__(self) -> Self:
        """Open NVML, where there is something to read."""
        if self._wanted == frozenset():
            return self
        try:
            self._nvml = nvml = initialised()
        except NoNvml as error:
            self.reason = str(error)
            return self
        for index in range(ask(nvml, nvml.nvmlDeviceGetCount) or 0):
            if self._wanted is None or index in self._wanted:
                self._handles[index] = ask(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
        return self

    def __exit__(self, *_: object) -> None:
        """Close NVML."""
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
        self._nvml, self._handles = None, {}

    def __call__(self) -> dict[str, float]:
        """Return values by series and GPU: ``gpu_power_watts{gpu="0"}``."""
        if self._nvml is None:
            return {}
        with_processes = time.monotonic() - self._processes_at >= _PROCESSES_EVERY_S
        if with_processes:
            self._processes_at = time.monotonic()
        found: dict[str, float] = {}
        for index, handle in self._handles.items():
            values = dict(_read(self._nvml, handle))
            if values:
                self._silent[index] = 0
            elif index in self._silent:
                self._silent[index] += 1
            if with_processes:
                values |= self._others(self._nvml, handle)
            found |= {f'{name}{{gpu="{index}"}}': value for name, value in values.items()}
        return found

    def ask_again(self) -> None:
        """Look as often as it takes to know that a GPU is gone."""
        for _ in range(_SILENT_LOOKS):
            self()

    def lost(self) -> tuple[int, ...]:
        """Return the GPUs that answered once and do not any more, e.g. because they fell off the
        bus."""
        return tuple(index for index, looks in self._silent.items() if looks >= _SILENT_LOOKS)

    def _others(self, nvml: ModuleType, handle: Any) -> dict[str, float]:
        """Count the compute processes that are not ours; nothing where none can be told from
        another."""
        running = ask(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        ours = self._ours()
        there = {process.pid for process in running or ()}
        mine = there.intersection(ours)
        return {OTHERS: float(len(there - mine))} if mine else {}


def _read(nvml: ModuleType, handle: Any) -> Iterator[tuple[str, float]]:
    """Yield everything that this card tells, in the units of the names."""
    if (milliwatts := ask(nvml, nvml.nvmlDeviceGetPowerUsage, handle)) is not None:
        yield POWER, milliwatts / 1000
    plain: tuple[tuple[str, Callable[..., Any], tuple[int, ...]], ...] = (
        (CLOCK, nvml.nvmlDeviceGetClockInfo, (nvml.NVML_CLOCK_SM,)),
        (MEMORY_CLOCK, nvml.nvmlDeviceGetClockInfo, (nvml.NVML_CLOCK_MEM,)),
        (HEAT, nvml.nvmlDeviceGetTemperature, (nvml.NVML_TEMPERATURE_GPU,)),
        # The driver's older name, which every release of the last ten years knows.
        (REASONS, nvml.nvmlDeviceGetCurrentClocksThrottleReasons, ()),
    )
    for name, question, more in plain:
        if (value := ask(nvml, question, handle, *more)) is not None:
            yield name, float(value)
    if (memory := ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)) is not None:
        yield MEMORY, float(memory.used)
