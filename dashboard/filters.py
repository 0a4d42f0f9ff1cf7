"""The filters in the frame, bound to the URL: a link shows what its sender saw."""

import pandas as pd
import streamlit as st

from dashboard.components import plain
from warehouse.filters import Filters

#: Filter (its name is also its name in the URL) -> label.
LABELS: dict[str, str] = {
    "model": "Model",
    "gpu": "GPU",
    "engine_version": "Engine version",
    "dataset": "Dataset",
    "tensor_parallel_size": "Tensor parallel size",
    "arm": "Arm",
}


def sidebar(options: pd.DataFrame) -> Filters:
    """Draw one multiselect per filter and return what is chosen.

    ``options`` has one row per value that occurs: ``field``, ``value``, ``cells``.
    """
    with st.sidebar:
        _report_values_that_are_gone(options)
        chosen = {field: _choose(field, options) for field in LABELS}
    return Filters(**chosen)


def _choose(field: str, options: pd.DataFrame) -> tuple[str, ...]:
    values = _values(field, options)
    picked = st.multiselect(
        LABELS[field], values, key=field, bind="query-params", placeholder=f"all {len(values)}"
    )
    return tuple(picked)


def _values(field: str, options: pd.DataFrame) -> list[str]:
    values = options.loc[options["field"] == field, "value"].astype(str)
    return sorted(values, key=lambda value: (len(value), value) if value.isdigit() else (99, value))


def _report_values_that_are_gone(options: pd.DataFrame) -> None:
    """Name the values of a link that the warehouse does not hold.

    Streamlit drops such values from the URL in silence, and the page would show more than asked.
    They are kept in the session, because the URL forgets them before the next rerun.
    """
    gone = [
        f"{LABELS[field]} {value}"
        for field in LABELS
        for value in st.query_params.get_all(field)
        if value not in set(_values(field, options))
    ]
    if gone:
        st.session_state["values_gone"] = gone
    for sentence in st.session_state.get("values_gone", []):
        st.warning(
            plain(f"The link asks for {sentence}, which is not in the warehouse; it is left out.")
        )
