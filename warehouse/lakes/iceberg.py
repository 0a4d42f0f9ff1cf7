"""Publishing as Iceberg, by pyiceberg and its SQL catalogue: every table in one transaction.

Data files are written first. Then all tables turn at once: the commits of pyiceberg run within one
transaction of the database that holds the catalogue, so a reader finds the old generation or the new.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Transaction
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.utils.config import Config
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from warehouse.errors import DraftboardError, InvalidInput
from warehouse.lakes import (
    FILE,
    NAMES,
    CatalogueTarget,
    Progress,
    PublicationOrder,
    PublishedContent,
    PublishedGeneration,
    address_of,
    foreign,
    is_new,
    nothing_of,
    raced,
    request_schema,
)
from warehouse.storage.files import REQUESTS

#: The name under which other engines find the catalogue in its database.
CATALOGUE = "draftboard"
GENERATION, IDENTITY = "draftboard.generation", "draftboard.identity"
_TAG = "generation_"
#: As many generations as a warehouse keeps can be read by their tags.
_TAGS = 3
_DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
}
#: What pyiceberg does not find by itself where every client of a bucket looks.
_BUCKET = {"s3.endpoint": "AWS_ENDPOINT_URL", "s3.region": "AWS_REGION"}
_RACES = (
    CommitFailedException, ValidationException, TableAlreadyExistsError,
    NamespaceAlreadyExistsError, IntegrityError,
)  # fmt: skip


def publish(content: PublishedContent, order: PublicationOrder, shown: Progress) -> bool:
    """Publish a generation into a catalogue; return whether there was something to publish.

    Raises InvalidInput for a target that cannot take it, and DraftboardError where it fails; then
    what was published before stays.
    """
    with _explained(order.target, content):
        catalog = _catalogue(order.target, order.location)
        try:
            if not is_new(content, _held(catalog, order), order):
                return False
            _make_schema(catalog, order)
            _commit_together(catalog, _staged(catalog, order.schema, content, shown))
        finally:
            catalog.engine.dispose()
    return True


class _Catalogue(SqlCatalog):
    """pyiceberg's catalogue, which lets go of its connections where it cannot be opened."""

    def _init_catalog(self) -> None:
        try:
            super()._init_catalog()
        except SQLAlchemyError:
            self.engine.dispose()
            raise


def _catalogue(target: CatalogueTarget, location: str | None) -> SqlCatalog:
    url = make_url(target.uri)
    if url.drivername not in _DRIVERS:
        raise InvalidInput(
            f"{target.safe(target.uri)} is no catalogue that can be written: name "
            "sqlite:////FOLDER/catalogue.db or postgresql://USER@HOST/DATABASE."
        )
    url = url.set(drivername=_DRIVERS[url.drivername])
    if target.password:
        url = url.set(password=target.password)
    # What pyiceberg is told of a catalogue of this name in its own settings holds too.
    own = {key: str(value) for key, value in (Config().get_catalog_config(CATALOGUE) or {}).items()}
    bucket = {key: os.environ[name] for key, name in _BUCKET.items() if os.environ.get(name)}
    given = {"uri": url.render_as_string(hide_password=False)}
    if (place := address_of(location)) is not None:
        given["warehouse"] = place if "://" in place else f"file://{place}"
    return _Catalogue(CATALOGUE, **{**bucket, **own, **given})


def _held(catalog: SqlCatalog, order: PublicationOrder) -> PublishedGeneration | None:
    schema = order.schema
    if not catalog.namespace_exists(schema):
        return None
    ours = sorted({name for *_, name in catalog.list_tables(schema)} & set(NAMES))
    if not ours:
        return None
    said = [catalog.load_table((schema, name)).properties for name in ours]
    if any(GENERATION not in properties for properties in said):
        raise foreign(order, ours)
    return PublishedGeneration(int(said[0][GENERATION]), said[0][IDENTITY])


def _make_schema(catalog: SqlCatalog, order: PublicationOrder) -> None:
    """Make the schema, empty, where it is not there: it says where files of new tables go."""
    if catalog.namespace_exists(order.schema):
        return
    place = catalog.properties.get("warehouse")
    if not place:
        raise InvalidInput(
            f"{order.target.uri} has no schema {order.schema} yet: say with --location where its files go, a "
            "folder or s3://BUCKET/PREFIX."
        )
    catalog.create_namespace(order.schema, {"location": f"{place.rstrip('/')}/{order.schema}"})


