"""What a cell wants of a server."""

from typing import Protocol

from runners.serving.diagnosis import Diagnosis


class Serving(Protocol):
    """A server to measure on: started here, or somebody else's."""

    @property
    def url(self) -> str:
        """The server's URL, without a path."""
        ...

    def alive(self) -> bool:
        """Return whether the server answers a real request."""
        ...

    def died(self) -> Diagnosis | None:
        """Say why the server's process ended; None while it runs. Costs nothing."""
        ...

    def log_tail(self, lines: int) -> list[str]:
        """Return the lines that the server printed last."""
        ...
