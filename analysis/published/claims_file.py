"""Published tables as rows: what a claims file says, before anything is judged.

YAML or CSV. A row is recognised by its fields wherever it stands in the file:

* ``metric`` (or ``what``), ``baseline``, ``speculative``, and ``published_pct``, ``speedup`` …
  where a gain was printed. Other fields (dataset, tp, concurrency …) say what the row is about;
  ``concurrency: geomean`` marks the mean of the rows that are otherwise alike;
* acceptance, in whatever row: a length or a rate beside what it follows from (K, rate, positions,
  drafts, drafted and accepted tokens);
* ``usd_per_hour`` with throughputs in tokens/s and the costs printed for them.

Numbers keep the digits they are printed with: the tolerance of every check follows from them.
"""

import csv
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.published.printed import decimal, follows, gains, meaning, measures, yaml_as_printed
from warehouse.errors import InvalidInput

#: A claims file is a table somebody typed; more than this is something else.
MOST_ROWS = 100_000
#: Sections that say what the tables are about.
_ABOUT = ("study", "figures")
_VALUES = {"baseline", "speculative", "metric", "what", "note", "better"}
#: What a cell holds in which nothing was printed.
_NOTHING = {"", "-", "–", "—", "n/a"}


@dataclass(frozen=True)
class Row:
    """One row: ``section`` is where it stands, ``number`` its place there (from 1)."""

    section: str
    number: int
    fields: Mapping[str, Any]

    @property
    def place(self) -> str:
        """What an error message calls the row."""
        return f"{self.section} row {self.number}"

    @property
    def about(self) -> dict[str, str]:
        """The fields that say what the row is about, as text."""
        told = self.fields.keys() - _VALUES - gains(self.fields).keys()
        return {
            k: str(v)
            for k, v in self.fields.items()
            if k in told and not isinstance(v, Mapping | list) and meaning(k) in (None, "k")
        }

    @property
    def name(self) -> str:
        """What the row calls its metric."""
        return str(self.fields.get("metric", self.fields.get("what", "")))


@dataclass(frozen=True)
class Tables:
    """A claims file sorted by kind of row. ``ignored`` names the parts that hold no such row;
    ``study`` and ``figures`` say what the tables are about and which drawings came with them."""

    where: str
    improvements: tuple[Row, ...]
    acceptances: tuple[Row, ...]
    costs: tuple[Row, ...]
    ignored: tuple[str, ...]
    study: Mapping[str, Any]
    figures: tuple[Mapping[str, Any], ...] = ()

    @property
    def model(self) -> str | None:
        """The model that the claims are about; None where nobody said."""
        named = self.study.get("target_model")
        return None if named is None else str(named)


def read_claims(text: str, where: str) -> Tables:
    """Parse a claims file; ``where`` is its name, and ``.csv`` at its end decides the format.

    Raises InvalidInput where the file holds no row that can be checked, or cannot be read.
    """
    document = _csv(text) if where.lower().endswith(".csv") else yaml_as_printed(text, where)
    kinds: dict[str, list[Row]] = {"improvement": [], "acceptance": [], "cost": []}
    ignored: list[str] = []
    if isinstance(document, list):
        document = {"table": document}
    if not isinstance(document, Mapping):
        raise InvalidInput(f"{where} is no table: it should be a mapping or a list of rows.")
    for section, part in ((str(name), part) for name, part in document.items()):
        rows = [row for row in _rows(section, part, where) if _recomputable_kinds(row)]
        for row in rows:
            for kind in _recomputable_kinds(row):
                kinds[kind].append(row)
        if not rows and section not in _ABOUT:
            ignored.append(section)
    if not any(kinds.values()):
        raise InvalidInput(
            f"{where} holds no figure that can be recomputed; give rows with metric, baseline, "
            "speculative and speedup or published_pct (examples/claims shows the format)."
        )
    study, figures = document.get("study"), document.get("figures")
    drawn = figures if isinstance(figures, list) else []
    return Tables(
        where, tuple(kinds["improvement"]), tuple(kinds["acceptance"]), tuple(kinds["cost"]),
        tuple(ignored), study if isinstance(study, Mapping) else {},
        tuple(one for one in drawn if isinstance(one, Mapping)),
    )  # fmt: skip


def number(row: Row, name: str) -> Any:
    """Return a field that must be a number, as printed. Raises InvalidInput that names row and
    field."""
    value = row.fields.get(name)
    try:
        decimal(value)
    except ValueError as error:
        raise InvalidInput(f"{row.place}: {name}: {error}; write it as printed.") from error
    return value


def positive(row: Row, name: str) -> Any:
    """Return a field that must be a number above zero, as printed. Raises InvalidInput as
    ``number`` does."""
    value = number(row, name)
    if not decimal(value) > 0:
        raise InvalidInput(f"{row.place}: {name} must be above zero, and {value} is not.")
    return value


def _csv(text: str) -> Any:
    rows = csv.DictReader(text.lstrip("\ufeff").splitlines(keepends=True))
    kept = []
    for row in rows:
        kept.append({k.strip(): v.strip() for k, v in row.items() if k and isinstance(v, str)})
        if len(kept) > MOST_ROWS:
            break
    return {"table": [{k: v for k, v in row.items() if v} for row in kept]}


def _rows(section: str, part: Any, where: str) -> Iterator[Row]:
    """Yield every mapping in a part, however deep, as a row; text of a ``note`` is never a row."""
    waiting, seen, count = deque([part]), 0, 0
    while waiting:
        node, seen = waiting.popleft(), seen + 1
        if seen > MOST_ROWS:
            raise InvalidInput(f"{where}: {section} holds more than {MOST_ROWS:,} rows.")
        if isinstance(node, Mapping):
            count += 1
            told = {str(k): v for k, v in node.items() if str(v).strip().lower() not in _NOTHING}
            fields = {k.lower() if k.lower() in _VALUES else k: v for k, v in told.items()}
            yield Row(section, count, fields)
        children = node.values() if isinstance(node, Mapping) else node
        if isinstance(node, Mapping | list):
            waiting.extend(child for child in children if isinstance(child, Mapping | list))


def _recomputable_kinds(row: Row) -> list[str]:
    names = row.fields.keys()
    is_improvement = {"baseline", "speculative"} <= names and not names.isdisjoint(
        ("metric", "what")
    )
    found = {
        "improvement": is_improvement,
        "acceptance": not (told := measures(row.fields)).keys().isdisjoint(follows(told)),
        "cost": "usd_per_hour" in names and not is_improvement,
    }
    return [kind for kind, holds in found.items() if holds]
