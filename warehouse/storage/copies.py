"""Whole warehouses elsewhere: into and out of an object store, back to an older generation, a bundle for
other people, one plain copy to query.

A bundle is one generation, written row by row into new files: what is left out is nowhere in it. Prompts and
outputs stay at home unless they are asked for. From an export nothing is left out: runs that are excluded by
name are there, and ``excluded_runs`` and ``annotations`` say which and why.
"""

import json
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse import annotations, queries
from warehouse.errors import DraftboardError, InvalidInput, UnknownKey, WarehouseDamaged
from warehouse.filters import Filters
from warehouse.rows import REQUEST_SCHEMA
from warehouse.storage.cache import ASIDE, LINES, each, is_copy, name_of, store_of
from warehouse.storage.current import (
    current_name,
    fetch_generation,
    have,
    require_conditions,
    require_current,
    save,
)
from warehouse.storage.draft import BATCHES, RequestFile, as_table
from warehouse.storage.files import (
    BUNDLE,
    CURRENT,
    REQUESTS,
    TABLES,
    full_disk_explained,
    pointer_here,
    private_beside,
    publish,
    remove_private,
)
from warehouse.storage.lists import (
    Generation,
    generations,
    is_old,
    listed_requests,
    load,
    no_current,
    number_of,
)
from warehouse.storage.lock import WriterLock
from warehouse.storage.tables import Batch, over_batch, publish_generation, sql_text
from warehouse.store import Opened, Reader, excluded_table, open_newest

if TYPE_CHECKING:
    from warehouse.storage.objects import ObjectStore

#: A night is named after the day on which it began: noon to noon, UTC.
_NOON = timedelta(hours=12)
#: Tables with a row or more per cell.
_OF_A_CELL = (
    "cells", "measurements", "acceptance", "acceptance_by_position", "flags", "samples",
)  # fmt: skip
EXPORTED: tuple[str, ...] = ("sources", *_OF_A_CELL, "rejections")


# --- Between a folder and an object store, and back to an older generation.


def push(root: Path, to: Path) -> int:
    """Upload the warehouse at ``root`` into the object store whose copy is ``to``; return how many
    files it has. Killed halfway it can be done again.

    Raises InvalidInput where there is a warehouse already, or ``to`` is a folder.
    """
    store = _require_store(to)
    name = current_name(root)
    if name is None or is_old(name):
        raise no_current(root)
    if store.get(CURRENT) is not None:
        raise InvalidInput(
            f"{store.url} holds a warehouse already: ingest the results of {root} into it, or push "
            "to another place."
        )
    require_conditions(to, store)
    files = list(_files_of(root, load(root / name)))
    each(lambda file: store.send(root / file, file), files)
    store.send(root / name, name)
    if store.replace(CURRENT, f"{name}\n".encode(), None) is None:
        raise InvalidInput(
            f"Another machine made {store.url} meanwhile: nothing there was changed."
        )
    return len(files)


def fetch_all(root: Path) -> int:
    """Fetch every request file of the newest generation into this machine's copy; return how many it
    has. Raises InvalidInput for a folder."""
    _require_store(root)
    requests = listed_requests(root, [load(root / require_current(root))])
    have(root, requests)
    return len(requests)


def clone(root: Path, out: Path) -> int:
    """Make a warehouse in the folder ``out`` that holds what the one in an object store does, and has
    nothing to do with it any more; return how many files it has. Killed halfway it can be done again.

    Raises InvalidInput where there is a warehouse already.
    """
    if (out / CURRENT).exists():
        raise InvalidInput(f"{out} is a warehouse already: name another folder.")
    fetch_all(root)
    name = pointer_here(root) or ""
    files = [*_files_of(root, load(root / name)), name, CURRENT]
    for file in files:
        private = out / f"{file}.part"
        private.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, private)
        publish(private, out / file)
    return len(files)


def restore(root: Path, wanted: str) -> int:
    """Publish again what an older generation held, named by its number or its whole name; return the
    number of the new one.

    What came since stays in the store, under its own generation. Raises UnknownKey where there is no
    such generation, and LostRace.
    """
    with full_disk_explained(root), WriterLock(root).held(wait=True, on_wait=None):
        store = store_of(root) if is_copy(root) else None
        there = list(generations(root)) if store is None else [e.name for e in store.entries()]
        numbers = {
            name: number
            for name in there
            if (number := number_of(name)) is not None and not is_old(name)
        }
        named = sorted(name for name, number in numbers.items() if wanted in (name, str(number)))
        if len(named) > 1:
            raise UnknownKey(
                f"{name_of(root)} has several generations {wanted}: name {' or '.join(named)}."
            )
        if not named:
            known = ", ".join(map(str, sorted(numbers.values()))) or "none"
            raise UnknownKey(f"{name_of(root)} has no generation {wanted}; there are: {known}.")
        older = load(root / named[0]) if store is None else fetch_generation(root, store, named[0])
        current = pointer_here(root)
        if store is not None:
            stored = store.get(CURRENT)
            current = None if stored is None else stored.text
        last = number_of(current)
        number = (max(numbers.values()) if last is None else last) + 1
        try:
            save(root, Generation(number, older.next_cell, older.segments, older.rejections))
        finally:
            remove_private(root)
        return number


