"""Trends: did something get worse, since when, and with what? One series over its nights; folded what runs in
production, the searches, one release against another, and the last nights."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit import column_config as col
from streamlit.delta_generator import DeltaGenerator

from analysis.nightly.regressions import AcceptedNight, budgets, comparable_releases
from answers.live import values as standing
from answers.runs import notes
from answers.runs import read as read_runs
from answers.search import board, words
from answers.trend import answer, nights
from answers.trend.upgrade import both_measured, upgrade, upgrade_rows
from answers.wording import rounded
from dashboard import annotating
from dashboard.charts import Drawing, specification
from dashboard.charts.trends import MOST_ROWS, forest, run_chart
from dashboard.components import (
    badged,
    copied,
    errors_told,
    fold,
    listing,
    plain,
    shown,
    table,
    tabled,
    texts,
    titled,
)
from dashboard.doors.access import may_edit
from dashboard.downloads import charts_menu, rows_menu
from dashboard.filters import nothing
from dashboard.links import cell_link, selected
from dashboard.shelf import Shelf, ask, cached
from warehouse import annotations, beside
from warehouse.filters import Filters

TITLE = "Trends"
URL_PATH = "trends"
ORDER = 50
#: Former addresses, and what their readers find open here.
FORMER = {"nights": {"last_nights": "true"}}
_HOW = (
    "A series is one model, hardware, arm, dataset and load; a point is a night (from noon to noon "
    "UTC) and version: the geometric mean of its repeats. The last nights are held against the best "
    "level before them by a t test, in which a night is the unit of noise. A regression is worse by "
    "more than the budget, is no chance finding (1 night in 100) among all series that are judged, "
    "and stays one until its end is shown or somebody accepts it. A drift is a slope that no single "
    "step explains clearly better. `draftboard gate` says the same and ends with its exit status."
)
_MOST_ORIGINS = 3
_COLUMNS = {
    "status": "verdict", "name": "series", "metric": "metric", "change": "change",
    "interval": "95 % interval", "budget_text": "budget", "since_text": "since",
    "against": "against", "drift_text": "drift", "nights": "nights", "evidence_text": "evidence",
    "why": "why",
}  # fmt: skip
#: Series that can be chosen at once; the others are behind filters.
MOST_SERIES = 200
_READ = (
    "Points: nights, hollow for a single repeat. Dashed: the level; solid: the reference, the best "
    "level before. Band: three standard deviations of a night. Thin dotted upright: the "
    "configuration changed; bold upright: the level moved. The value axis does not start at zero."
)
_NOTED = " Triangle at the top: a note, or a run that is excluded by name."
_POINT_COLUMNS = {
    "value": col.TextColumn("value", alignment="right"),
    "cell": col.LinkColumn("first cell", display_text="open"),
}
_THIS, _STUDY, _EVERY = "this series", "every series of its study", "every series"
_BOTH = (
    "All nights of one engine version are held against all nights of the other, in each series that "
    "knows both; a night is the unit of noise."
)
#: While a search measures, what is shown of it follows it, so often.
_EVERY_S = 15.0
_HOW_SEARCHES = (
    "draftboard search measures only what the decision still needs. Gain: output tokens per second (or "
    "speed of the median request, where latency is what it is for) against the baseline, as expected "
    "after all launches so far, from the dataset and load where it is smallest to the one where it is largest. Of the "
    "filters, study and days choose searches."
)
_HOW_PRODUCTION = (
    "draftboard live --record reads the counters of servers in production and holds what their drafts yield, "
    "and the requests in flight, against what was decided on. Of the filters, study, model, GPU and days choose looks."
)
#: Nights that can be chosen at once; the others are behind filters.
_MOST_NIGHTS = 200
_HOW_NIGHTS = (
    "A night is a fresh set of measurements of a study by draftboard nightly, from noon to noon "
    "UTC. Its outcome is what the command ended with: a regression comes before a stage that "
    "failed, that before a spent budget. Of the filters, study and days choose nights."
)


@dataclass(frozen=True)
class TrendQuestion:
    """What is watched, how much worse it may become (``itl=3% 5%``), and what was accepted."""

    filters: Filters
    budget: str
    accepted: tuple[AcceptedNight, ...]


@dataclass(frozen=True)
class WatchedTrend:
    """The judged trend. ``places``: metric -> the names of its judged series, worst first -> the
    series."""

    trend: answer.Trend
    places: dict[str, dict[str, answer.TrendLine]]


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the page."""
    top = st.container()
    controls = st.columns([1, 1, 2])
    budget = controls[0].text_input(
        "How much worse is still fine?", value="5%", key="budget", bind="query-params",
        help="5% for all metrics, or more exactly: itl=3% ttft.p95=10% 5%",
    )  # fmt: skip
    watching = TrendQuestion(filters, budget or "", answer.accepted(shelf.root))
    known = trend_of(shelf, watching)
    trend, judged = known.trend, known.trend.judged
    with top:
        st.header(plain(trend.headline), help=_HOW)
        badged(trend.badges)
        for text in trend.origins[:_MOST_ORIGINS]:
            st.caption(plain(text))
        if trend.summary:
            st.markdown(plain(trend.summary))
    if known.places:
        _series(shelf, watching, known, controls[1:])
        label = f"All {len(judged):,} watched figures, worst first"
        fold(label, "all_series", partial(_every_series, trend))
    elif trend.lines or trend.few:
        st.info(
            "A trend needs three nights of the same setting: measure it again with other nights."
        )
    elif ask(shelf, read_runs.runs, filters).runs:
        st.info("No good cell with a known start matches, so there is no night to draw.")
    else:
        nothing(shelf)
    if looks := standing.chosen(annotations.standings(shelf.root), filters):
        fold(plain(standing.headline(looks[0])), "production", partial(_production, looks))
    if boards := _searches(shelf.root, filters):
        at_work = any(each.expected_min is not None for each in boards)
        search = st.fragment(_search, run_every=_EVERY_S if at_work else None)
        label = plain(board.label(boards[0], datetime.now(UTC)))
        fold(label, "searches", partial(search, shelf.root, filters))
    fold("One release against another", "releases", partial(_releases, shelf, filters))
    past = _history(shelf.root, beside.nights_version(shelf.root))
    chosen = nights.chosen(past.nights, filters)
    fold(plain(nights.headline(chosen)), "last_nights", partial(_nights, shelf, past, chosen))


