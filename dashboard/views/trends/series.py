"""One series over its nights: chart, what changed, what was said, and accepting it as it is."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st
from streamlit import column_config as col
from streamlit.delta_generator import DeltaGenerator

from analysis.frames import number
from analysis.nightly.regressions import AcceptedNight, budgets
from answers.runs import notes
from answers.runs.notes import PlacedNote
from answers.trend.answer import Meant, Trend, TrendLine, accept, names, watch, watched
from dashboard import annotating
from dashboard.access import may_edit
from dashboard.charts.spec import Drawing, specification
from dashboard.charts.trends import run_chart
from dashboard.components import Shown, folded, plain, sentence, shown, table, titled
from dashboard.downloads import charts_menu
from dashboard.links import cell_link, follow_first
from dashboard.shelf import Shelf, ask, cached
from warehouse.errors import DraftboardError
from warehouse.filters import Filters


@dataclass(frozen=True)
class Asked:
    """What is watched, how much worse it may become (``itl=3% 5%``), and what was accepted."""

    filters: Filters
    budget: str
    accepted: tuple[AcceptedNight, ...]


@dataclass(frozen=True)
class Known:
    """The judged trend. ``places``: metric -> the names of its judged series, worst first -> the
    series."""

    trend: Trend
    places: dict[str, dict[str, TrendLine]]


@cached
def trend_of(shelf: Shelf, asked: Asked) -> Known:
    """Judge every series; raises UnknownKey for a budget that cannot be read."""
    allowed = budgets(asked.budget.replace(",", " ").split())
    trend = watch(ask(shelf, watched, asked.filters), allowed, asked.accepted)
    places: dict[str, dict[str, TrendLine]] = {}
    told = names([line.assessed.series for line in trend.judged])
    for name, line in zip(told, trend.judged, strict=True):
        places.setdefault(line.metric, {})[name] = line
    return Known(trend, places)


@cached
def drawing(
    shelf: Shelf, asked: Asked, metric: str, name: str, noted: tuple[PlacedNote, ...]
) -> Drawing:
    """Draw the run chart of one series, with what people noted."""
    return specification(run_chart(trend_of(shelf, asked).places[metric][name], noted))


#: Series that can be chosen at once; the others are behind filters.
MOST_SERIES = 200
_READ = (
    "Points: nights, hollow for a single repeat. Dashed: the level; solid: the reference, the best "
    "level before. Band: three standard deviations of a night. Thin dotted upright: the "
    "configuration changed; bold upright: the level moved. The value axis does not start at zero."
)
_NOTED = " Triangle at the top: a note, or a run that is excluded by name."
_NIGHT_COLUMNS = {
    "value": col.TextColumn("value", alignment="right"),
    "cell": col.LinkColumn("first cell", display_text="open"),
}
_THIS, _STUDY, _EVERY = "this series", "every series of its study", "every series"


def render(shelf: Shelf, asked: Asked, known: Known, controls: Sequence[DeltaGenerator]) -> None:
    """Draw the chosen series, the worst by default."""
    follow_first("line", list(known.places))
    metric = controls[0].selectbox("Metric", list(known.places), key="line", bind="query-params")
    places = known.places[metric]
    offered = list(places)[:MOST_SERIES]
    follow_first("series", offered)
    name = controls[1].selectbox("Series, worst first", offered, key="series", bind="query-params")
    line = places[name]
    noted = _noted(shelf, asked, line)
    chart = drawing(shelf, asked, metric, name, noted)
    st.vega_lite_chart(chart, alt=line.said)
    st.markdown(plain(line.said))
    if noted:
        st.markdown("What people noted on these nights and runs, newest first:")
        table(annotating.noted(noted), "notes")
    _accept(shelf, line)
    _behind(line, noted)
    st.caption(_READ + (_NOTED if noted else ""))
    annotating.night(shelf, line.days, line.study)
    charts_menu("series", titled([chart]))
    if len(places) > len(offered):
        st.caption(
            f"The worst {len(offered)} of {len(places):,} series can be chosen; use filters."
        )


def _noted(shelf: Shelf, asked: Asked, line: TrendLine) -> tuple[PlacedNote, ...]:
    version = annotating.notes_version(shelf)
    if not version:
        return ()
    return ask(shelf.with_excluded(), notes.of_series, asked.filters, line.about, version)


def _accept(shelf: Shelf, line: TrendLine) -> None:
    """Draw the form that accepts a night, as ``draftboard gate accept`` does: from it on the night
    is the reference of what follows."""
    if not may_edit():
        return
    with st.popover("Accept a night as the reference"), st.form("accept", border=False):
        st.caption(
            "What got worse up to that night is no regression any more, and what was better before "
            "does not count any more. Everybody sees who accepted it and why."
        )
        night = st.selectbox("Night to accept", line.days, key="accept-night")
        of = st.radio("For", [_THIS, *([_STUDY] if line.study else []), _EVERY], key="accept-for")
        why = st.text_input("Why", key="accept-why")
        if st.form_submit_button("Accept"):
            _accepted(shelf, Meant(night, *_meant(line, of)), why or "")


def _meant(line: TrendLine, of: str | None) -> tuple[str | None, str | None]:
    """Return the study, and the parts of the series' name, that are accepted."""
    parts = ", ".join(line.assessed.series.words) if of == _THIS else None
    return (None if of == _EVERY else line.study), parts


def _accepted(shelf: Shelf, what: Meant, why: str) -> None:
    name = annotating.author()
    try:
        accept(shelf.reader, what, why, name)
    except DraftboardError as error:
        st.error(plain(sentence(error)))
        return
    st.rerun()


def _behind(line: TrendLine, noted: tuple[PlacedNote, ...]) -> None:
    part = folded("What changed in the configuration, and the nights behind it", "behind")
    if part is None:
        return
    with part:
        changes = _changes(line)
        if changes.total:
            table(changes, "changes")
        else:
            st.caption("Nothing that is recorded changed in the configuration.")
        table(_nights(line, noted), "nights", _NIGHT_COLUMNS)


def _changes(line: TrendLine) -> Shown:
    rows = [
        (point.night, change.field, _said(change.before), _said(change.after))
        for point in reversed(line.points)
        for change in point.changed
    ]
    return shown(pd.DataFrame(rows, columns=["night", "setting", "before", "after"]))


def _said(value: object) -> str:
    return "not stated" if value is None else str(value)


def _nights(line: TrendLine, noted: Sequence[PlacedNote]) -> Shown:
    metric = line.assessed.series.measure
    said = dict(notes.by_night(noted))
    rows = [
        {
            "night": point.night,
            "value": f"{number(point.value, metric.decimals)} {metric.unit}",
            "repeats": point.repeats,
            "noise from": number(point.low, metric.decimals),
            "to": number(point.high, metric.decimals),
            **({"notes": said.get(point.night[:10], "")} if said else {}),
            "cell": cell_link(str(point.cell_id)),
        }
        for point in reversed(line.points)
    ]
    return shown(pd.DataFrame(rows))


def file_rows(lines: Sequence[TrendLine]) -> pd.DataFrame:
    """Return every series unrounded, for a file: what it is, how it is judged, since when."""
    told = [
        {
            **dict(line.about), "metric": line.assessed.series.metric,
            "statistic": line.assessed.series.statistic, "verdict": line.status,
            "improvement": line.improvement, "low": line.low, "high": line.high,
            "budget": line.budget, "since": line.since, "against": line.against,
            "drift_per_night": line.drift.per_night if line.drift else None,
            "nights": line.nights, "why": line.why,
        }
        for line in lines
    ]  # fmt: skip
    return pd.DataFrame(told)