def _require_store(root: Path) -> "ObjectStore":
    if not is_copy(root):
        raise InvalidInput(f"{root} is a folder: name a warehouse in a bucket, s3://BUCKET/PREFIX.")
    return store_of(root)


def _files_of(root: Path, generation: Generation) -> Iterator[str]:
    yield from (f"{REQUESTS}/{file}" for file in sorted(listed_requests(root, [generation])))
    yield from (f"{TABLES}/{file.file}" for file in generation.files())
    yield from (name for name in LINES if (root / name).exists())
    for folder in ASIDE:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                yield path.relative_to(root).as_posix()


# --- A bundle: a small warehouse of its own for other people, with what may be passed on.


@dataclass(frozen=True)
class Bundle:
    """What was written: numbers of sources, cells, requests and annotations."""

    sources: int
    cells: int
    requests: int
    annotations: int


def bundle(root: Path, out: Path, filters: Filters, with_texts: bool = False) -> Bundle:
    """Write the folder ``out``: what ``filters`` keep of the warehouse at ``root``, with its notes.

    Excluded runs go along with their exclusions, so that a reader of the bundle sees the same and
    can see why. ``with_texts``: with the texts of prompts, outputs and errors, where they were kept.
    Nothing that exists is overwritten, and a failure leaves nothing. Raises InvalidInput,
    UnknownKey where the filters keep no cell, WarehouseDamaged where a file is missing.
    """
    if out.exists():
        raise InvalidInput(f"{out} is there already; name a new folder with --out.")
    with full_disk_explained(out.parent), Reader(root, everything=True) as reader:
        cells = queries.cells(reader, filters)
        if not cells.num_rows:
            raise UnknownKey(
                "No cell matches these filters, so there is nothing to share; `draftboard runs` "
                "lists what there is."
            )
        with private_beside(out) as private:
            place = private / out.name
            (place / REQUESTS).mkdir(parents=True)
            cell_ids = set(cells.column("cell_id").to_pylist())
            requests = _copy_requests(reader, place, cell_ids, with_texts)
            tables = _bundled_tables(root, cells, requests)
            publish_generation(place, Generation(0), 1, Batch(tables))
            made = Bundle(
                sources=len(set(cells.column("source_id").to_pylist())),
                cells=cells.num_rows,
                requests=requests["rows"] if requests else 0,
                annotations=_copy_annotations(root, place, cells),
            )
            try:
                ours = version("draftboard")
            except PackageNotFoundError:
                ours = None
            about = {
                "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
                "draftboard": ours,
                "filters": {name: value for name, value in asdict(filters).items() if value},
                "texts": with_texts,
                **asdict(made),
            }
            (place / BUNDLE).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
            for path in place.rglob("*"):
                if path.is_file():
                    path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
            publish(place, out)
    return made


def _copy_requests(
    reader: Reader, place: Path, cell_ids: Collection[str], with_texts: bool
) -> dict[str, Any] | None:
    """Write the requests of these cells into one file; return its row of ``request_files``, if any."""
    out = RequestFile(place)
    try:
        for path in reader.request_files(cell_ids):
            for rows in _row_groups(path, reader.root):
                if not rows.num_rows or rows.column("cell_id")[0].as_py() not in cell_ids:
                    continue
                # Texts of a request. An error often quotes the prompt that caused it.
                for name in () if with_texts else ("prompt", "output", "error"):
                    field, at = REQUEST_SCHEMA.field(name), rows.schema.get_field_index(name)
                    rows = rows.set_column(at, field, pa.nulls(rows.num_rows, field.type))
                out.write(rows)
        written = out.whole()
        if written is not None:
            publish(out.private, place / REQUESTS / written["file"])
        return written
    finally:
        out.discard()


def _row_groups(path: Path, root: Path) -> Iterator[pa.Table]:
    """Yield the requests of one cell after the other: each is a row group of its own."""
    try:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)
    except (OSError, pa.ArrowInvalid) as error:
        raise WarehouseDamaged(
            f"The requests in {path} cannot be read ({error}), and nothing was written; run "
            f"draftboard warehouse check --warehouse {name_of(root)}."
        ) from error


