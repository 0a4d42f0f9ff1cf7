"""Collects a report from the answers that every page shows, so that it says the same as they do."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import pandas as pd

from analysis.matching.comparison import STUDY_TABLE
from analysis.money.cost import Demand
from answers.compare.answer import compare
from answers.compare.subjects import answer as answer_of
from answers.compare.subjects import subjects as compared
from answers.compare.values import Comparison
from answers.compare.values import Question as Compared
from answers.compare.words import CAPPED, counted, short_name
from answers.cost.answer import cost
from answers.cost.values import Costs, Terms
from answers.decide import tables
from answers.decide.accepted import outputs
from answers.decide.answer import decide
from answers.decide.overview import Overview, narrowed
from answers.decide.subjects import Asked, decide_one, subjects
from answers.decide.values import Decisions
from answers.report import words
from answers.report.words import Curve, Map, Report, Section, Wanted
from answers.runs import notes
from answers.wording import bracketed
from warehouse import annotations, queries
from warehouse.catalogue import METRICS
from warehouse.errors import NothingToReport, UnknownKey
from warehouse.filters import UNKNOWN, Filters
from warehouse.queries import exclusions_sentence, left_out
from warehouse.store import Reader

#: Load maps that are drawn, and rows that they may have together; tables of loads that are printed.
_MAPS, _MAP_ROWS, _TABLES = 4, 32, 3
#: Notes of people, sources and kinds of runs that are printed.
_NOTED = 8


def report(reader: Reader, wanted: Wanted) -> Report:
    """Return the report on one subject of what the filters keep.

    Raises UnknownKey where they keep no cell or not that subject, NothingToReport where nothing can
    be decided.
    """
    overview = _overview(reader, wanted)
    chosen = wanted.question.filters
    filters = narrowed(overview.decisions[0].subject, chosen)
    cells = queries.cells(reader, filters).to_pandas()
    badge = overview.name.partition("  [")[2].partition("]")[0]
    left = exclusions_sentence(left_out(reader.root, filters))
    return Report(
        question=words.question(overview, chosen),
        headline=overview.headline,
        tiles=words.tiles(overview.leads[0]),
        against=words.against(overview),
        badges=(badge,) if badge else (),
        scope=(
            *words.scope(overview, chosen, _period(cells), len(cells)),
            *((("Left out", left),) if left else ()),
        ),
        sections=tuple(_sections(reader, wanted, overview, filters)),
        made_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        link=wanted.link,
        version=_version(),
    )


def _overview(reader: Reader, wanted: Wanted) -> Overview:
    if queries.cells(reader, wanted.question.filters).num_rows == 0:
        raise UnknownKey(
            "No cell matches these filters, so there is nothing to report; `draftboard runs` lists "
            "what there is."
        )
    asked = Asked(wanted.question.filters, wanted.question.allow)
    known = {one.name: one for one in subjects(reader, asked)}
    if wanted.subject is not None and wanted.subject not in known:
        raise UnknownKey(
            f"There is no subject {wanted.subject!r} here; choose one of: {'; '.join(known)}."
        )
    there = known.values() if wanted.subject is None else [known[wanted.subject]]
    found = (decide_one(reader, wanted.question, one) for one in there)
    overview = next((one.overview for one in found if one.overview is not None), None)
    if overview is None:
        why = decide(reader, wanted.question).why_none
        raise NothingToReport(f"{why or ''} So there is no verdict to report.")
    return overview


def _sections(
    reader: Reader, wanted: Wanted, overview: Overview, filters: Filters
) -> Iterator[Section]:
    found = compare(reader, Compared(filters, wanted.question.allow))
    daily = wanted.tokens_per_day
    terms = Terms(wanted.paying, None if daily is None else Demand(daily))
    money = cost(Decisions(overview.decisions), terms)
    yield _pays(overview)
    yield _loads(overview)
    yield _cost(money)
    yield from _speed(found, overview)
    yield _caveats(reader, overview, found, money)
    yield from _noted(reader, filters)
    yield Section("How is this calculated?", paragraphs=words.METHOD, notes=words.definitions())
    yield _provenance(queries.runs(reader, filters).to_pandas())


def _pays(overview: Overview) -> Section:
    """Say whether it pays and at which loads, with the load maps of the decisions that lead
    first."""
    order = list(dict.fromkeys([*overview.leads, *overview.decisions]))
    arms = max(len({cell.arm for cell in one.arms}) for one in order)
    drawn = max(min(_MAPS, _MAP_ROWS // (arms + 1)), 1)
    every = tables.summary(overview.decisions)
    return Section(
        "Does it pay, and at which loads?",
        paragraphs=(overview.paragraph,),
        figures=tuple(Map(one) for one in order[:drawn]),
        grids=(words.grid(every, "What to serve with"),),
        notes=(
            "Expected improvement over the baseline by load and arm; outlined: what is taken, "
            "hatched: not settled.",
            *words.shown_of(drawn, len(order), "load maps"),
        ),
    )


def _loads(overview: Overview) -> Section:
    """Return what to draft at each load, and what to paste."""
    order = list(dict.fromkeys([*overview.leads, *overview.decisions]))
    printed = order[:_TABLES]
    texts = [text for one in printed for text in (tables.entries(one), one.serve) if text]
    return Section(
        "What to draft at which load?",
        grids=tuple(words.grid(tables.by_load(one), one.traffic.name) for one in printed),
        points=tuple(dict.fromkeys(texts)),
        notes=words.shown_of(len(printed), len(order), "tables"),
    )


def _cost(money: Costs) -> Section:
    """Return what a token costs and what is saved, with the basis."""
    return Section(
        "What does it cost, and what is saved?",
        paragraphs=(money.headline,),
        grids=(words.grid(words.costs(money.rows), "Output tokens"),) if money.rows else (),
        notes=words.first(money.notes),
    )


def _speed(found: Comparison, overview: Overview) -> Iterator[Section]:
    """Yield each metric of the study's table over the load, of the arm that the report decides for,
    on the setting with most loads that has it."""
    there = [setting for one in compared(found) for setting in one.settings]
    if not there:
        return
    lead = overview.leads[0]
    with_arm = [s for s in there if lead.arm in {arm.label for arm in s.arms}]
    own = [s for s in with_arm if s.dataset == lead.traffic.dataset]
    setting = next(iter((*own, *with_arm, *there)))
    names = {arm.label: arm.name for arm in setting.arms}
    arm = names.get(lead.arm) or answer_of(setting, overview.decisions, found.reference).arm
    badges = bracketed(*sorted({b for a in setting.arms for b in a.badges}))
    curves = tuple(
        Curve(setting, line, arm, found.reference,
              f"{short_name(*line)}, {METRICS[line[0]].unit}{badges}")
        for line in STUDY_TABLE
    )  # fmt: skip
    yield Section(
        "How fast is it?",
        paragraphs=(f"{arm} in colour, the baseline grey, on {setting.name}.",),
        figures=curves,
        notes=words.shown_of(1, len(there), "settings"),
    )


def _caveats(reader: Reader, overview: Overview, found: Comparison, money: Costs) -> Section:
    """Return what a reader must know before repeating a number."""
    doubts = [text for one in overview.decisions for text in tables.doubts(one)]
    left = [text for one in overview.decisions for text in tables.left_out(one)]
    same = filter(None, (outputs(reader, one) for one in overview.leads))
    alike = [f"{one.arm} at {one.load}: {text}" for one in same for text in one.sentences]
    reasons = pd.Series([cell.reason for cell in found.unmatched], dtype="object").value_counts()
    lonely = [f"Not compared, {counted(int(n), 'cell')}: {why}" for why, n in reasons.items()]
    capped = [] if all(a.launches_stated for s in found.settings for a in s.arms) else [CAPPED]
    parts: Sequence[Sequence[str]] = (doubts, left, alike, lonely, capped, money.notes[:1])
    kept = [text for part in parts for text in words.first(tuple(dict.fromkeys(part)))]
    return Section(
        "What speaks against these numbers?",
        points=tuple(dict.fromkeys(kept)) or ("No flag, and every cell has a partner.",),
        notes=(words.ORIGIN,),
    )


def _noted(reader: Reader, filters: Filters) -> Iterator[Section]:
    """Yield what people noted on the nights and runs behind the report; nothing where nobody
    did."""
    said = annotations.version(reader.root)
    if not said:
        return
    with Reader(reader.root, everything=True) as every:
        found = notes.of_view(every, filters, said)
    events = sorted({one.event for one in found}, key=lambda one: one.at, reverse=True)
    if events:
        yield Section(
            "What was noted on these runs?",
            points=tuple(notes.about(event) for event in events[:_NOTED]),
            notes=(
                "Written by people, apart from the results: a note changes no number, and a run "
                "that is excluded by name is in none.",
                *words.shown_of(_NOTED, len(events), "notes"),
            ),
        )


def _provenance(runs: pd.DataFrame) -> Section:
    """Return where the numbers come from: what was run, with what, and what was said about it."""
    names = {
        "model": "model", "gpu": "hardware", "dataset": "dataset", "evidence": "evidence",
        "load_generator": "load generator", "load_generator_version": "version",
    }  # fmt: skip
    grouped = runs.groupby(list(names), dropna=False, sort=False)
    rows = grouped.agg(runs=("cells", "size"), cells=("cells", "sum")).reset_index()
    rows = rows.astype(object).where(rows.notna(), UNKNOWN)
    texts = [[str(value) for value in row] for row in rows.itertuples(index=False)]
    said = [text for text in dict.fromkeys(runs["provenance"].dropna()) if text]
    return Section(
        "Where do the numbers come from?",
        points=words.first(tuple(map(str, said))) or ("Nobody stated where these data come from.",),
        grids=(words.grid(([*names.values(), "runs", "cells"], texts), "Ingested runs"),),
    )


def _period(cells: pd.DataFrame) -> str:
    days = pd.to_datetime(cells["started_at"].dropna(), utc=True).dt.strftime("%Y-%m-%d")
    if days.empty:
        return "unknown when"
    first, last = str(days.min()), str(days.max())
    return first if first == last else f"{first} to {last} (UTC)"


def _version() -> str:
    try:
        return version("draftboard")
    except PackageNotFoundError:
        return "(version unknown)"
