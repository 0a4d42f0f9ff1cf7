"""The words and tables of the Explore page, from the rows of its questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from answers.wording import badges
from dashboard.answers import Drawing, drawn
from dashboard.charts import explore as charts_explore
from dashboard.charts.explore import Words
from dashboard.explore_sql import EACH, Amount, Key, Pick
from dashboard.phrases import counted, named
from warehouse.catalogue import METRICS

#: More panels than this are not drawn; filters choose among them.
MOST_PANELS = 12
#: More series than this cannot be told apart.
MOST_SERIES = 12
#: More marks than this make a chart slow and say no more.
MOST_MARKS = 5000


@dataclass(frozen=True)
class Marks:
    """What one chart draws: ``rows`` (panel, series, x, y, low, high, cells, solid), the sentences
    above it and the doubts below it."""

    rows: pd.DataFrame
    headline: str
    notes: tuple[str, ...]
    badges: tuple[str, ...]


def marks(rows: pd.DataFrame, pick: Pick) -> Marks:
    """The marks that can be drawn, and what has to be said about those that cannot."""
    known = rows.dropna(subset=["x", "y"])
    kept = _most(_most(known, "panel", MOST_PANELS), "series", MOST_SERIES)
    drawable = kept.head(MOST_MARKS).reset_index(drop=True)
    drawable = drawable.assign(solid=(drawable["cells"] > 1).astype(int))
    notes = (
        _too_many(len(kept)),
        _unplaced(len(rows) - len(known), pick),
        _left_out(known, drawable, "panel"),
        _left_out(known, drawable, "series"),
        _pooled(drawable),
    )
    return Marks(drawable, _headline(drawable, pick), tuple(filter(None, notes)), _badges(drawable))


def _most(rows: pd.DataFrame, column: str, number: int) -> pd.DataFrame:
    """The rows of the values that have most marks."""
    return rows[rows[column].isin(rows[column].value_counts().index[:number])]


def _too_many(number: int) -> str:
    if number <= MOST_MARKS:
        return ""
    return f"The first {MOST_MARKS:,} of {number:,} marks are drawn; choose filters."


def _headline(rows: pd.DataFrame, pick: Pick) -> str:
    """The best value, or the span of a number that has no better direction."""
    metric = METRICS[pick.y.metric]
    label = named(metric, pick.y.statistic)
    if rows.empty:
        return f"{label}: unknown for every cell that the filters keep"
    low, high = rows.iloc[int(rows["y"].argmin())], rows.iloc[int(rows["y"].argmax())]
    if metric.better == "neither":
        span = f"{_amount(pick.y, low['y'])} to {_amount(pick.y, high['y'])}"
        return f"{label}: {span} {metric.unit}"
    best = high if metric.better == "higher" else low
    return f"{label}: best {_amount(pick.y, best['y'])} {metric.unit}, {_place(best, pick)}"


def _place(row: pd.Series, pick: Pick) -> str:
    """Which mark: its series, its panel and where it stands along x."""
    told = [(pick.series, row["series"]), *([(pick.panel, row["panel"])] if pick.panel else [])]
    return ", ".join([*(_named(key, value) for key, value in told), _at(row["x"], pick.x)])


def _named(key: Key, value: object) -> str:
    """``eagle3 K=5`` says what it is, ``2`` does not."""
    return f"{key.label.lower()} {value}" if key.kind == "number" else str(value)


def _at(x: Any, along: Key | Amount) -> str:
    if isinstance(along, Amount):
        metric = METRICS[along.metric]
        return f"{named(metric, along.statistic)} {_amount(along, x)} {metric.unit}"
    if along.kind == "time":
        return f"{x:%Y-%m-%d %H:%M} UTC"
    return f"{axis_title(along)} {x:g}" if along.kind == "number" else str(x)


def _amount(amount: Amount, value: float) -> str:
    return f"{value:,.{METRICS[amount.metric].decimals}f}"


def _unplaced(number: int, pick: Pick) -> str:
    if not number:
        return ""
    return f"{counted(number, 'mark')} without a known {axis_title(pick.x)} or value not drawn."


def _left_out(known: pd.DataFrame, drawable: pd.DataFrame, column: str) -> str:
    there, shown_here = known[column].nunique(), drawable[column].nunique()
    if there <= shown_here:
        return ""
    what = {"panel": "panels", "series": "lines"}[column]
    return f"{shown_here} of {there:,} {what} are drawn, those with most marks; choose filters."


def _pooled(rows: pd.DataFrame) -> str:
    """A mark that stands for unlike cells must not look like a repeat."""
    most = 1 if rows.empty else int(rows["settings"].max())
    if most == 1:
        return ""
    return (
        f"A mark pools cells of up to {most} different settings (model, hardware, dataset, arm, "
        "load): choose filters or panels before you compare."
    )


def _badges(rows: pd.DataFrame) -> tuple[str, ...]:
    kinds = {kind for text in rows["evidence"] for kind in str(text).split(", ")}
    by_hand = bool(rows["synthetic"].any())
    return tuple(sorted({text for kind in kinds for text in badges(kind, by_hand)}))


def axis_title(x: Key | Amount) -> str:
    """What stands along the x axis, with its unit."""
    if isinstance(x, Amount):
        return f"{named(METRICS[x.metric], x.statistic)}, {METRICS[x.metric].unit}"
    return x.label if x.label.isupper() else x.label[:1].lower() + x.label[1:]


def drawings(known: Marks, pick: Pick) -> dict[str, Drawing]:
    """Panel -> its chart, all on one scale, panels with most marks first."""
    if known.rows.empty:
        return {}
    axes = charts_explore.axes(known.rows, kind(pick.x), pick.series.column == "arm_label")
    order = known.rows["panel"].value_counts(sort=True).index
    return {
        str(name): drawn(
            charts_explore.marks(
                known.rows[known.rows["panel"] == name], _words(pick, known, name), axes
            )  # fmt: skip
        )
        for name in order
    }


def kind(x: Key | Amount) -> charts_explore.Kind:
    """How a chart lays out x."""
    return "path" if isinstance(x, Amount) else x.kind


def _words(pick: Pick, known: Marks, panel: str) -> Words:
    metric = METRICS[pick.y.metric]
    badges = "".join(f"  [{text}]" for text in known.badges)
    direction = "" if metric.better == "neither" else f", {metric.better} is better"
    pooled = "" if pick.how == EACH else f"{pick.how}; "
    name = f"{panel}: " if pick.panel else ""
    return Words(
        title=f"{name}{named(metric, pick.y.statistic)}, {metric.unit}{badges}",
        subtitle=f"{pooled}by {pick.series.label.lower()}{direction}",
        x=axis_title(pick.x),
        series=pick.series.label,
        value=f",.{metric.decimals}f",
    )


def text_alternative(known: Marks, panel: str, pick: Pick) -> str:
    """What somebody who does not see a panel's chart is told."""
    rows = known.rows[known.rows["panel"] == panel]
    metric = METRICS[pick.y.metric]
    return (
        f"{named(metric, pick.y.statistic)} in {metric.unit} over {axis_title(pick.x)}"
        f"{f', {panel}' if pick.panel else ''}: {counted(len(rows), 'mark')} of "
        f"{', '.join(sorted(rows['series'].unique()))}, from {_amount(pick.y, rows['y'].min())} "
        f"to {_amount(pick.y, rows['y'].max())}. The cells stand in the table below."
    )


