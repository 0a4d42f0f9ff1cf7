"""The server of a launch: started when a cell needs it, replaced when it died, stopped at the end."""

from typing import Protocol

from runners.measuring import stall
from runners.measuring.cell import Serving
from runners.measuring.progress import Progress
from runners.planning.plan import Launch
from runners.serving.diagnosis import Diagnosis
from runners.serving.server import Remote, Server, ServerFailed, ServerSpec, start
from warehouse.errors import RunnerError

#: Another start would find the same.
_LASTING = frozenset({
    "bad_argument", "bad_configuration", "executable_missing", "model_gated", "model_missing", "model_unsupported",
    "no_device", "too_few_gpus", "unknown_method", "vocabulary_mismatch",
})  # fmt: skip


class Host(Protocol):
    """Gives a server to measure on."""

    given_up: Diagnosis | None
    """Why there will be no server any more."""

    def up(self) -> Serving:
        """A server that answers. Raises ServerFailed."""
        ...

    def start_s(self) -> float:
        """Seconds that starting took since this was last asked."""
        ...

    def doubt(self, problem: Diagnosis) -> None:
        """After a failed cell: let go of a server that hangs or does not answer."""
        ...

    def stop(self) -> None:
        """Leave nothing running."""
        ...


class LocalHost:
    """vLLM on this machine. It gives up when one start after another fails."""

    def __init__(self, spec: ServerSpec, launch: Launch, retries: int, progress: Progress) -> None:
        self.given_up: Diagnosis | None = None
        self.starts = 0
        self._spec, self._launch, self._progress = spec, launch, progress
        self._retries = self._tries_left = retries
        self._server: Server | None = None
        self._start_s = 0.0

    def up(self) -> Serving:
        """The running server, or a new one. Raises ServerFailed."""
        if self._server is not None and self._server.died() is not None:
            self.stop()
        if self._server is None:
            self._server = self._started()
        return self._server

    def _started(self) -> Server:
        if self.given_up is not None:
            raise ServerFailed(self.given_up, [])
        self._progress.starting(self._launch)
        self.starts += 1
        try:
            server = start(self._spec)
        except ServerFailed as error:
            if self._tries_left == 0 or error.diagnosis.cause in _LASTING:
                self.given_up = error.diagnosis
            self._tries_left -= 1
            raise
        self._tries_left = self._retries
        self._start_s += server.ready_after_s
        self._progress.ready(self._launch, server.ready_after_s)
        return server

    def start_s(self) -> float:
        """Seconds that starting took since this was last asked."""
        seconds, self._start_s = self._start_s, 0.0
        return seconds

    def doubt(self, problem: Diagnosis) -> None:
        """After a failed cell: stop a server that hangs or does not answer."""
        if self._server is None:
            return
        if problem.cause == stall.CAUSE or not self._server.alive():
            self.stop()

    def stop(self) -> None:
        """End the server and all that it started."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()


class RemoteHost:
    """A server that somebody else runs: it can be asked, not started."""

    def __init__(self, server: Remote) -> None:
        self.given_up: Diagnosis | None = None
        self._server = server
        if not server.alive():
            raise RunnerError(
                f"Nothing answers requests at {server.url}; check the address and the model's name."
            )

    def up(self) -> Serving:
        """The server, whatever its state: its failures show in the requests."""
        return self._server

    def start_s(self) -> float:
        """Return 0: nothing is started."""
        return 0.0

    def doubt(self, problem: Diagnosis) -> None:
        """Give up on a server that is gone: nobody here can bring it back."""
        if not self._server.alive():
            self.given_up = Diagnosis("server_gone", f"{self._server.url} answers no more.")

    def stop(self) -> None:
        """Do nothing: somebody else's server stays as it is."""