def _bundled_tables(
    root: Path, cells: pa.Table, requests: Mapping[str, Any] | None
) -> dict[str, pa.Table]:
    with open_newest(root) as opened:
        connection = opened.connection
        over_batch(
            connection, cells.select(["cell_id"]),
            "create temp table kept as "
            "select cell, source_id from store.cells semi join batch using (cell_id)",
        )  # fmt: skip
        queries_of = {name: f"from store.{name} semi join kept using (cell)" for name in _OF_A_CELL}
        # Of an absolute path only the last two parts: the others tell where somebody lives.
        queries_of["sources"] = (
            "select * replace (case when path like '/%' "
            "then array_to_string(list_slice(string_split(rtrim(path, '/'), '/'), -2, -1), '/') "
            "else path end as path) from store.sources semi join kept using (source_id)"
        )
        if requests is not None:
            queries_of["cell_requests"] = (
                f"select cell, '{requests['file']}' as file, rows "
                "from store.cell_requests semi join kept using (cell)"
            )
        tables = {name: connection.sql(sql).to_arrow_table() for name, sql in queries_of.items()}
    if requests is not None:
        tables["request_files"] = as_table("request_files", [requests])
    return tables


def _copy_annotations(root: Path, place: Path, cells: pa.Table) -> int:
    rows = cells.select(["run_id", "source_id", "started_at", "study"]).to_pylist()
    runs = {annotations.AnnotationTarget(row["run_id"], row["source_id"]) for row in rows}
    nights = {
        (f"{row['started_at'] - _NOON:%Y-%m-%d}", row["study"]) for row in rows if row["started_at"]
    }

    def is_about(target: annotations.AnnotationTarget) -> bool:
        if target.night is None:
            return target in runs
        studies = {study for night, study in nights if night == target.night}
        return bool(studies) if target.study is None else target.study in studies

    concerned = [event for event in annotations.read(root) if is_about(event.target)]
    for event in concerned:
        # Whoever gets the bundle learns the name, not the address.
        annotations.add(place, replace(event, account=None))
    (place / annotations.LOCK).unlink(missing_ok=True)
    return len(concerned)


# --- One plain copy, for people who want to query it themselves.


def export(root: Path, out: Path) -> list[Path]:
    """Write ``out``: one database (``*.duckdb``, with a table ``requests``), or Parquet files.

    Nothing that exists is overwritten, and a failure leaves nothing. Returns the files written.
    Raises WarehouseDamaged where a file of the warehouse is missing.
    """
    if out.exists():
        raise DraftboardError(f"{out} is there already; name a new file or folder with --out.")
    with full_disk_explained(out), Reader(root) as reader:
        try:
            with private_beside(out) as place:
                _write_export(reader, place / out.name)
                publish(place / out.name, out)
        except FileNotFoundError as error:
            raise _incomplete(reader, f"{error.filename} is missing") from error
        except duckdb.Error as error:
            # A full disk comes as such an error too; that one is said in its own sentence.
            text = str(error).splitlines()[0]
            if "No space left" in text:
                raise OSError(text) from error
            raise _incomplete(reader, text) from error
    return sorted(path for path in (out, *out.rglob("*")) if path.is_file())


def _incomplete(reader: Reader, why: str) -> WarehouseDamaged:
    return WarehouseDamaged(
        f"The warehouse {reader.root} cannot be exported ({why}), and nothing was written; "
        f"run draftboard warehouse check --warehouse {reader.root}."
    )


def _write_export(reader: Reader, out: Path) -> None:
    names = reader.query("listed_files").column("file").to_pylist()
    have(reader.root, names)
    requests = [str(reader.root / REQUESTS / name) for name in names]
    notes = {
        "annotations": queries.annotations_table(reader.root),
        "excluded_runs": excluded_table(reader.root),
    }
    with open_newest(reader.root) as opened:
        connection = opened.connection
        if out.suffix != ".duckdb":
            (out / REQUESTS).mkdir(parents=True)
            for name in EXPORTED:
                notes[name] = connection.sql(f"from store.{name}").to_arrow_table()
            for name, table in notes.items():
                pq.write_table(table, out / f"{name}.parquet")
            for file in requests:
                shutil.copy2(file, out / REQUESTS)
            return
        copy_tables(opened, out)
        for name, table in notes.items():
            over_batch(connection, table, f"create table {name} as from batch")
        if requests:
            connection.execute(
                "create table requests as from read_parquet($files::varchar[])", {"files": requests}
            )
        connection.execute("use memory; detach copy")


def copy_tables(opened: Opened, path: Path) -> None:
    """Write every table into a new database at ``path``, which stays in use as ``copy``."""
    opened.connection.execute("attach $path as copy", {"path": str(path)})
    opened.connection.execute("use copy")
    opened.connection.execute(sql_text("schema"))
    for name in ("meta", *BATCHES, "rejections"):
        opened.connection.execute(f"insert into {name} by name from store.{name}")
