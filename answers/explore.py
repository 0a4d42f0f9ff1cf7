"""Any number over any key: what a reader of the free charts asks, the SQL that answers it, and its words."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from textwrap import indent
from typing import Any, Literal

import pyarrow as pa

from answers.compare.values import metric_name
from answers.wording import badges, bracketed
from warehouse import annotations
from warehouse.catalogue import METRICS, counted
from warehouse.filters import FILTER_FIELDS, UNKNOWN, Filters
from warehouse.storage.question import documented
from warehouse.store import Opened, Reader

# --- A free chart as typed values: panels of marks, and the cells behind them.


Kind = Literal["number", "time", "text", "several"]


@dataclass(frozen=True)
class Key:
    """A column of the view ``cells`` that a chart can be laid out by; ``several``: of many columns,
    whose texts are joined."""

    label: str
    column: str
    kind: Kind


#: Label -> key, in the order in which they are offered.
KEYS: dict[str, Key] = {
    key.label: key
    for key in (
        Key("Concurrency", "concurrency", "number"),
        Key("Draft tokens K", "num_speculative_tokens", "number"),
        Key("Arm", "arm_label", "text"),
        Key("Setting", "model, gpu, tensor_parallel_size, dataset", "several"),
        Key("Dataset", "dataset", "text"),
        Key("Tensor parallel size", "tensor_parallel_size", "number"),
        Key("Model", "model", "text"),
        Key("GPU", "gpu", "text"),
        Key("GPUs", "gpu_count", "number"),
        Key("Engine version", "engine_version", "text"),
        Key("Method", "spec_method", "text"),
        Key("Draft model", "draft_model", "text"),
        Key("Precision", "precision", "text"),
        Key("Study", "study", "text"),
        Key("Repeat", "repeat", "number"),
        Key("Request rate", "rate", "number"),
        Key("Load generator", "load_generator", "text"),
        Key("Evidence", "evidence", "text"),
        Key("Start time", "started_at", "time"),
    )
}

EACH = "each cell"
#: How the cells of one mark become one number -> its SQL.
AGGREGATIONS: dict[str, str] = {
    "median": "median(y)",
    "mean": "avg(y)",
    "geometric mean": "case when min(y) > 0 then exp(avg(ln(greatest(y, 1e-300)))) end",
    "minimum": "min(y)",
    "maximum": "max(y)",
    EACH: "any_value(y)",
}


@dataclass(frozen=True)
class Measure:
    """A metric of the catalogue at one statistic."""

    metric: str
    statistic: str

    @property
    def label(self) -> str:
        """What it is called."""
        return metric_name(self.metric, self.statistic)

    @property
    def unit(self) -> str:
        """The unit of its values."""
        return METRICS[self.metric].unit

    def text(self, value: float) -> str:
        """Write a value in the metric's decimals."""
        return f"{value:,.{METRICS[self.metric].decimals}f}"


@dataclass(frozen=True)
class Pick:
    """One chart: ``y`` over ``x`` (a key or another measure), told apart by the key ``series``,
    a panel for each value of the key ``panel`` (None: one), cells pooled by ``how``."""

    y: Measure
    x: Key | Measure
    series: Key
    panel: Key | None
    how: str


