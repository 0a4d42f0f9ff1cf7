"""What Explore reads, cached by warehouse generation: rows of its charts, answers to SQL.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from dashboard.answers import Drawing
from dashboard.answers import explore as answers_explore
from dashboard.answers.explore import Marks
from dashboard.components import Shown, shown
from dashboard.explore_sql import Pick, cells_sql, marks_sql
from dashboard.shelf import Shelf, cached, frame
from warehouse.filters import Filters
from warehouse.store_files import generation_name
from warehouse.store_question import VIEWS, Answer, ask
from warehouse.store_question import documented as documented_views


@dataclass(frozen=True)
class Asked:
    """The answer to a question in SQL: its rows for people and files, and whether it was cut."""

    table: Shown
    rows: pa.Table
    cut: bool


@cached(2)
def _views(shelf: Shelf) -> Any:
    """The documented views of one generation, in this process: for our own questions only."""
    return documented_views(Path(shelf.root) / generation_name(shelf.generation))


def _rows(shelf: Shelf, sql: str) -> pd.DataFrame:
    with _views(shelf).cursor() as cursor:
        return frame(cursor.sql(sql).to_arrow_table())


@cached(32, Pick)
def marks(shelf: Shelf, pick: Pick, filters: Filters) -> Marks:
    """What one chart draws; see ``answers_explore.marks``."""
    return answers_explore.marks(_rows(shelf, marks_sql(pick, filters)), pick)


@cached(32, Pick)
def drawings(shelf: Shelf, pick: Pick, filters: Filters) -> dict[str, Drawing]:
    """Panel -> its chart; see ``answers_explore.drawings``."""
    return answers_explore.drawings(marks(shelf, pick, filters), pick)


@cached(16, Pick)
def cells_behind(shelf: Shelf, pick: Pick, filters: Filters) -> pd.DataFrame:
    """One row per cell of a chart, as ``explore_sql.cells_sql`` says."""
    return _rows(shelf, cells_sql(pick, filters))


@cached(8)
def asked(shelf: Shelf, sql: str) -> Asked:
    """The answer to a reader's own question. Raises InvalidInput with one sentence."""
    answer: Answer = ask(Path(shelf.root), sql)
    rows = answers_explore.named_once(answer.rows)
    return Asked(shown(answers_explore.flat(rows)), rows, answer.cut)


@cached(2)
def documented(shelf: Shelf) -> Shown:
    """view, column, type: what a question may name."""
    columns = [_rows(shelf, f"describe {view}").assign(view=view) for view in VIEWS]
    known = pd.concat(columns, ignore_index=True)
    return shown(known.rename(columns={"column_name": "column", "column_type": "type"})
                 [["view", "column", "type"]])  # fmt: skip
