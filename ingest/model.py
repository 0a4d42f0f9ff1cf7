"""What passes between the steps of ingest: what was found and is asked for, opened content, a parsed report; and how
a foreign file is opened."""

import gzip
import hashlib
import mmap
import os
import stat
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import zstandard

from warehouse.errors import InvalidInput

if TYPE_CHECKING:
    from ingest.settings import FactsFile
    from ingest.table import ColumnMap
    from warehouse.rows import Cell
    from warehouse.storage.draft import Draft

# --- What there is to read, and how much reading it may take: generous for a result, too little for
# a poison.

#: A disk or a busy machine may make a unit take so many times its processor time, and this at least.
_WAITING, _LEAST_S = 10, 60.0


@dataclass(frozen=True)
class Unit:
    """One thing to ingest: a report's file, or the folder of a drop.

    ``bytes``: as stored, with the files that belong to it.
    """

    path: Path
    is_drop: bool
    bytes: int


@dataclass(frozen=True)
class Allowance:
    """What reading one unit may take: processor seconds, seconds, and bytes of memory."""

    seconds: int
    wall_seconds: float
    memory: int


@dataclass(frozen=True)
class ReadingLimits:
    """What the user allows; ``seconds`` and ``megabytes`` hold for a small result and grow with it.

    ``workers``: how many read at the same time; 0: one for each core, from two, so that a slow unit
    stops no other, to four.
    """

    workers: int = 0
    seconds: float = 120.0
    megabytes: int = 1024

    @property
    def processes(self) -> int:
        """The number of processes that read."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return self.workers or max(2, min(4, cores or 1))

    def of(self, unit: Unit) -> Allowance:
        """Return what reading this unit may take, by about how many bytes it has when unpacked."""
        try:
            files = unit.path.iterdir() if unit.is_drop else iter([unit.path])
            is_packed = any(path.suffix in (".gz", ".zst") for path in files)
        except OSError:
            is_packed = False
        # Packed files grow about tenfold, repeated texts a hundredfold.
        size = unit.bytes * (20 if is_packed else 1)
        # 1 MB is surely read in a second of processor time: a fortieth of what one core does.
        seconds = self.seconds + size / 1e6
        # A process may hold three times the size of what it reads, beside what any may.
        memory = self.megabytes * 1_000_000 + 3 * size
        return Allowance(int(seconds) + 1, max(_LEAST_S, seconds * _WAITING), memory)


@dataclass(frozen=True)
class IngestOptions:
    """What the user asked for: validated facts of ``--set``, what ``--facts`` tells of each result
    by its path, what ``--columns`` says of a table of one row a run, and the category of each prompt
    by its hash (``--categories``)."""

    settings: dict[str, Any] = field(default_factory=dict)
    keep_text: bool = False
    replace: bool = False
    limits: ReadingLimits = field(default_factory=ReadingLimits)
    facts: "FactsFile | None" = None
    columns: "ColumnMap | None" = None
    categories: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadResult:
    """A result, ready to be adopted: a draft, or one for each of a collection that is not known yet.

    ``former``: ids in whose place it stands; ``shorter``: those of files before they grew, often
    many; ``replaced``: hashes of main files in whose place it stands. ``beside``: how many files
    belong to it; None where none can.
    """

    drafts: tuple["Draft", ...]
    former: tuple[str, ...] = ()
    shorter: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    beside: int | None = None


@dataclass(frozen=True)
class ClaimsTable:
    """A published table that can be read; it is kept as it is."""

    name: str
    text: str


# --- What a format gets, and gives.


@dataclass(frozen=True)
class FileContent:
    """An opened file: its decompressed bytes (mapped where it was not compressed).

    ``sha256``: of ``data`` and of what lies beside it, as hex digits; computed beside the parsing,
    waits when called. ``beside``: files that belong to the same result, e.g. its request records.
    ``alone``: of ``data`` alone, where other files may belong to the result.
    """

    path: Path
    data: memoryview
    sha256: Callable[[], str]
    beside: tuple["FileContent", ...] = ()
    alone: Callable[[], str] | None = None


@dataclass(frozen=True)
class Context:
    """What is known beside the report: facts that override what it says, already validated, and
    whether texts are kept. ``source_id`` waits where the content is still being hashed."""

    source_id: Callable[[], str]
    facts: dict[str, Any] = field(default_factory=dict)
    keep_text: bool = False


@dataclass(frozen=True)
class Parsed:
    """A report that was recognised; ``cells`` streams, so that a large report never sits whole.

    ``report_config``: the report's own configuration, secrets removed. ``former``: hashes of the
    content that this file had before results were appended to it: it stands in place of what was
    read from it then. ``apart``: the same cells where each result of a collection is a source of its
    own, by the hash of what it says: it is known wherever it stands, collected or alone.
    """

    format: str
    report_config: dict[str, Any]
    cells: "Iterator[Cell]"
    former: tuple[str, ...] = ()
    apart: "tuple[tuple[str, Iterator[Cell]], ...]" = ()


class Format(Protocol):
    """What a module in ``ingest/formats`` provides: a ``NAME`` by which sources are listed, and a
    ``KIND``, what a person calls such a file, with its article: ``a GuideLLM report``; empty where it
    names files that cannot be read, in order to say what to give instead.

    More functions it may have. ``beside(path)``: the files that belong to the result at ``path`` by
    their names, there or not. ``is_by_product(path)``: whether a file in a folder is no result of
    its own, but belongs to one or repeats it. ``made_of(path)``: files any of which says, if it is
    there, all that the one at ``path`` says. ``stands_for(path)``: files in whose place the result
    at ``path`` stands, of whatever format it is, should they have been read before it.
    """

    NAME: str
    KIND: str

    def sniff(self, data: memoryview) -> bool:
        """Whether these bytes look like this format; must be cheap and never raise."""

    def parse(self, content: FileContent, context: Context) -> Parsed:
        """Read it. Raises InvalidInput, also while ``cells`` is iterated."""


# --- Opens a foreign file: mapped or unpacked, hashed beside the parsing, guarded against nonsense.


#: Largest content that is unpacked, bytes; a compressed file that grows beyond it is no report.
MAX_UNPACKED = 8 << 30
_CHUNK = 1 << 20
#: Of so many files it is remembered what was found out about them.
_FILES = 4096
#: Of a packed file so much is unpacked at once: zstd may grow 30,000 times.
_PACKED = 4 << 10
_GZIP, _ZSTD, _BOM = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf"
#: What unpacking may raise.
_DAMAGED = (EOFError, zlib.error, zstandard.ZstdError, gzip.BadGzipFile)


def open_content(path: Path) -> FileContent:
    """Open the decompressed bytes of ``path`` (``.gz`` and ``.zst`` are known by their first
    bytes).

    The hash is computed in a thread of its own. Raises InvalidInput for what cannot be a result.
    """
    try:
        with path.open("rb") as file:
            chunks = _unpacked_chunks(file)
            with _spooled(chunks, path) if chunks else nullcontext(file) as whole:
                if whole.seek(0, 2) == 0:
                    raise InvalidInput(
                        f"{path} is empty: the run probably ended before it wrote its report."
                    )
                data = memoryview(mmap.mmap(whole.fileno(), 0, access=mmap.ACCESS_READ))
    except _DAMAGED as error:
        raise InvalidInput(
            f"{path} is damaged or cut off: copy it again from its source."
        ) from error
    except OSError as error:
        raise InvalidInput(
            f"{path} could not be read ({error.strerror or error}): check the file, its "
            "permissions and the space for temporary files."
        ) from error
    check_text(data, path)
    return FileContent(path=path, data=data, sha256=hashed(data))


def remembered(look: Callable[[Path], bool]) -> Callable[[Path], bool]:
    """Return ``look`` with the answers for files as they were last: a watched folder is looked at again
    and again. What is no file, or cannot be read, is False."""

    @lru_cache(maxsize=_FILES)
    def as_it_was(path: Path, _written: int, _size: int) -> bool:
        try:
            return look(path)
        except (OSError, InvalidInput):
            return False

    @wraps(look)
    def as_it_is(path: Path) -> bool:
        try:
            status = path.stat()
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and as_it_was(path, status.st_mtime_ns, status.st_size)

    return as_it_is


def head_of_file(path: Path, size: int = _CHUNK) -> memoryview:
    """Return the first decompressed bytes of a file. Raises OSError, InvalidInput."""
    with path.open("rb") as file:
        chunks = _unpacked_chunks(file)
        if chunks is None:
            return memoryview(file.read(size))
        found = bytearray()
        try:
            for chunk in chunks:
                found += chunk
                if len(found) >= size:
                    break
        except _DAMAGED as error:
            raise InvalidInput(f"{path} is damaged or cut off.") from error
        return memoryview(bytes(found[:size]))


def json_bytes(data: memoryview) -> memoryview:
    """Return the content without a UTF-8 byte order mark."""
    return data[3:] if bytes(data[:3]) == _BOM else data


def check_text(data: memoryview, path: Path) -> None:
    head = bytes(data[:4096])
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput(f"{path} is UTF-16 text, not UTF-8: convert it to UTF-8 first.")
    if b"\0" in head:
        raise InvalidInput(f"{path} is a binary file: give the JSON report instead.")
    if not head.strip() and not bytes(data).strip():
        raise InvalidInput(f"{path} holds only white space: the run probably wrote no report.")
    try:
        head[: head.rfind(b"\n") if len(data) > 4096 else None].decode()
    except UnicodeDecodeError as error:
        if error.end < len(head) - 4 or len(data) <= 4096:
            raise InvalidInput(f"{path} is not UTF-8 text: convert it to UTF-8 first.") from error
    if head.lstrip().startswith(b"[" * 64):
        raise InvalidInput(f"{path} is nested absurdly deep: it is not a report of a benchmark.")


def hashed(data: memoryview) -> Callable[[], str]:
    """Start hashing in a thread; return a function that waits for the hash."""
    digest = hashlib.sha256()
    thread = threading.Thread(target=digest.update, args=(data,), daemon=True)
    thread.start()

    def result() -> str:
        thread.join()
        return digest.hexdigest()

    return result


def _unpacked_chunks(file: IO[bytes]) -> Iterator[bytes] | None:
    magic = file.read(4)
    file.seek(0)
    if magic[:2] == _GZIP:
        return iter(partial(gzip.GzipFile(fileobj=file).read, _CHUNK), b"")
    return _of_zstd(file) if magic == _ZSTD else None


def _of_zstd(file: IO[bytes]) -> Iterator[bytes]:
    """Yield what a file of zstd frames holds. Raises EOFError where the last one has no end, which
    the library's own reader takes for the end of the file.
    """
    library = zstandard.ZstdDecompressor()
    frame = library.decompressobj()
    while packed := file.read(_PACKED):
        while packed:
            if frame.eof:
                frame = library.decompressobj()
            yield frame.decompress(packed)
            packed = frame.unused_data
    if not frame.eof:
        raise EOFError("The last frame has no end.")


def _spooled(chunks: Iterable[bytes], path: Path) -> IO[bytes]:
    """Unpack into a nameless temporary file, so that memory stays small.
    Reports pack about 10:1, repeated texts about 100:1; beyond 500:1 it is a decompression bomb.
    """
    limit = min(MAX_UNPACKED, max(path.stat().st_size * 500, 16 * _CHUNK))
    out = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        for chunk in chunks:
            if out.tell() + len(chunk) > limit:
                raise InvalidInput(
                    f"{path} unpacks to more than {limit / 1e6:,.0f} MB: it is no report; unpack "
                    "and look at it first."
                )
            out.write(chunk)
        out.flush()
    except BaseException:
        out.close()
        raise
    return out
