"""The filters in the frame, bound to the URL: a link shows what its sender saw."""

import re

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
_GONE = "values_of_the_link_that_are_gone"


def sidebar(values: dict[str, list[str]]) -> Filters:
    """Draw one multiselect per filter and return what is chosen.

    ``values``: filter -> the values that occur, as ``option_values`` orders them.
    """
    with st.sidebar:
        _report_values_that_are_gone(values)
        chosen = {field: _choose(field, values[field]) for field in LABELS}
    return Filters(**chosen)


def _choose(field: str, values: list[str]) -> tuple[str, ...]:
    picked = st.multiselect(
        LABELS[field],
        values,
        key=field,
        bind="query-params",
        placeholder="all",
        on_change=_forget_values_that_are_gone,
    )
    return tuple(picked)


def option_values(options: pd.DataFrame) -> dict[str, list[str]]:
    """Filter -> its values in natural order. ``options``: field, value, cells."""
    return {field: _values(field, options) for field in LABELS}


def _values(field: str, options: pd.DataFrame) -> list[str]:
    values = options.loc[options["field"] == field, "value"]
    return sorted((str(value) for value in values), key=_natural)


def _natural(text: str) -> list[tuple[int, str]]:
    """Sorts K=3 before K=10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def _report_values_that_are_gone(values: dict[str, list[str]]) -> None:
    """Name the values of a link that the warehouse does not hold.

    Streamlit drops such values from the URL in silence, and the page would show more than asked.
    They are kept in the session, because the URL has forgotten them at the next rerun.
    """
    gone = [
        f"{LABELS[field]} {value}"
        for field in LABELS
        for value in st.query_params.get_all(field)
        if value not in values[field]
    ]
    if gone:
        st.session_state[_GONE] = gone
    for what in st.session_state.get(_GONE, []):
        st.warning(
            f"The link asks for {plain(what)}, which is not in the warehouse. It is left out."
        )


def _forget_values_that_are_gone() -> None:
    st.session_state.pop(_GONE, None)
