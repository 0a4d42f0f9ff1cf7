"""Finds what there is to ingest: result files and drops, each once, whatever links say."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ingest.belonging import bytes_beside, is_by_product, is_report, may_be_report, may_belong
from ingest.formats.bench_text import is_repeated
from ingest.formats.drop import is_drop
from ingest.formats.not_read import is_summary
from ingest.model import Unit
from warehouse.beside import is_published_table
from warehouse.errors import InvalidInput
from warehouse.rows import Rejection

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
            yield Rejection(str(path), _nothing(search.passed_over))
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


def _is_result(path: Path) -> bool:
    try:
        return is_report(path)
    except (OSError, InvalidInput):
        return False


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
            self.texts += [path] if _is_result(path) else []
        elif is_summary(path) or (
            path.name.endswith((*MAYBE, *_ARCHIVES)) and not is_by_product(path)
        ):
            self.passed_over.append(path)

    def _folder(self, path: Path, status: os.stat_result) -> Iterator[Unit | Rejection]:
        # A folder met twice is a loop of links or a second name for the same results.
        if self._met(status):
            return
        if is_drop(path):
            yield Unit(path, True, sum(p.stat().st_size for p in path.iterdir() if p.is_file()))
            return
        try:
            members = sorted(p for p in path.iterdir() if not p.name.startswith("."))
        except OSError as error:
            yield Rejection(str(path), unreadable(error))
            return
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
            yield Unit(path, False, status.st_size + bytes_beside(path))

    def _met(self, status: os.stat_result) -> bool:
        key = (status.st_dev, status.st_ino)
        if key in self._seen:
            self.is_excused = True
            return True
        self._seen.add(key)
        return False


def _nothing(looked_at: list[Path]) -> str:
    if not looked_at:
        return (
            "Nothing in this folder is a result: it holds no .json, .jsonl, .yaml or .csv file; give "
            "the files that the load generator wrote."
        )
    return (
        f"Nothing in this folder is a result that can be read ({first_names(looked_at)}): give the "
        "files that the load generator wrote, or name one of these to see what it lacks."
    )


def first_names(paths: Sequence[Path]) -> str:
    """Return the names of the first few files, and how many more there are."""
    named = ", ".join(path.name for path in paths[:_NAMED])
    return named + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")


def unreadable(error: OSError) -> str:
    """Say in one sentence why the system does not let us read a file."""
    said = error.strerror or type(error).__name__
    return f"This cannot be read ({said}); check the path, its links and its permissions."
