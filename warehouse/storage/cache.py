"""What this machine keeps of an object store, and what lies there beside the generations: lines and an inbox.

It is a warehouse's folder like any other, with one file more that says of which store it is. Its files
have the names that they have there, which never change, so nothing in it can be stale.
"""

import hashlib
import json
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warehouse.errors import DraftboardError, InvalidInput
from warehouse.storage.files import PRIVATE, PUBLISHED, REQUESTS

if TYPE_CHECKING:
    from warehouse.storage.objects import ObjectStore

#: A folder with this file is this machine's copy of a warehouse in an object store, which it names.
REMOTE = "remote.json"
_TAGS = "remote-tags.json"
_URL = re.compile(r"([a-z][a-z0-9]+):(?:/+(.*))?")
#: Request files beyond so many MB go, those first that were not used for longest.
SIZE_VARIABLE, SIZE_MB = "DRAFTBOARD_CACHE_MB", 10_000
FOLDER_VARIABLE = "DRAFTBOARD_CACHE"
#: Two servers, or two accounts, may have a bucket of the same name each.
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT",
              "AZURE_ENDPOINT", "GOOGLE_BASE_URL")  # fmt: skip
#: Files that lines are added to.
LINES = ("annotations.jsonl", "audit.jsonl", "decisions.jsonl", "standings.jsonl", "tokens.jsonl")
#: Folders of small files that are replaced whole; looked at once in so many seconds.
ASIDE, _ASIDE_S = (PUBLISHED, "nights", "searches"), 30.0
_looked: dict[Path, float] = {}
#: The folder of an inbox's files.
_FILES = "files"


def named_warehouse(given: str | Path | None) -> Path | None:
    """Return the warehouse that somebody named, by an option or by ``DRAFTBOARD_WAREHOUSE``; None for
    nobody."""
    named = given or os.environ.get("DRAFTBOARD_WAREHOUSE")
    return Path(named) if named else None


def warehouse_path(given: str | Path | None) -> Path:
    """Return the warehouse to use: the given one, else ``DRAFTBOARD_WAREHOUSE``, else
    data/warehouse.

    For a URL (``s3://bucket/prefix``) the folder in which this machine keeps what it read of it.
    Raises InvalidInput for a URL that can be none.
    """
    path = named_warehouse(given) or Path("data/warehouse")
    url = split_url(path)
    return path if url is None else _folder_of(*url)


def split_url(given: Path) -> tuple[str, str] | None:
    """Return scheme and rest of a URL that was read as a path; None for any other path.
    A path has lost one of the two slashes.
    """
    url = _URL.fullmatch(str(given))
    return None if url is None else (url[1], url[2] or "")


def _folder_of(scheme: str, rest: str, kind: str = "warehouse") -> Path:
    """Return the folder for a URL, ``scheme://rest``, made if it is not there; ``file`` is the
    folder itself. Raises InvalidInput for another scheme, or where no bucket is named.
    """
    if scheme == "file":
        return Path("/", rest)
    parts = [part for part in rest.split("/") if part]
    if scheme not in ("s3", "gs", "az") or not parts or ".." in parts:
        raise InvalidInput(
            f"{scheme}://{rest} is no warehouse: name a folder, or s3://BUCKET/PREFIX, gs://… or "
            "az://…."
        )
    if re.search(r"[?#@]", rest):
        raise InvalidInput(
            "The address of a warehouse holds a bucket and a prefix and nothing else: credentials "
            "are found in the environment."
        )
    env = os.environ
    home = env.get(FOLDER_VARIABLE)
    if not home:
        home = str(Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "draftboard")
    server = next((env[name] for name in _ENDPOINTS if env.get(name)), "")
    if scheme == "az":
        server += env.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    server = hashlib.sha256(server.encode()).hexdigest()[:8] if server else "cloud"
    folder = Path(home).absolute() / scheme / server / "/".join(parts) / kind
    if not is_copy(folder):
        folder.mkdir(parents=True, exist_ok=True)
        url = f"{scheme}://{'/'.join(parts)}"
        replace_file(folder / REMOTE, json.dumps({"url": url}).encode() + b"\n")
    return folder


def is_copy(root: Path) -> bool:
    """Return whether the folder is this machine's copy of a warehouse in an object store."""
    return (root / REMOTE).exists()


def name_of(root: Path) -> str:
    """Return what people call a warehouse: the URL of the store whose copy the folder is, else the
    folder. Raises DraftboardError where the copy does not say."""
    try:
        return str(json.loads((root / REMOTE).read_bytes())["url"])
    except (FileNotFoundError, NotADirectoryError):
        return str(root)
    except (ValueError, KeyError, TypeError) as error:
        raise DraftboardError(
            f"{root / REMOTE} does not say of which warehouse this folder is a copy; remove the "
            "folder, it is read again from there."
        ) from error


def first_line(root: Path, error: Exception) -> str:
    """Return the first line of an error; what it calls by the folder is called by its name."""
    return str(error).splitlines()[0].replace(str(root.absolute()), name_of(root))


def store_of(root: Path) -> "ObjectStore":
    """Return the store whose copy this folder is."""
    # Imported here: whoever looks at a folder does without its client.
    from warehouse.storage.objects import ObjectStore

    return ObjectStore(name_of(root))


def keep_small(root: Path) -> None:
    """Remove request files beyond the bound. Only under the writer's lock, so that none of them
    waits for its generation to be published."""
    bound = os.environ.get(SIZE_VARIABLE) or str(SIZE_MB)
    try:
        left = float(bound) * 1e6
    except ValueError:
        raise InvalidInput(f"{SIZE_VARIABLE} is a number of MB, not {bound!r}.") from None
    # A file that was used so many seconds ago may still be read.
    oldest = time.time() - 600.0
    files = [p for p in (root / REQUESTS).glob("*.parquet") if not p.name.startswith(PRIVATE)]
    held = sorted(((p.stat().st_mtime, p.stat().st_size, p) for p in files), reverse=True)
    for used, size, path in held:
        left -= size
        if left < 0 and used < oldest:
            path.unlink(missing_ok=True)