#: Where a mark stands: a number, a moment (UTC) or a text.
Place = float | datetime | str


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark: ``y`` pools ``cells`` cells of ``settings`` settings and ``subjects`` subjects, whose
    lowest and highest are ``low`` and ``high``; ``load``: where it stands over a measure."""

    panel: str
    series: str
    x: Place
    y: float
    low: float
    high: float
    load: int | None
    cells: int
    settings: int
    subjects: int
    subject: int
    evidence: str
    synthetic: bool


@dataclass(frozen=True, slots=True)
class ChartPanel:
    """One chart; ``answer`` says its best value, or why there is none."""

    name: str
    answer: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """What is drawn: panels with most marks first, the sentence above them, doubts below, badges."""

    panels: tuple[ChartPanel, ...]
    headline: str
    notes: tuple[str, ...]
    badges: tuple[str, ...]

    @property
    def all(self) -> tuple[Mark, ...]:
        return tuple(mark for panel in self.panels for mark in panel.marks)


@dataclass(frozen=True, slots=True)
class CellBehind:
    """A cell behind a mark."""

    cell_id: str
    panel: str
    series: str
    x: Place | None
    y: float | None
    load: int | None
    evidence: str


@dataclass(frozen=True, slots=True)
class ChartCells:
    """The first cells behind marks, and how many there are."""

    first: tuple[CellBehind, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Clicked:
    """A mark that somebody clicked: in which panel, of which series, and where along x (over a
    measure: its load)."""

    panel: str
    series: str
    along: Place | None


# --- The question behind a free chart, as the SQL that is run and shown.
#
# Stands on the documented views only, so that what is shown can be asked in the SQL box as it is.


#: What makes two cells cells of different settings; a mark that pools several says so.
_SETTING = (
    "model", "gpu", "gpu_count", "engine", "engine_version", "precision", "dataset", "study",
    "tensor_parallel_size", "arm_label", "draft_model", "concurrency", "rate", "evidence",
)  # fmt: skip
#: What two cells must share before one of them may be called the best.
_COMPARABLE = (
    "model", "gpu", "gpu_count", "precision", "dataset", "tensor_parallel_size", "evidence",
)  # fmt: skip


def cells_sql(pick: Pick, filters: Filters) -> str:
    """Return the SQL of one row per cell: cell_id, panel, series, x, y, load, setting, subject,
    evidence, synthetic."""
    parts = [f"select\n{_columns_sql(pick)}", "from cells"]
    if filters != Filters():
        parts.append(f"semi join {_chosen_sql(filters)} using (cell_id)")
    parts.append(_join_sql("own", pick.y))
    if isinstance(pick.x, Measure):
        parts.append(_join_sql("other", pick.x))
    return "\n".join(parts)


def marks_sql(pick: Pick, filters: Filters) -> str:
    """Return the SQL of one row per mark: panel, series, x, y with its extremes, and how many cells
    it pools.

    Over a measure a mark is a load, which stands in ``load``, at the mean of that measure.
    ``settings`` and ``subjects`` count the different ones among them, ``evidence`` names their
    kinds.
    """
    along = "avg(x) as x,\n    load" if isinstance(pick.x, Measure) else "x"
    by = ["panel", "series", "load" if isinstance(pick.x, Measure) else "x"]
    by += ["cell_id"] if pick.how == EACH else []
    return (
        f"with chosen as (\n{indent(cells_sql(pick, filters), '    ')}\n)\n\n"
        f"select\n    panel,\n    series,\n    {along},\n"
        f"    {AGGREGATIONS[pick.how]} as y,\n"
        "    min(y) as low,\n    max(y) as high,\n    count(*) as cells,\n"
        "    count(distinct setting) as settings,\n"
        "    count(distinct subject) as subjects,\n"
        "    any_value(subject) as subject,\n"
        "    string_agg(distinct evidence, ', ' order by evidence) as evidence,\n"
        "    bool_or(synthetic) as synthetic\n"
        f"from chosen\ngroup by {', '.join(by)}\norder by panel, series, x, y"
    )


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _columns_sql(pick: Pick) -> str:
    x = "other.value"
    if isinstance(pick.x, Key):
        # A text that nobody stated becomes ``unknown``, a number stays null.
        x = _text_of(pick.x) if pick.x.kind in ("text", "several") else f"cells.{pick.x.column}"
    panel = _text_of(pick.panel) if pick.panel else "''"
    setting, subject = (
        ", ".join(f"cells.{name}" for name in names) for names in (_SETTING, _COMPARABLE)
    )
    lines = (
        "cells.cell_id", f"{panel} as panel", f"{_text_of(pick.series)} as series", f"{x} as x",
        "own.value as y", "cells.concurrency as load", f"hash({setting}) as setting",
        f"hash({subject}) as subject",
        f"coalesce(cells.evidence, {quoted(UNKNOWN)}) as evidence",
        "coalesce(cells.synthetic_acceptance, false) as synthetic",
    )  # fmt: skip
    return ",\n".join(f"    {line}" for line in lines)


def _text_of(key: Key) -> str:
    texts = [
        f"coalesce(cells.{name}::varchar, {quoted(UNKNOWN)})" for name in key.column.split(", ")
    ]
    # ``TP`` goes before a size among others, since a number alone says nothing.
    sized = [f"'TP ' || {text}" if "tensor_parallel_size" in text else text for text in texts]
    return f"concat_ws(', ', {', '.join(sized)})" if key.kind == "several" else texts[0]


def _join_sql(name: str, measure: Measure) -> str:
    return (
        f"join measurements as {name}\n"
        f"    on {name}.cell_id = cells.cell_id\n"
        f"    and {name}.metric = {quoted(measure.metric)}\n"
        f"    and {name}.statistic = {quoted(measure.statistic)}"
    )


def _chosen_sql(filters: Filters) -> str:
    arguments = [
        f"{name}_in := [{', '.join(map(quoted, values))}]"
        for name in FILTER_FIELDS
        if (values := getattr(filters, name))
    ]
    days = {"since": filters.since, "until": filters.until}
    arguments += [f"{name} := {quoted(day)}::date" for name, day in days.items() if day]
    return f"chosen({', '.join(arguments)})"


# --- What a free chart says: its headline, the best of a panel, and what could not be drawn.


#: More series than this cannot be told apart.
MOST_SERIES = 12
#: More marks than this make a chart slow and say no more.
MOST_MARKS = 5000


def _headline(panels: Sequence[ChartPanel], pick: Pick) -> str:
    if not panels:
        return f"{pick.y.label}: unknown for every cell that the filters keep"
    if len(panels) == 1 and _one_subject(panels[0].marks):
        return f"{pick.y.label}: {panels[0].answer}"
    marks = [mark for panel in panels for mark in panel.marks]
    scope = f"{counted(len({mark.subject for mark in marks}), 'setting')}, each for itself"
    if any(mark.subjects > 1 for mark in marks):
        scope = "a mark pools several settings, so none is the best"
    return f"{pick.y.label} over {axis_title(pick.x)}: {scope}"


def _one_subject(marks: Sequence[Mark]) -> bool:
    return len({mark.subject for mark in marks}) == 1 and all(m.subjects == 1 for m in marks)


def _best_value(marks: Sequence[Mark], pick: Pick) -> str:
    if not _one_subject(marks):
        return "settings that cannot be pooled, so none is the best"
    y, better = pick.y, METRICS[pick.y.metric].better
    low, high = min(marks, key=lambda mark: mark.y), max(marks, key=lambda mark: mark.y)
    if better == "neither":
        return f"{y.text(low.y)} to {y.text(high.y)} {y.unit}"
    best = high if better == "higher" else low
    # A number needs the name of its key before it; ``eagle3 K=5`` does not.
    before = f"{pick.series.label.lower()} " if pick.series.kind == "number" else ""
    where = f"{before}{best.series}, {_at_x(best.x, pick.x)}"
    return f"best {y.text(best.y)} {y.unit}, {where}"


def _at_x(x: Place, along: Key | Measure) -> str:
    if isinstance(along, Measure) and isinstance(x, float | int):
        return f"{along.label} {along.text(x)} {along.unit}"
    if isinstance(x, datetime):
        return f"{x:%Y-%m-%d %H:%M} UTC"
    return f"{axis_title(along)} {x:g}" if isinstance(x, float | int) else str(x)


def axis_title(x: Key | Measure) -> str:
    """Return what stands along the x axis, with its unit."""
    if isinstance(x, Measure):
        return f"{x.label}, {x.unit}"
    return x.label if x.label.isupper() else x.label[:1].lower() + x.label[1:]


def titles(drawn: Marks, pick: Pick) -> tuple[str, ...]:
    """Return a title for each panel, with the badges: what tells it from the other panels, else its
    name."""
    badges = bracketed(*drawn.badges)
    if pick.panel is None:
        return (f"{pick.y.label}, {pick.y.unit}{badges}",)
    names = [panel.name for panel in drawn.panels]
    parts = [name.split(", ") for name in names]
    if len(names) > 1 and len({len(name_parts) for name_parts in parts}) == 1:
        # Without the parts that all of them have in the same place.
        differ = [at for at, column in enumerate(zip(*parts, strict=True)) if len({*column}) > 1]
        names = [", ".join(name_parts[at] for at in differ) for name_parts in parts]
    return tuple(f"{name}{badges}" for name in names)


def subtitle(panel: ChartPanel, pick: Pick) -> tuple[str, ...]:
    """Return two lines: the panel's answer, and what is drawn."""
    how = "each cell" if pick.how == EACH else f"{pick.how} of the cells"
    return panel.answer, f"{pick.y.label}, {pick.y.unit}; {how}"


