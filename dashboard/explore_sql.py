"""The question behind a chart of the Explore page, as the SQL that is run and shown.

Stands on the documented views only, so that what is shown can be asked in the SQL box as it is.
"""

from dataclasses import dataclass
from typing import Literal

from warehouse.filters import FILTER_FIELDS, UNKNOWN, Filters

Kind = Literal["number", "time", "text"]


@dataclass(frozen=True)
class Key:
    """A column of the view ``cells`` that a chart can be laid out by."""

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

#: A filter's name where the column has another one.
_COLUMNS = {"arm": "arm_label"}
#: What makes two cells cells of different settings; a mark that pools several says so.
_SETTING = (
    "model", "gpu", "gpu_count", "engine", "engine_version", "precision", "dataset", "study",
    "tensor_parallel_size", "arm_label", "draft_model", "concurrency", "rate", "evidence",
)  # fmt: skip


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


def cells_sql(pick: Pick, filters: Filters) -> str:
    """One row per cell: cell_id, panel, series, x, y, load, setting, evidence, synthetic."""
    parts = [f"select\n{_columns(pick)}", "from cells", _join("own", pick.y)]
    if isinstance(pick.x, Amount):
        parts.append(_join("other", pick.x))
    conditions = _conditions(filters)
    if conditions:
        parts.append("where " + "\n    and ".join(conditions))
    return "\n".join(parts)


def marks_sql(pick: Pick, filters: Filters) -> str:
    """One row per mark: panel, series, x, y with its extremes, and how many cells it pools.

    Over another amount a mark is a load, which stands in ``load``, at the mean of that amount.
    ``settings`` counts the different settings among them, ``evidence`` names their kinds.
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
        "    string_agg(distinct evidence, ', ' order by evidence) as evidence,\n"
        "    bool_or(synthetic) as synthetic\n"
        f"from chosen\ngroup by {', '.join(by)}\norder by panel, series, x, y"
    )


def quoted(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _columns(pick: Pick) -> str:
    x = "other.value" if isinstance(pick.x, Amount) else _placed(pick.x)
    panel = _said(pick.panel) if pick.panel else "''"
    setting = ", ".join(f"cells.{name}" for name in _SETTING)
    lines = (
        "cells.cell_id", f"{panel} as panel", f"{_said(pick.series)} as series", f"{x} as x",
        "own.value as y", "cells.concurrency as load", f"hash({setting}) as setting",
        f"coalesce(cells.evidence, {quoted(UNKNOWN)}) as evidence",
        "coalesce(cells.synthetic_acceptance, false) as synthetic",
    )  # fmt: skip
    return ",\n".join(f"    {line}" for line in lines)


def _placed(key: Key) -> str:
    """A text that nobody stated has a place of its own; a number has none."""
    return _said(key) if key.kind == "text" else f"cells.{key.column}"


def _said(key: Key) -> str:
    return f"coalesce(cells.{key.column}::varchar, {quoted(UNKNOWN)})"


def _join(name: str, amount: Amount) -> str:
    return (
        f"join measurements as {name}\n"
        f"    on {name}.cell_id = cells.cell_id\n"
        f"    and {name}.metric = {quoted(amount.metric)}\n"
        f"    and {name}.statistic = {quoted(amount.statistic)}"
    )


def _conditions(filters: Filters) -> list[str]:
    kept = {_COLUMNS.get(name, name): getattr(filters, name) for name in FILTER_FIELDS}
    told = [
        f"coalesce(cells.{column}::varchar, {quoted(UNKNOWN)}) in "
        f"({', '.join(quoted(value) for value in values)})"
        for column, values in kept.items()
        if values
    ]
    if filters.since:
        told.append(f"cells.started_at >= {quoted(filters.since)}::date")
    if filters.until:
        told.append(f"cells.started_at < {quoted(filters.until)}::date + 1")
    return told


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