def clicked(
    cells: pd.DataFrame, picked: Mapping[str, Sequence[dict[str, Any]]], pick: Pick
) -> pd.DataFrame:
    """The cells behind the marks that were clicked, panel by panel: each a series with its x (over
    an amount: with its load)."""
    along = "load" if isinstance(pick.x, Amount) else "x"
    wanted = pd.Series(False, index=cells.index)
    for panel, marks_of_panel in picked.items():
        for mark in marks_of_panel:
            same = (cells["panel"] == panel) & (cells["series"] == mark.get("series"))
            wanted |= same & _same(cells, along, mark)
    return cells[wanted]


def _same(cells: pd.DataFrame, along: str, mark: dict[str, Any]) -> pd.Series:
    if pd.api.types.is_datetime64_any_dtype(cells[along]):
        # A browser tells times in ms since 1970.
        same: pd.Series = cells[along] == pd.Timestamp(mark.get(along, 0), unit="ms", tz="UTC")
        return same
    return cells[along] == mark.get(along)


def table_rows(cells: pd.DataFrame, pick: Pick) -> pd.DataFrame:
    """The cells of a chart under the names that it gives them."""
    metric = METRICS[pick.y.metric]
    names = {"series": pick.series.label, "x": axis_title(pick.x)}
    if pick.panel:
        names["panel"] = pick.panel.label
    names |= {"y": f"{named(metric, pick.y.statistic)}, {metric.unit}", "evidence": "evidence"}
    columns = ["panel"] if pick.panel else []
    rows = cells[[*columns, "series", "x", "y", "evidence", "cell_id"]].rename(columns=names)
    # The same key may be asked for twice.
    return rows.loc[:, ~rows.columns.duplicated()]


def named_once(rows: pa.Table) -> pa.Table:
    """Columns of one name are numbered: ``n``, ``n (2)``."""
    seen: dict[str, int] = {}
    names = []
    for name in rows.column_names:
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return rows.rename_columns(names)


def flat(rows: pa.Table) -> pd.DataFrame:
    """The rows for a table or CSV: what is not a number, text or time becomes text."""
    table: pd.DataFrame = pa.table(
        {name: _plain_column(rows.column(name)) for name in rows.column_names}
    ).to_pandas()
    return table


def _plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    kind = column.type
    simple = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string,
        pa.types.is_timestamp, pa.types.is_date,
    )  # fmt: skip
    if any(test(kind) for test in simple):
        return column
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    texts = [None if value is None else str(value) for value in column.to_pylist()]
    return pa.array(texts, pa.string())
