"""What became of every path that a watcher saw.

What is settled is kept in memory only and learnt again after a restart: the warehouse knows every
content that it holds, so what was taken in before is a duplicate and changes nothing. What was
rejected is remembered (``watch_recall``): reading it may have taken all that a unit may take.
"""

from collections.abc import Callable, Iterable

from ingest.watch_scan import Fingerprint, Sighting


class Memory:
    """Paths that are settled (in the warehouse), rejected, or not yet read."""

    def __init__(self) -> None:
        self._settled: dict[str, Fingerprint] = {}
        self._rejected: dict[str, Fingerprint] = {}
        self._waiting: dict[str, Fingerprint] = {}
        self.news = False
        """Whether the last look saw something that the one before it did not."""

    @property
    def waiting(self) -> int:
        """How many paths were seen and are not settled."""
        return len(self._waiting)

    @property
    def rejected(self) -> int:
        """How many paths were rejected and are unchanged since."""
        return len(self._rejected)

    def rejections(self) -> dict[str, Fingerprint]:
        """Return the rejected paths that are still there, each as it was when it was read."""
        return dict(self._rejected)

    def recall(self, rejected: dict[str, Fingerprint]) -> None:
        """Take over what an earlier watcher rejected."""
        self._rejected |= rejected

    def ready(self, seen: Iterable[Sighting], complete: Callable[[], bool]) -> list[Sighting]:
        """Return what is new and has been still since the last look.

        Anything may have been written in place or copied file by file, so it is read when two looks
        in a row saw the same. What is gone is forgotten, unless the look was not ``complete``,
        which is known at its end: a folder could not be read.
        """
        self.news = False
        there: set[str] = set()
        found = []
        for sighting in seen:
            there.add(str(sighting.path))
            if self._is_still(sighting):
                found.append(sighting)
        if complete():
            self._keep(there)
        return found

    def settle(self, sighting: Sighting, rejected: bool) -> None:
        """Note that a sighting was read, so that it is looked at again only when it changes."""
        path = str(sighting.path)
        fingerprint = self._waiting.pop(path, None)
        if rejected and fingerprint is not None:
            self._rejected[path] = fingerprint
        else:
            self._settled[path] = sighting.marks
            self._rejected.pop(path, None)

    def forget(self) -> None:
        """Forget all paths, so that everything counts as new again."""
        for memory in (self._settled, self._rejected, self._waiting):
            memory.clear()

    def _is_still(self, sighting: Sighting) -> bool:
        path = str(sighting.path)
        if self._settled.get(path) == sighting.marks:
            return False
        fingerprint = sighting.fingerprint()
        if self._rejected.get(path) == fingerprint:
            return False
        if self._waiting.get(path) == fingerprint:
            return True
        self._waiting[path] = fingerprint
        self.news = True
        return False

    def _keep(self, there: set[str]) -> None:
        gone = (self._settled.keys() | self._rejected.keys() | self._waiting.keys()) - there
        for path in gone:
            for memory in (self._settled, self._rejected, self._waiting):
                memory.pop(path, None)
