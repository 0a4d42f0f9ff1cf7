"""One load point: GuideLLM is run, watched, and its report is counted.

That GuideLLM ends well says nothing of the requests: a server killed in the middle leaves a report
that looks normal. So the completed requests are counted, and a load is good only if nearly all of
the planned ones are there.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from runners import probes
from runners.serving.diagnosis import Diagnosis
from runners.serving.processes import Guarded

#: How long GuideLLM may take beyond the load's own time limit: its start, and writing the report.
_GRACE_S = 300.0
_LAST_LINES = 5
_PRELOAD = Path(probes.__file__).with_name("preload.py")
#: What GuideLLM imports of others: half of the processor's seconds that its start takes.
_SLOW = (
    "torch.utils.data",
    "transformers.models.auto.tokenization_auto",
    "datasets",
    "pandas",
    "httpx",
)


@dataclass
class Loader:
    """Runs GuideLLM for the loads of a launch, one after the other, between ``with`` and its end.

    ``python``: what GuideLLM is a script of. Then each run is a fork of a process that has imported
    what takes long, while the server started; a run that goes wrong takes that process along, and the
    next one begins another. Without it each run is a process of its own. ``env``: the whole
    environment; ``log``: what it prints is added there; ``cpus``: its cores, None: any.
    """

    python: Path | None
    env: Mapping[str, str]
    log: Path
    cpus: frozenset[int] | None = None
    _folder: Path = field(init=False)
    _jobs: int = -1
    _process: Guarded | None = None

    def __enter__(self) -> Self:
        """Begin to import."""
        self._folder = Path(tempfile.mkdtemp(prefix="draftboard-load-"))
        if self.python is not None:
            self._begin(self.python)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop whatever still runs."""
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(
        self, argv: Sequence[str], env: Mapping[str, str], max_seconds: float,
        watch: Callable[[], Diagnosis | None],
    ) -> Diagnosis | None:  # fmt: skip
        """Run GuideLLM to its end, with ``env`` beside the loader's. Return None if it ended by itself
        with status 0, else what went wrong.

        ``watch`` is called several times a second; what it finds ends the load at once.
        """
        ends_at, status = time.monotonic() + max_seconds + _GRACE_S, None
        self._send(argv, env)
        try:
            while (status := self._poll()) is None:
                problem = watch()
                if problem is not None:
                    return problem
                if time.monotonic() >= ends_at:
                    return Diagnosis(
                        "load_hangs",
                        f"GuideLLM did not end within {_GRACE_S:.0f} s of its limit of "
                        f"{max_seconds:g} s; it was stopped.",
                    )
                time.sleep(0.2)
        finally:
            if status is None:
                self._stop()
        if status == 0:
            return None
        with self.log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 400 * _LAST_LINES))
            lines = file.read().decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
        output = " / ".join(line.strip() for line in lines if line.strip())
        sentence = f"GuideLLM ended with exit status {status}; it said: {output[-500:]}"
        return Diagnosis("load_failed", sentence)

    @property
    def _status(self) -> Path:
        return self._folder / "status"

    def _begin(self, python: Path) -> None:
        jobs = self._folder / "jobs"
        jobs.unlink(missing_ok=True)
        os.mkfifo(jobs, 0o600)
        # For both directions: nobody waits for the other to open it.
        self._jobs = os.open(jobs, os.O_RDWR)
        words = [str(python), str(_PRELOAD), str(jobs), str(self._status), *_SLOW]
        self._process = Guarded.start(words, self.env, self.log, cpus=self.cpus)

    def _send(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        if self.python is None:
            self._process = Guarded.start(argv, {**self.env, **env}, self.log, cpus=self.cpus)
            return
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._begin(self.python)
        self._status.unlink(missing_ok=True)
        os.write(self._jobs, json.dumps({"argv": list(argv), "env": dict(env)}).encode() + b"\n")

    def _poll(self) -> int | None:
        """Return the exit status of the run once it has ended; negative: a signal."""
        if self._status.exists():
            return int(self._status.read_text(encoding="ascii"))
        return None if self._process is None else self._process.poll()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.stop()
        if self._jobs >= 0:
            os.close(self._jobs)
        self._process, self._jobs = None, -1


class _Request(msgspec.Struct, gc=False):
    info: dict[str, Any] = {}


class _Requests(msgspec.Struct, gc=False):
    errored: list[_Request] | None = None


class _Scheduled(msgspec.Struct, gc=False):
    requests_made: dict[str, int | None]


class _Benchmark(msgspec.Struct, gc=False):
    scheduler_metrics: _Scheduled
    requests: _Requests


class _Report(msgspec.Struct, gc=False):
    benchmarks: list[_Benchmark]


def judge(report: Path, planned: int, max_error_rate: float) -> Diagnosis | None:
    """Count the requests of a report with one level, warm-up and cool-down included. Return None if
    at most ``max_error_rate`` of the planned ones are missing or failed, else what is wrong."""
    try:
        levels = msgspec.json.decode(report.read_bytes(), type=_Report).benchmarks
    except FileNotFoundError:
        return Diagnosis("no_report", "GuideLLM ended without writing a report.")
    except (OSError, msgspec.DecodeError) as error:
        return Diagnosis("no_report", f"GuideLLM's report cannot be read: {error}.")
    if len(levels) != 1:
        return Diagnosis("no_report", f"GuideLLM's report has {len(levels)} levels instead of one.")
    made = levels[0].scheduler_metrics.requests_made
    names = ("successful", "errored", "incomplete")
    successful, errored, incomplete = (made.get(name) or 0 for name in names)
    if planned - successful <= max_error_rate * planned:
        return None
    why = f"{errored} failed, {incomplete} were cut off"
    errors = (request.info.get("error") for request in levels[0].requests.errored or [])
    if first := next((error for error in errors if error), None):
        why += f"; the first error: {first[:200]}"
    return Diagnosis(
        "incomplete", f"Only {successful} of {planned} requests were completed ({why})."
    )
