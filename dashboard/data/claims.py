"""Published tables for the Claims page: those that come along, and one that a reader uploads.

An uploaded table is read in memory only; nothing is written.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from analysis.published.claims import Claims, judge
from analysis.published.claims_file import Tables, read_claims
from answers.published.answer import beside
from dashboard import data
from dashboard.answers.claims import Answer, answer
from dashboard.shelf import Shelf, cached, reader
from warehouse.errors import InvalidInput
from warehouse.filters import Filters

#: A table that somebody typed; no more is read. Reading a MB of YAML takes this process 3 s.
MOST_MB = 1
_SHIPPED = Path(__file__).parents[2] / "examples" / "claims"


@dataclass(frozen=True)
class Table:
    """A claims file: ``name`` decides by its ending how ``text`` is read."""

    name: str
    text: str


def shipped() -> list[str]:
    """The names of the tables that come along; none in an installation without the examples."""
    return sorted(path.name for path in _SHIPPED.glob("*.yaml"))


def shipped_table(name: str) -> Table:
    """One of ``shipped()``."""
    if name not in shipped():
        raise InvalidInput(f"There is no table {name!r}; use one of: {', '.join(shipped())}.")
    return Table(name, (_SHIPPED / name).read_text(encoding="utf-8"))


def uploaded_table(name: str, sent: bytes) -> Table:
    """An uploaded file as text. Raises InvalidInput where it is too large or no text."""
    if len(sent) > MOST_MB * 1_000_000:
        raise InvalidInput(
            f"{name} is larger than {MOST_MB} MB: a table of claims is typed by hand."
        )
    try:
        return Table(name, sent.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is no text: it must be YAML or CSV in UTF-8.") from error


@cached(8, Table)
def _judged(table: Table) -> tuple[Tables, Claims]:
    tables = read_claims(table.text, table.name)
    return tables, judge(tables)


@cached(8, Table)
def claims_answer(shelf: Shelf, filters: Filters, table: Table, everything: bool) -> Answer:
    """What the page says of a table; see ``answers_claims.answer``."""
    tables, judged = _judged(table)
    if not data.cells(shelf, filters).empty:
        findings = beside(reader(shelf), judged.findings, tables.model, filters)
        judged = replace(judged, findings=findings)
    source = str(tables.study.get("source", table.name))
    return answer(judged, everything, source)
