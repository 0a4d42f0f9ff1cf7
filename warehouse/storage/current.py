"""How a generation becomes the current one, and how readers and writers follow it.

In a folder that is one file that is replaced. Of a warehouse in an object store this machine has a copy,
in which reading and writing work as in any folder; four things pass between the two: a new generation
comes (``pull``) or goes (``save``), a file is fetched when it is asked for (``have``), and lines are added
to a file that all add to (``cache.append_remote``).
"""

import hashlib
import json
import math
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from warehouse.errors import (
    DraftboardError,
    LostRace,
    WarehouseBusy,
    WarehouseDamaged,
    WarehouseOutdated,
    WarehouseUnreachable,
)
from warehouse.storage.cache import (
    LINES,
    copy_locked,
    each,
    is_copy,
    keep_small,
    keep_tags,
    name_of,
    pull_aside,
    read_at,
    replace_file,
    store_of,
    tags_of,
)
from warehouse.storage.files import (
    CURRENT,
    PRIVATE,
    REQUESTS,
    TABLES,
    point,
    pointer_here,
    publish,
    sha256_of,
    sync,
)
from warehouse.storage.lists import (
    Generation,
    generations,
    how_to_mend,
    is_old,
    listed_requests,
    lists,
    load,
    lost,
    no_current,
    number_of,
    retire,
)
from warehouse.storage.lock import WriterLock

if TYPE_CHECKING:
    from warehouse.storage.objects import ObjectStore

#: A reader looks whether there is a new generation at most so often, in seconds.
POLL_S = 5.0
#: What is being fetched, and what a kill left of it, for so many seconds.
_PART, _PART_S = ".part", 3600.0
#: In a copy: its store was seen to keep to the conditions of a write.
_PROVEN = "remote-proven"
#: In a store: who removes what nobody needs, and what is about to go (``collect``).
COLLECTING = "collecting.json"
#: Seconds for which a writer waits for a name to go.
_PATIENCE_S = 60.0
#: The request files that are about to be listed, while a generation is published.
_JOURNAL = "placing.json"
_guard = threading.Lock()


# --- Which generation is current.


def current_name(root: Path) -> str | None:
    """Return the name of the published generation; None where there is no warehouse. Of a warehouse in
    an object store it is what the store's CURRENT named a few seconds ago.

    Raises WarehouseDamaged where CURRENT says something else.
    """
    if is_copy(root):
        follow(root)
    name = pointer_here(root)
    if name is not None and number_of(name) is None:
        raise WarehouseDamaged(
            f"{name_of(root)}/{CURRENT} does not name a generation; {how_to_mend(root)}"
        )
    return name


def require_current(root: Path) -> str:
    """Return the name of the published generation. Raises WarehouseMissing, WarehouseDamaged."""
    name = current_name(root)
    if name is None:
        raise no_current(root)
    return name


def current_generation(root: Path) -> int | None:
    """Return the number of the published generation; None where there is no warehouse. Reads one
    small file. Raises WarehouseDamaged where CURRENT says something else."""
    return number_of(current_name(root))


def cells_held(root: Path) -> int:
    """Return how many cells the published generation holds; 0 where there is none of our
    version."""
    name = current_name(root)
    if name is None or is_old(name):
        return 0
    return sum(segment.cells for segment in load(root / name).segments)


@dataclass
class _LastLook:
    """How the last look at a store ended, and when the copy last answered without it (monotonic s)."""

    at: float
    trouble: DraftboardError | None = None
    answered_alone: float = -math.inf

    @property
    def is_unreachable(self) -> bool:
        return isinstance(self.trouble, WarehouseUnreachable)


_looked: dict[Path, _LastLook] = {}


def follow(root: Path) -> None:
    """Bring the copy up to date, unless that was done a few seconds ago.

    Where the store cannot be reached, a copy that holds a generation answers without it, and
    ``not_fresh`` says so. Raises as ``pull`` otherwise, and says the same again until it is time for
    another look.
    """
    with _guard:
        look = _looked.get(root)
        # A store that could not be reached is left alone for so many seconds: asking takes twenty.
        wait = 30.0 if look is not None and look.is_unreachable else POLL_S
        if look is None or time.monotonic() - look.at >= wait:
            look = _look(root)
    if look.is_unreachable and pointer_here(root) is not None:
        look.answered_alone = time.monotonic()
    elif look.trouble is not None:
        raise look.trouble


