"""The warehouse's tables where other engines read them, as Iceberg or as DuckLake: what is published, and
into which catalogue.

It is the tables of one generation, as ``warehouse export`` writes them: runs that are excluded by name are
there, and ``excluded_runs`` and ``annotations`` say which and why. Requests go by the file that holds them, so
that only new ones are written.
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
from warehouse.queries import annotations_table
from warehouse.rows import REQUEST_SCHEMA
from warehouse.secrets import scrub_text
from warehouse.store import Opened, excluded_table, open_newest
from warehouse.store_copies import EXPORTED
from warehouse.store_current import have
from warehouse.store_files import REQUESTS
from warehouse.store_list import SCHEMA_VERSION, unreadable

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_LONGEST = 300
#: Given how many steps there are, it is told of each that is done.
Progress = Callable[[int], AbstractContextManager[Callable[[int], None]]]
#: The table of one row that says which generation the others are of.
PUBLICATION = "publication"
NAMES = (*EXPORTED, "annotations", "excluded_runs", REQUESTS, PUBLICATION)
#: The column of ``requests`` that names the file of the warehouse which a request is from.
FILE = "file"

_PUBLICATION = pa.schema([
    ("generation", pa.int64()), ("identity", pa.string()), ("schema_version", pa.int64()),
    ("published_at", pa.timestamp("us", "UTC")),
])  # fmt: skip


@dataclass(frozen=True)
class CatalogueTarget:
    """The catalogue that a user names: its address, and the password that stood in it, which is never shown
    or kept."""

    uri: str
    password: str | None = None

    @property
    def is_postgres(self) -> bool:
        """Return whether the catalogue is kept in Postgres."""
        return urlsplit(self.uri).scheme in ("postgresql", "postgres")

    def safe(self, text: str) -> str:
        """Return the first line of what a library said, without the password."""
        line = " ".join((text.strip().splitlines() or ["no reason given"])[0].split())
        if self.password:
            line = line.replace(self.password, "***")
        return scrub_text(line)[:_LONGEST].rstrip(".: ")


@dataclass(frozen=True)
class PublicationOrder:
    """What a user asks for: which catalogue and schema, where files go the first time, and whether a
    newer generation may be replaced."""

    target: CatalogueTarget
    schema: str
    location: str | None = None
    replace: bool = False


def target_of(given: str) -> CatalogueTarget:
    """Return the catalogue that an address names, its password apart."""
    parts = urlsplit(given)
    if not parts.netloc:
        return CatalogueTarget(given)
    user, at, host = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    query = parse_qsl(parts.query, keep_blank_values=True)
    rest = urlencode([(key, value) for key, value in query if key != "password"], safe="/")
    uri = urlunsplit((parts.scheme, f"{name}{at}{host}", parts.path, rest, ""))
    return CatalogueTarget(uri, dict(query).get("password") or unquote(password) or None)


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


def raced(target: CatalogueTarget, generation: int) -> DraftboardError:
    """Return the error to raise where somebody else wrote at the same time."""
    return DraftboardError(
        f"Somebody else wrote into {target.uri} at the same time: {nothing_of(generation)}; run the "
        "same command again."
    )


def foreign(order: PublicationOrder, names: Sequence[str]) -> InvalidInput:
    """Return the error to raise where a schema has tables of somebody else under our names."""
    return InvalidInput(
        f"{order.target.uri} has tables in the schema {order.schema} that Draftboard did not write "
        f"({', '.join(names[:3])}); nothing was changed: name another with --schema."
    )


@dataclass(frozen=True)
class PublishedGeneration:
    """What a target holds: a generation, and the hash of all that was published of it."""

    generation: int
    identity: str


class PublishedContent:
    """One generation, whose files stay until it is let go of. ``held``: what a target holds once it is
    published; ``request_files``: the names of all that it lists."""

    def __init__(self, root: Path, opened: Opened) -> None:
        self.root, self._opened = root, opened
        self._notes = {
            "annotations": annotations_table(root),
            "excluded_runs": excluded_table(root),
        }
        notes = repr([table.to_pylist() for table in self._notes.values()]).encode()
        listed = msgspec.json.encode(opened.generation)
        identity = hashlib.sha256(listed + notes).hexdigest()[:16]
        self.held = PublishedGeneration(opened.generation.number, identity)
        files = opened.connection.sql("select file from store.request_files order by file")
        self.request_files = [Path(name).name for (name,) in files.fetchall()]

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield every table but ``requests``, by its name."""
        for name in EXPORTED:
            yield name, _plain(self._opened.connection.sql(f"from store.{name}").to_arrow_table())
        yield from self._notes.items()
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


@contextmanager
def newest(root: Path) -> Iterator[PublishedContent]:
    """Open what there is to publish. Raises as ``Reader`` does."""
    with open_newest(root) as opened:
        yield PublishedContent(root, opened)


def is_new(
    content: PublishedContent, held: PublishedGeneration | None, order: PublicationOrder
) -> bool:
    """Return whether there is something to publish. Raises InvalidInput where the target is ahead of
    this warehouse, unless it is to be replaced."""
    if held is None:
        return True
    ours = content.held
    if held.identity == ours.identity:
        return False
    if held.generation > ours.generation and not order.replace:
        raise InvalidInput(
            f"{order.target.uri} holds generation {held.generation}, and this warehouse is at "
            f"{ours.generation}: name the warehouse that it came from, another --schema, "
            "or --replace to publish this one over it."
        )
    return True


def request_schema() -> pa.Schema:
    """Return the columns of ``requests``, without encodings that only Arrow has."""
    return _plain_schema(REQUEST_SCHEMA).append(pa.field(FILE, pa.string()))


def _plain(table: pa.Table) -> pa.Table:
    return table.cast(_plain_schema(table.schema))


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    )
