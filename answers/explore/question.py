"""The question behind a free chart, as the SQL that is run and shown.

Stands on the documented views only, so that what is shown can be asked in the SQL box as it is.
"""

from answers.explore.values import AGGREGATIONS, EACH, Amount, Key, Pick
from warehouse.filters import FILTER_FIELDS, UNKNOWN, Filters

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
