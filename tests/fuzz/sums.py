"""What all runs of the fuzzer together came to: a table in a document, to which each run adds."""

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.fuzz.tries import Tally

_BEGIN, _END = "<!-- fuzzed: make fuzz adds to it -->", "<!-- end of what make fuzz adds to -->"
_HEAD = "| sample | tried | accepted | rejected | moved untold | broke ingest | CPU s |"
_ROW = re.compile(r"\| (?P<name>[^|]+?) +((?:\| *[\d,]+ *){6})\|")


@dataclass
class Sum:
    """Counts of tries of one sample, and the processor seconds of the command and its readers."""

    tried: int = 0
    accepted: int = 0
    rejected: int = 0
    silent: int = 0
    crashes: int = 0
    cpu_s: int = 0

    def plus(self, tally: Tally) -> "Sum":
        """The sum with a run's."""
        return Sum(
            self.tried + tally.tried, self.accepted + tally.accepted,
            self.rejected + tally.rejected, self.silent + len(tally.silent),
            self.crashes + len(tally.crashes), self.cpu_s + round(tally.cpu_s),
        )  # fmt: skip


def add(path: Path, tallies: Mapping[str, Tally]) -> None:
    """Add a run to the table between the two marks of a document."""
    before, _, rest = path.read_text("utf-8").partition(_BEGIN)
    table, found, after = rest.partition(_END)
    if not found:
        raise ValueError(f"{path} has no table between {_BEGIN} and {_END}.")
    sums = read(table)
    for name, tally in tallies.items():
        sums[name] = sums.get(name, Sum()).plus(tally)
    path.write_text(f"{before}{_BEGIN}\n{_shown(sums)}{_END}{after}", "utf-8")


def read(table: str) -> dict[str, Sum]:
    """The sums of a table, the row of all left out."""
    found = {}
    for row in _ROW.finditer(table):
        numbers = [int(one.replace(",", "")) for one in row[2].split("|") if one.strip()]
        found[row["name"]] = Sum(*numbers)
    found.pop("all", None)
    return found


def _shown(sums: Mapping[str, Sum]) -> str:
    every = Sum(*(sum(column) for column in zip(*map(astuple, sums.values()), strict=True)))
    rows = [*sums.items(), ("all", every)]
    lines = (f"| {name} | {' | '.join(f'{n:,}' for n in astuple(one))} |" for name, one in rows)
    return "\n".join((_HEAD, "|---|---:|---:|---:|---:|---:|---:|", *lines)) + "\n"
