"""The SQL box of the Explore page: one read-only question on the documented views."""

import functools

import streamlit as st

from dashboard.answers import explore as answers_explore
from dashboard.components import plain, table
from dashboard.data import explore as data_explore
from dashboard.data.explore import Asked
from dashboard.download_menu import rows_menu
from dashboard.phrases import counted
from dashboard.shelf import Shelf
from warehouse.errors import DraftboardError
from warehouse.filters import Filters
from warehouse.store_question import Bounds

_LONGEST = 8000
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
    "Cells with flags": "select name, severity, count(*) as cells\nfrom flags\ngroup by all",
}
_FREE = "write one"


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the box and the answer. The sidebar's filters do not apply: the question says its own."""
    del filters
    st.header("Ask the warehouse in SQL")
    st.caption(
        f"One select on the views below; read-only, at most {Bounds().seconds:g} s and "
        f"{Bounds().rows:,} rows. The filters of the sidebar do not apply."
    )
    st.selectbox("Start from", [_FREE, *EXAMPLES], key="example", on_change=_take_example)
    asked = st.text_area(
        "Question (Ctrl+Enter asks)", key="sql", bind="query-params", height=170,
        max_chars=_LONGEST, placeholder="select * from cells limit 10",
    )  # fmt: skip
    st.button("Ask", type="primary")
    if asked and asked.strip():
        _answer(shelf, asked)
    with st.expander("The views that can be asked"):
        table(data_explore.documented(shelf), "columns")


def _take_example() -> None:
    st.session_state["sql"] = EXAMPLES.get(st.session_state["example"], "")


def _answer(shelf: Shelf, sql: str) -> None:
    try:
        with st.spinner("Asking the warehouse", show_time=True):
            found = data_explore.asked(shelf, sql)
    except DraftboardError as error:
        st.error(plain(str(error)))
        return
    st.markdown(_counted(found))
    table(found.table, "rows")
    rows_menu("answer", functools.partial(answers_explore.flat, found.rows), found.rows)


def _counted(found: Asked) -> str:
    known = counted(found.rows.num_rows, "row")
    return f"The first {known}; there are more." if found.cut else f"{known}."