@contextmanager
def copy_locked(root: Path) -> Iterator[None]:
    """Let nobody else on this machine change what the copy's CURRENT names; nothing for a folder
    that is no copy."""
    # Who only reads reports needs none of it.
    from filelock import FileLock

    lock = FileLock(root / "remote.lock", fallback_to_soft=False, preserve_lock_file=True)
    with lock if is_copy(root) else nullcontext():
        yield


def each(work: Callable[[str], Any], names: Iterable[str]) -> list[tuple[str, Any]]:
    """Do the same for many names, several at a time; return each name with its result."""
    wanted = list(names)
    with ThreadPoolExecutor(16) if len(wanted) > 1 else nullcontext() as pool:
        done = map(work, wanted) if pool is None else pool.map(work, wanted)
        return list(zip(wanted, done, strict=True))


def tags_of(root: Path) -> dict[str, str]:
    """Return the tags of the changing objects that the copy holds."""
    try:
        tags = json.loads((root / _TAGS).read_bytes())
    except (OSError, ValueError):
        return {}
    # A tag stands for what is in the folder.
    return {name: tag for name, tag in tags.items() if (root / name).exists()}


def read_at(root: Path) -> datetime:
    """Return when the copy was last brought up to date (UTC)."""
    return datetime.fromtimestamp((root / _TAGS).stat().st_mtime, UTC)


def keep_tags(root: Path, tags: Mapping[str, str]) -> None:
    """Remember which content of the changing objects the copy holds. Only while ``copy_locked``."""
    replace_file(root / _TAGS, json.dumps(dict(tags)).encode())


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file in one step. Not synced to the disk: it is fetched again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    private = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    private.write_bytes(content)
    private.replace(path)


# --- What lies beside the generations and changes: lines that people add, published tables, the history
# of nights, how searches stand.


def append_remote(root: Path, name: str, lines: bytes) -> None:
    """Add lines to a file that several machines add to; here it then holds theirs too."""
    store = store_of(root)
    with copy_locked(root):
        while True:
            stored = store.get(name)
            text = b"" if stored is None else stored.content
            if lines in text:  # An answer that was cut: it had been written.
                break
            text += (b"\n" if text and not text.endswith(b"\n") else b"") + lines
            if store.replace(name, text, None if stored is None else stored.tag):
                break
        replace_file(root / name, text)
        keep_tags(root, {n: tag for n, tag in tags_of(root).items() if n != name})


def changed_aside(root: Path, written: Iterable[Path], removed: Iterable[Path] = ()) -> None:
    """Tell the store of files that were written or removed beside the generations; nothing for a
    folder that is no copy."""
    if is_copy(root):
        store = store_of(root)
        for path in written:
            store.send(path, path.relative_to(root).as_posix())
        store.remove([path.relative_to(root).as_posix() for path in removed])


def pull_aside(root: Path, store: "ObjectStore", tags: dict[str, str], moved: bool) -> None:
    """Fetch those files that changed, and remove those that are gone; ``tags`` gets their tags.

    Not at every call, unless the generation ``moved``.
    """
    now = time.monotonic()
    if not moved and now - _looked.get(root, -math.inf) < _ASIDE_S:
        return
    for folder, entries in each(store.entries, ASIDE):
        there = {entry.name: entry.tag for entry in entries}
        for path in (p for p in (root / folder).rglob("*") if p.is_file()):
            if path.relative_to(root).as_posix() not in there and not path.name.startswith("."):
                path.unlink()
        for name, tag in there.items():
            stored = store.get(name) if tags.get(name) != tag else None
            if stored is not None and ".." not in Path(name).parts:
                replace_file(root / name, stored.content)
                tags[name] = tag
    _looked[root] = now


# --- An inbox in an object store: what nodes drop there lies in a folder here, as if they had copied it.


def inbox(given: Path) -> Path:
    """Return the folder that holds what lies at a URL now, for anything else the path itself.

    Raises InvalidInput for a URL that can be none, and WarehouseUnreachable.
    """
    url = split_url(given)
    if url is None:
        return given
    place = _folder_of(*url, kind="inbox")
    if url[0] == "file":
        return place
    (place / _FILES).mkdir(exist_ok=True)
    bring_in(place / _FILES)
    return place / _FILES


def bring_in(folder: Path) -> None:
    """Fetch what came into an inbox or changed there, and remove what is gone; nothing for a folder
    that is none. What comes has the time of now, so that a watcher waits for what belongs to it."""
    place = folder.parent
    if folder.name != _FILES or not is_copy(place):
        return
    store = store_of(place)

    def fetch(name: str) -> bool:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        private = place / f".{os.getpid()}-{secrets.token_hex(4)}.part"
        try:
            whole = store.fetch(name.removeprefix(f"{_FILES}/"), private)
            if whole:
                private.replace(place / name)
            return whole
        finally:
            private.unlink(missing_ok=True)

    with copy_locked(place):
        there = {
            f"{_FILES}/{entry.name}": entry
            for entry in store.entries(None)
            if not entry.name.endswith("/") and not {"", ".", ".."} & set(entry.name.split("/"))
        }
        held = tags_of(place)
        for name in held.keys() - there.keys():
            (place / name).unlink()
        new = [name for name, entry in there.items() if held.get(name) != entry.tag]
        came = {name for name, whole in each(fetch, new) if whole}
        keep_tags(place, {n: e.tag for n, e in there.items() if n not in new or n in came})
