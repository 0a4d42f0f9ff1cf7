"""Runs, cells and requests as typed values, in words, and how they are read from the warehouse."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import pandas as pd

from analysis.flags.validity import DECIDES_NOTHING
from analysis.server_series import lines
from answers.runs import notes
from answers.wording import UNKNOWN, badge, listed
from warehouse import annotations, queries
from warehouse.annotations import Annotation, AnnotationTarget
from warehouse.catalogue import counted
from warehouse.filters import Filters
from warehouse.loads import load_of
from warehouse.rows import Measurement
from warehouse.store import Reader

# --- What was measured, as typed values: runs, their cells, and what one cell's requests were like.


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of one source, as far as the filters keep its cells. ``name`` is no other run's;
    ``commands``, ``environment``, ``settings`` and ``report_config`` are JSON text; ``excluded``
    is the reason of an exclusion by name."""

    name: str
    run_id: str
    source_id: str
    started_at: datetime | None
    model: str | None
    gpu: str | None
    dataset: str | None
    study: str | None
    evidence: str | None
    arms: tuple[str, ...]
    concurrencies: tuple[int, ...]
    cells: int
    completed: int
    flags: int
    failed: int
    load_generator: str | None
    load_generator_version: str | None
    provenance: str | None
    path: str
    ingested_at: datetime
    excluded: str | None
    commands: str
    environment: str
    settings: str
    report_config: str

    @property
    def target(self) -> AnnotationTarget:
        return AnnotationTarget(self.run_id, self.source_id)

    @property
    def excluded_text(self) -> str:
        """Why the run is excluded by name; empty where it is not."""
        return self.excluded or ""

    @property
    def texts(self) -> str:
        """The texts by which a reader may search for the run."""
        known = (self.run_id, self.model, self.dataset, self.gpu, self.path)
        return " ".join(text or "unknown" for text in known).casefold()


@dataclass(frozen=True, slots=True)
class Rejected:
    """A file that was not taken in."""

    path: str
    reason: str
    rejected_at: datetime


@dataclass(frozen=True, slots=True)
class CellDoubt:
    """A kind of flag, or one flag of a run: on how many cells, what it says of one of them, and what
    follows."""

    severity: str
    name: str
    sentence: str
    cells: int

    @property
    def decides(self) -> bool:
        """Whether cells with this flag decide anything."""
        return self.name not in DECIDES_NOTHING | {_FAILED}

    @property
    def words(self) -> str:
        """The flag's name in words: ``busy machine``."""
        return self.name.replace("_", " ")

    @property
    def effect(self) -> str:
        """Whether cells with this flag decide anything, in words."""
        return "told beside every answer" if self.decides else "decides nothing"


@dataclass(frozen=True, slots=True)
class Runs:
    """All runs that the filters keep, newest first, what is doubtful about their cells, and the files
    that were refused."""

    runs: tuple[RunRow, ...]
    doubts: tuple[CellDoubt, ...]
    rejected: tuple[Rejected, ...]
    headline: str
    summary: str


@dataclass(frozen=True, slots=True)
class CellRow:
    """One cell of a run; ``name`` is no other's in the run. ``duration`` in s."""

    cell_id: str
    name: str
    model: str | None
    model_revision: str | None
    gpu: str | None
    engine: str | None
    engine_version: str | None
    spec_method: str | None
    num_speculative_tokens: int | None
    dataset: str | None
    arm: str
    load: str
    repeat: int | None
    status: str
    completed: int
    errored: int
    incomplete: int
    duration: float | None
    flags: int
    compared_by: str
    report_format: str
    evidence: str | None


@dataclass(frozen=True, slots=True)
class OneRun:
    """A run with its cells, what is doubtful about them, and all that people said of it."""

    run: RunRow
    cells: tuple[CellRow, ...]
    flags: tuple[CellDoubt, ...]
    said: tuple[Annotation, ...]
    exclusion: Annotation | None


