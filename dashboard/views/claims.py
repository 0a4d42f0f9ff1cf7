"""Claims: do published figures follow from their own tables, and what did we measure ourselves?"""

import streamlit as st

from dashboard import data
from dashboard.access import may_edit, require_editor
from dashboard.answers.claims import Answer
from dashboard.components import plain, table
from dashboard.data import claims as data_claims
from dashboard.data.claims import MOST_MB, Table
from dashboard.download_menu import charts_menu, rows_menu
from dashboard.drawing_titles import titled
from dashboard.empty import nothing
from dashboard.shelf import Shelf
from warehouse.filters import Filters

TITLE = "Claims"
URL_PATH = "claims"
ORDER = 100
_HOW = (
    "Every improvement, mean, acceptance length and cost is recomputed from the values printed "
    "beside it, in percent with positive being better. A figure is flagged only where no rounding "
    "of the printed digits explains the difference, or where a cost stands on the price of other "
    "GPUs than its throughput."
)
_HOW_MEASURED = (
    "Matched by what a row states: model, dataset, tensor parallel size, GPU, precision. A claim at "
    "one concurrency stands beside that level, any other beside the mean over the load. The "
    "interval covers the noise between repeats."
)
_FORMAT = (
    "YAML or CSV. Rows with metric, baseline, speculative and published_pct are improvements; rows "
    "with usd_per_hour and throughputs are costs. Write numbers with the digits printed. The file "
    "is read in memory and not kept."
)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    top, body = st.container(), st.container()
    with body:
        chosen = _table()
        everything = st.toggle("Show the figures that follow, too", key="all_figures",
                               bind="query-params")  # fmt: skip
    if chosen is None:
        with top:
            st.header("Do published figures follow from their own tables?")
            st.info("No table comes along with this installation. Upload one of your own.")
        return
    known = data_claims.claims_answer(shelf, filters, chosen, everything)
    with top:
        st.header(plain(known.headline), help=_HOW)
    with body:
        _figures(known)
        _measured(shelf, filters, known)
        _silent(known)


def _table() -> Table | None:
    left, right = st.columns(2)
    sent = right.file_uploader(
        f"Check a table of your own, up to {MOST_MB} MB", type=["yaml", "yml", "csv"], help=_FORMAT,
        key="claims_file", max_upload_size=MOST_MB,
    ) if may_edit() else None  # fmt: skip
    names = data_claims.shipped()
    name = left.selectbox("Published tables", names, key="claims", bind="query-params",
                          disabled=sent is not None) if names else None  # fmt: skip
    if sent is not None:
        require_editor()
        return data_claims.uploaded_table(sent.name, sent.getvalue())
    return None if name is None else data_claims.shipped_table(name)


def _figures(known: Answer) -> None:
    st.subheader("Which figures, and why?", help=_HOW)
    if known.table.total:
        table(known.table, "figures")
    else:
        st.caption("None is flagged.")
    rows_menu("claims", lambda: known.rows)


def _measured(shelf: Shelf, filters: Filters, known: Answer) -> None:
    st.subheader("The improvements, beside what was measured here", help=_HOW_MEASURED)
    if data.cells(shelf, filters).empty:
        sentence = "No result matches these filters. Remove one in the sidebar."
        nothing(shelf, sentence)
        return
    if known.drawing is not None:
        st.vega_lite_chart(known.drawing)
        charts_menu("claims", titled([known.drawing]))
    if known.left_out:
        st.caption(f"{known.left_out} more improvements stand in the table only.")
    if known.measured.total:
        table(known.measured, "measurements")
        return
    st.caption("Nothing here was measured with the model, dataset and size that the table states.")
    table(data.combinations(shelf), "combinations")


def _silent(known: Answer) -> None:
    if known.unclaimed:
        with st.expander(f"Not checked: {len(known.unclaimed)}"):
            for sentence in known.unclaimed:
                st.caption(plain(sentence))
