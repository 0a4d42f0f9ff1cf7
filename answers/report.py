"""Collects a report from the answers that every page shows, so that it says the same as they do."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import pandas as pd

from analysis.matching.comparison import STUDY_TABLE
from analysis.matching.fields import MATCH_FIELDS
from analysis.money.cost import Demand
from analysis.money.paying import Paying
from answers.compare.answer import compare
from answers.compare.subjects import answer, compared_subjects
from answers.compare.values import (
    CAPPED,
    ArmComparison,
    ComparedSetting,
    CompareQuestion,
    MetricLine,
    short_name,
)
from answers.cost.answer import cost
from answers.cost.values import DecisionCost, Terms
from answers.cost.words import per_million
from answers.decide import tables
from answers.decide.answer import decide, decide_one
from answers.decide.overview import Overview, SubjectsQuestion, narrowed, subjects
from answers.decide.tables import outputs
from answers.decide.values import DecideQuestion, Decision, Decisions
from answers.runs import notes
from answers.wording import UNKNOWN, TextRows, bracketed, interval, known, percent
from warehouse import annotations, queries
from warehouse.catalogue import METRICS, counted
from warehouse.errors import NothingToReport, UnknownKey
from warehouse.filters import Filters
from warehouse.store import Reader

# --- A report as values: words, tables and figures, before they become a page.


@dataclass(frozen=True)
class ReportRequest:
    """What a report is asked for. ``subject``: an overview's name, None for the first; ``link``: the
    address of the same view, empty if there is none; ``tokens_per_day``: a demand in output tokens,
    None for none."""

    question: DecideQuestion
    subject: str | None = None
    paying: Paying = Paying()
    tokens_per_day: float | None = None
    link: str = ""


@dataclass(frozen=True)
class ReportGrid:
    """A table as text; ``right``: the columns with numbers; ``more``: rows that are not printed."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    more: int = 0


@dataclass(frozen=True)
class ReportMap:
    """The heat map of a decision."""

    decision: Decision

    @property
    def alternative(self) -> str:
        """What somebody who does not see the map is told."""
        return (
            f"{self.decision.traffic.name}: expected improvement by load and arm; the values stand "
            "in the tables."
        )


@dataclass(frozen=True)
class ReportCurve:
    """A line of a setting over the load, one arm in colour beside the reference."""

    setting: ComparedSetting
    line: MetricLine
    arm: str
    reference: str
    title: str

    @property
    def alternative(self) -> str:
        """What somebody who does not see the curve is told."""
        return f"{self.title} over the load on {self.setting.name}, {self.arm} in colour."


ReportFigure = ReportMap | ReportCurve


