"""What is published: the tables of one generation, as ``warehouse export`` writes them.

Nothing is left out of it: runs that are excluded by name are there, and ``excluded_runs`` and
``annotations`` say which and why. Requests go by the file that holds them, so that only new ones are
written.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import DraftboardError, InvalidInput
from warehouse.exclusions import annotations_table
from warehouse.export import TABLES
from warehouse.rows import REQUEST_SCHEMA
from warehouse.secrets.texts import scrub_text
from warehouse.store_files import REQUESTS
from warehouse.store_list import SCHEMA_VERSION
from warehouse.store_read import Opened, excluded_table, open_newest
from warehouse.store_remote import have
from warehouse.store_tables import unreadable

# --- The catalogue that a user names: its address without the password, which is never shown or kept.


POSTGRES = ("postgresql", "postgres")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_LONGEST = 300


@dataclass(frozen=True)
class Target:
    """A catalogue: its address, and the password that stood in it."""

    uri: str
    password: str | None = None

    @property
    def is_postgres(self) -> bool:
        """Return whether the catalogue is kept in Postgres."""
        return urlsplit(self.uri).scheme in POSTGRES

    def safe(self, text: str) -> str:
        """Return the first line of what a library said, without the password."""
        line = " ".join((text.strip().splitlines() or ["no reason given"])[0].split())
        if self.password:
            line = line.replace(self.password, "***")
        return scrub_text(line)[:_LONGEST].rstrip(".: ")


@dataclass(frozen=True)
class Order:
    """What a user asks for: which catalogue and schema, where files go the first time, and whether a
    newer generation may be replaced."""

    target: Target
    schema: str
    location: str | None = None
    replace: bool = False


def target_of(given: str) -> Target:
    """Return the catalogue that an address names, its password apart."""
    parts = urlsplit(given)
    if not parts.netloc:
        return Target(given)
    user, at, host = parts.netloc.rpartition("@")
    name, colon, password = user.partition(":")
    asked = parse_qsl(parts.query, keep_blank_values=True)
    named = dict(asked).get("password")
    rest = urlencode([(key, value) for key, value in asked if key != "password"], safe="/")
    uri = urlunsplit((parts.scheme, f"{name}{at}{host}", parts.path, rest, ""))
    return Target(uri, named or unquote(password) or None)


def require_name(schema: str) -> str:
    """Return the name of a schema. Raises InvalidInput for one that an engine would have to quote."""
    if not _NAME.fullmatch(schema):
        raise InvalidInput(
            f"{schema!r} is no name for a schema: take letters, digits and _, a letter first."
        )
    return schema


def place_of(location: str | None) -> str | None:
    """Return where data go, as an address: a folder is named absolutely."""
    if location is None or "://" in location:
        return location
    return str(Path(location).absolute())


def nothing_of(generation: int) -> str:
    """Return what every refused publication says of what became of it."""
    return f"nothing of generation {generation} was published"


def raced(target: Target, generation: int) -> DraftboardError:
    """Return the error to raise where somebody else wrote at the same time."""
    return DraftboardError(
        f"Somebody else wrote into {target.uri} at the same time: {nothing_of(generation)}; run the "
        "same command again."
    )


def foreign(order: Order, names: Sequence[str]) -> InvalidInput:
    """Return the error to raise where a schema has tables of somebody else under our names."""
    return InvalidInput(
        f"{order.target.uri} has tables in the schema {order.schema} that Draftboard did not write "
        f"({', '.join(names[:3])}); nothing was changed: name another with --schema."
    )


# --- What is published: the tables of one generation, as ``warehouse export`` writes them.


#: Given how many steps there are, it is told of each that is done.
Progress = Callable[[int], AbstractContextManager[Callable[[int], None]]]
PUBLICATION = "publication"
"""The table of one row that says which generation the others are of."""
SAID = ("annotations", "excluded_runs")
NAMES = (*TABLES, *SAID, REQUESTS, PUBLICATION)
FILE = "file"
"""The column of ``requests`` that names the file of the warehouse which a request is from."""

_PUBLICATION = pa.schema([
    ("generation", pa.int64()), ("identity", pa.string()), ("schema_version", pa.int64()),
    ("published_at", pa.timestamp("us", "UTC")),
])  # fmt: skip


@dataclass(frozen=True)
class Held:
    """What a target holds: a generation, and the hash of all that was published of it."""

    generation: int
    identity: str


class Content:
    """One generation, whose files stay until it is let go of."""

    def __init__(self, root: Path, opened: Opened) -> None:
        self.root, self._opened = root, opened
        self._said = {"annotations": annotations_table(root), "excluded_runs": excluded_table(root)}
        self.held = Held(opened.generation.number, self._identity())
        self.request_files = self._request_files()

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield every table but ``requests``, by its name."""
        for name in TABLES:
            yield name, _plain(self._opened.connection.sql(f"from store.{name}").to_arrow_table())
        yield from self._said.items()
        row = {
            "generation": self.held.generation,
            "identity": self.held.identity,
            "schema_version": SCHEMA_VERSION,
            "published_at": datetime.now(UTC),
        }
        yield PUBLICATION, pa.Table.from_pylist([row], schema=_PUBLICATION)

    def fetch(self, names: Collection[str]) -> list[Path]:
        """Return where request files are, those of a bucket fetched. Raises WarehouseDamaged."""
        have(self.root, names)
        paths = [(self.root / REQUESTS / name).absolute() for name in names]
        for path in paths:
            if not path.is_file():
                raise unreadable(self.root, FileNotFoundError(f"{path.name} is missing"))
        return paths

    def requests(self, name: str) -> pa.Table:
        """Return the rows of one request file as ``requests`` has them. Raises WarehouseDamaged."""
        (path,) = self.fetch([name])
        try:
            rows = _plain(pq.read_table(path))
        except (OSError, pa.ArrowInvalid) as error:
            raise unreadable(self.root, error) from error
        wanted = [f for f in request_schema() if f.name in rows.column_names]
        rows = rows.select([f.name for f in wanted]).cast(pa.schema(wanted))
        return rows.append_column(FILE, pa.repeat(pa.scalar(name, pa.string()), rows.num_rows))

    def _identity(self) -> str:
        said = repr([table.to_pylist() for table in self._said.values()]).encode()
        listed = msgspec.json.encode(self._opened.generation)
        return hashlib.sha256(listed + said).hexdigest()[:16]

    def _request_files(self) -> list[str]:
        found = self._opened.connection.sql("select file from store.request_files order by file")
        return [Path(name).name for (name,) in found.fetchall()]


@contextmanager
def newest(root: Path) -> Iterator[Content]:
    """Open what there is to publish. Raises as ``Reader`` does."""
    with open_newest(root) as opened:
        yield Content(root, opened)


def request_schema() -> pa.Schema:
    """Return the columns of ``requests``, without encodings that only Arrow has."""
    return pa.schema([pa.field(f.name, _type(f.type)) for f in REQUEST_SCHEMA]).append(
        pa.field(FILE, pa.string())
    )


def is_new(content: Content, held: Held | None, order: Order) -> bool:
    """Return whether there is something to publish. Raises InvalidInput where the target is ahead of
    this warehouse, unless it is to be replaced."""
    if held is None or held.identity != content.held.identity:
        if held is not None and held.generation > content.held.generation and not order.replace:
            raise InvalidInput(
                f"{order.target.uri} holds generation {held.generation}, and this warehouse is at "
                f"{content.held.generation}: name the warehouse that it came from, another --schema, "
                "or --replace to publish this one over it."
            )
        return True
    return False


def _type(given: pa.DataType) -> pa.DataType:
    return given.value_type if pa.types.is_dictionary(given) else given


def _plain(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([pa.field(f.name, _type(f.type)) for f in table.schema]))
