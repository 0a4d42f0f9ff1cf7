"""Finds what there is to ingest: result files and drops, each once, whatever links say; which format a file is,
and which files belong to one result."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ingest.formats import FORMATS
from ingest.formats.bench_text import is_repeated
from ingest.formats.drop import is_drop
from ingest.formats.not_read import is_summary
from ingest.model import (
    FileContent,
    Format,
    Unit,
    head_of_file,
    json_bytes,
    open_content,
    remembered,
)
from ingest.settings import is_meta, meta_files
from warehouse.beside import is_published_table
from warehouse.errors import InvalidInput
from warehouse.rows import Rejection

# --- Which format a file is, which files belong to one result, and which say what another one says already.
#
# Some load generators write a summary and its requests apart. The id of such a result begins as that
# of its main file alone and ends as the hash of all that belongs to it: so it is another one when more
# comes or something changes, and still known to be of the same run (``pipeline.Intake``).


_HALF = 32


_BY_PRODUCT: list[Callable[[Path], bool]]
_BY_PRODUCT, _BESIDE, _MADE_OF, _STANDS_FOR = (
    [getattr(one, name) for one in FORMATS if hasattr(one, name)]
    for name in ("is_by_product", "beside", "made_of", "stands_for")
)


def sniff(content: FileContent) -> Format:
    """Return the format that recognises the content by its structure, never by its name. Raises
    InvalidInput where none does."""
    if (found := recognised(content.data)) is not None:
        return found
    *kinds, last = (known.KIND for known in FORMATS if known.KIND)
    raise InvalidInput(
        f"This is neither {', '.join(kinds)} nor {last}: of a CSV or JSON of one row a run say what its "
        "columns are by --columns, else give the file that the load generator wrote."
    )


def recognised(data: memoryview) -> Format | None:
    """Return the format that recognises a file, also by its first bytes alone."""
    data = json_bytes(data)
    return next((known for known in FORMATS if known.sniff(data)), None)


@remembered
def is_report(path: Path) -> bool:
    """Return whether a format recognises a file by its first bytes; False where it cannot be
    read."""
    return recognised(head_of_file(path)) is not None


@remembered
def may_be_report(path: Path) -> bool:
    """Return whether a format recognises a file, or it cannot be told: it cannot be read, or its
    packing is cut off.
    """
    try:
        return recognised(head_of_file(path)) is not None
    except (OSError, InvalidInput):
        return True


def is_by_product(path: Path) -> bool:
    """Return whether a file in a folder is no result of its own: a format knows it by its name, or
    what says the same lies beside it."""
    if is_meta(path) or any(says(path) for says in _BY_PRODUCT):
        return True
    made_of = (one for says in _MADE_OF for one in says(path))
    return any(one.is_file() and (is_report(one) or is_by_product(one)) for one in made_of)


def may_belong(path: Path) -> tuple[Path, ...]:
    """Return the files that may belong to the result at ``path`` by their names, there or not;
    those of its facts are among them."""
    return (*(one for says in _BESIDE for one in says(path)), *meta_files(path))


def with_companions(content: FileContent) -> FileContent:
    """Return the content with the files that belong to it, whose hashes are then part of its own.

    Raises InvalidInput where one of them cannot be a part of a result, OSError where it cannot be
    read.
    """
    beside = getattr(recognised(content.data), "beside", None)
    if beside is None:
        return content
    companions = tuple(open_content(path) for path in beside(content.path) if os.path.lexists(path))
    whole = replace(content, beside=companions, alone=content.sha256)

    def sha256() -> str:
        return run_of(content.sha256()) + of_first(whole, len(companions))[_HALF:]

    return replace(whole, sha256=sha256)


def run_of(source_id: str) -> str:
    """Return the part of an id that all results of the same main file share."""
    return source_id[:_HALF]


def of_first(content: FileContent, count: int) -> str:
    """Return the hash of a result and of the first ``count`` files that belong to it."""
    own = (content.alone or content.sha256)()
    parts = (own, *(one.sha256() for one in content.beside[:count]))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if count else own


def stood_for(content: FileContent) -> Iterator[FileContent]:
    """Yield the files in whose place a result stands, should they have been read before it."""
    opened = {one.path: one for one in content.beside}
    for path in (one for says in _STANDS_FOR for one in says(content.path)):
        # What cannot be read was never taken in.
        with suppress(InvalidInput, OSError):
            if path.is_file():
                yield opened.get(path) or open_content(path)


# --- The search itself.


_PACKED = ("", ".gz", ".zst")
SUFFIXES = tuple(f".json{packed}" for packed in _PACKED)
#: Much else is written in these: such a file counts where a format recognises what it holds.
MAYBE = tuple(
    f"{kind}{packed}" for kind in (".jsonl", ".yaml", ".yml", ".csv") for packed in _PACKED
)
#: What is printed: in folders such a file counts where it is a result that no other file holds.
_TEXTS = tuple(f"{kind}{packed}" for kind in (".txt", ".log", ".out") for packed in _PACKED)
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
_NAMED = 3
#: What a run keeps beside its results, in the folder of its study.
_STUDY, _KEPT_BY_A_RUN = "study.yaml", ("study.yaml", "prompts", "logs")


def find_units(
    paths: Iterable[Path], passed_over: list[Path] | None = None
) -> Iterator[Unit | Rejection]:
    """Yield every unit under the given files and folders, in the order of their names.

    A file named by the user is taken whatever its name; in folders only what ``is_wanted`` says
    counts. Hidden names are passed over. Something that cannot be looked at becomes a Rejection,
    and so does a named folder in which nothing is a result. ``passed_over`` takes up the files of
    other folders that may have been one and are none, nor belong to one.
    """
    search = _Search()
    for path in paths:
        found: list[Unit | Rejection] = []
        search.passed_over, search.texts, search.is_excused = [], [], False
        for one in search.visit(path, named=True):
            found.append(one)
            yield one
        for text in search.texts:
            if is_repeated(text, [one.path for one in found if isinstance(one, Unit)]):
                search.passed_over.append(text)
            else:
                found.append(Unit(text, False, text.stat().st_size))
                yield found[-1]
        if not found and not search.is_excused:
            names = first_names(search.passed_over)
            nothing = (
                f"Nothing in this folder is a result that can be read ({names}): give the files that the "
                "load generator wrote, or name one of these to see what it lacks."
                if names else
                "Nothing in this folder is a result: it holds no .json, .jsonl, .yaml or .csv file; give "
                "the files that the load generator wrote."
            )  # fmt: skip
            yield Rejection(str(path), nothing)
        elif passed_over is not None and search.passed_over:
            units = (one.path for one in found if isinstance(one, Unit))
            belonging = {file for unit in units for file in may_belong(unit)}
            passed_over += [one for one in search.passed_over if one not in belonging]


def is_wanted(path: Path) -> bool:
    """Return whether a file that lies in a folder is taken as a result."""
    if is_published_table(path):
        return True
    if path.name.endswith(SUFFIXES):
        return not is_by_product(path)
    if not path.name.endswith(MAYBE) or is_by_product(path):
        return False
    # A link that leads nowhere is rejected when it is read, as what is damaged.
    return not path.exists() or may_be_report(path)


@dataclass
class _Search:
    """One search for results. ``passed_over`` fills up with files that may have been a result and
    are none, ``texts`` with results that were printed; ``is_excused`` says that nothing found is no mistake: it was found before, or a run
    has no result yet."""

    passed_over: list[Path] = field(default_factory=list)
    texts: list[Path] = field(default_factory=list)
    is_excused: bool = False
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def visit(self, path: Path, named: bool) -> Iterator[Unit | Rejection]:
        try:
            status = path.stat()
        except OSError as error:
            if named or path.name.endswith(SUFFIXES) or is_wanted(path):
                yield Rejection(str(path), unreadable(error))
            return
        if stat.S_ISDIR(status.st_mode):
            yield from self._folder(path, status)
        elif named or is_wanted(path):
            yield from self._file(path, status)
        elif path.name.endswith(_TEXTS):
            self.texts += [path] if is_report(path) else []
        elif is_summary(path) or (
            path.name.endswith((*MAYBE, *_ARCHIVES)) and not is_by_product(path)
        ):
            self.passed_over.append(path)

    def _folder(self, path: Path, status: os.stat_result) -> Iterator[Unit | Rejection]:
        # A folder met twice is a loop of links or a second name for the same results.
        if self._met(status):
            return
        try:
            members = sorted(path.iterdir())
            if is_drop(path):
                size = sum(member.stat().st_size for member in members if member.is_file())
                yield Unit(path, True, size)
                return
        except OSError as error:
            yield Rejection(str(path), unreadable(error))
            return
        members = [member for member in members if not member.name.startswith(".")]
        if any(member.name == _STUDY for member in members):
            self.is_excused = True
            members = [member for member in members if member.name not in _KEPT_BY_A_RUN]
        for member in members:
            yield from self.visit(member, named=False)

    def _file(self, path: Path, status: os.stat_result) -> Iterator[Unit | Rejection]:
        if not stat.S_ISREG(status.st_mode):
            yield Rejection(str(path), "This is not a regular file; name a report or a folder.")
        elif path.name == "record.json":
            yield from self.visit(path.parent, named=True)
        elif not self._met(status):
            size = status.st_size
            for one in set(may_belong(path)) - {path}:
                with suppress(OSError):
                    size += one.stat().st_size
            yield Unit(path, False, size)

    def _met(self, status: os.stat_result) -> bool:
        key = (status.st_dev, status.st_ino)
        if key in self._seen:
            self.is_excused = True
            return True
        self._seen.add(key)
        return False


def first_names(paths: Sequence[Path]) -> str:
    """Return the names of the first few files, and how many more there are."""
    named = ", ".join(path.name for path in paths[:_NAMED])
    return named + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")


def unreadable(error: OSError) -> str:
    """Say in one sentence why the system does not let us read a file."""
    said = error.strerror or type(error).__name__
    return f"This cannot be read ({said}); check the path, its links and its permissions."
