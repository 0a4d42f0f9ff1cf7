"""What the Runs page says of one run and one cell: its server, its log, how to run it again."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.server_series import WINDOW_S, lines
from answers.wording import badge
from dashboard.answers import Drawing, drawn
from dashboard.charts import server as charts_server
from dashboard.depth import bracketed
from dashboard.palette import arm_colour

#: Title -> its lines of ``server_series``, and whether they are shares.
_CHARTS: dict[str, tuple[tuple[str, ...], bool]] = {
    "Requests in the server": (("running", "waiting"), False),
    "KV cache in use": (("KV cache",), True),
    "Output, tok/s": (("output",), False),
    "Acceptance rate": (("acceptance rate",), True),
    "Acceptance length, tokens/step": (("mean acceptance length",), False),
}
SERVER_HELP = (
    "Sampled from the server's own metrics while the cell was measured. Rates come from what its "
    f"counters grew by in windows of {WINDOW_S:g} s: output = generated tokens / s; acceptance "
    "rate = accepted / drafted tokens; mean acceptance length = 1 + accepted tokens / drafts."
)


def server_drawings(samples: pd.DataFrame, cell: pd.Series) -> list[Drawing]:
    """A chart for each thing that the samples tell; nothing where there are no samples."""
    known = lines(samples)
    note = bracketed(badge(cell["evidence"]))
    return [
        _drawing(known[known["line"].isin(names)], f"{title}{note}", cell, share)
        for title, (names, share) in _CHARTS.items()
        if known["line"].isin(names).any()
    ]


def _drawing(rows: pd.DataFrame, title: str, cell: pd.Series, share: bool) -> Drawing:
    last = rows.groupby("line")["at"].transform("max") == rows["at"]
    rows = rows.assign(end=rows["line"].where(last, ""))
    colour = arm_colour(str(cell["arm_label"]))
    return drawn(charts_server.over_time(rows, title, colour, share))


def log_excerpt(run: pd.Series) -> list[str]:
    """The last lines of the server's log, where the record of the run kept them."""
    said = _record(run).get("log_excerpt")
    return [str(line) for line in said] if isinstance(said, list) else []


def how_it_went(run: pd.Series) -> str:
    """Attempt, cause of a failure and where the time went, as far as the record says."""
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


def _record(run: pd.Series) -> Mapping[str, Any]:
    config = json.loads(run["report_config"])
    found = config.get("record") if isinstance(config, dict) else None
    return found if isinstance(found, dict) else {}


def command_lines(run: pd.Series) -> dict[str, str]:
    """Name of each command -> the line as a shell reads it."""
    return {name: shlex.join(words) for name, words in json.loads(run["commands"]).items()}


def again(run: pd.Series, cells: pd.DataFrame) -> str:
    """A shell script with which somebody else can run this again; unknown parts are said."""
    commands = command_lines(run)
    engine = _one(cells, "engine"), _one(cells, "engine_version")
    head = [
        f"# 1. The same software: {engine[0]} {engine[1]}, "
        f"{run['load_generator']} {_known(run['load_generator_version'])}.",
        f"#    Hardware: {_known(run['gpu'])}. Model revision: {_one(cells, 'model_revision')}.",
    ]
    server = commands.get("vllm")
    load = commands.get(str(run["load_generator"])) or commands.get("guidellm")
    return "\n".join(
        [
            *head,
            "",
            "# 2. Start the server, and wait until it answers.",
            f"{server} &" if server else "# The record does not state the server's command.",
            "until curl --silent --fail http://localhost:8000/health; do sleep 2; done"
            if server
            else "",
            "",
            "# 3. Put the load on it.",
            load or "# The record does not state the load generator's command.",
            "",
            *_last(run, cells),
        ]
    )


def _last(run: pd.Series, cells: pd.DataFrame) -> list[str]:
    lines_ = ["# 4. Take the new report in; facts that it does not state are set."]
    facts = ("model", "gpu", "dataset", "spec_method", "num_speculative_tokens")
    stated = {name: _one(cells, name) for name in facts if name in cells}
    words = [f"--set {shlex.quote(f'{name}={value}')}" for name, value in stated.items()
             if value not in ("unknown", "several")]  # fmt: skip
    lines_.append(" ".join(["draftboard ingest REPORT.json", *words]))
    study = run.get("study")
    if isinstance(study, str) and study:
        lines_ += [
            "",
            f"# Or let Draftboard do all of it from the file of the study {_known(study)}:",
            "draftboard run STUDY.yaml --results NEW-FOLDER",
        ]
    return lines_


def _one(cells: pd.DataFrame, name: str) -> str:
    """The value that all cells have, ``several`` or ``unknown``."""
    values = cells[name].dropna().unique()
    return "several" if len(values) > 1 else _known(values[0] if len(values) else None)


def _known(value: object) -> str:
    if value is None or pd.isna(value):  # type: ignore[call-overload]
        return "unknown"
    return f"{value:g}" if isinstance(value, float) else " ".join(str(value).split())
