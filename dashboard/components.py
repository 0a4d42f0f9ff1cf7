"""Small pieces that every page uses: text that is never markup, tables with a limit."""

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import streamlit as st

from dashboard.charts import Drawing
from warehouse.catalogue import Metric, percentile_label
from warehouse.errors import DraftboardError

#: A path from the root, of two parts or more: not a fraction, nor the path of an address.
_PATH = re.compile(r"(?<![\w.:/~-])(?:~|/[\w.@+~-]+)(?:/[\w.@+~-]+)+/?")
#: Rows of a table that are sent to a browser; the rest is in the download or behind a filter.
TABLE_ROWS = 200
#: Charts that stand side by side.
ACROSS = 3
#: A table with at most so many rows stands there whole.
_UNSCROLLED = 24
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#|$~:&!])")
#: Where Streamlit's browser makes a link of bare text, after markup was read: an address of the
#: web, or of a person. A word joiner is seen by nobody and ends what it looks for.
_LINKED = re.compile(r"(?i)(https?://|www(?=\.)|@(?=[\w-]+\.))")
_JOINER = "\u2060"
#: A number as text, ``+20.1 %``, or an interval of two; and what stands where there is none.
_VALUE = r"[-+]?\d[\d,]*(\.\d+)?\+?"
_NUMBER = re.compile(rf"{_VALUE}( to {_VALUE})?(\s?(%|x|s|ms|min|h|USD|tok/s))?")
_UNTOLD = frozenset({"–", "unknown", "no interval", "none: one launch", "not printed"})


def sentence(error: Exception) -> str:
    """Return what an error says, of each path only the last part: the others tell where it lies."""
    return _PATH.sub(lambda found: f"…/{found[0].rstrip('/').rpartition('/')[2]}", str(error))


def plain(text: str) -> str:
    """Return text from a result, made safe where Streamlit would read markdown, HTML, formulas or
    links."""
    return _MARKUP.sub(r"\\\1", _LINKED.sub(rf"\1{_JOINER}", text.replace("\n", " ")))


def copied(text: str, language: str | None = None) -> None:
    """Draw text that is copied as it stands, such as a command or an address.

    Long lines wrap and long texts stand there whole: the keyboard does not reach a box that
    scrolls.
    """
    st.code(text, language=language, wrap_lines=True)


@contextlib.contextmanager
def errors_told() -> Iterator[None]:
    """Say an error of ours in one sentence, in the place of what it ended."""
    try:
        yield
    except DraftboardError as error:
        st.error(plain(sentence(error)))


def badged(texts: Iterable[str]) -> None:
    """Draw a grey badge for each text."""
    for text in texts:
        st.badge(text, color="gray")


def titled(drawings: Sequence[Drawing]) -> dict[str, Drawing]:
    """Return title -> chart, in order; a title that occurs twice is numbered."""
    named: dict[str, Drawing] = {}
    for number, drawing in enumerate(drawings, 1):
        title = str(drawing["title"]["text"])
        named[title if title not in named else f"{title} ({number})"] = drawing
    return named


def grid(drawings: Sequence[Drawing], alternatives: Sequence[str], across: int = 0) -> None:
    """Draw the charts, at most three to a row; on a phone they stand one below the other. ``across``:
    how many columns a row has, though it has fewer charts."""
    described = list(zip(drawings, alternatives, strict=True))
    few = min(len(described), ACROSS)
    for start in range(0, len(described), ACROSS):
        row = described[start : start + ACROSS]
        for place, (drawing, text) in zip(st.columns(across or few), row, strict=False):
            place.vega_lite_chart(drawing, alt=text)


def segments(label: str, options: Sequence[str], key: str, first: str | None = None) -> str:
    """Draw options side by side, of which one is always chosen, also by the address."""
    chosen: str = st.segmented_control(
        label, options, default=first or options[0], required=True, key=key, bind="query-params"
    )
    return chosen


def fold(
    label: str, key: str, draw: Callable[[], object], opened: bool = False, icon: str | None = None
) -> None:
    """Draw a part that is made only while it is open, which the address says."""
    part = st.expander(label, opened, key=key, icon=icon, on_change="rerun", bind="query-params")
    if part.open:
        with part:
            draw()


# --- Tables.


@dataclass(frozen=True)
class TableRows:
    """A table as it is sent to a browser, made once and cached: at most ``TABLE_ROWS`` rows.
    ``numbers``: the columns of texts that are numbers, which stand at the right."""

    rows: pa.Table
    total: int
    numbers: tuple[str, ...] = ()


def shown(rows: pd.DataFrame) -> TableRows:
    """Return the first rows, ready to send, and how many there are. Unknown values become the word for
    unknown; a column of numbers that are all known keeps them as numbers."""
    first = rows.head(TABLE_ROWS)
    gaps = [name for name in first if first[name].isna().any()]
    first = first.assign(**{str(name): first[name].map(_text) for name in gaps})
    numbers = tuple(str(name) for name in first if _is_number(first[name]))
    return TableRows(pa.Table.from_pandas(first, preserve_index=False), len(rows), numbers)


def _is_number(column: pd.Series) -> bool:
    if not all(isinstance(one, str) for one in column):
        return False
    told = set(column) - _UNTOLD
    return bool(told) and all(map(_NUMBER.fullmatch, told))


def tabled(header: Sequence[str], rows: Iterable[Sequence[object]]) -> TableRows:
    """Return rows as they are sent."""
    return shown(pd.DataFrame([list(row) for row in rows], columns=list(header)))


def listing(values: Sequence[object], columns: Mapping[str, str]) -> TableRows:
    """Return typed values as a table; ``columns``: attribute -> what stands above it."""
    rows = [[getattr(value, name) for name in columns] for value in values[:TABLE_ROWS]]
    return replace(tabled(list(columns.values()), rows), total=len(values))


def texts(header: Sequence[str], rows: Iterable[Sequence[object]]) -> TableRows:
    """Return rows of words as they are sent; an empty place is a dash."""
    return tabled(
        [name or "taken" for name in header],
        [["–" if word in ("", None) else word for word in row] for row in rows],
    )


def table(known: TableRows, what: str, config: Mapping[str, Any] | None = None) -> None:
    """Draw a table, and say how many rows there are beyond those it has."""
    height: Literal["auto", "content"] = "content" if known.total <= _UNSCROLLED else "auto"
    at_right = {name: st.column_config.TextColumn(alignment="right") for name in known.numbers}
    st.dataframe(
        known.rows, hide_index=True, column_config=at_right | dict(config or {}), height=height
    )
    if known.total > TABLE_ROWS:
        st.caption(f"{TABLE_ROWS} of {known.total:,} {what}; choose filters to see the others.")


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
    higher = metric.better == "higher"
    formula = "speculative / baseline − 1" if higher else "1 − speculative / baseline"
    return "\n\n".join([*parts, f"Improvement = {formula}. Positive is better."])
