"""Small pieces that every page uses: text that is never markup, tables with a limit."""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.charts.spec import Drawing
from warehouse.catalogue import Metric, percentile_label

# --- What is said where something does not work: one sentence, and no folder of the server in it.


#: A path from the root, of two parts or more: not a fraction, nor the path of an address.
_PATH = re.compile(r"(?<![\w.:/~-])(?:~|/[\w.@+~-]+)(?:/[\w.@+~-]+)+/?")


def sentence(error: Exception) -> str:
    """Return what an error says, of each path only the last part: the others tell where it lies."""
    return _PATH.sub(lambda found: f"…/{found[0].rstrip('/').rpartition('/')[2]}", str(error))


# --- Small pieces that every page uses: text that is never markup, tables with a limit.


def titled(drawings: Sequence[Drawing]) -> dict[str, Drawing]:
    """Return title -> chart, in order; a title that occurs twice is numbered."""
    found: dict[str, Drawing] = {}
    for number, drawing in enumerate(drawings, 1):
        title = str(drawing["title"]["text"])
        found[title if title not in found else f"{title} ({number})"] = drawing
    return found


#: Rows of a table that are sent to a browser; the rest is in the download or behind a filter.
TABLE_ROWS = 200
#: A table with at most so many rows stands there whole.
_UNSCROLLED = 24
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#|$~:&!])")
#: Where Streamlit's browser makes a link of bare text, after markup was read: an address of the
#: web, or of a person. A word joiner is seen by nobody and ends what it looks for.
_LINKED = re.compile(r"(?i)(https?://|www(?=\.)|@(?=[\w-]+\.))")
_JOINER = "\u2060"


def plain(text: str) -> str:
    """Return text from a result, made safe where Streamlit would read markdown, HTML, formulas or
    links."""
    unlinked = _LINKED.sub(rf"\1{_JOINER}", text.replace("\n", " "))
    return _MARKUP.sub(r"\\\1", unlinked)


def copied(text: str, language: str | None = None) -> None:
    """Draw text that is copied as it stands, such as a command or an address.

    Long lines wrap and long texts stand there whole: the keyboard does not reach a box that
    scrolls.
    """
    st.code(text, language=language, wrap_lines=True)


def tab(title: str, subject: str = "") -> None:
    """Name the browser's tab: the page, and what it is about. A page may say it more exactly."""
    said = [word for word in (title, subject, "Draftboard") if word]
    st.set_page_config(page_title=" · ".join(said))


@dataclass(frozen=True)
class Shown:
    """A table as it is sent to a browser, made once and cached: at most ``TABLE_ROWS`` rows."""

    rows: pa.Table
    total: int


def shown(rows: pd.DataFrame) -> Shown:
    """Return the first rows, ready to send, and how many there are."""
    return Shown(
        pa.Table.from_pandas(_said(rows.head(TABLE_ROWS)), preserve_index=False), len(rows)
    )


def folded(label: str, key: str) -> DeltaGenerator | None:
    """Draw a part that is computed only while it is open, which the address says; None while
    closed."""
    part = st.expander(label, key=key, on_change="rerun", bind="query-params")
    return part if part.open else None


def listing(values: Sequence[object], columns: Mapping[str, str]) -> Shown:
    """Return typed values as a table; ``columns``: attribute -> what stands above it."""
    rows = [[getattr(value, name) for name in columns] for value in values[:TABLE_ROWS]]
    first = shown(pd.DataFrame(rows, columns=list(columns.values())))
    return Shown(first.rows, len(values))


def texts(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Shown:
    """Return rows of words as they are sent; an empty place is a dash."""
    names = [name or "taken" for name in header]
    lines = [["–" if word in ("", None) else word for word in row] for row in rows]
    return shown(pd.DataFrame(lines, columns=names))


def table(known: Shown, what: str, config: Mapping[str, Any] | None = None) -> None:
    """Draw a table, and say how many rows there are beyond those it has."""
    height: Literal["auto", "content"] = "content" if known.total <= _UNSCROLLED else "auto"
    st.dataframe(known.rows, hide_index=True, column_config=dict(config or {}), height=height)
    if known.total > TABLE_ROWS:
        st.caption(f"{TABLE_ROWS} of {known.total:,} {what}; choose filters to see the others.")


def _said(rows: pd.DataFrame) -> pd.DataFrame:
    """Replace unknown values by the word for unknown; a column of numbers that are all known keeps
    them as numbers."""
    gaps = [name for name in rows if rows[name].isna().any()]
    texts = {str(name): rows[name].map(_text) for name in gaps}
    return rows.assign(**texts)


def _text(value: object) -> str:
    if isinstance(value, (list, tuple, np.ndarray)):
        return ", ".join(map(_text, value))
    if pd.isna(value):  # type: ignore[call-overload]
        return "unknown"
    return f"{value:g}" if isinstance(value, float) else str(value)


@functools.cache
def explanation(metric: Metric, statistic: str) -> str:
    """Say how a metric is calculated, from the catalogue, as markdown for a tooltip."""
    parts = [f"**{metric.label}**, {metric.unit}: {plain(metric.definition)}"]
    if metric.distribution:
        parts.append(f"Shown: {percentile_label(statistic)}; percentiles by nearest rank.")
    return "\n\n".join([*parts, _improvement_formula(metric)])


def _improvement_formula(metric: Metric) -> str:
    if metric.better == "higher":
        return "Improvement = speculative / baseline − 1. Positive is better."
    return "Improvement = 1 − speculative / baseline. Positive is better."
