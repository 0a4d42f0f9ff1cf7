"""NVML through ``nvidia-ml-py``, where that is installed and finds a driver."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

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
