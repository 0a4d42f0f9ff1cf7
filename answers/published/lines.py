"""Rows of a published table as lines, in the words of the catalogue."""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.matching.comparison import improvement
from analysis.metric_words import Named, read_metric
from analysis.published.claims import Claims
from analysis.published.claims_file import Row
from analysis.published.claims_improvements import better_of
from analysis.published.conventions import gains
from analysis.published.printed import decimal
from analysis.verdicts.finding import Finding, shown
from answers.compare.values import metric_name
from answers.published.values import MEAN, PEAK, Line, Value
from answers.wording import percent

#: The columns of a table: the baseline, and what is compared with it.
_VALUES = ("baseline", "speculative")


@dataclass(frozen=True)
class Read:
    """A row with what is known of it; ``finding`` is None where it prints no improvement."""

    row: Row
    named: Named
    finding: Finding | None

    @property
    def place(self) -> tuple[str, str]:
        """Dataset and tensor parallel size, as printed."""
        about = self.row.about
        return about.get("dataset", "unknown"), about.get("tp", "unknown")

    @property
    def of(self) -> str:
        """What the values were measured over: a load, the best load, or the mean over the loads."""
        level = self.row.about.get("concurrency", "")
        if self.named.peak:
            return f"{PEAK} ({level} at once)" if level.isdigit() else PEAK
        return f"{level} at once" if level.isdigit() else MEAN

    @property
    def unit(self) -> str:
        """The printed unit: latencies are printed in s or ms."""
        return unit_of(self.row.name, self.named)

    @property
    def values(self) -> tuple[float, float]:
        """The value of the baseline, and that of the other arm."""
        old, new = (float(decimal(self.row.fields[name])) for name in _VALUES)
        return old, new

    def printed(self, arms: tuple[str, str]) -> tuple[Value, ...]:
        """Return the two values, each with the name of its arm."""
        return tuple(
            Value(arm, self.of, value, grouped(self.row.fields[name]))
            for arm, name, value in zip(arms, _VALUES, self.values, strict=True)
        )


def unit_of(name: str, named: Named) -> str:
    """Return the unit, ``tok/s``, ``s`` or ``ms``, from what a table calls a metric."""
    if named.metric.endswith("throughput"):
        return "tok/s"
    return "ms" if name.rstrip(")").casefold().endswith("ms") else "s"


def read(rows: Sequence[Row], judged: Claims) -> tuple[Read, ...]:
    """Return every row about a metric of the catalogue, with its finding."""
    found = []
    for row in rows:
        named = read_metric(row.name)
        if named is not None:
            same = (f for f in judged.findings if _is_of(f, row))
            found.append(Read(row, named, next(same, None)))
    return tuple(found)


def _is_of(finding: Finding, row: Row) -> bool:
    one = (finding.section, finding.metric, finding.about)
    return finding.better is not None and one == (row.section, row.name, row.about)


def line(one: Read) -> Line:
    """Return the row as it stands in a table."""
    old, new = one.values
    follows, unit = percent(improvement(old, new, better_of(one.row))), "%"
    if one.finding is not None:
        unit = one.finding.unit
        follows = shown(one.finding.recomputed, unit)
    printed = next(iter(gains(one.row.fields).values()), None)
    flag = one.finding.kind if one.finding is not None and one.finding.flagged else None
    baseline, speculative = (value.text for value in one.printed(("", "")))
    return Line(
        one.named.metric, one.named.statistic, metric_name(one.named.metric, one.named.statistic),
        one.unit, one.of, baseline, speculative,
        "not printed" if printed is None else _as_printed(printed, unit),
        follows, None if flag is None else FLAGS[flag],
    )  # fmt: skip


def _as_printed(gain: object, unit: str) -> str:
    return f"{decimal(gain):+} %" if unit == "%" else f"{decimal(gain)}x"


#: Kind of a flag -> what is wrong, beside a figure.
FLAGS = {
    "arithmetic": "does not follow",
    "sign": "wrong sign",
    "swapped": "swapped with another row",
    "basis": "on the price of other GPUs",
    "drafts": "not from these drafts alone",
}


def grouped(value: object) -> str:
    """Write a printed number with commas, ``1171.7`` as ``1,171.7``, with the digits that were
    printed."""
    number = decimal(value)
    return f"{number:,}"
