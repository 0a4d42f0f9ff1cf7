"""The server of a launch: started when a cell needs it, replaced when it died, stopped at the end."""

from collections.abc import Mapping
from typing import Any, Protocol

from runners.measuring import load
from runners.measuring.cell import Serving
from runners.measuring.progress import Progress
from runners.planning.plan import Launch
from runners.planning.study import Study
from runners.serving.agreement import (
    OTHER_SERVER,
    Resolved,
    not_as_asked,
    precision_is_stated,
    resolved,
)
from runners.serving.diagnosis import GPU_LOST, Diagnosis
from runners.serving.server import Server, ServerFailed, ServerSpec, start
from runners.serving.target_url import Foreign

_LOG_LINES = 40
#: Another start would find the same.
_LASTING = frozenset({
    "bad_argument", "bad_configuration", "executable_missing", GPU_LOST, "model_gated", "model_missing",
    "model_unsupported", "no_device", "too_few_gpus", "unknown_method", "vocabulary_mismatch",
})  # fmt: skip


#: What may be over when the other launches are done: somebody's memory, a network, a slow disk.
PASSING = frozenset({
    "crashed", "ended", "hub_unreachable", "killed", "memory_taken", "never_ready", "port_taken",
    "too_many_files", "unknown",
})  # fmt: skip


class Host(Protocol):
    """Gives a server to measure on."""

    given_up: Diagnosis | None
    """Why there will be no server any more."""

    def up(self) -> Serving:
        """Return a server that answers. Raises ServerFailed."""
        ...

    def start_s(self) -> float:
        """Return the seconds that starting took since this was last asked."""
        ...

    def notes(self) -> dict[str, Any]:
        """Return what the running server said of itself, for the environment of a record."""
        ...

    def configuration(self) -> Mapping[str, Any]:
        """Return the running engine's whole configuration in its own words; empty where it does not
        tell."""
        ...

    def doubt(self, problem: Diagnosis) -> None:
        """Let go, after a failed cell, of a server that hangs or does not answer."""
        ...

    def changed(self) -> Diagnosis | None:
        """Say why the server is another one than before; None where nothing shows."""
        ...

    def stop(self) -> None:
        """Leave nothing running."""
        ...


class LocalHost:
    """vLLM on this machine. It gives up when one start after another fails."""

    def __init__(self, spec: ServerSpec, launch: Launch, study: Study, progress: Progress) -> None:
        self.given_up: Diagnosis | None = None
        self.starts = 0
        self._spec, self._launch, self._study, self._progress = spec, launch, study, progress
        self._retries = self._tries_left = study.limits.retries
        self._server: Server | None = None
        self._start_s = 0.0
        self._resolved: Resolved | None = None

    def up(self) -> Serving:
        """Return the running server, or a new one. Raises ServerFailed."""
        if self.given_up is not None:
            raise ServerFailed(self.given_up, [])
        if self._server is not None and self._server.died() is not None:
            self.stop()
        return self._server or self._started()

    def _started(self) -> Server:
        self._progress.starting(self._launch)
        self.starts += 1
        try:
            server = self._server = start(self._spec)
        except ServerFailed as error:
            if self._tries_left == 0 or error.diagnosis.cause in _LASTING:
                self.given_up = error.diagnosis
            self._tries_left -= 1
            raise
        self._resolved = resolved(server.url)
        if (wrong := not_as_asked(self._resolved, self._study, self._launch)) is not None:
            self.stop()
            self.given_up = wrong
            raise ServerFailed(wrong, server.log_tail(_LOG_LINES))
        self._tries_left = self._retries
        self._start_s += server.ready_after_s
        self._progress.ready(self._launch, server.ready_after_s)
        return server

    def start_s(self) -> float:
        """Return the seconds that starting took since this was last asked."""
        seconds, self._start_s = self._start_s, 0.0
        return seconds

    def notes(self) -> dict[str, Any]:
        """Return the engine's own configuration where it tells, and what only the study says."""
        stated = ["precision"] if precision_is_stated(self._resolved, self._study) else []
        config = {} if self._resolved is None else self._resolved.as_json()
        found = {"resolved": config, "stated": stated}
        return {name: value for name, value in found.items() if value}

    def configuration(self) -> Mapping[str, Any]:
        """Return the engine's whole configuration; empty where it does not tell."""
        return {} if self._resolved is None else self._resolved.whole

    def doubt(self, problem: Diagnosis) -> None:
        """Stop, after a failed cell, a server that hangs or does not answer."""
        if problem.cause in (OTHER_SERVER, GPU_LOST):
            self.given_up = problem
        if self._server is None:
            return
        if problem.cause == load.CAUSE or not self._server.alive():
            self.stop()

    def changed(self) -> Diagnosis | None:
        """Return None: a server of our own stays what it is until it dies."""

    def stop(self) -> None:
        """End the server and all that it started."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()


class RemoteHost:
    """A server that somebody else runs: it can be asked, not started."""

    def __init__(self, foreign: Foreign) -> None:
        self.given_up: Diagnosis | None = None
        self._foreign = foreign
        self._server = foreign.server

    def up(self) -> Serving:
        """Return the server as it is; ServerFailed where it is gone, or another one than before."""
        self.given_up = self.given_up or self.changed()
        if self.given_up is not None:
            raise ServerFailed(self.given_up, [])
        return self._server

    def start_s(self) -> float:
        """Return 0: nothing is started."""
        return 0.0

    def notes(self) -> dict[str, Any]:
        """Return what the server says, and what only the study says of it."""
        return self._foreign.notes()

    def configuration(self) -> Mapping[str, Any]:
        """Return the server's whole configuration; empty where it does not tell."""
        resolved = self._foreign.said.resolved
        return {} if resolved is None else resolved.whole

    def doubt(self, problem: Diagnosis) -> None:
        """Give up on a server that is gone, or another one: nobody here can bring it back."""
        if problem.cause == OTHER_SERVER:
            self.given_up = problem
        elif not self._server.alive():
            self.given_up = Diagnosis("server_gone", f"{self._server.url} answers no more.")

    def changed(self) -> Diagnosis | None:
        """Ask the server who it is now, and say why it is another one than before; None where
        nothing shows."""
        return self._foreign.changed()

    def stop(self) -> None:
        """Do nothing: somebody else's server stays as it is."""
