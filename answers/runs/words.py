"""What is said of runs and cells: how much there is, how it went, how to run it again."""

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from answers.compare.values import counted
from answers.runs.values import CellRow, Doubt, Rejected, Run
from answers.wording import UNKNOWN, badge

_LISTED = 3
#: How flags begin that say on what a cell was measured.
_ORIGIN = "evidence_"
#: The port that a server's command names, and where an engine listens without one.
_PORT = re.compile(r"--port[ =](\d+)")
_PORTS = {"sglang": "30000", "llama.cpp": "8080"}
NOTHING = "Nothing was measured that these filters keep"


def headline(runs: Sequence[Run], doubts: Sequence[Doubt]) -> str:
    """Say how much was measured, where, and whether it can be trusted."""
    if not runs:
        return NOTHING
    badges = sorted({badge(run.evidence) for run in runs} - {""})
    failed = sum(run.failed for run in runs)
    excluded = sum(run.excluded is not None for run in runs)
    # What a badge says already is not said again; what keeps a cell from deciding comes first.
    told = sorted((one for one in doubts if not one.name.startswith(_ORIGIN)), key=_weight)
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


def _weight(one: Doubt) -> tuple[bool, int]:
    return one.decides, -one.cells


def summary(runs: Sequence[Run], rejected: Sequence[Rejected]) -> str:
    """Count completed requests, flags and rejected files in a sentence."""
    amounts = [counted(sum(run.completed for run in runs), "completed request"),
               counted(sum(run.flags for run in runs), "flag"),
               counted(len(rejected), "rejected file")]  # fmt: skip
    return f"{', '.join(amounts)}."


def cell_name(dataset: str | None, arm: str, load: str) -> str:
    """Return what a cell is called: ``code, eagle3 K=3, 8 at once``."""
    return f"{dataset or UNKNOWN}, {arm}, {load}"


def log_excerpt(run: Run) -> tuple[str, ...]:
    """Return the last lines of the server's log, where the record of the run kept them."""
    said = _record(run).get("log_excerpt")
    return tuple(str(line) for line in said) if isinstance(said, list) else ()


def how_it_went(run: Run) -> str:
    """Return a run's attempt, the cause of a failure and where the time went, as far as its record
    says."""
    record = _record(run)
    parts = []
    if record.get("attempt"):
        parts.append(f"attempt {record['attempt']}")
    if record.get("failure_cause"):
        parts.append(f"failed: {str(record['failure_cause']).replace('_', ' ')}")
    timeline = record.get("timeline")
    spent = timeline.items() if isinstance(timeline, dict) else ()
    parts += [f"{name.replace('_', ' ')} {seconds:.1f} s" for name, seconds in spent]
    return ", ".join(parts)


def _record(run: Run) -> dict[str, Any]:
    config = json.loads(run.report_config)
    found = config.get("record") if isinstance(config, dict) else None
    return found if isinstance(found, dict) else {}


def command_lines(run: Run) -> tuple[tuple[str, str], ...]:
    """Return the name of each command, and its line as a shell reads it."""
    return tuple((name, shlex.join(words)) for name, words in json.loads(run.commands).items())


def again(run: Run, cells: Sequence[CellRow]) -> str:
    """Return a shell script with which somebody else can run this again; unknown parts are said."""
    commands = dict(command_lines(run))
    engine = _one(cell.engine for cell in cells), _one(cell.engine_version for cell in cells)
    server = commands.get(engine[0]) or commands.get("vllm")
    load = commands.get(str(run.load_generator)) or commands.get("guidellm")
    stated = _PORT.search(server or "")
    port = stated[1] if stated else _PORTS.get(engine[0], "8000")
    wait = f"until curl --silent --fail http://localhost:{port}/health; do sleep 2; done"
    return "\n".join(
        [
            f"# 1. The same software: {engine[0]} {engine[1]}, "
            f"{_known(run.load_generator)} {_known(run.load_generator_version)}.",
            f"#    Hardware: {_known(run.gpu)}. Model revision: "
            f"{_one(cell.model_revision for cell in cells)}.",
            "",
            "# 2. Start the server, and wait until it answers.",
            f"{server} &" if server else "# The record does not state the server's command.",
            wait if server else "",
            "",
            "# 3. Put the load on it.",
            load or "# The record does not state the load generator's command.",
            "",
            *_last(run, cells),
        ]
    )


def _last(run: Run, cells: Sequence[CellRow]) -> list[str]:
    facts = ("model", "gpu", "dataset", "spec_method", "num_speculative_tokens")
    stated = {name: _one(getattr(cell, name) for cell in cells) for name in facts}
    words = [f"--set {shlex.quote(f'{name}={value}')}" for name, value in stated.items()
             if value not in (UNKNOWN, "several")]  # fmt: skip
    told = [
        "# 4. Take the new report in; facts that it does not state are set.",
        " ".join(["draftboard ingest REPORT.json", *words]),
    ]
    if run.study:
        told += [
            "",
            f"# Or let Draftboard do all of it from the file of the study {_known(run.study)}:",
            "draftboard run STUDY.yaml --results NEW-FOLDER",
        ]
    return told


def _one(values: Iterable[object]) -> str:
    """Return the value that all cells have, ``several`` or ``unknown``."""
    known = {value for value in values if value is not None}
    return "several" if len(known) > 1 else _known(next(iter(known), None))


def _known(value: object) -> str:
    return UNKNOWN if value is None else " ".join(str(value).split())
