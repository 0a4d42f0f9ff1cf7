"""What a report says: the pages' own answers, put in the order in which a stakeholder asks."""

from collections.abc import Sequence

import pandas as pd

from analysis.matching.pairing import MATCH_FIELDS
from answers.decide import tables
from answers.decide.outputs import Outputs
from answers.decide.overview import Overview
from answers.decide.values import Decision
from answers.wording import known as told
from answers.wording import percent
from dashboard.answers import Drawing
from dashboard.answers import decide as drawn_decide
from dashboard.answers.compare import Page
from dashboard.answers.cost import Answer as CostAnswer
from dashboard.answers.notes import Placed, about
from dashboard.components import shown
from dashboard.filters import LABELS
from dashboard.panels import CHARTED
from dashboard.phrases import counted
from dashboard.report_parts import Figure, Section, grid
from warehouse import exclusions
from warehouse.annotations import Annotation
from warehouse.catalogue import METRICS
from warehouse.filters import Filters

#: Settings whose paragraph is printed, and reasons and sources that are listed: a report is read.
_LISTED = 6
#: Notes of people that a report repeats.
_NOTES = 20
_METHOD = (
    "Only matched cells are compared: a speculative cell with a baseline cell that is equal in "
    f"everything else ({', '.join(name.replace('_', ' ') for name in MATCH_FIELDS)}).",
    "Values are geometric means over the launches of a load. Improvement = new / old − 1 where higher is better, 1 − new / old where lower is "
    "better; positive is better.",
    "Intervals are 95 % intervals of the logarithm of the ratio, a server start being one "
    "observation; with a single one there is none. A gain or loss is settled where the interval, "
    "adjusted for all that the study compares, excludes zero; likely from 90 % on; else open.",
)
_ORIGIN = (
    "Unknown is said as unknown. CPU lab, simulated, dummy-weight and synthetic-acceptance numbers "
    "carry a badge and say nothing about the speed of a GPU."
)


