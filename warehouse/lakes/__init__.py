"""The warehouse's tables where other engines read them, as Iceberg or as DuckLake: what is published, and
into which catalogue.

It is the tables of one generation, as ``warehouse export`` writes them: runs that are excluded by name are
there, and ``excluded_runs`` and ``annotations`` say which and why. Requests go by the file that holds them, so
that only new ones are written.
"""

import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import DraftboardError, InvalidInput
from warehouse.queries import annotations_table
from warehouse.rows import REQUEST_SCHEMA
from warehouse.secrets import scrub_text
from warehouse.storage.copies import EXPORTED
from warehouse.storage.current import have
from warehouse.storage.files import REQUESTS, private_beside
from warehouse.storage.lists import SCHEMA_VERSION, unreadable
from warehouse.store import Opened, excluded_table, open_newest

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
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

    def safe(self, text: str) -> str:
        """Return the first line of what a library said, without the password."""
        line = " ".join((text.strip().splitlines() or ["no reason given"])[0].split())
        if self.password:
            line = line.replace(self.password, "***")
        return scrub_text(line)[:300].rstrip(".: ")


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


def address_of(location: str | None) -> str | None:
    """Return where data go, as an address: a folder is named absolutely."""
    return location if location is None or "://" in location else str(Path(location).absolute())


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


# --- Publishing as DuckLake: another DuckDB than ours does it, in an environment of its own.
#
# Tables are handed over as Parquet files, requests as the warehouse's own files. A password goes by the
# environment of that process, never by its arguments.


_SCRIPT = Path(__file__).with_name("ducklake_script.py")
_MAKE = (
    "make it with runners/lab/setup.sh ducklake, or name the Python of another with --with-python "
    "(pip install duckdb==1.5.5 duckdb-extension-ducklake==1.5.5 duckdb-extension-postgres==1.5.5 "
    "duckdb-extension-httpfs==1.5.5)."
)
#: How an error begins that says the address of the catalogue again.
_ADDRESS = re.compile(r'^.*?Failed to attach DuckLake MetaData "[^"]*" at path \+ "[^"]*"')


class Lake:
    def __init__(self, python: Path, order: PublicationOrder) -> None:
        self.python, self.order = python, order
        self._question = {
            "catalogue": _catalogue(order),
            "schema": order.schema,
            "location": address_of(order.location),
            "names": list(NAMES),
        }

    def ask(
        self, more: Mapping[str, Any], generation: int, advance: Callable[[int], None]
    ) -> dict[str, Any]:
        if not self.python.is_file():
            raise InvalidInput(
                "DuckLake needs an environment of its own with DuckDB 1.5.5, and there is none at "
                f"{self.python}: {_MAKE}"
            )
        answer: dict[str, Any] = {}
        with tempfile.TemporaryFile("w+") as file:
            file.write(json.dumps({**self._question, **more}) + "\n")
            file.seek(0)
            with self._started(file) as process:
                for line in process.stdout or ():
                    try:
                        words = json.loads(line)
                    except json.JSONDecodeError:
                        words = {}  # Another program speaks.
                    answer = words if isinstance(words, dict) else {}
                    advance(answer.get("done", 0))
                wrong = process.stderr.read() if process.stderr else ""
        # The last line of the script has one of these.
        if process.returncode or not {"found", "published", "missing", "error"} & set(answer):
            last = (wrong.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
            answer = {"error": f"{self.python} ended before it was done: {last}"}
        if "missing" in answer:
            raise InvalidInput(f"{self.python} has no {answer['missing']}: {_MAKE}")
        if "error" in answer:
            raise self._explained(str(answer["error"]), generation)
        return answer

    def _started(self, question: IO[str]) -> "subprocess.Popen[str]":
        password = self.order.target.password
        try:
            return subprocess.Popen(
                [str(self.python), "-I", str(_SCRIPT)],
                stdin=question, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, **({"PGPASSWORD": password} if password else {})},
            )  # fmt: skip
        except OSError as error:
            raise InvalidInput(
                f"{self.python} cannot be started ({error.strerror}): {_MAKE}"
            ) from None

    def _explained(self, error: str, generation: int) -> DraftboardError:
        target = self.order.target
        nothing = nothing_of(generation)
        # What DuckLake says where another writer came first.
        if (
            any(
                word in error.lower()
                for word in ("conflict", "duplicate key", "could not serialize")
            )
            and "lock" not in error
        ):
            return raced(target, generation)
        if "DATA_PATH" in error:
            return InvalidInput(
                f"{target.uri} keeps its files elsewhere, or does not know yet where: {nothing}; "
                "say it with --location the first time, a folder or s3://BUCKET/PREFIX, and leave "
                "it out from then on."
            )
        why = target.safe(_ADDRESS.sub("", error))
        return DraftboardError(
            f"The catalogue {target.uri} could not be used ({why}): {nothing}; check "
            "the address, that it is a catalogue of DuckLake or an empty database which nobody else "
            "has open, and your rights there and at --location."
        )


def publish_ducklake(
    content: PublishedContent, order: PublicationOrder, shown: Progress, python: Path
) -> bool:
    """Publish a generation into a catalogue; return whether there was something to publish.

    Raises InvalidInput for a target that cannot take it, and DraftboardError where it fails; then
    what was published before stays.
    """
    lake, generation = Lake(python, order), content.held.generation
    there = lake.ask({}, generation, lambda _: None)["found"]
    if there["foreign"]:
        raise foreign(order, there["foreign"])
    held = PublishedGeneration(*there["held"]) if there["held"] else None
    if not is_new(content, held, order):
        return False
    new = sorted(set(content.request_files) - set(there["files"]))
    with (
        private_beside(Path(tempfile.gettempdir()) / "publish") as place,
        shown(2 * len(NAMES) + len(new)) as advance,
    ):
        more = {
            "held": there["held"],
            "generation": [generation, content.held.identity],
            "tables": _tables(content, place, advance),
            "wanted": content.request_files,
            "requests": [str(path) for path in content.fetch(new)],
        }
        lake.ask(more, generation, advance)
    return True


def _catalogue(order: PublicationOrder) -> str:
    """Return the catalogue as DuckLake takes it. Raises InvalidInput for another."""
    uri = order.target.uri
    if uri.lower().startswith(("postgresql://", "postgres://")):
        return f"postgres:{uri}"
    if "://" in uri or uri.partition(":")[0] in ("postgres", "ducklake", "sqlite", "mysql"):
        raise InvalidInput(
            f"{order.target.safe(uri)} is no catalogue that can be written: name FILE.ducklake or "
            "postgresql://USER@HOST/DATABASE."
        )
    return str(Path(uri).absolute())


def _tables(
    content: PublishedContent, place: Path, advance: Callable[[int], None]
) -> dict[str, str]:
    """Write every table as a file; of requests only how their table looks."""
    paths = {}
    for name, rows in (*content.tables(), (REQUESTS, request_schema().empty_table())):
        paths[name] = str(place / f"{name}.parquet")
        pq.write_table(rows, paths[name])
        advance(1)
    return paths
