"""How runs and cells are named and which of their columns a table shows."""

from collections.abc import Sequence

import pandas as pd
from streamlit import column_config as col

RUN_COLUMNS = {
    "run_id": col.TextColumn("run"),
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
_SHORT = 8


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
    twice = {name for name in names if names.count(name) > 1} if len(names) < 1000 else set(names)
    return {
        f"{name} ({identity[:_SHORT]})" if name in twice else name: row
        for row, (name, identity) in enumerate(zip(names, identities, strict=True))
    }
