"""What a report says: the pages' own answers, put in the order in which a stakeholder asks."""

from collections.abc import Sequence

import pandas as pd

from analysis.matching.pairing import MATCH_FIELDS
from dashboard.answers import Answer, Drawing
from dashboard.answers.cost import Answer as CostAnswer
from dashboard.answers.notes import Placed, about
from dashboard.answers.verdict import Verdict
from dashboard.components import shown
from dashboard.filters import LABELS
from dashboard.panels import CHARTED
from dashboard.phrases import counted
from dashboard.report_parts import Figure, Section, grid
from dashboard.subjects import Subject
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
    "Values are geometric means, first over the repeats of a load, then over the loads that both "
    "arms have. Improvement = new / old − 1 where higher is better, 1 − new / old where lower is "
    "better; positive is better.",
    "Intervals are 95 % intervals over matched repeats of the logarithm of the ratio; with a single "
    "repeat there is none.",
)
_ORIGIN = (
    "Unknown is said as unknown. CPU lab, simulated, dummy-weight and synthetic-acceptance numbers "
    "carry a badge and say nothing about the speed of a GPU."
)


def scope(
    subject: Subject, arm: str, filters: Filters, cells: pd.DataFrame
) -> tuple[tuple[str, str], ...]:
    """What the report is about, and how many cells that is."""
    narrowed = [
        (label, ", ".join(getattr(filters, name)))
        for name, label in LABELS.items()
        if getattr(filters, name, ()) and name not in ("model", "gpu", "engine_version", "arm")
    ]
    return (
        ("Model", subject.model), ("Hardware", subject.gpu),
        ("Engine", f"{subject.engine} {subject.engine_version}"), ("Speculation", arm),
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


def question(subject: Subject, filters: Filters) -> str:
    """What the report answers."""
    where = f" on {', '.join(filters.dataset)}" if filters.dataset else ""
    return f"Should {subject.model} be served with speculative decoding{where}?"


def pays(found: Verdict) -> Section:
    """Does it pay, and up to which load? A small chart and a paragraph for each setting."""
    drawings = [drawing for row in found.grid for drawing in row if drawing is not None]
    paragraphs = [f"{one.name}: {one.paragraph}" for one in found.settings[:_LISTED]]
    more = len(found.settings) - len(paragraphs)
    return Section(
        "Does it pay, and up to which load?",
        figures=tuple(_figure(drawing, "improvement over concurrency") for drawing in drawings),
        points=tuple(paragraphs),
        notes=(
            "Improvement of output tokens per second over concurrency, in percent of the baseline; "
            "above the dashed line is better. Bands: 95 % intervals; hollow: a single repeat.",
            f"Evidence: {found.evidence}",
            *([f"{counted(more, 'more setting')} in the dashboard."] if more > 0 else []),
        ),
    )


def totals(found: Verdict) -> Section:
    """The study's table over all settings, and how every arm did."""
    grids = [grid(found.totals, "Geometric means over all loads and settings that both arms have")]
    if found.methods.total > 1:
        grids.append(grid(found.methods, "Every arm, the best first"))
    return Section(
        "What changes in total?",
        figures=(_figure(found.changes, "change against the baseline"),),
        grids=tuple(grids),
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
        notes=(*found.notes[:_LISTED], *found.doubts[:_LISTED]),
    )


def caveats(found: Verdict, known: Answer, unpriced: Sequence[str]) -> Section:
    """What a reader must know before repeating a number."""
    sentences = (text for one in found.settings for text in one.sentences)
    doubts = [t for t in dict.fromkeys(sentences) if t.startswith(("Error", "Warning", "Info"))]
    reasons = known.unmatched.rows.column("reason").to_pylist() if known.unmatched.total else []
    counts = pd.Series(reasons, dtype="object").value_counts().head(_LISTED)
    lonely = [f"Not compared, {counted(int(n), 'cell')}: {why}" for why, n in counts.items()]
    points = (*doubts[:_LISTED], *lonely, *unpriced, *known.notes)
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