@cached
def trend_of(shelf: Shelf, watching: TrendQuestion) -> WatchedTrend:
    """Judge every series; raises UnknownKey for a budget that cannot be read."""
    trend = answer.watch(
        ask(shelf, answer.watched, watching.filters),
        budgets(watching.budget.replace(",", " ").split()),
        watching.accepted,
    )
    places: dict[str, dict[str, answer.TrendLine]] = {}
    for name, line in zip(
        answer.names([line.assessed.series for line in trend.judged]), trend.judged, strict=True
    ):
        places.setdefault(line.metric, {})[name] = line
    return WatchedTrend(trend, places)


# --- One series over its nights: chart, what changed, what was said, and accepting it as it is.


@cached
def drawing(
    shelf: Shelf,
    watching: TrendQuestion,
    metric: str,
    name: str,
    noted: tuple[notes.PlacedNote, ...],
) -> Drawing:
    return specification(run_chart(trend_of(shelf, watching).places[metric][name], noted))


def _series(
    shelf: Shelf, watching: TrendQuestion, known: WatchedTrend, controls: Sequence[DeltaGenerator]
) -> None:
    metric = selected("Metric", list(known.places), "line", controls[0])
    places = known.places[metric]
    offered = list(places)[:MOST_SERIES]
    name = selected("Watched figure, worst first", offered, "series", controls[1])
    line, version = places[name], annotating.notes_version(shelf)
    asked = (watching.filters, line.about, version)
    noted = ask(shelf.with_excluded(), notes.of_series, *asked) if version else ()
    chart = drawing(shelf, watching, metric, name, noted)
    st.vega_lite_chart(chart, alt=line.said)
    st.markdown(plain(line.said))
    if noted:
        st.markdown("What people noted on these nights and runs, newest first:")
        table(annotating.noted(noted), "notes")
    _accept(shelf, line)
    fold("What changed in the configuration, and the nights behind it", "behind",
         partial(_behind, line, noted))  # fmt: skip
    st.caption(_READ + (_NOTED if noted else ""))
    annotating.night(shelf, line.days, line.study)
    charts_menu("series", titled([chart]))
    if len(places) > len(offered):
        st.caption(
            f"The worst {len(offered)} of {len(places):,} series can be chosen; use filters."
        )


