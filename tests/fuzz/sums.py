"""What all runs of the fuzzer together came to: two tables in a document, to which each run adds."""

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.fuzz.samples import reader
from tests.fuzz.tries import Tally

_BEGIN, _END = "<!-- fuzzed: make fuzz adds to it -->", "<!-- end of what make fuzz adds to -->"
_HEAD = "| sample | tried | accepted | rejected | moved untold | broke ingest | CPU s |"
_GOALS = ("| reader | CPU s | to reach | reached |", "|---|---:|---:|---|")
_ROW = re.compile(r"\| (?P<name>[^|]+?) +((?:\| *[\d,.]+ *){6})\|")


@dataclass
class Sum:
    """Counts of tries of one sample, and the processor seconds of the command and its readers."""

    tried: int = 0
    accepted: int = 0
    rejected: int = 0
    silent: int = 0
    crashes: int = 0
    cpu_s: float = 0.0

    def plus(self, tally: Tally) -> "Sum":
        """The sum with a run's."""
        return Sum(
            self.tried + tally.tried, self.accepted + tally.accepted,
            self.rejected + tally.rejected, self.silent + len(tally.silent),
            self.crashes + len(tally.crashes), self.cpu_s + tally.cpu_s,
        )  # fmt: skip


def add(path: Path, name: str, tally: Tally) -> None:
    """Add what came of a sample to the tables between the two marks of a document. A reader of it
    sees it before or after, and two commands that add at once wait for one another."""
    with _alone(path.parent):
        before, table, after = _divided(path)
        sums = read(table)
        sums[name] = sums.get(name, Sum()).plus(tally)
        new = path.with_name(f".{path.name}.new")
        new.write_text(f"{before}{_BEGIN}\n{_shown(sums)}{_END}{after}", "utf-8")
        new.replace(path)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def seconds(path: Path) -> dict[str, float]:
    """The processor seconds of each sample that a document knows."""
    return {name: one.cpu_s for name, one in read(_divided(path)[1]).items()}


def _divided(path: Path) -> tuple[str, str, str]:
    before, _, rest = path.read_text("utf-8").partition(_BEGIN)
    table, found, after = rest.partition(_END)
    if not found:
        raise ValueError(f"{path} has no table between {_BEGIN} and {_END}.")
    return before, table, after


def goal(name: str) -> int:
    """How many processor seconds a reader is to be fuzzed."""
    return 3600 if name in ("guidellm", "vllm bench", "record", "drop") else 1200


def furthest(names: Iterable[str], spent: Mapping[str, float]) -> str:
    """The sample whose reader is furthest from its goal; of several of one reader the one that had
    the least time."""
    had = _of_readers({name: spent.get(name, 0.0) for name in names})
    return min(names, key=lambda name: (had[reader(name)] / goal(reader(name)), spent.get(name, 0)))


def _of_readers(spent: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, had in spent.items():
        found[reader(name)] = found.get(reader(name), 0) + had
    return found


def read(table: str) -> dict[str, Sum]:
    """The sums of a table, the row of all left out."""
    found = {}
    for row in _ROW.finditer(table):
        *counts, spent = (one.replace(",", "") for one in row[2].split("|") if one.strip())
        found[row["name"]] = Sum(*map(int, counts), float(spent))
    found.pop("all", None)
    return found


def _shown(sums: Mapping[str, Sum]) -> str:
    every = Sum(*(sum(column) for column in zip(*map(astuple, sums.values()), strict=True)))
    rows = [*sums.items(), ("all", every)]
    lines = (f"| {name} | {' | '.join(map(_number, astuple(one)))} |" for name, one in rows)
    of_readers = _of_readers({name: one.cpu_s for name, one in sums.items()})
    reached = (
        f"| {name} | {_number(had)} | {goal(name):,} | {'yes' if had >= goal(name) else '**no**'} |"
        for name, had in of_readers.items()
    )
    tables = ((_HEAD, "|---|---:|---:|---:|---:|---:|---:|", *lines, ""), (*_GOALS, *reached, ""))
    return "\n".join("\n".join(table) for table in tables)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