def alternative(panel: ChartPanel, pick: Pick) -> str:
    """Describe a panel in words for somebody who does not see its chart."""
    values = [mark.y for mark in panel.marks]
    series = ", ".join(sorted({mark.series for mark in panel.marks}))
    return (
        f"{pick.y.label} in {pick.y.unit} over "
        f"{axis_title(pick.x)}{f', {panel.name}' if pick.panel else ''}: "
        f"{counted(len(values), 'mark')} of {series}, from {pick.y.text(min(values))} to "
        f"{pick.y.text(max(values))}; {panel.answer}. The cells stand in the table below."
    )


# --- The rows of a free chart, asked of the documented views by the SQL that the page shows.


_MARK, _CELL = ({field.name for field in fields(kind)} for kind in (Mark, CellBehind))


@lru_cache(maxsize=2)
def _views(root: Path, generation: int, excluded: str) -> Opened:
    """Open the documented views in this process, for our own questions only. ``generation``: the
    newest; ``excluded``: the version of the exclusions that they follow."""
    del generation, excluded
    return documented(root)


def _table(reader: Reader, sql: str) -> pa.Table:
    opened = _views(reader.root, reader.generation, annotations.exclusions_version(reader.root))
    with opened.connection.cursor() as cursor:
        return cursor.sql(sql).to_arrow_table()


