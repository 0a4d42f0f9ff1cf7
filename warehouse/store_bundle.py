"""A bundle: a small warehouse of its own for other people, with what may be passed on.

It is one generation, written row by row into new files: what is left out is nowhere in it. Prompts
and outputs stay at home unless they are asked for.
"""

import json
import stat
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse import annotations, queries
from warehouse.annotations import Annotation
from warehouse.errors import InvalidInput, UnknownKey, WarehouseDamaged
from warehouse.filters import Filters
from warehouse.rows import REQUEST_SCHEMA
from warehouse.store_cache import name_of
from warehouse.store_draft import RequestFile
from warehouse.store_files import BUNDLE, REQUESTS, full_disk_explained, private_beside, publish
from warehouse.store_list import Generation
from warehouse.store_read import Reader, open_newest
from warehouse.store_rows import as_table
from warehouse.store_write import Batch, publish_generation

#: Texts of a request. An error often quotes the prompt that caused it.
_TEXTS = ("prompt", "output", "error")
#: A night is named after the day on which it began: noon to noon, UTC.
_NOON = timedelta(hours=12)
#: Tables with a row or more per cell.
_OF_A_CELL = (
    "cells", "measurements", "acceptance", "acceptance_by_position", "flags", "samples",
)  # fmt: skip


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
            requests = _copy_requests(reader, place, set(_column(cells, "cell_id")), with_texts)
            tables = _tables(root, cells, requests)
            publish_generation(place, Generation(0), 1, Batch(tables))
            kept = _copy_annotations(root, place, cells)
            made = Bundle(
                len(set(_column(cells, "source_id"))), cells.num_rows,
                requests["rows"] if requests else 0, kept,
            )  # fmt: skip
            _describe(place, made, filters, with_texts)
            for path in place.rglob("*"):
                if path.is_file():
                    path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
            publish(place, out)
    return made


def _column(rows: pa.Table, name: str) -> list[Any]:
    found: list[Any] = rows.column(name).to_pylist()
    return found


def _copy_requests(
    reader: Reader, place: Path, cell_ids: Collection[str], with_texts: bool
) -> dict[str, Any] | None:
    """Write the requests of these cells into one file; return its row of ``request_files``, if
    any."""
    out = RequestFile(place)
    try:
        for path in reader.request_files(cell_ids):
            for rows in _row_groups(path, reader.root):
                if rows.num_rows and rows.column("cell_id")[0].as_py() in cell_ids:
                    out.write(rows if with_texts else _without_texts(rows))
        return out.finish()
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


def _without_texts(rows: pa.Table) -> pa.Table:
    for name in _TEXTS:
        field = REQUEST_SCHEMA.field(name)
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, field, pa.nulls(rows.num_rows, field.type))
    return rows


def _tables(root: Path, cells: pa.Table, requests: dict[str, Any] | None) -> dict[str, pa.Table]:
    """Return the rows of these cells, table by table."""
    with open_newest(root) as opened:
        connection = opened.connection
        connection.register("wanted", cells.select(["cell_id"]))
        connection.execute(
            "create temp table kept as "
            "select cell, source_id from store.cells semi join wanted using (cell_id)"
        )
        # The names are ours, never a user's.
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
        found = {name: connection.sql(sql).to_arrow_table() for name, sql in queries_of.items()}
    if requests is not None:
        found["request_files"] = as_table("request_files", [requests])
    return found


def _copy_annotations(root: Path, place: Path, cells: pa.Table) -> int:
    """Copy what was said of these runs and nights. Return how many annotations that were."""
    rows = cells.select(["run_id", "source_id", "started_at", "study"]).to_pylist()
    runs = {annotations.run(row["run_id"], row["source_id"]) for row in rows}
    nights = {
        (f"{row['started_at'] - _NOON:%Y-%m-%d}", row["study"]) for row in rows if row["started_at"]
    }
    said = [event for event in annotations.read(root) if _is_about(event, runs, nights)]
    for event in said:
        # Whoever gets the bundle learns the name, not the address.
        annotations.add(place, replace(event, account=None))
    (place / annotations.LOCK).unlink(missing_ok=True)
    return len(said)


def _is_about(
    event: Annotation,
    runs: Collection[annotations.Target],
    nights: Collection[tuple[str, str | None]],
) -> bool:
    target = event.target
    if target.night is None:
        return target in runs
    studies = {study for night, study in nights if night == target.night}
    return bool(studies) if target.study is None else target.study in studies


def _describe(place: Path, made: Bundle, filters: Filters, with_texts: bool) -> None:
    chosen = {name: value for name, value in asdict(filters).items() if value}
    said = {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "draftboard": _version(),
        "filters": chosen,
        "texts": with_texts,
        **asdict(made),
    }
    text = json.dumps(said, indent=2) + "\n"
    (place / BUNDLE).write_text(text, encoding="utf-8")


def _version() -> str | None:
    try:
        return version("draftboard")
    except PackageNotFoundError:
        return None
