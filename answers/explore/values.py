"""A free chart as typed values: panels of marks, and the cells behind them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from warehouse.filters import FILTER_FIELDS, UNKNOWN, Filters

Kind = Literal["number", "time", "text", "several"]


@dataclass(frozen=True)
class Key:
    """A column of the view ``cells`` that a chart can be laid out by; ``several``: of many columns,
    whose texts are joined."""

    label: str
    column: str
    kind: Kind


#: The columns that say what was measured; two cells that differ in one are never the same setting.
SUBJECT = ("model", "gpu", "tensor_parallel_size", "dataset")
#: Label -> key, in the order in which they are offered.
KEYS: dict[str, Key] = {
    key.label: key
    for key in (
        Key("Concurrency", "concurrency", "number"),
        Key("Draft tokens K", "num_speculative_tokens", "number"),
        Key("Arm", "arm_label", "text"),
        Key("Setting", ", ".join(SUBJECT), "several"),
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
class Amount:
    """A metric of the catalogue at one statistic."""

    metric: str
    statistic: str


@dataclass(frozen=True)
class Pick:
    """One chart: ``y`` over ``x`` (a key or another amount), told apart by the key ``series``,
    a panel for each value of the key ``panel`` (None: one), cells pooled by ``how``."""

    y: Amount
    x: Key | Amount
    series: Key
    panel: Key | None
    how: str


#: Where a mark stands: a number, a moment (UTC) or a text.
Place = float | datetime | str


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark: ``y`` pools ``cells`` cells of ``settings`` settings and ``subjects`` subjects, whose
    lowest and highest are ``low`` and ``high``; ``load``: where it stands over an amount."""

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
class Panel:
    """One chart; ``answer`` says its best value, or why there is none."""

    name: str
    answer: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """What is drawn: panels with most marks first, the sentence above them, doubts below, badges."""

    panels: tuple[Panel, ...]
    headline: str
    notes: tuple[str, ...]
    badges: tuple[str, ...]

    @property
    def all(self) -> tuple[Mark, ...]:
        """The marks of all panels."""
        return tuple(mark for panel in self.panels for mark in panel.marks)


@dataclass(frozen=True, slots=True)
class Behind:
    """A cell behind a mark."""

    cell_id: str
    panel: str
    series: str
    x: Place | None
    y: float | None
    load: int | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Cells:
    """The first cells behind marks, and how many there are."""

    first: tuple[Behind, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Clicked:
    """A mark that somebody clicked: in which panel, of which series, and where along x (over an
    amount: its load)."""

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
_SUBJECT = (
    "model", "gpu", "gpu_count", "precision", "dataset", "tensor_parallel_size", "evidence",
)  # fmt: skip


def cells_sql(pick: Pick, filters: Filters) -> str:
    """Return the SQL of one row per cell: cell_id, panel, series, x, y, load, setting, subject,
    evidence, synthetic."""
    parts = [f"select\n{_columns(pick)}", "from cells", _join("own", pick.y)]
    if isinstance(pick.x, Amount):
        parts.append(_join("other", pick.x))
    if filters != Filters():
        parts.insert(2, f"semi join {_chosen(filters)} using (cell_id)")
    return "\n".join(parts)


def marks_sql(pick: Pick, filters: Filters) -> str:
    """Return the SQL of one row per mark: panel, series, x, y with its extremes, and how many cells
    it pools.

    Over another amount a mark is a load, which stands in ``load``, at the mean of that amount.
    ``settings`` and ``subjects`` count the different ones among them, ``evidence`` names their
    kinds.
    """
    along = "avg(x) as x,\n    load" if isinstance(pick.x, Amount) else "x"
    by = ["panel", "series", "load" if isinstance(pick.x, Amount) else "x"]
    by += ["cell_id"] if pick.how == EACH else []
    return (
        f"with chosen as (\n{_indented(cells_sql(pick, filters))}\n)\n\n"
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


def _columns(pick: Pick) -> str:
    x = "other.value" if isinstance(pick.x, Amount) else _placed(pick.x)
    panel = _said(pick.panel) if pick.panel else "''"
    setting, subject = (
        ", ".join(f"cells.{name}" for name in names) for names in (_SETTING, _SUBJECT)
    )
    lines = (
        "cells.cell_id", f"{panel} as panel", f"{_said(pick.series)} as series", f"{x} as x",
        "own.value as y", "cells.concurrency as load", f"hash({setting}) as setting",
        f"hash({subject}) as subject",
        f"coalesce(cells.evidence, {quoted(UNKNOWN)}) as evidence",
        "coalesce(cells.synthetic_acceptance, false) as synthetic",
    )  # fmt: skip
    return ",\n".join(f"    {line}" for line in lines)


def _placed(key: Key) -> str:
    """Write the SQL that places a cell: a text that nobody stated becomes ``unknown``, a number
    stays null."""
    return _said(key) if key.kind in ("text", "several") else f"cells.{key.column}"


def _said(key: Key) -> str:
    if key.kind == "several":
        names = (name for name in key.column.split(", "))
        return f"concat_ws(', ', {', '.join(map(_part, names))})"
    return f"coalesce(cells.{key.column}::varchar, {quoted(UNKNOWN)})"


def _part(column: str) -> str:
    """Write the SQL of a column's text; ``TP`` goes before a size, since a number alone says
    nothing."""
    text = f"coalesce(cells.{column}::varchar, {quoted(UNKNOWN)})"
    return f"'TP ' || {text}" if column == "tensor_parallel_size" else text


def _join(name: str, amount: Amount) -> str:
    return (
        f"join measurements as {name}\n"
        f"    on {name}.cell_id = cells.cell_id\n"
        f"    and {name}.metric = {quoted(amount.metric)}\n"
        f"    and {name}.statistic = {quoted(amount.statistic)}"
    )


def _chosen(filters: Filters) -> str:
    """Write the SQL of the filters: the warehouse's own macro, with those that are set."""
    lists = {name: getattr(filters, name) for name in FILTER_FIELDS}
    told = [
        f"{name}_in := [{', '.join(map(quoted, values))}]"
        for name, values in lists.items()
        if values
    ]
    days = {"since": filters.since, "until": filters.until}
    told += [f"{name} := {quoted(day)}::date" for name, day in days.items() if day]
    return f"chosen({', '.join(told)})"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