def reach(root: Path) -> None:
    """Bring the copy up to date for whoever is about to write, whenever that was done last: raises
    as ``pull``.
    """
    with _guard:
        look = _look(root)
    if look.trouble is not None:
        raise look.trouble


def _look(root: Path) -> _LastLook:
    trouble = None
    try:
        pull(root)
    except DraftboardError as error:
        trouble = error
    _looked[root] = _LastLook(time.monotonic(), trouble)
    return _looked[root]


def stay(root: Path) -> None:
    """Never look at the store from this process: it may not, or has no credentials."""
    _looked[root] = _LastLook(math.inf)


def not_fresh(root: Path) -> str | None:
    """Return the sentence to show beside what a copy answers while its store cannot be reached."""
    look = _looked.get(root)
    if look is None or not look.is_unreachable:
        return None
    return f"Shown is what was read by {read_at(root):%Y-%m-%d %H:%M} UTC, nothing newer: {look.trouble}"


def not_fresh_since(moment: float) -> list[str]:
    """Return that sentence for each warehouse whose copy answered alone since a ``moment``
    (monotonic s)."""
    alone = [root for root, look in _looked.items() if look.answered_alone >= moment]
    return [sentence for root in alone if (sentence := not_fresh(root)) is not None]


# --- What comes from an object store.


def pull(root: Path) -> None:
    """Fetch the newest generation and what people said since.

    Raises WarehouseUnreachable, WarehouseDamaged where something that it lists is not there, and
    WarehouseOutdated.
    """
    store = store_of(root)
    with copy_locked(root):
        tags = tags_of(root)
        new = dict(each(lambda n: _changed(store, n, tags.get(n)), (CURRENT, *LINES)))
        for name in LINES:
            if new[name] is not None:
                replace_file(root / name, new[name].content)
                tags[name] = new[name].tag
        moved = new[CURRENT]
        if moved is not None:
            fetch_generation(root, store, moved.text)
            point(root, moved.text)
            tags[CURRENT] = moved.tag
        pull_aside(root, store, tags, moved is not None)
        keep_tags(root, tags)
    if moved is None:
        return
    # What the copy needs no more goes, unless somebody here is writing, who does it.
    with suppress(WarehouseBusy), WriterLock(root).held(wait=False, on_wait=None):
        retire(root, number_of(pointer_here(root)) or 0)
        keep_small(root)
        for path in root.rglob(f".*{_PART}"):
            if path.stat().st_mtime < time.time() - _PART_S:
                path.unlink()


def _changed(store: "ObjectStore", name: str, tag: str | None) -> Any:
    """Return an object that has another tag by now; None where it has not."""
    from warehouse.storage.objects import Unchanged

    try:
        stored = store.get(name, unless=tag)
    except Unchanged:
        return None
    if stored is None and name == CURRENT and tag is not None:
        raise WarehouseDamaged(
            f"{store.url} holds no {CURRENT} any more, and this machine has read a generation from "
            f"it: somebody emptied it. draftboard warehouse restore brings back what is left there, "
            "draftboard warehouse push what another folder holds."
        )
    return stored


def fetch_generation(root: Path, store: "ObjectStore", name: str) -> Generation:
    """Bring a generation's list here, and all that it lists but requests. Raises WarehouseDamaged, and
    WarehouseOutdated."""
    restore = f"draftboard warehouse restore GENERATION --warehouse {store.url}"
    if number_of(name) is None:
        raise WarehouseDamaged(
            f"{store.url}/{CURRENT} does not name a generation; bring one back with: {restore}"
        )
    if is_old(name):
        raise WarehouseOutdated(
            f"{store.url} is of an older version; draftboard warehouse convert the folder that it was "
            "copied from, and push that."
        )
    for folder in (TABLES, REQUESTS):
        (root / folder).mkdir(parents=True, exist_ok=True)
    if not (root / name).exists() and not _fetch(root, store, name):
        raise WarehouseDamaged(
            f"{store.url}/{name}, which {CURRENT} names, is not there; bring another generation back "
            f"with: {restore}"
        )
    try:
        generation = load(root / name)
    except WarehouseDamaged:
        (root / name).unlink()
        raise
    have_files(root, store, [f"{TABLES}/{file.file}" for file in generation.files()])
    return generation