def marks(reader: Reader, pick: Pick, filters: Filters, most: int) -> Marks:
    """Return what one chart draws in at most ``most`` panels."""
    rows = [
        # Over a key a mark is at no load.
        Mark(**{"load": None, **{name: row[name] for name in row.keys() & _MARK}})
        for row in _table(reader, marks_sql(pick, filters)).to_pylist()
    ]
    return placed(rows, pick, most)


def placed(rows: Sequence[Mark], pick: Pick, most: int) -> Marks:
    """Choose the marks that can be drawn, and say what is left out."""
    located = [mark for mark in rows if mark.x is not None and mark.y is not None]
    # Of the panels, then of the series, those that have most marks.
    panels = {name for name, _ in Counter(mark.panel for mark in located).most_common(most)}
    kept = [mark for mark in located if mark.panel in panels]
    lines = {name for name, _ in Counter(mark.series for mark in kept).most_common(MOST_SERIES)}
    kept = [mark for mark in kept if mark.series in lines]
    drawn = kept[:MOST_MARKS]
    by_panel: dict[str, list[Mark]] = {}
    for mark in drawn:
        by_panel.setdefault(mark.panel, []).append(mark)
    # The best of a panel may be a mark that is not drawn.
    charts = tuple(
        ChartPanel(name, _best_value([mark for mark in located if mark.panel == name], pick), tuple(own))
        for name, own in sorted(by_panel.items(), key=lambda panel: -len(panel[1]))
    )  # fmt: skip
    unplaced, pooled = len(rows) - len(located), max((mark.settings for mark in drawn), default=1)
    every_panel, panel = (len({mark.panel for mark in chosen}) for chosen in (located, drawn))
    every_line, line = (len({mark.series for mark in chosen}) for chosen in (located, drawn))
    notes = {
        f"The first {MOST_MARKS:,} of {len(kept):,} marks are drawn; choose filters.":
            len(kept) > MOST_MARKS,
        f"{counted(unplaced, 'mark')} without a known {axis_title(pick.x)} or value not drawn.":
            unplaced > 0,
        f"{panel} of {every_panel:,} panels are drawn, those with most marks; choose filters.":
            every_panel > panel,
        f"{line} of {every_line:,} lines are drawn, those with most marks; choose filters.":
            every_line > line,
        # Lest a mark of unlike cells looks like a repeat.
        f"A mark pools cells of up to {pooled} different settings (model, hardware, dataset, arm, "
        "load): choose filters or panels before you compare.": pooled > 1,
    }  # fmt: skip
    kinds = {kind for mark in drawn for kind in mark.evidence.split(", ")}
    by_hand = any(mark.synthetic for mark in drawn)
    shown_badges = tuple(sorted({text for kind in kinds for text in badges(kind, by_hand)}))
    holding = tuple(text for text, holds in notes.items() if holds)
    return Marks(charts, _headline(charts, pick), holding, shown_badges)


def cells(
    reader: Reader,
    pick: Pick,
    filters: Filters,
    clicked: tuple[Clicked, ...] = (),
    most: int | None = None,
) -> ChartCells:
    """Return the cells of a chart, each once, or those behind the marks that were clicked; at most
    ``most``."""
    # Parallel reading keeps no order, and a reader who asks twice expects the same rows.
    rows = _table(
        reader, f"{cells_sql(pick, filters)}\norder by panel, series, x, y, cells.cell_id"
    )
    along = "load" if isinstance(pick.x, Measure) else "x"
    wanted = {(click.panel, click.series, _along(click.along)) for click in clicked}
    every = rows.slice(0, None if clicked else most).to_pylist()
    if clicked:
        every = [x for x in every if (x["panel"], x["series"], _along(x[along])) in wanted]
    first = tuple(CellBehind(**{name: row[name] for name in _CELL}) for row in every[:most])
    return ChartCells(first, len(every) if clicked else rows.num_rows)


def _along(place: Any) -> Any:
    """Return a place along an axis; times as a browser tells them, in ms since 1970."""
    return place.astimezone(UTC).timestamp() * 1000 if isinstance(place, datetime) else place
