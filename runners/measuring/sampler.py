"""The server's ``/metrics``: whole, before and after a load, and every few seconds during it.

A sample is one line of ``metrics-samples.jsonl``: ``[unix_time, ["name{labels} value", …]]``.
"""

import json
import threading
import time
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from typing import Self

from runners.serving import endpoint
from warehouse.series import ENGINES, one_name

_RUNNING, _WAITING, _GENERATED = (
    "num_requests_running",
    "num_requests_waiting",
    "generation_tokens",
)
#: Series that are kept of each sample, whatever the engine calls them; histograms and cache details
#: stay in the two snapshots.
_KEPT = frozenset(
    {
        *(
            _RUNNING,
            _WAITING,
            _GENERATED,
            "kv_cache_usage_perc",
            "num_preemptions",
            "prompt_tokens",
        ),
        *("spec_decode_num_drafts", "spec_decode_num_draft_tokens"),
        *("spec_decode_num_accepted_tokens", "spec_decode_num_accepted_tokens_per_pos"),
    }
)
_TIMEOUT_S = 30.0
#: Seconds to wait for the thread at the end: a sample that hangs is not waited for.
_LEAVE_S = 5.0


def snapshot(url: str) -> str:
    """Return the whole of ``/metrics``. OSError or HTTPException where the server does not
    answer."""
    return endpoint.fetch(f"{url}/metrics", _TIMEOUT_S)


class Sampler:
    """Samples a server from ``with`` on, in a thread of its own, until the block is left.

    A sample that fails is left out: the load itself shows whether the server lives. ``latest`` has ``running``, ``waiting`` (requests) and ``tokens_per_s``
    (generated, since the sample before), as far as they are known.
    """

    def __init__(self, url: str, path: Path, every_s: float) -> None:
        self.latest: dict[str, float] = {}
        self._url, self._path, self._every_s = url, path, every_s
        self._generated: tuple[float, float] | None = None
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        """Take the first sample before the block begins."""
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the last sample after the block has ended, so that the series spans it."""
        self._left.set()
        self._thread.join(_LEAVE_S)
        if not self._thread.is_alive():
            self._sample()

    def _run(self) -> None:
        next_at = time.monotonic() + self._every_s
        while not self._left.wait(max(0.0, next_at - time.monotonic())):
            try:
                self._sample()
            except OSError:
                return  # It cannot be written: the last sample, on leaving, says so.
            # A server that answers slowly must not be asked twice in a row to catch up.
            next_at = max(next_at, time.monotonic()) + self._every_s

    def _sample(self) -> None:
        try:
            lines = _kept(endpoint.fetch(f"{self._url}/metrics", _LEAVE_S))
        except (OSError, HTTPException):
            return
        at = time.time()
        self._notice(at, lines)
        with self._path.open("a", encoding="utf-8") as samples:
            samples.write(json.dumps([at, lines]) + "\n")

    def _notice(self, at: float, lines: list[str]) -> None:
        """Keep the figures that a person watching wants to see now: requests running and waiting,
        tokens a second."""
        totals = _totals(lines)
        shown = {"running": totals.get(_RUNNING), "waiting": totals.get(_WAITING)}
        if (generated := totals.get(_GENERATED)) is not None:
            if self._generated is not None and at > self._generated[0]:
                before, then = self._generated[1], self._generated[0]
                shown["tokens_per_s"] = max(0.0, generated - before) / (at - then)
            self._generated = (at, generated)
        self.latest = {name: value for name, value in shown.items() if value is not None}


def _kept(text: str) -> list[str]:
    return [line for line in text.splitlines() if _name(line) in _KEPT]


def _name(line: str) -> str:
    engine, _, name = line.partition("{")[0].partition(" ")[0].partition(":")
    return one_name(engine, name) if engine in ENGINES else ""


def _totals(lines: Iterable[str]) -> dict[str, float]:
    """Return the value of each metric by name, summed over engines. A value that is no number is
    passed over."""
    totals: dict[str, float] = {}
    for line in lines:
        try:
            value = float(line.rpartition(" ")[2])
        except ValueError:
            continue
        totals[_name(line)] = totals.get(_name(line), 0.0) + value
    return totals