def have(root: Path, names: Iterable[str]) -> None:
    """Make sure that request files are here. Raises WarehouseDamaged for one that is not in the
    store either, or that is not what its name says."""
    if is_copy(root):
        wanted = [f"{REQUESTS}/{name}" for name in dict.fromkeys(names)]
        for name in wanted:
            with suppress(OSError):
                os.utime(root / name)
        have_files(root, store_of(root), wanted)


def have_files(root: Path, store: "ObjectStore", names: Iterable[str]) -> None:
    """Fetch those files that are not here, at the same time."""
    missing = [name for name in names if not (root / name).exists()]
    for name, there in each(lambda name: _fetch(root, store, name), missing):
        if not there:
            raise WarehouseDamaged(
                f"{store.url}/{name}, which the newest generation lists, is not there; bring an older "
                f"one back with: draftboard warehouse restore GENERATION --warehouse {store.url}"
            )


def _fetch(root: Path, store: "ObjectStore", name: str) -> bool:
    """Fetch one immutable file; its name says what its content must be."""
    final = root / name
    # Not the prefix of a writer's private files: one that starts would remove this.
    private = final.with_name(f".{final.name}.{os.getpid()}-{secrets.token_hex(4)}{_PART}")
    try:
        if not store.fetch(name, private):
            return False
        digest = sha256_of(private)
        if final.stem.rpartition("-")[2] not in (digest, digest[:16]):
            raise WarehouseDamaged(
                f"{store.url}/{name} is not what was written there (truncated, or replaced by hand); run "
                f"draftboard warehouse check --warehouse {store.url}, then restore an older generation or "
                "ingest its report again with --replace."
            )
        publish(private, final)
    finally:
        private.unlink(missing_ok=True)
    return True


# --- One generation follows another.


def start_writing(root: Path, rebuild: bool) -> str | None:
    """Return the name of the generation that a writer goes on from, what a killed one left removed.

    None where there is no warehouse. Nothing is removed before it is certain what is published;
    raises WarehouseDamaged where that cannot be said, unless ``rebuild`` starts from nothing.
    """
    # First of all: a copy follows its store now, and gets new files.
    if is_copy(root):
        reach(root)
    there = generations(root)
    try:
        current = current_name(root)
        if current is None and not set(there.values()) <= {1}:
            raise no_current(root)
        if current is not None and current not in there:
            raise lost(root, f"{name_of(root)}/{current}, which CURRENT names, is missing", there)
    except WarehouseDamaged:
        if not rebuild:
            raise
        return max(there, key=there.__getitem__, default=None)
    if current is None and there:
        # Killed between the two last steps of the first commit: generation 1 is whole.
        current = next(iter(there))
        _make_current(root, current)
    retire(root, 0 if current is None else there[current])
    return current


def save(root: Path, generation: Generation) -> None:
    """Publish a generation, all of whose files are in place: for everybody, or for nobody.

    Raises LostRace where another one was published since the one that it goes on from, and
    WarehouseUnreachable. What was not published has no list afterwards.
    """
    text = msgspec.json.encode(generation)
    name = f"generation-{generation.number}-{hashlib.sha256(text).hexdigest()[:16]}.json"
    private = root / f"{PRIVATE}{os.getpid()}-{name}"
    private.write_bytes(text)
    publish(private, root / name)
    _make_current(root, name)
    retire(root, generation.number)