@dataclass(frozen=True, slots=True)
class CellCurve:
    """A line: ``name``, and points (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class CellRequests:
    """What the requests of a cell were like. ``distributions``: of each metric (its key) the value
    and the share of requests that had at most so much; ``positions``: of each source of acceptance
    the draft position (from 1) and the share of drafts accepted there."""

    distributions: tuple[CellCurve, ...]
    positions: tuple[CellCurve, ...]


@dataclass(frozen=True, slots=True)
class ServerCurves:
    """What the server did during a cell, over seconds since the first sample: ``lines`` as
    ``analysis.server_series`` tells them, ``sampled`` as it was sampled."""

    lines: tuple[CellCurve, ...]
    sampled: tuple[CellCurve, ...]


# --- What is said of runs and cells: how much there is, how it went, how to run it again.


_LISTED = 3
#: How flags begin that say on what a cell was measured.
_ORIGIN, _FAILED = "evidence_", "failed"
#: The port that a server's command names, and where an engine listens without one.
_PORT = re.compile(r"--port[ =](\d+)")
_PORTS = {"sglang": "30000", "llama.cpp": "8080"}
NOTHING = "Nothing was measured that these filters keep"


def _headline(runs: Sequence[RunRow], doubts: Sequence[CellDoubt]) -> str:
    if not runs:
        return NOTHING
    badges = sorted({badge(run.evidence) for run in runs} - {""})
    failed = sum(run.failed for run in runs)
    excluded = sum(run.excluded is not None for run in runs)
    # What a badge or the count says already is not said again; what keeps a cell from deciding comes first.
    told = sorted(
        (one for one in doubts if one.name != _FAILED and not one.name.startswith(_ORIGIN)),
        key=lambda one: (one.decides, -one.cells),
    )
    trust = [
        *([f"{counted(failed, 'cell')} failed"] if failed else []),
        *(f"{one.words} in {one.cells:,}" for one in told[:_LISTED]),
        *([f"{len(told) - _LISTED} more doubts"] if len(told) > _LISTED else []),
        *([f"{counted(excluded, 'run')} excluded by name"] if excluded else []),
    ]
    cells = counted(sum(run.cells for run in runs), "cell")
    where = "".join(f" [{text}]" for text in badges)
    return (
        f"{cells} measured in {counted(len(runs), 'run')}{where}: "
        f"{', '.join(trust) or 'nothing doubtful was found'}"
    )


#: Evidence -> what so many cells were measured on, those that decide first.
_MADE = {
    "gpu": "on {}",
    "cpu": "in the CPU lab",
    "simulated": "simulated, not measured",
    "mock": "against a mock server, without a model",
    "dummy_weights": "with dummy weights, which decide nothing",
    UNKNOWN: "nobody said on what",
}


def origins(reader: Reader, filters: Filters) -> str:
    """Say how many of the cells were measured on what, and which are dummy, simulated or set by
    hand: ``Of 28 cells: 16 on NVIDIA H200; 12 with dummy weights, which decide nothing.``"""
    cells = queries.cells(reader, filters).to_pandas()
    known = cells[["evidence", "gpu"]].astype(object).fillna(UNKNOWN)
    gpus = known.groupby("evidence")["gpu"].agg(list).to_dict()
    by_hand = int(cells["synthetic_acceptance"].eq(True).sum())
    told = [
        *(f"{len(gpus[kind]):,} {words.format(listed(sorted(set(gpus[kind]))))}"
          for kind, words in _MADE.items() if kind in gpus),
        *([f"{by_hand:,} of them with an acceptance set by hand"] if by_hand else []),
    ]  # fmt: skip
    return f"Of {counted(len(cells), 'cell')}: {'; '.join(told)}."


def log_excerpt(run: RunRow) -> tuple[str, ...]:
    """Return the last lines of the server's log, where the record of the run kept them."""
    said = _record(run).get("log_excerpt")
    return tuple(str(line) for line in said) if isinstance(said, list) else ()


