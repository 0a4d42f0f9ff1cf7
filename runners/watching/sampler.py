"""The machine, second by second, as a small file beside a cell: ``machine-samples.jsonl.gz``.

A line of names (``["at", "gpu_power_watts{gpu=\\"0\\"}", …]``) begins the file and stands again
where the names change; every other line holds unix seconds and a value for each name, null where
it was not read.
"""

import gzip
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TextIO

#: Of one core, so much may go into looking; beyond it looks become rarer. The first seconds are
#: free, since a single look may take longer than a hundredth of the time so far.
COST_SHARE, _FREE_S = 0.01, 0.1
_EVERY_S = 1.0
#: A look that hangs, in a driver or on a remote disk, is not waited for.
_LEAVE_S = 5.0

Look = Callable[[], Mapping[str, float]]


class MachineSampler:
    """Writes what ``look`` says from ``with`` on, in a thread of its own, until the block is left.

    ``spent_s``: seconds of computing that it took, the driver's own included.
    """

    def __init__(self, path: Path, look: Look, every_s: float = _EVERY_S) -> None:
        self.spent_s = 0.0
        self._path, self._look, self._every_s = path, look, every_s
        self._names: tuple[str, ...] = ()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machine", daemon=True)

    def __enter__(self) -> Self:
        """Begin to write samples."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take a last look and close the file."""
        self._left.set()
        self._thread.join(_LEAVE_S)

    def _run(self) -> None:
        began = time.monotonic()
        try:
            with gzip.open(self._path, "wt", encoding="utf-8") as file:
                while True:
                    leaving = self._left.is_set()
                    self._write(file)
                    if leaving:
                        return
                    self._left.wait(self._pause(time.monotonic() - began))
        except OSError:
            return  # A full disk is noticed by the cell itself; without this file it is still good.

    def _pause(self, passed: float) -> float:
        """Return the seconds until the next look, at a cost of COST_SHARE of a core or less."""
        affordable = (self.spent_s - _FREE_S) / COST_SHARE - passed
        return max(self._every_s, affordable)

    def _write(self, file: TextIO) -> None:
        at = time.time()
        found = self._look()
        if new := [name for name in found if name not in self._names]:
            self._names += tuple(new)
            file.write(json.dumps(["at", *self._names]) + "\n")
        values = [_short(found.get(name)) for name in self._names]
        file.write(json.dumps([round(at, 3), *values]) + "\n")
        self.spent_s = time.thread_time()


def _short(value: float | None) -> float | int | None:
    """Round a value to six digits, which tell all that a sensor knows; whole numbers stay whole."""
    if value is None:
        return None
    return int(value) if value == int(value) else float(f"{value:.6g}")