def _make_current(root: Path, name: str) -> None:
    """Let CURRENT name a list that is here. In an object store everything new is uploaded, then
    CURRENT is replaced on a condition: that one write decides, for everybody.
    """
    if not is_copy(root):
        point(root, name)
        return
    store = store_of(root)
    overtaken = LostRace(
        f"Another machine published into {store.url} meanwhile; nothing was changed: run the same "
        "command again."
    )
    try:
        now = store.get(CURRENT)
        before, tag = (None, None) if now is None else (now.text, now.tag)
        if before != name:
            number = number_of(before)
            # Where CURRENT names nothing that could be gone on from, everything is uploaded.
            if number is not None and load(root / name).number != number + 1:
                raise overtaken
            require_conditions(root, store)
            _upload(root, store, before, name)
        with copy_locked(root):
            if before != name:
                tag = store.replace(CURRENT, f"{name}\n".encode(), tag)
                if tag is None:
                    store.remove([name])
                    raise overtaken
            point(root, name)
            keep_tags(root, tags_of(root) | {CURRENT: str(tag)})
    except DraftboardError:
        (root / name).unlink(missing_ok=True)
        raise


def require_conditions(root: Path, store: "ObjectStore") -> None:
    """Raise WarehouseUnreachable where the store does not keep to the conditions of a write; tried
    once."""
    if not (root / _PROVEN).exists():
        store.require_conditions()
        (root / _PROVEN).touch()


def _upload(root: Path, store: "ObjectStore", before: str | None, name: str) -> None:
    """Write what a generation lists beyond the one before into the store, the list last. What is
    about to be removed there is waited for first.
    """
    new = load(root / name)
    is_here = number_of(before) and (root / str(before)).exists()
    base = load(root / str(before)) if is_here else Generation(0)
    tables = {file.file for file in new.files()} - {file.file for file in base.files()}
    requests = listed_requests(root, [new]) - listed_requests(root, [base])
    have(root, requests)
    names = [*(f"{REQUESTS}/{file}" for file in requests), *(f"{TABLES}/{file}" for file in tables)]
    until = time.monotonic() + _PATIENCE_S
    while names and not announced(store)[1].isdisjoint({name, *names}):
        if time.monotonic() > until:
            raise collecting_elsewhere(store)
        time.sleep(1)
    each(lambda file: store.send(root / file, file), sorted(names))
    store.send(root / name, name)


def announced(store: "ObjectStore") -> tuple[str | None, frozenset[str]]:
    """Return which machine removes what a store does not need any more, and what is about to go."""
    stored = store.get(COLLECTING)
    try:
        announcement = {} if stored is None else json.loads(stored.content)
        return announcement.get("machine"), frozenset(announcement.get("going", ()))
    except (ValueError, AttributeError, TypeError):
        return None, frozenset()


def collecting_elsewhere(store: "ObjectStore") -> WarehouseBusy:
    """Return the error to raise where another machine removes what is needed, or had the same in mind."""
    return WarehouseBusy(
        f"Another machine is removing what {store.url} does not need any more, or was killed while it "
        "did; nothing was changed: run the same command again, and draftboard warehouse gc where that "
        "does not help within a quarter of an hour."
    )


# --- A request file is private until its generation is published. Before it gets its name, that name is noted
# in a journal; whoever finds the journal later removes those of them that no list holds.


@contextmanager
def placed(root: Path, files: Mapping[Path, str]) -> Iterator[None]:
    """Give private request files their names; the caller publishes the list that holds them.

    Only under the writer's lock. Where that fails, ``take_back`` removes them.
    """
    if not files:
        yield
        return
    folder = root / REQUESTS
    private = root / f"{PRIVATE}{_JOURNAL}"
    private.write_text(json.dumps(sorted(files.values())), encoding="utf-8")
    private.replace(root / _JOURNAL)
    for path, name in files.items():
        # After a lost race it has its name.
        if path.exists() or not (folder / name).exists():
            path.replace(folder / name)
    sync(folder)
    yield
    (root / _JOURNAL).unlink()


def take_back(root: Path) -> None:
    """Remove the request files of a publication that did not come to its end.

    Only under the writer's lock. Where it cannot be said what is listed, nothing is removed.
    """
    journal = root / _JOURNAL
    try:
        names = json.loads(journal.read_bytes())
    except FileNotFoundError:
        return
    except ValueError:
        names = []
    with suppress(WarehouseDamaged):
        for name in set(names) - listed_requests(root, lists(root)):
            (root / REQUESTS / Path(name).name).unlink(missing_ok=True)
        journal.unlink()
