"""Takes what was read into a warehouse once, and lets go in whose place it stands.

Ids that begin alike are of one run (``belonging.run_of``): of its files one was read with more that
belongs to it, or with something changed.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ingest.belonging import run_of
from ingest.exchange import Read
from warehouse.errors import WarehouseMissing
from warehouse.store_draft import Draft


class Store(Protocol):
    """What this needs of ``warehouse.store.Writer``."""

    root: Path

    def known(self, source_id: str) -> bool: ...
    def forget(self, source_id: str) -> None: ...
    def adopt(self, draft: Draft) -> int: ...


class Adopting:
    """Adopts drafts. ``superseded``: ids of which something that was taken in is the whole."""

    def __init__(self, store: Store) -> None:
        self.superseded: set[str] = set()
        self._store = store
        self._runs = _Runs(store.root)
        self._former: set[str] = set()
        self._replaced: set[str] = set()
        self._most: dict[str, int] = {}

    def take(self, read: Read, replace: bool) -> list[Draft]:
        """Adopt what is new of a result and return it; ``replace``: what is known too."""
        if not self._is_part(read, replace):
            self._let_go(read)
        return [draft for draft in read.drafts if self._is_adopted(draft, replace)]

    def _is_part(self, read: Read, replace: bool) -> bool:
        """Return whether the same run is held with more files, or as many that were read at the
        same time; if not, what is held of it is let go."""
        if read.beside is None:
            return False
        own = read.drafts[0].source_id
        others = self._runs.of(own) - {own}
        held = [one for one in others if self._store.known(one)]
        most = self._most.get(run_of(own))
        if held and (read.beside == 0 and not replace if most is None else read.beside <= most):
            self._former.add(own)
            return True
        self._most[run_of(own)] = read.beside
        self._supersede(others)
        return False

    def _let_go(self, read: Read) -> None:
        self._former.update(read.former)
        self._supersede(read.former)
        self._forget(read.shorter)
        for main in read.replaced:
            self._replaced.add(run_of(main))
            self._supersede(self._runs.of(main) | {main})

    def _is_adopted(self, draft: Draft, replace: bool) -> bool:
        own = draft.source_id
        if own in self._former or run_of(own) in self._replaced:
            self.superseded.add(own)
        # The same content under another name may have been read at the same time.
        elif replace or not self._store.known(own):
            self._store.forget(own)
            self._store.adopt(draft)
            self._runs.add(own)
            return True
        draft.discard()
        return False

    def _supersede(self, ids: Iterable[str]) -> None:
        self.superseded.update(ids)
        self._forget(ids)

    def _forget(self, ids: Iterable[str]) -> None:
        for one in ids:
            if self._store.known(one):
                self._store.forget(one)


class _Runs:
    """The ids that a warehouse held when it was first asked, and those that were added, by their
    runs."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ids: defaultdict[str, set[str]] = defaultdict(set)
        self._is_read = False

    def add(self, source_id: str) -> None:
        """Note an id that was taken in."""
        self._ids[run_of(source_id)].add(source_id)

    def of(self, source_id: str) -> set[str]:
        """Return the ids of a run; some may have been let go since."""
        if not self._is_read:
            self._is_read = True
            for one in _published(self._root):
                self.add(one)
        return set(self._ids[run_of(source_id)])


def _published(root: Path) -> list[str]:
    # Not above: it loads the database, and few results are of several files.
    from warehouse.store_tables import known_sources

    try:
        return [source.source_id for source in known_sources(root)]
    except WarehouseMissing:
        return []