def _accept(shelf: Shelf, line: answer.TrendLine) -> None:
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
            target = annotations.AnnotationTarget(
                night=night,
                study=None if of == _EVERY else line.study,
                series=", ".join(line.assessed.series.words) if of == _THIS else None,
            )
            _accepted(shelf, target, why or "")


def _accepted(shelf: Shelf, what: annotations.AnnotationTarget, why: str) -> None:
    name = annotating.author()
    with errors_told():
        answer.accept(shelf.reader, what, why, name)
        st.rerun()


def _behind(line: answer.TrendLine, noted: Sequence[notes.PlacedNote]) -> None:
    changes = [
        (point.night, change.field, *("not stated" if value is None else str(value)
                                      for value in (change.before, change.after)))
        for point in reversed(line.points)
        for change in point.changed
    ]  # fmt: skip
    if changes:
        table(tabled(["night", "setting", "before", "after"], changes), "changes")
    else:
        st.caption("Nothing that is recorded changed in the configuration.")
    metric = line.assessed.series.measure
    texts_by_night = dict(notes.by_night(noted))
    rows = [
        {
            "night": point.night,
            "value": f"{rounded(point.value, metric.decimals)} {metric.unit}",
            "repeats": point.repeats,
            "noise from": rounded(point.low, metric.decimals),
            "to": rounded(point.high, metric.decimals),
            **({"notes": texts_by_night.get(point.night[:10], "")} if texts_by_night else {}),
            "cell": cell_link(str(point.cell_id)),
        }
        for point in reversed(line.points)
    ]
    table(shown(pd.DataFrame(rows)), "nights", _POINT_COLUMNS)


def _every_series(trend: answer.Trend) -> None:
    table(listing(trend.judged, _COLUMNS), "series")
    if left := len(trend.lines) - len(trend.judged):
        st.caption(f"{left:,} more series cannot be judged yet: too few nights, or no noise.")
    rows_menu("trends", lambda: file_rows(trend.judged))


def file_rows(lines: Sequence[answer.TrendLine]) -> pd.DataFrame:
    rows = [
        {
            **dict(line.about), "metric": line.assessed.series.metric,
            "statistic": line.assessed.series.statistic, "verdict": line.status,
            **{name: getattr(line.assessed, name) for name in ("improvement", "low", "high", "budget")},
            "since": line.since, "against": line.against,
            "drift_per_night": line.drift.per_night if line.drift else None,
            "nights": line.nights, "why": line.why,
        }
        for line in lines
    ]  # fmt: skip
    return pd.DataFrame(rows)


# --- What runs in production, as ``draftboard live --record`` found it.


def _production(looks: Sequence[Sequence[annotations.RecordedStanding]]) -> None:
    st.caption(_HOW_PRODUCTION)
    for place, records in enumerate(looks):
        # What the first is about stands above the fold.
        about = f"{standing.headline(records)}. " if place else ""
        st.markdown(plain(f"{about}{records[0].sentence}"))
        table(texts(*standing.record_rows(records)), "looks")


# --- The searches that measure, or measured last. One that goes on makes no new generation.


def _searches(root: Path, filters: Filters) -> tuple[board.Board, ...]:
    return board.chosen(_boards(root, beside.searches_version(root)), filters)


@lru_cache(4)
def _boards(root: Path, _version: str) -> tuple[board.Board, ...]:
    return board.from_texts(beside.read_searches(root))