def how_it_went(run: RunRow) -> str:
    """Return a run's attempt, the cause of a failure and where the time went, as far as its record
    says."""
    record = _record(run)
    attempt, cause, timeline = (record.get(x) for x in ("attempt", "failure_cause", "timeline"))
    spent = timeline.items() if isinstance(timeline, dict) else ()
    parts = (
        f"attempt {attempt}" if attempt else "",
        f"failed: {str(cause).replace('_', ' ')}" if cause else "",
        *(f"{name.replace('_', ' ')} {seconds:.1f} s" for name, seconds in spent),
    )
    return ", ".join(filter(None, parts))


def _record(run: RunRow) -> dict[str, Any]:
    config = json.loads(run.report_config)
    found = config.get("record") if isinstance(config, dict) else None
    return found if isinstance(found, dict) else {}


def command_lines(run: RunRow) -> tuple[tuple[str, str], ...]:
    """Return the name of each command, and its line as a shell reads it."""
    return tuple((name, shlex.join(words)) for name, words in json.loads(run.commands).items())


def again(run: RunRow, cells: Sequence[CellRow]) -> str:
    """Return a shell script with which somebody else can run this again; unknown parts are said."""
    commands = dict(command_lines(run))
    engine, release = (
        _shared_value(getattr(cell, x) for cell in cells) for x in ("engine", "engine_version")
    )
    server = commands.get(engine) or commands.get("vllm")
    load = commands.get(str(run.load_generator)) or commands.get("guidellm")
    stated = _PORT.search(server or "")
    port = stated[1] if stated else _PORTS.get(engine, "8000")
    wait = f"until curl --silent --fail http://localhost:{port}/health; do sleep 2; done"
    facts = ("model", "gpu", "dataset", "spec_method", "num_speculative_tokens")
    values = {name: _shared_value(getattr(cell, name) for cell in cells) for name in facts}
    words = [f"--set {shlex.quote(f'{name}={value}')}" for name, value in values.items()
             if value not in (UNKNOWN, "several")]  # fmt: skip
    by_study = [
        "",
        f"# Or let Draftboard do all of it from the file of the study {_known(run.study)}:",
        "draftboard run STUDY.yaml --results NEW-FOLDER",
    ]
    lines = [
        f"# 1. The same software: {engine} {release}, "
        f"{_known(run.load_generator)} {_known(run.load_generator_version)}.",
        f"#    Hardware: {_known(run.gpu)}. Model revision: "
        f"{_shared_value(cell.model_revision for cell in cells)}.",
        "",
        "# 2. Start the server, and wait until it answers.",
        f"{server} &" if server else "# The record does not state the server's command.",
        wait if server else "",
        "",
        "# 3. Put the load on it.",
        load or "# The record does not state the load generator's command.",
        "",
        "# 4. Take the new report in; facts that it does not state are set.",
        " ".join(["draftboard ingest REPORT.json", *words]),
        *(by_study if run.study else ()),
    ]
    return "\n".join(lines)


def _shared_value(values: Iterable[object]) -> str:
    known = {value for value in values if value is not None}
    return "several" if len(known) > 1 else _known(next(iter(known), None))


def _known(value: object) -> str:
    return UNKNOWN if value is None else " ".join(str(value).split())


# --- Runs, cells and requests, read from the warehouse.


#: Of these the distribution over the requests is drawn.
DISTRIBUTIONS = ("ttft", "itl", "request_latency")
_MOST_SAMPLES = 2000
_RUN = {field.name for field in fields(RunRow)}


