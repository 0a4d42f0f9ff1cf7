"""What a report is made of: words, tables and charts, before they become a page."""

from dataclasses import dataclass

import pyarrow as pa

from dashboard.answers import Drawing
from dashboard.components import Shown

#: A report is read, not searched: longer tables stay in the dashboard.
MOST_ROWS = 36


@dataclass(frozen=True)
class Grid:
    """A table as text; ``right``: the columns with numbers."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    more: int = 0


@dataclass(frozen=True)
class Figure:
    """A chart and what somebody who does not see it is told."""

    drawing: Drawing
    alternative: str


@dataclass(frozen=True)
class Section:
    """One question and its answer; ``points`` become a list, ``notes`` small print."""

    title: str
    paragraphs: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """All that a report says. ``tiles``: label, value, note; ``scope``: what it is about, line by
    line; ``link``: where the same view can be opened, empty if nobody said."""

    question: str
    headline: str
    tiles: tuple[tuple[str, str, str], ...]
    against: tuple[str, ...]
    badges: tuple[str, ...]
    scope: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    made_at: str
    link: str = ""
    version: str = ""


def grid(known: Shown, caption: str) -> Grid:
    """The first rows of a table that a page shows."""
    rows = known.rows.slice(0, MOST_ROWS)
    texts = [tuple(map(_text, row.values())) for row in rows.to_pylist()]
    numbers = {
        i for i, kind in enumerate(rows.schema.types)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind)
    }  # fmt: skip
    numbers |= {i for i in range(rows.num_columns) if _numeric([row[i] for row in texts])}
    header = tuple(str(name) for name in rows.column_names)
    return Grid(caption, header, tuple(texts), frozenset(numbers), known.total - len(texts))


def _numeric(texts: list[str]) -> bool:
    """Whether most texts start as numbers do: such a column is set right-aligned."""
    like = [text[:1].isdigit() or (text[:1] in "+-−" and text[1:2].isdigit()) for text in texts]
    return bool(texts) and sum(like) > len(texts) / 2


def _text(value: object) -> str:
    if value is None:
        return "unknown"
    return f"{value:g}" if isinstance(value, float) else str(value)
