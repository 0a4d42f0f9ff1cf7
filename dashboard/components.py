"""Small pieces that every page uses: text that is never markup, tables with a limit, empty states."""

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from warehouse.catalogue import Metric, percentile_label

#: Rows of a table that are sent to a browser; the rest is in the download or behind a filter.
TABLE_ROWS = 200
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#|$~:&!])")


def plain(text: str) -> str:
    """Text from a result, made safe where Streamlit would read markdown, HTML or formulas."""
    return _MARKUP.sub(r"\\\1", text.replace("\n", " "))


def table(rows: pd.DataFrame, what: str, config: Mapping[str, Any] | None = None) -> None:
    """A table of at most ``TABLE_ROWS`` rows that says how many there are."""
    st.dataframe(_said(rows.head(TABLE_ROWS)), hide_index=True, column_config=dict(config or {}))
    if len(rows) > TABLE_ROWS:
        st.caption(f"{TABLE_ROWS} of {len(rows):,} {what}; choose filters to see the others.")


def _said(rows: pd.DataFrame) -> pd.DataFrame:
    """Unknown is said, not left blank; a column of numbers that are all known stays one."""
    gaps = [name for name in rows if rows[name].isna().any()]
    texts = {str(name): rows[name].map(_text) for name in gaps}
    return rows.assign(**texts)


def _text(value: object) -> str:
    if pd.isna(value):  # type: ignore[call-overload]
        return "unknown"
    return f"{value:g}" if isinstance(value, float) else str(value)


def explain(metric: Metric, statistic: str) -> None:
    """How a metric is calculated, from the catalogue, behind one click."""
    with st.popover("how is this calculated?", type="tertiary"):
        st.markdown(f"**{metric.label}**, {metric.unit}: {plain(metric.definition)}")
        if metric.distribution:
            st.markdown(f"Shown: {percentile_label(statistic)}; percentiles by nearest rank.")
        st.markdown(_improvement_formula(metric))


def _improvement_formula(metric: Metric) -> str:
    if metric.better == "higher":
        return "Improvement = speculative / baseline − 1. Positive is better."
    return "Improvement = 1 − speculative / baseline. Positive is better."


def nothing_matches(options: pd.DataFrame, sentence: str) -> None:
    """Say that nothing is to be seen, and which combinations exist.

    ``options``: one row per combination of filter values that has cells.
    """
    st.info(plain(sentence))
    if not options.empty:
        st.markdown("These combinations have results:")
        table(options, "combinations")