def runs(reader: Reader, filters: Filters) -> Runs:
    """Return every run that the filters keep, newest first, and every file that was refused."""
    rows = queries.runs(reader, filters).to_pylist()
    found = []
    for row, name in zip(
        rows, _numbered([(r["run_id"], r["source_id"]) for r in rows]), strict=True
    ):
        known = {key: value for key, value in row.items() if key in _RUN}
        lists = {key: tuple(row[key] or ()) for key in ("arms", "concurrencies")}
        found.append(RunRow(**{**known, **lists, "name": name}))
    doubts = tuple(CellDoubt(**row) for row in queries.doubts(reader, filters).to_pylist())
    refused = tuple(Rejected(**row) for row in queries.rejections(reader).to_pylist())
    amounts = [counted(sum(run.completed for run in found), "completed request"),
               counted(sum(run.flags for run in found), "flag"),
               counted(len(refused), "rejected file")]  # fmt: skip
    return Runs(tuple(found), doubts, refused, _headline(found, doubts), f"{', '.join(amounts)}.")


def run_of_cell(reader: Reader, cell_id: str) -> tuple[str, str] | None:
    """Return the source and run of a cell; None where there is no such cell."""
    for row in queries.run_of_cell(reader, cell_id).to_pylist():
        return row["source_id"], row["run_id"]
    return None


def one_run(reader: Reader, filters: Filters, run: RunRow, noted: str) -> OneRun:
    """Return one run with its cells; ``noted``: the version of what people said, for caches."""
    del noted
    rows = queries.cells_of_run(reader, filters, run.source_id, run.run_id).to_pylist()
    named = [(f"{row['dataset'] or UNKNOWN}, {row['arm_label']}, {_load(row)}", row["cell_id"])
             for row in rows]  # fmt: skip
    cells = tuple(_cell(row, name) for row, name in zip(rows, _numbered(named), strict=True))
    flags = queries.flags(reader, [cell.cell_id for cell in cells]).to_pylist()
    alike = Counter((flag["severity"], flag["name"], flag["sentence"]) for flag in flags)
    told = tuple(CellDoubt(*what, count) for what, count in alike.items())
    said = notes.of_run(reader, run.target, run.started_at, run.study)
    return OneRun(run, cells, told, said, annotations.excluded_runs(reader.root).get(run.target))


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
    return [f"{name} ({identity[:8]})" if times[name] > 1 else name
            for name, identity in named]  # fmt: skip


def requests(reader: Reader, cell_id: str) -> CellRequests:
    """Return the distributions of a cell's requests, and its acceptance by position."""
    found = []
    for metric in DISTRIBUTIONS:
        rows = queries.request_distribution(reader, cell_id, metric).to_pydict()
        if rows["value"]:
            found.append(CellCurve(metric, tuple(zip(rows["value"], rows["share"], strict=True))))
    positions: dict[str, list[tuple[float, float]]] = {}
    for row in queries.positions_of_cell(reader, cell_id).to_pylist():
        # Servers count positions from 0, people from 1.
        positions.setdefault(row["source"], []).append((row["position"] + 1.0, row["rate"]))
    drafts = tuple(CellCurve(source, tuple(points)) for source, points in positions.items())
    return CellRequests(tuple(found), drafts)


def server(reader: Reader, cell_id: str) -> ServerCurves:
    """Return what the server did during a cell; nothing where it was not sampled."""
    samples = queries.samples(reader, cell_id).to_pandas()
    known = lines(samples)
    samples = samples.assign(since=samples["at"] - samples["at"].min())

    def curve(name: object, rows: pd.DataFrame, at: str = "at", each: int = 1) -> CellCurve:
        points = zip(rows[at].tolist()[::each], rows["value"].tolist()[::each], strict=True)
        return CellCurve(str(name), tuple(points))

    told = [curve(name, part) for name, part in known.groupby("line", sort=False)]
    sampled = [
        curve(name, part, "since", len(part) // _MOST_SAMPLES + 1)
        for name, part in samples.groupby("name")
    ]
    return ServerCurves(tuple(told), tuple(sampled))


def numbers(reader: Reader, cell_id: str) -> tuple[Measurement, ...]:
    """Return everything that is stored of a cell, reported values too."""
    return tuple(
        Measurement(**row) for row in queries.cell_measurements(reader, cell_id).to_pylist()
    )
