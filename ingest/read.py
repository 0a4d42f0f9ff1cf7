"""Opens a foreign file: mapped or unpacked, hashed beside the parsing, guarded against nonsense."""

import gzip
import hashlib
import mmap
import stat
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import IO

import zstandard

from ingest.model import FileContent
from warehouse.errors import InvalidInput

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