def _search(root: Path, filters: Filters) -> None:
    boards = {str(each.told.study): each for each in _searches(root, filters)}
    if not boards:
        return
    name = next(iter(boards))
    if len(boards) > 1:
        name = st.selectbox("Search", list(boards), key="search", bind="query-params")
    chosen = boards[name]
    first, *rest = board.lines(chosen)
    st.markdown(plain(first), help=_HOW_SEARCHES)
    for line in rest:
        st.markdown(plain(line))
    st.caption(plain(board.heard(chosen, datetime.now(UTC))))
    table(texts(*words.candidate_rows(chosen.told.candidates)), "candidates")
    if chosen.told.found:
        st.markdown("By dataset and load:")
        table(texts(*words.standings(chosen.told.found)), "loads")
    if chosen.told.proof is not None:
        proof = plain(words.proof(chosen.told.proof))
        st.markdown(f"Promised by the search, proven by fresh launches: {proof}")
        table(texts(*words.proof_rows(chosen.told.proof)), "loads")
    if chosen.told.steps:
        st.markdown("Launches so far:")
        table(texts(*words.steps(chosen.told)), "launches")


# --- One release against another: what the newer one did to every series.


def _releases(shelf: Shelf, filters: Filters) -> None:
    every = (ask(shelf, upgrade, filters, *pair) for pair in ask(shelf, both_measured, filters))
    # What `draftboard release` says of versions whose launches took turns.
    told = [one for one in every if one is not None and not one.doubts]
    for one in told:
        st.markdown(plain(one.paragraph))
        table(texts(*upgrade_rows(one)), "figures")
    known = comparable_releases(ask(shelf, answer.watched, filters).series)
    if known or not told:
        st.caption(_BOTH)
    if not known and not told:
        st.caption("No series among these filters was measured with two engine versions.")
    if not known:
        return
    left, middle, right = st.columns(3)
    after = left.selectbox(
        "Release", list(known), index=len(known) - 1, key="release", bind="query-params"
    )
    before = middle.selectbox(
        "against", known[after], index=len(known[after]) - 1, key="against", bind="query-params"
    )
    found = _released(shelf, filters, before, after)
    st.markdown(plain(found.headline))
    if not found.lines:
        st.caption("Nothing tells how far nights lie apart by chance: run more nights.")
        return
    line = selected("Metric of the comparison", found.lines, "forest", right)
    chart = _forest(shelf, filters, before, after, line)
    st.vega_lite_chart(chart, alt=found.headline)
    st.caption("Points: change of the newer release; bars: 95 % interval. Right of zero is better.")
    charts_menu("releases", titled([chart]))


@cached
def _released(shelf: Shelf, filters: Filters, before: str, after: str) -> answer.Release:
    return answer.release(ask(shelf, answer.watched, filters).series, before, after)


@cached
def _forest(shelf: Shelf, filters: Filters, before: str, after: str, line: str) -> Drawing:
    return specification(forest(_released(shelf, filters, before, after).of(line)[:MOST_ROWS]))


# --- The last nights of ``draftboard nightly``: how each ended, what changed, what failed.


@lru_cache(4)
def _history(root: Path, _version: str) -> beside.NightsHistory:
    """Return the nights. A night that ends makes no new generation, so the answer is kept by the
    files' version."""
    return beside.nights_history(root)


def _nights(
    shelf: Shelf, past: beside.NightsHistory, chosen: tuple[beside.NightSummary, ...]
) -> None:
    for text in past.damaged:
        st.warning(plain(text))
    if not past.nights:
        st.info(nights.HOW_TO_BEGIN)
        copied(nights.COMMAND)
        return
    if not chosen:
        st.info("No night matches these filters. Remove one in the sidebar.")
        return
    st.caption(f"{plain(nights.counts(chosen))} {_HOW_NIGHTS}")
    newest = chosen[:_MOST_NIGHTS]
    table(tabled(*nights.night_rows(newest)), "nights")
    named = {f"{night.night}, {night.study}": night for night in newest}
    night = named[st.selectbox("Night", list(named), key="night", bind="query-params")]
    st.markdown(plain(nights.sentence(night)))
    day, noted = night.night[:10], annotating.notes_version(shelf)
    placed = ask(shelf.with_excluded(), notes.of_night, day, night.study, noted) if noted else ()
    if placed:
        st.markdown("What people noted on it:")
        table(annotating.noted(placed), "notes")
    for title, (header, rows) in nights.parts(night):
        st.markdown(f"{title}:")
        table(tabled(header, rows), "rows")
    annotating.night(shelf, [day], night.study, "last-night")
    if len(chosen) > _MOST_NIGHTS:
        st.caption(
            f"The newest {_MOST_NIGHTS} of {len(chosen):,} nights can be chosen; use filters."
        )