def scope(overview: Overview, filters: Filters, cells: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    """What the report is about, and how many cells that is."""
    narrowed = [
        (label, ", ".join(getattr(filters, name)))
        for name, label in LABELS.items()
        if getattr(filters, name, ()) and name not in ("model", "gpu", "engine_version", "arm")
    ]
    about = overview.decisions[0].subject
    arms = dict.fromkeys(tables.arm_taken(one) for one in overview.leads)
    return (
        ("Model", told(about.model)), ("Hardware", told(about.gpu)),
        ("Engine", f"{told(about.engine)} {told(about.engine_version)}"),
        ("Speculation", ", ".join(arms)),
        *narrowed, ("Measured", _period(cells)), ("Cells", f"{len(cells):,}"),
    )  # fmt: skip


def excluded(found: Sequence[Annotation]) -> tuple[tuple[str, str], ...]:
    """A line for the head of the report that says which runs it leaves out, and why."""
    sentence = exclusions.sentence(found)
    return (("Left out", sentence),) if sentence else ()


def noted(found: Sequence[Placed]) -> tuple[Section, ...]:
    """What people noted on the nights and runs behind the report; no section where nothing is."""
    events = list(dict.fromkeys(one.event for one in found))
    if not events:
        return ()
    newest = sorted(events, key=lambda event: event.at, reverse=True)
    more = len(newest) - _NOTES
    return (
        Section(
            "What was noted on these runs?",
            points=tuple(about(event) for event in newest[:_NOTES]),
            notes=(
                "Written by people, apart from the results: a note changes no number, and a run "
                "that is excluded by name is in none.",
                *([f"{counted(more, 'more note')} in the dashboard."] if more > 0 else []),
            ),
        ),
    )


def _period(cells: pd.DataFrame) -> str:
    days = pd.to_datetime(cells["started_at"].dropna(), utc=True).dt.strftime("%Y-%m-%d")
    if days.empty:
        return "unknown when"
    first, last = str(days.min()), str(days.max())
    return first if first == last else f"{first} to {last} (UTC)"


def question(overview: Overview, filters: Filters) -> str:
    """What the report answers."""
    where = f" on {', '.join(filters.dataset)}" if filters.dataset else ""
    model = told(overview.decisions[0].subject.model)
    return f"Should {model} be served with speculative decoding{where}?"


def tiles(one: Decision) -> tuple[tuple[str, str, str], ...]:
    """The gain at the operating load, what it saves, and what is at stake."""
    if one.operating is None:
        return ()
    level, gain = one.operating, one.operating.difference
    saved = () if one.saving is None else (
        ("Cost per output token", percent(-one.saving.per_output_token), "on the same GPUs"),
    )  # fmt: skip
    return (
        (tables.line_name(gain), tables.size(gain), f"{gain.word} at {level.load.text}"),
        *saved,
        ("At stake in the choice", tables.at_stake(one), "of arm and K, at most"),
    )


def pays(overview: Overview) -> Section:
    """Does it pay, and at which loads? A line and a paragraph for each traffic."""
    drawings = [drawn_decide.heat_map(one) for one in overview.decisions[:_LISTED]]
    more = len(overview.decisions) - _LISTED
    return Section(
        "Does it pay, and at which loads?",
        paragraphs=(overview.paragraph,),
        figures=tuple(_figure(drawing, "expected improvement by load") for drawing in drawings),
        grids=(grid(drawn_decide.table(tables.summary(overview.decisions)), "What to serve with"),),
        points=tuple(one.paragraph for one in overview.decisions[:_LISTED]),
        notes=(
            "Expected improvement over the baseline by load and arm; outlined: what is taken, "
            "hatched: not settled.",
            *([f"{counted(more, 'more decision')} in the dashboard."] if more > 0 else []),
        ),
    )


def loads(overview: Overview) -> Section:
    """The load map of each traffic, and what to paste."""
    shown_ones = overview.decisions[:_LISTED]
    texts = [text for one in shown_ones for text in (tables.entries(one), one.serve) if text]
    return Section(
        "What to draft at which load?",
        grids=tuple(
            grid(drawn_decide.table(tables.by_load(one)), one.traffic.name) for one in shown_ones
        ),
        points=tuple(dict.fromkeys(texts)),
    )


def speed(drawings: Sequence[Drawing], setting: str) -> Section:
    """Each metric over concurrency, for the setting with most levels."""
    return Section(
        "How fast is it?",
        paragraphs=(f"Each metric over concurrency, on {setting}.",),
        figures=tuple(_figure(drawing, "value over concurrency") for drawing in drawings),
    )


def cost(found: CostAnswer) -> Section:
    """What a token costs and what is saved, with the basis."""
    tables = [grid(found.totals, "USD per million output tokens")] if found.totals.total else []
    demands = [grid(found.demands, "For the demand")] if found.demands else []
    return Section(
        "What does it cost, and what is saved?",
        paragraphs=(found.headline,),
        grids=(*tables, *demands),
        notes=found.notes[:_LISTED],
    )


def against(overview: Overview) -> tuple[str, ...]:
    """What became worse, of the decisions that lead."""
    sentences = (loss.sentence for one in overview.leads for loss in one.against)
    return tuple(dict.fromkeys(sentences)) or ("nothing that was measured",)


def caveats(
    overview: Overview, known: Page, same: Sequence[Outputs], unpriced: Sequence[str]
) -> Section:
    """What a reader must know before repeating a number."""
    doubts = [text for one in overview.decisions for text in tables.doubts(one)]
    left = [text for one in overview.decisions for text in tables.left_out(one)]
    alike = [f"{one.arm} at {one.load}: {text}" for one in same for text in one.sentences]
    reasons = known.unmatched.rows.column("reason").to_pylist() if known.unmatched.total else []
    counts = pd.Series(reasons, dtype="object").value_counts().head(_LISTED)
    lonely = [f"Not compared, {counted(int(n), 'cell')}: {why}" for why, n in counts.items()]
    parts = (doubts[:_LISTED], left[:_LISTED], alike, lonely, unpriced, known.notes)
    points = tuple(dict.fromkeys(text for part in parts for text in part))
    return Section(
        "What speaks against these numbers?",
        points=points or ("No flag, and every cell has a partner.",),
        notes=(_ORIGIN,),
    )


def method() -> Section:
    """How the numbers are calculated."""
    words = [
        f"{METRICS[key].label} ({METRICS[key].unit}, {_better(key)}): {METRICS[key].definition}"
        for key in CHARTED
    ]
    return Section("How is this calculated?", paragraphs=_METHOD, points=tuple(words))


def _better(key: str) -> str:
    better = METRICS[key].better
    return "no direction" if better == "neither" else f"{better} is better"


def provenance(runs: pd.DataFrame) -> Section:
    """Where the numbers come from: what was run, with what, and what was said about it."""
    names = {
        "model": "model", "gpu": "hardware", "dataset": "dataset", "evidence": "evidence",
        "load_generator": "load generator", "load_generator_version": "version",
    }  # fmt: skip
    grouped = runs.groupby(list(names), dropna=False, sort=False)
    rows = grouped.agg(runs=("cells", "size"), cells=("cells", "sum")).reset_index()
    said = [text for text in dict.fromkeys(runs["provenance"].dropna()) if text]
    return Section(
        "Where do the numbers come from?",
        points=tuple(map(str, said[:_LISTED])) or ("Nobody stated where these data come from.",),
        grids=(grid(shown(rows.rename(columns=names)), "Ingested runs"),),
    )


def _figure(drawing: Drawing, what: str) -> Figure:
    """A chart with a text for those who do not see it."""
    return Figure(drawing, f"{title_of(drawing)}: {what}; the values stand in the tables.")


def title_of(drawing: Drawing) -> str:
    """The title of a chart, with its second line."""
    title = drawing.get("title", "")
    if not isinstance(title, dict):
        return str(title)
    return ", ".join(str(title[name]) for name in ("text", "subtitle") if title.get(name))
