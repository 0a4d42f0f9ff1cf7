"""The SQL box: one read-only question on the documented views."""

import functools
from pathlib import Path

import pandas as pd
import pyarrow as pa
import streamlit as st

from answers.compare.words import counted
from dashboard import turns
from dashboard.access import client
from dashboard.components import folded, plain, sentence, shown, table
from dashboard.downloads import rows_menu
from dashboard.shelf import Shelf
from warehouse.errors import DraftboardError
from warehouse.filters import Filters
from warehouse.store_question import VIEWS, Bounds, QuestionAnswer, ask

_LONGEST = 8000
_PRESSED = "the question that was run"
#: What people ask that no page answers -> the question.
EXAMPLES = {
    "Cells of each model, dataset and arm": (
        "select model, dataset, arm_label, count(*) as cells, max(started_at) as newest\n"
        "from cells\ngroup by all\norder by cells desc"
    ),
    "Acceptance against time to first token": (
        "select acceptance.dataset, acceptance.arm_label, acceptance.concurrency,\n"
        "    acceptance.rate as acceptance_rate, measurements.value as ttft_p95_ms\n"
        "from acceptance\njoin measurements using (cell_id)\n"
        "where metric = 'ttft' and statistic = 'p95'\norder by all"
    ),
    "Highest number of waiting requests in each cell": (
        "select cell_id, arm_label, dataset, concurrency, max(value) as most_waiting\n"
        "from samples\nwhere name = 'vllm:num_requests_waiting'\n"
        "group by all\norder by most_waiting desc"
    ),
    "Cells that filters would keep": (
        "select cell_id, arm_label, concurrency\nfrom cells\n"
        "semi join chosen(dataset_in := ['code', 'chat'], since := '2026-01-01'::date) using (cell_id)"
    ),
    "Cells with flags": "select name, severity, count(*) as cells\nfrom flags\ngroup by all",
}
_FREE = "write one"
_COLUMNS = (
    "select table_name as view, column_name as column_name, data_type as type\n"
    f"from information_schema.columns\nwhere table_name in {VIEWS} and table_catalog = 'memory'\n"
    "order by table_name, ordinal_position"
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the box and the answer. The sidebar's filters do not apply: the question says its own."""
    del filters
    st.header("Ask the warehouse in SQL")
    st.caption(
        f"One select on the views below; read-only, at most {Bounds().seconds:g} s and "
        f"{Bounds().rows:,} rows. The filters of the sidebar do not apply: a question says its own."
    )
    st.selectbox("Start from", [_FREE, *EXAMPLES], key="example", on_change=_take_example)
    asked = st.text_area(
        "Question", key="sql", bind="query-params", height=170,
        max_chars=_LONGEST, placeholder="select * from cells limit 10",
    )  # fmt: skip
    st.button("Run", on_click=_press)
    # A link fills the box; nothing is run before somebody has read it and pressed.
    if asked and st.session_state.get(_PRESSED) == asked:
        _answer(shelf, asked)
    elif asked and asked.strip():
        st.caption("Not run yet: read the question, then press Run.")
    part = folded("The views that can be asked", "views")
    if part is not None:
        with part:
            table(shown(_asked(shelf, _COLUMNS).rows.to_pandas()), "columns")


def _press() -> None:
    st.session_state[_PRESSED] = st.session_state["sql"]


def _take_example() -> None:
    st.session_state["sql"] = EXAMPLES.get(st.session_state["example"], "")


def _answer(shelf: Shelf, sql: str) -> None:
    try:
        with st.spinner("Asking the warehouse", show_time=True):
            found = _asked(shelf, sql)
    except DraftboardError as error:
        st.error(plain(sentence(error)))
        return
    rows = named_once(found.rows)
    known = counted(rows.num_rows, "row")
    st.markdown(f"The first {known}; there are more." if found.cut else f"{known}.")
    table(shown(flat(rows)), "rows")
    rows_menu("answer", functools.partial(flat, rows), rows)


def _asked(shelf: Shelf, sql: str) -> QuestionAnswer:
    """Return the answer to a reader's own question. Raises InvalidInput or TooManyWait, one
    sentence."""
    known = _known(repr(shelf), sql)
    if not known:
        place = st.empty()
        with turns.SQL.turn(
            client(),
            lambda before: place.caption(
                f"Waiting: {counted(before, 'question')} before yours; one is answered at a time."
            ),
        ):
            known = known or [ask(Path(shelf.root), sql)]
            place.empty()
        _known(repr(shelf), sql)[:] = known
    return known[0]


@functools.lru_cache(4)
def _known(shelf: str, sql: str) -> list[QuestionAnswer]:
    """Return a list for the answer that all sessions share; empty until somebody has the answer.

    The cache may not hold the waiting itself, which draws.
    """
    del shelf, sql
    return []


def named_once(rows: pa.Table) -> pa.Table:
    """Number the columns that share a name: ``n``, ``n (2)``."""
    seen: dict[str, int] = {}
    names = []
    for name in rows.column_names:
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return rows.rename_columns(names)


def flat(rows: pa.Table) -> pd.DataFrame:
    """Return the rows for a table or CSV: what is not a number, text or time becomes text."""
    table_: pd.DataFrame = pa.table(
        {name: _plain_column(rows.column(name)) for name in rows.column_names}
    ).to_pandas()
    return table_


def _plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    kind = column.type
    simple = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string,
        pa.types.is_timestamp, pa.types.is_date,
    )  # fmt: skip
    if any(test(kind) for test in simple):
        return column
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    texts = [None if value is None else str(value) for value in column.to_pylist()]
    return pa.array(texts, pa.string())
