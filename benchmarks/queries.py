"""Every query a page makes, on a large warehouse, beside the same SQL on a bare DuckDB connection."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.large import QUICK, Size, large_warehouse
from benchmarks.result import Result, median_seconds
from warehouse import queries
from warehouse.filters import Filters
from warehouse.storage.copies import copy_tables
from warehouse.storage.tables import sql_text
from warehouse.store import Reader, open_newest

TIMES = 20
#: What a visitor typically looks at: one model on one machine.
CHOSEN = Filters(model=("gpt-oss-120b",), gpu=("H100",), dataset=("SWE-bench",))
METRICS = ["output_throughput", "total_throughput", "ttft", "itl", "tpot", "request_latency"]


@dataclass(frozen=True)
class Asked:
    """One query as a page makes it, and the parameters of the same SQL without us."""

    name: str
    ours: Callable[[Reader], Any]
    sql: str
    parameters: dict[str, Any] = field(default_factory=dict)


def filtered(name: str, filters: Filters) -> Asked:
    """A query that takes the filters and nothing else."""
    function = getattr(queries, name)
    return Asked(
        name, lambda reader: function(reader, filters), name, {"filters": filters.as_parameters()}
    )


def plain(name: str) -> Asked:
    """A query without parameters."""
    return Asked(name, getattr(queries, name), name)


def of_cell(name: str, cell_id: str) -> Asked:
    """A query about one cell."""
    function = getattr(queries, name)
    return Asked(name, lambda reader: function(reader, cell_id), name, {"cell_id": cell_id})


def measured(filters: Filters, statistics: list[str]) -> Asked:
    """The numbers behind the six charts."""
    given = {"metrics": METRICS, "statistics": statistics, "filters": filters.as_parameters()}
    return Asked("measurements",
                 lambda reader: queries.measurements(reader, filters, METRICS, statistics),
                 "measurements", given)  # fmt: skip


def distribution(cell_id: str, files: list[str]) -> Asked:
    """The distribution of one cell's latencies: reads Parquet."""
    given = {"files": files, "cell_id": cell_id, "metric": "ttft", "points": queries.ECDF_POINTS}
    return Asked("request_distribution",
                 lambda reader: queries.request_distribution(reader, cell_id, "ttft"),
                 "request_distribution", given)  # fmt: skip


def asked(reader: Reader) -> Iterator[Asked]:
    """Every query a page makes."""
    known = queries.cells(reader, CHOSEN).column("cell_id").to_pylist()
    cell_id, files = known[0], [str(path) for path in reader.request_files(known[:1])]
    for name in ("filter_options", "rejections", "sources", "overview"):
        yield plain(name)
    for name in ("cells", "acceptance", "acceptance_by_position", "runs"):
        yield filtered(name, CHOSEN)
    yield measured(CHOSEN, ["mean", "p95"])
    yield of_cell("cell_measurements", cell_id)
    yield of_cell("samples", cell_id)
    ids = {"cell_ids": known}
    yield Asked("flags", lambda reader: queries.flags(reader, known), "flags", ids)
    yield distribution(cell_id, files)


def of_everything() -> Iterator[Asked]:
    """The same without any filter: the whole warehouse at once."""
    for name in ("cells", "acceptance", "acceptance_by_position", "runs"):
        yield filtered(name, Filters())
    yield measured(Filters(), ["mean"])


def judged(query: Asked, reader: Reader, bare: duckdb.DuckDBPyConnection, note: str) -> Result:
    """One query, ours beside the bare one."""
    text = sql_text(query.sql)
    given = query.parameters or None
    ours = 1000 * median_seconds(lambda: query.ours(reader), TIMES)
    theirs = 1000 * median_seconds(lambda: bare.sql(text, params=given).to_arrow_table(), TIMES)
    measured = f"{ours:.1f} ms, {ours / theirs:.2f} x bare ({theirs:.1f} ms)"
    reached = ours <= 25 or ours <= 2 * theirs
    return Result(f"query {query.name}{note}", "<= 25 ms or <= 2 x bare", measured, reached)


def bare_connection(root: Path, copy: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB without us: the warehouse as one plain database at ``copy``, made if it is not there,
    and beside it the tables and macros that the SQL names."""
    if not copy.exists():
        with open_newest(root) as opened:
            copy_tables(opened, copy)
            opened.connection.execute("use memory; detach copy")
    bare = duckdb.connect()
    bare.execute("load icu; set TimeZone = 'UTC'; set threads = 4")
    bare.execute("attach $path as store (read_only)", {"path": str(copy)})
    bare.execute(sql_text("chosen"))
    bare.execute("set search_path = 'memory.main,store.main'")
    return bare


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Every query, filtered and unfiltered."""
    root = large_warehouse(folder / ("small" if quick else "large"), QUICK if quick else Size())
    with (
        Reader(root) as reader,
        bare_connection(root, root.with_suffix(".duckdb")) as bare,
    ):
        for query in asked(reader):
            yield judged(query, reader, bare, "")
        for query in of_everything():
            yield judged(query, reader, bare, ", unfiltered")
