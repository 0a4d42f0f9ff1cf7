"""Everything that is looked at while a load runs, put together for one launch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from runners.measuring.layout import Layout
from runners.serving.diagnosis import GPU_LOST, Diagnosis
from runners.watching.family import Family
from runners.watching.gpus import GpuWatch
from runners.watching.node import Beside, present
from runners.watching.processor import Processor


@dataclass(frozen=True)
class Watch:
    """The machine of one launch; ``GpuWatch`` is open."""

    family: Family
    gpus: GpuWatch
    beside: Beside

    def look(self) -> "Look":
        """Return a function to be called every second of one cell, which returns what it saw."""
        self.beside.begin()
        return Look(self, Processor(self.family))

    def problem(self) -> Diagnosis | None:
        """Say why going on makes no sense, where a GPU is gone; None else."""
        lost = self.gpus.lost()
        if not lost:
            return None
        named = ", ".join(str(index) for index in lost)
        return Diagnosis(
            GPU_LOST,
            f"GPU {named} does not answer its driver any more (dmesg tells the Xid); reset it or "
            "restart the machine, then run the same command again: what was good is kept.",
        )

    def notes(self) -> dict[str, Any]:
        """Return for a record's environment which launches the cell met, and why no GPU was
        read."""
        unread = {} if self.gpus.reason is None else {"gpus_unread": self.gpus.reason}
        return self.beside.as_json() | unread


@dataclass(frozen=True)
class Look:
    """What is looked at during one cell: a call returns values by series, of GPUs, processor and
    other launches."""

    watch: Watch
    processor: Processor

    def __call__(self) -> dict[str, float]:
        """Look at everything once, and return values by series."""
        return self.processor() | self.watch.beside() | self.watch.gpus()


@contextmanager
def watching(layout: Layout, launch: str, gpus: Sequence[int] | None) -> Iterator[Watch]:
    """Open what a launch is watched with. ``gpus``: NVML indices that its server uses, none for a
    server on a CPU or elsewhere; None: all, since it is not known."""
    family, here = Family(), present(layout, launch, gpus or ())
    with here as beside, GpuWatch(gpus, family) as read:
        yield Watch(family, read, beside)