def _staged(
    catalog: SqlCatalog, schema: str, content: PublishedContent, shown: Progress
) -> list[Transaction]:
    """Write the data files of every table; nobody sees them yet. Of requests those of files that are
    not there yet, and those of files that have gone are left out.
    """
    staged = []
    with shown(len(NAMES) + len(content.request_files)) as advance:
        for name, rows in content.tables():
            change = _Change(catalog, (schema, name), rows.schema)
            change.write([rows], content.held, change.there())
            staged.append(change.transaction)
            advance(1)
        change = _Change(catalog, (schema, REQUESTS), request_schema(), by=FILE)
        there, wanted = change.there(), set(content.request_files)
        gone = [file for file in there if str(file.partition[0]) not in wanted]
        new = sorted(wanted - {str(file.partition[0]) for file in there})
        advance(1 + len(wanted) - len(new))

        def rows_of_new() -> Iterator[pa.Table]:
            for name in new:
                yield content.requests(name)
                advance(1)

        change.write(rows_of_new(), content.held, gone)
        staged.append(change.transaction)
    return staged


class _Change:
    def __init__(
        self, catalog: SqlCatalog, name: tuple[str, str], schema: pa.Schema, by: str | None = None
    ) -> None:
        self._table = catalog.load_table(name) if catalog.table_exists(name) else None
        if self._table is not None:
            self.transaction = self._table.transaction()
            with self.transaction.update_schema() as change:
                change.union_by_name(schema)
            return
        # A commit that lost its race must not be tried again: it would be made of old rows.
        self.transaction = catalog.create_table_transaction(
            name, schema, properties={"commit.retry.num-retries": "0"}
        )
        if by is not None:
            with self.transaction.update_spec() as spec:
                spec.add_identity(by)

    def there(self) -> list[DataFile]:
        return (
            [] if self._table is None else [scan.file for scan in self._table.scan().plan_files()]
        )

    def write(
        self, parts: Iterable[pa.Table], held: PublishedGeneration, gone: Collection[DataFile]
    ) -> None:
        """Let the table hold the rows of all parts beside what it has, without ``gone``. The newest
        snapshot is named after its generation, by which queries over several tables can read one;
        names of old ones are forgotten.
        """
        transaction = self.transaction
        said = {GENERATION: str(held.generation), IDENTITY: held.identity}
        transaction.set_properties(said)
        with transaction.update_snapshot(snapshot_properties=said).overwrite() as snapshot:
            for file in gone:
                snapshot.delete_data_file(file)
            for rows in parts:
                if rows.num_rows:
                    metadata, io = transaction.table_metadata, transaction._table.io
                    for file in _dataframe_to_data_files(metadata, rows, io, snapshot.commit_uuid):
                        snapshot.append_data_file(file)
        metadata = transaction.table_metadata
        if metadata.current_snapshot_id is None:
            return
        names = ManageSnapshots(transaction)
        names.create_tag(metadata.current_snapshot_id, f"{_TAG}{held.generation}")
        numbers = sorted(int(n.removeprefix(_TAG)) for n in metadata.refs if n.startswith(_TAG))
        for old in [number for number in numbers if number != held.generation][: 1 - _TAGS]:
            names.remove_tag(f"{_TAG}{old}")
        names.commit()


def _commit_together(catalog: SqlCatalog, staged: list[Transaction]) -> None:
    """Let every table show its new snapshot in one transaction of the catalogue's database."""
    engine = catalog.engine
    with engine.begin() as connection:
        # A session on a connection that is in a transaction leaves the commit to it.
        catalog.engine = connection  # type: ignore[assignment]
        try:
            for transaction in staged:
                transaction.commit_transaction()
        finally:
            catalog.engine = engine


@contextmanager
def _explained(target: CatalogueTarget, content: PublishedContent) -> Iterator[None]:
    nothing = nothing_of(content.held.generation)
    try:
        yield
    except _RACES as error:
        raise raced(target, content.held.generation) from error
    except SQLAlchemyError as error:
        why = target.safe(str(getattr(error, "orig", None) or error))
        raise DraftboardError(
            f"The catalogue {target.uri} could not be used ({why}): {nothing}; check the address, "
            "that it is a catalogue of Iceberg or an empty database, and your rights there."
        ) from None
    except OSError as error:
        raise DraftboardError(
            f"The files of {target.uri} could not be written ({target.safe(str(error))}): "
            f"{nothing}; check --location, its disk and your rights there, and run it again."
        ) from None