@dataclass(frozen=True)
class Section:
    """One question and its answer; ``points`` become a list, ``notes`` small print."""

    title: str
    paragraphs: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    figures: tuple[ReportFigure, ...] = ()
    grids: tuple[ReportGrid, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StakeholderReport:
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


# --- What a report says in words and tables, short enough for four printed pages.


#: TextRows of a table that are printed.
MOST_ROWS = 12
#: Losses and doubts that are listed; of more, the number is told.
MOST_POINTS = 6
METHOD = (
    "Only matched cells are compared: a speculative cell with a baseline cell that is equal in "
    f"everything else ({', '.join(name.replace('_', ' ') for name in MATCH_FIELDS)}). Values are "
    "geometric means over the launches of a load. Improvement = new / old − 1 where higher is "
    "better, 1 − new / old where lower is better; positive is better.",
    "Intervals are 95 % intervals of the logarithm of the ratio, a server start being one "
    "observation; with a single one there is none. A gain or loss is settled where the interval, "
    "adjusted for all that the study compares, excludes zero; likely from 90 % on; else open.",
)
ORIGIN = (
    "Unknown is said as unknown. CPU lab, simulated, dummy-weight and synthetic-acceptance numbers "
    "carry a badge and say nothing about the speed of a GPU."
)
_LABELS = {
    "dataset": "Dataset", "tensor_parallel_size": "Tensor parallel size", "study": "Study",
    "since": "Started from", "until": "Started until",
}  # fmt: skip


def _tiles(decision: Decision) -> tuple[tuple[str, str, str], ...]:
    gain, saving = decision.operating.difference, decision.saving
    word = f"{gain.word} at {decision.operating.load.text}"
    saved = "" if saving is None else percent(-saving.per_output_token)
    cost = ("Cost per output token", saved, "on the same hardware")
    return (
        (tables.line_name(gain), tables.size(gain), word),
        *([cost] if saved else []),
        ("At stake in the choice", tables.at_stake(decision), "of arm and K, at most"),
    )


def _scope(
    overview: Overview, filters: Filters, cells: pd.DataFrame
) -> tuple[tuple[str, str], ...]:
    about = overview.decisions[0].subject
    chosen = {label: getattr(filters, name) for name, label in _LABELS.items()}
    days = pd.to_datetime(cells["started_at"].dropna(), utc=True).dt.strftime("%Y-%m-%d")
    span = dict.fromkeys([] if days.empty else [str(days.min()), str(days.max())])
    return (
        ("Model", known(about.model)),
        ("Hardware", known(about.gpu)),
        ("Engine", f"{known(about.engine)} {known(about.engine_version)}"),
        ("Speculation", ", ".join(dict.fromkeys(map(tables.arm_taken, overview.leads)))),
        *((label, value if isinstance(value, str) else ", ".join(value))
          for label, value in chosen.items() if value),
        ("Measured", (" to ".join(span) or "unknown when") + (" (UTC)" if len(span) > 1 else "")),
        ("Cells", f"{len(cells):,}"),
    )  # fmt: skip


def _first_and_how_many_more(sentences: Iterable[str]) -> tuple[str, ...]:
    every = tuple(sentences)
    more = len(every) - MOST_POINTS
    return every if more <= 0 else (*every[:MOST_POINTS], f"{more} more in the dashboard.")


def _how_many_shown(drawn: int, there: int, what: str) -> tuple[str, ...]:
    if drawn >= there:
        return ()
    return (f"{drawn} of {there} {what} are shown; the others stand in the dashboard.",)


def _grid(rows: TextRows, caption: str) -> ReportGrid:
    """Return the first rows of a table; an empty place is a dash. Where most texts of a column start as
    numbers do, it is set right-aligned."""
    header, lines = rows
    texts = [tuple(text or "–" for text in line) for line in lines[:MOST_ROWS]]
    columns = zip(*texts, strict=True)
    right = {
        at for at, column in enumerate(columns) if sum(map(_is_number, column)) > len(column) / 2
    }
    names = tuple(name or "taken" for name in header)
    return ReportGrid(caption, names, tuple(texts), frozenset(right), len(lines) - len(texts))


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or (text[:1] in "+-−" and text[1:2].isdigit())


def _costs(rows: Sequence[DecisionCost]) -> TextRows:
    demanded = any(row.baseline is not None and row.baseline.fleet is not None for row in rows)
    header = ["traffic", "at", "arm", "baseline, USD per million", "with it", "saved", "95 %",
              "how sure"]  # fmt: skip
    lines = []
    for row in rows:
        saving, year = row.decision.saving, row.usd_saved_per_year
        line = [
            row.decision.traffic.name, row.load.short,
            tables.arm_at(row.decision), per_million(row.baseline), per_million(row.speculative),
        ]  # fmt: skip
        line += [UNKNOWN, "", ""] if saving is None else [
            percent(saving.per_output_token), interval(saving.low, saving.high) or "no interval",
            saving.word,
        ]  # fmt: skip
        if demanded:
            unit = "GPU" if row.basis is None else row.basis.unit
            fleets = (
                None if side is None else side.fleet for side in (row.baseline, row.speculative)
            )
            told = (UNKNOWN if one is None else counted(one.gpus, unit) for one in fleets)
            line += [" → ".join(told), UNKNOWN if year is None else f"{year.value:,.0f}"]
        lines.append(line)
    return [*header, *(["GPUs for the demand", "saved a year, USD"] if demanded else [])], lines


# --- The sections of a report, from the answers that every page shows.


#: Load maps that are drawn, and rows that they may have together; tables of loads that are printed.
_MAPS, _MAP_ROWS, _TABLES = 4, 32, 3
#: Notes of people, sources and kinds of runs that are printed.
_NOTED = 8


def report(reader: Reader, wanted: ReportRequest) -> StakeholderReport:
    """Return the report on one subject of what the filters keep.

    Raises UnknownKey where they keep no cell or not that subject, NothingToReport where nothing can
    be decided.
    """
    if queries.cells(reader, wanted.question.filters).num_rows == 0:
        raise UnknownKey(
            "No cell matches these filters, so there is nothing to report; `draftboard runs` lists "
            "what there is."
        )
    asked = SubjectsQuestion(wanted.question.filters, wanted.question.allow)
    named = {one.name: one for one in subjects(reader, asked)}
    if wanted.subject is not None and wanted.subject not in named:
        raise UnknownKey(
            f"There is no subject {wanted.subject!r} here; choose one of: {'; '.join(named)}."
        )
    there = named.values() if wanted.subject is None else [named[wanted.subject]]
    found = (decide_one(reader, wanted.question, one) for one in there)
    overview = next((one.overview for one in found if one.overview is not None), None)
    if overview is None:
        why = decide(reader, wanted.question).why_none
        raise NothingToReport(f"{why or ''} So there is no verdict to report.")
    chosen, about = wanted.question.filters, overview.decisions[0].subject
    filters = narrowed(about, chosen)
    cells = queries.cells(reader, filters).to_pandas()
    badge = overview.name.partition("  [")[2].partition("]")[0]
    left = queries.exclusions_sentence(queries.left_out(reader.root, filters))
    where = f" on {', '.join(chosen.dataset)}" if chosen.dataset else ""
    losses = dict.fromkeys(loss.sentence for one in overview.leads for loss in one.against)
    try:
        ours = version("draftboard")
    except PackageNotFoundError:
        ours = "(version unknown)"
    return StakeholderReport(
        question=f"Should {known(about.model)} be served with speculative decoding{where}?",
        headline=overview.headline,
        tiles=_tiles(overview.leads[0]),
        against=_first_and_how_many_more(losses) or ("nothing that was measured",),
        badges=(badge,) if badge else (),
        scope=(*_scope(overview, chosen, cells), *((("Left out", left),) if left else ())),
        sections=tuple(_sections(reader, wanted, overview, filters)),
        made_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        link=wanted.link,
        version=ours,
    )


def _sections(
    reader: Reader, wanted: ReportRequest, overview: Overview, filters: Filters
) -> Iterator[Section]:
    found = compare(reader, CompareQuestion(filters, wanted.question.allow))
    daily = wanted.tokens_per_day
    terms = Terms(wanted.paying, None if daily is None else Demand(daily))
    money = cost(Decisions(overview.decisions), terms)
    order = list(dict.fromkeys([*overview.leads, *overview.decisions]))
    arms = max(len({cell.arm for cell in one.arms}) for one in order)
    drawn = max(min(_MAPS, _MAP_ROWS // (arms + 1)), 1)
    yield Section(
        "Does it pay, and at which loads?",
        paragraphs=(overview.paragraph,),
        figures=tuple(ReportMap(one) for one in order[:drawn]),
        grids=(_grid(tables.summary(overview.decisions), "What to serve with"),),
        notes=(
            "Expected improvement over the baseline by load and arm; outlined: what is taken, "
            "hatched: not settled.",
            *_how_many_shown(drawn, len(order), "load maps"),
        ),
    )
    printed = order[:_TABLES]
    texts = [text for one in printed for text in (tables.entries(one), one.serve) if text]
    yield Section(
        "What to draft at which load?",
        grids=tuple(_grid(tables.by_load(one), one.traffic.name) for one in printed),
        points=tuple(dict.fromkeys(texts)),
        notes=_how_many_shown(len(printed), len(order), "tables"),
    )
    yield Section(
        "What does it cost, and what is saved?",
        paragraphs=(money.headline,),
        grids=(_grid(_costs(money.rows), "Output tokens"),) if money.rows else (),
        notes=_first_and_how_many_more(money.notes),
    )
    yield from _speed(found, overview)
    doubts = [text for one in overview.decisions for text in tables.doubts(one)]
    left = [text for one in overview.decisions for text in tables.left_out(one)]
    same = filter(None, (outputs(reader, one) for one in overview.leads))
    alike = [f"{one.arm} at {one.load}: {text}" for one in same for text in one.sentences]
    reasons = pd.Series([cell.reason for cell in found.unmatched], dtype="object").value_counts()
    lonely = [f"Not compared, {counted(int(n), 'cell')}: {why}" for why, n in reasons.items()]
    capped = [] if all(a.launches_stated for s in found.settings for a in s.arms) else [CAPPED]
    parts: Sequence[Sequence[str]] = (doubts, left, alike, lonely, capped, money.notes[:1])
    kept = [text for part in parts for text in _first_and_how_many_more(dict.fromkeys(part))]
    yield Section(
        "What speaks against these numbers?",
        points=tuple(dict.fromkeys(kept)) or ("No flag, and every cell has a partner.",),
        notes=(ORIGIN,),
    )
    yield from _noted(reader, filters)
    metrics = (METRICS[key] for key in dict.fromkeys(metric for metric, _ in STUDY_TABLE))
    definitions = tuple(
        f"{one.label} ({one.unit}, {one.better} is better): {one.definition}" for one in metrics
    )
    yield Section("How is this calculated?", paragraphs=METHOD, notes=definitions)
    yield _provenance(queries.runs(reader, filters).to_pandas())


def _speed(comparison: ArmComparison, overview: Overview) -> Iterator[Section]:
    """Yield each metric of the study's table over the load, of the arm that the report decides for,
    on the setting with most loads that has it."""
    there = [setting for one in compared_subjects(comparison) for setting in one.settings]
    if not there:
        return
    lead = overview.leads[0]
    with_arm = [s for s in there if lead.arm in {arm.label for arm in s.arms}]
    own = [s for s in with_arm if s.dataset == lead.traffic.dataset]
    setting = next(iter((*own, *with_arm, *there)))
    names = {arm.label: arm.name for arm in setting.arms}
    arm = names.get(lead.arm) or answer(setting, overview.decisions, comparison.reference).arm
    badges = bracketed(*sorted({b for a in setting.arms for b in a.badges}))
    curves = tuple(
        ReportCurve(setting, line, arm, comparison.reference,
              f"{short_name(*line)}, {METRICS[line[0]].unit}{badges}")
        for line in STUDY_TABLE
    )  # fmt: skip
    yield Section(
        "How fast is it?",
        paragraphs=(f"{arm} in colour, the baseline grey, on {setting.name}.",),
        figures=curves,
        notes=_how_many_shown(1, len(there), "settings"),
    )


def _noted(reader: Reader, filters: Filters) -> Iterator[Section]:
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
                *_how_many_shown(_NOTED, len(events), "notes"),
            ),
        )


def _provenance(runs: pd.DataFrame) -> Section:
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
        points=_first_and_how_many_more(map(str, said))
        or ("Nobody stated where these data come from.",),
        grids=(_grid(([*names.values(), "runs", "cells"], texts), "Ingested runs"),),
    )
