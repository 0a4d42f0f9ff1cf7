"""Runs, cells and requests, read from the warehouse into typed values."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pandas as pd

from analysis.flags.lints import DECIDES_NOTHING
from analysis.server_series import lines
from answers.runs import notes, words
from answers.runs.values import (
    CellRow,
    Curve,
    Doubt,
    Flagged,
    Number,
    OneRun,
    Rejected,
    Requests,
    Run,
    Runs,
    Server,
)
from warehouse import annotations, queries
from warehouse.filters import Filters
from warehouse.loads import load_of
from warehouse.store import Reader

#: Of these the distribution over the requests is drawn.
DISTRIBUTIONS = ("ttft", "itl", "request_latency")
_MOST_SAMPLES = 2000
_SHORT = 8
_RUN = {field.name for field in fields(Run)}


def runs(reader: Reader, filters: Filters) -> Runs:
    """Return every run that the filters keep, newest first, and every file that was refused."""
    rows = queries.runs(reader, filters).to_pylist()
    names = _numbered([(row["run_id"], row["source_id"]) for row in rows])
    found = tuple(_run(row, name) for row, name in zip(rows, names, strict=True))
    doubts = tuple(
        Doubt(**row, decides=row["name"] not in DECIDES_NOTHING)
        for row in queries.doubts(reader, filters).to_pylist()
    )
    refused = tuple(Rejected(**row) for row in queries.rejections(reader).to_pylist())
    told = words.headline(found, doubts), words.summary(found, refused)
    return Runs(found, doubts, refused, *told)


def _run(row: dict[str, Any], name: str) -> Run:
    known = {key: value for key, value in row.items() if key in _RUN}
    lists = {key: tuple(row[key] or ()) for key in ("arms", "concurrencies")}
    return Run(**{**known, **lists, "name": name})


def run_of_cell(reader: Reader, cell_id: str) -> tuple[str, str] | None:
    """Return the source and run of a cell; None where there is no such cell."""
    for row in queries.run_of_cell(reader, cell_id).to_pylist():
        return row["source_id"], row["run_id"]
    return None


def one_run(reader: Reader, filters: Filters, run: Run, noted: str) -> OneRun:
    """Return one run with its cells; ``noted``: the version of what people said, for caches."""
    del noted
    rows = queries.cells_of_run(reader, filters, run.source_id, run.run_id).to_pylist()
    named = [(words.cell_name(row["dataset"], row["arm_label"], _load(row)), row["cell_id"])
             for row in rows]  # fmt: skip
    cells = tuple(_cell(row, name) for row, name in zip(rows, _numbered(named), strict=True))
    flags = queries.flags(reader, [cell.cell_id for cell in cells]).to_pylist()
    alike = Counter((flag["severity"], flag["name"], flag["sentence"]) for flag in flags)
    told = tuple(Flagged(*what, count) for what, count in alike.items())
    night = notes.night_of(run.started_at)
    said = notes.of_run(reader, run.target, night, run.study)
    return OneRun(
        run, cells, told, said, annotations.excluded_runs(reader.root).get(run.target)
    )  # fmt: skip


def _cell(row: dict[str, Any], name: str) -> CellRow:
    same = (
        "cell_id", "model", "model_revision", "gpu", "engine", "engine_version", "spec_method",
        "num_speculative_tokens", "dataset", "repeat", "status", "completed", "errored",
        "incomplete", "duration", "flags", "evidence",
    )  # fmt: skip
    return CellRow(
        **{key: row[key] for key in same}, name=name, arm=row["arm_label"], load=_load(row),
        compared_by=row["comparable_as"], report_format=row["schema_generation"],
    )  # fmt: skip


def _load(row: dict[str, Any]) -> str:
    load = load_of(row["load_profile"], row["concurrency"], row["rate"], row["trace"])
    return "unknown load" if load is None else load.text


def _numbered(named: Sequence[tuple[str, str]]) -> list[str]:
    """Make the names unique: those that occur twice get the first digits of an identity."""
    times = Counter(name for name, _ in named)
    return [f"{name} ({identity[:_SHORT]})" if times[name] > 1 else name
            for name, identity in named]  # fmt: skip


def requests(reader: Reader, cell_id: str) -> Requests:
    """Return the distributions of a cell's requests, and its acceptance by position."""
    found = []
    for metric in DISTRIBUTIONS:
        rows = queries.request_distribution(reader, cell_id, metric).to_pydict()
        if rows["value"]:
            found.append(Curve(metric, tuple(zip(rows["value"], rows["share"], strict=True))))
    positions: dict[str, list[tuple[float, float]]] = {}
    for row in queries.positions_of_cell(reader, cell_id).to_pylist():
        # Servers count positions from 0, people from 1.
        positions.setdefault(row["source"], []).append((row["position"] + 1.0, row["rate"]))
    drafts = tuple(Curve(source, tuple(points)) for source, points in positions.items())
    return Requests(tuple(found), drafts)


def server(reader: Reader, cell_id: str) -> Server:
    """Return what the server did during a cell; nothing where it was not sampled."""
    samples = queries.samples(reader, cell_id).to_pandas()
    known = lines(samples)
    told = [_curve(str(name), part) for name, part in known.groupby("line", sort=False)]
    first = samples["at"].min()
    sampled = [
        _curve(
            str(name), part.assign(at=part["at"] - first).iloc[:: len(part) // _MOST_SAMPLES + 1]
        )
        for name, part in samples.groupby("name")
    ]
    return Server(tuple(told), tuple(sampled))


def _curve(name: str, rows: pd.DataFrame) -> Curve:
    return Curve(name, tuple(zip(rows["at"].tolist(), rows["value"].tolist(), strict=True)))


def numbers(reader: Reader, cell_id: str) -> tuple[Number, ...]:
    """Return everything that is stored of a cell, reported values too."""
    return tuple(Number(**row) for row in queries.cell_measurements(reader, cell_id).to_pylist())
