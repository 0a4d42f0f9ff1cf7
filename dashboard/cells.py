"""How runs and cells are named and which of their columns a table shows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from streamlit import column_config as col

from dashboard.components import TABLE_ROWS, Shown, shown
from dashboard.links import cell_link
from dashboard.phrases import counted

#: Runs that are offered for a choice; older ones are found by their text.
NEWEST = 200

#: The reason for which a run is excluded by name; where none is, tables do without it.
EXCLUDED = "excluded"
RUN_COLUMNS = {
    "run_id": col.TextColumn("run"),
    EXCLUDED: col.TextColumn("excluded"),
    "started_at": col.DatetimeColumn("started (UTC)", format="YYYY-MM-DD HH:mm"),
    "model": col.TextColumn("model"),
    "gpu": col.TextColumn("GPU"),
    "dataset": col.TextColumn("dataset"),
    "arms": col.ListColumn("arms"),
    "concurrencies": col.ListColumn("concurrency"),
    "cells": col.NumberColumn("cells"),
    "flags": col.NumberColumn("flags"),
    "failed": col.NumberColumn("failed"),
    "evidence": col.TextColumn("evidence"),
    "load_generator": col.TextColumn("generator"),
    "load_generator_version": col.TextColumn("version"),
    "provenance": col.TextColumn("provenance"),
    "path": col.TextColumn("path"),
    "ingested_at": col.DatetimeColumn("ingested (UTC)", format="YYYY-MM-DD HH:mm"),
}
CELL_COLUMNS = {
    "dataset": col.TextColumn("dataset"),
    "arm_label": col.TextColumn("arm"),
    "concurrency": col.NumberColumn("concurrency"),
    "repeat": col.NumberColumn("repeat"),
    "status": col.TextColumn("status"),
    "completed": col.NumberColumn("completed"),
    "errored": col.NumberColumn("errored"),
    "incomplete": col.NumberColumn("incomplete"),
    "duration": col.NumberColumn("window, s", format="%.1f"),
    "flags": col.NumberColumn("flags"),
    "comparable_as": col.TextColumn("compared by"),
    "schema_generation": col.TextColumn("report format"),
}
#: What a table says of the cells behind a mark: column -> its name there.
BEHIND = {
    "arm_label": "arm", "concurrency": "concurrency", "repeat": "repeat", "completed": "completed",
    "errored": "errored", "flags": "flags", "run_id": "run",
}  # fmt: skip
#: The column that leads from a cell to its place in Runs.
LINK = "in Runs"
LINK_COLUMNS = {LINK: col.LinkColumn(LINK, display_text="open")}
_SHORT = 8


@dataclass(frozen=True)
class OneRun:
    """One run with its cells: ``names`` leads from a cell's name to its row in ``cells``."""

    head: pd.Series
    cells: pd.DataFrame
    names: dict[str, int]
    table: Shown
    flags: Shown


def one_run(head: pd.Series, cells: pd.DataFrame, flags: pd.DataFrame) -> OneRun:
    """A run as its part of the page shows it; equal flags are counted."""
    alike = flags.groupby(["severity", "name", "sentence"], sort=False).size().rename("cells")
    return OneRun(
        head, cells, cell_names(cells), shown(cells[list(CELL_COLUMNS)]),
        shown(alike.reset_index()),
    )  # fmt: skip


def linked(cells: pd.DataFrame) -> Shown:
    """A table of cells, each with a link into the Runs page. ``cells``: cell_id among others."""
    first = cells.head(TABLE_ROWS)
    links = [cell_link(cell_id) for cell_id in first["cell_id"]]
    return Shown(shown(first.drop(columns="cell_id").assign(**{LINK: links})).rows, len(cells))


def run_rows(runs: pd.DataFrame) -> pd.DataFrame:
    """What a table says of runs. ``runs``: as the query of that name."""
    rows = runs[list(RUN_COLUMNS)]
    if runs[EXCLUDED].isna().all():
        return rows.drop(columns=EXCLUDED)
    return rows.assign(**{EXCLUDED: runs[EXCLUDED].fillna("")})


def summary(runs: pd.DataFrame, rejected: int) -> str:
    """All runs in one sentence."""
    amounts = [
        counted(len(runs), "run"),
        counted(int(runs["cells"].sum()), "cell"),
        counted(int(runs["completed"].sum()), "completed request"),
    ]
    doubts = [counted(int(runs["flags"].sum()), "flag"), counted(rejected, "rejected file")]
    excluded = int(runs[EXCLUDED].notna().sum())
    doubts += [f"{counted(excluded, 'run')} excluded by name"] if excluded else []
    return f"{', '.join(amounts)}; {', '.join(doubts)}."


def newest_runs(runs: pd.DataFrame, text: str, asked: str) -> tuple[dict[str, int], int]:
    """Name -> row of the newest runs that hold ``text``, and how many hold it.

    ``asked`` is the name of a run that stays choosable however old it is.
    """
    names = run_names(runs)
    texts = runs[["run_id", "model", "dataset", "gpu", "path"]].astype(object)
    said = texts.where(texts.notna(), "unknown").agg(" ".join, axis=1)
    holds = said.str.contains(text, case=False, regex=False).to_numpy()
    found = [(name, row) for name, row in names.items() if holds[row]]
    extra = [(asked, names[asked])] if asked in names else []
    return dict(found[:NEWEST] + extra), len(found)


def run_names(runs: pd.DataFrame) -> dict[str, int]:
    """Name of each run -> its row; names that occur twice get the source's first digits."""
    return _numbered(list(runs["run_id"]), list(runs["source_id"]))


def cell_names(cells: pd.DataFrame) -> dict[str, int]:
    """Name of each cell -> its row."""
    names = [
        f"{_known(row.dataset)}, {row.arm_label}, concurrency {_known(row.concurrency)}"
        for row in cells.itertuples()
    ]
    return _numbered(names, list(cells["cell_id"]))


def _known(value: object) -> str:
    if pd.isna(value):  # type: ignore[call-overload]
        return "unknown"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _numbered(names: Sequence[str], identities: Sequence[str]) -> dict[str, int]:
    twice = {name for name, times in Counter(names).items() if times > 1}
    return {
        f"{name} ({identity[:_SHORT]})" if name in twice else name: row
        for row, (name, identity) in enumerate(zip(names, identities, strict=True))
    }
