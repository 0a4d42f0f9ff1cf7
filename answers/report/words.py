"""What a report says in words and tables, short enough for four printed pages."""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.matching.comparison import STUDY_TABLE
from analysis.matching.fields import MATCH_FIELDS
from analysis.money.paying import Paying
from answers.compare.values import ComparedSetting, MetricLine
from answers.cost.values import DecisionCost
from answers.cost.words import gpus, per_million
from answers.decide import tables
from answers.decide.overview import Overview
from answers.decide.tables import TextRows
from answers.decide.values import DecideQuestion, Decision
from answers.wording import UNKNOWN, interval, known, percent
from warehouse.catalogue import METRICS
from warehouse.filters import Filters

# --- A report as values: words, tables and figures, before they become a page.


@dataclass(frozen=True)
class Wanted:
    """What a report is asked for. ``subject``: an overview's name, None for the first; ``link``: the
    address of the same view, empty if there is none; ``tokens_per_day``: a demand in output tokens,
    None for none."""

    question: DecideQuestion
    subject: str | None = None
    paying: Paying = Paying()
    tokens_per_day: float | None = None
    link: str = ""


@dataclass(frozen=True)
class Grid:
    """A table as text; ``right``: the columns with numbers; ``more``: rows that are not printed."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    more: int = 0


@dataclass(frozen=True)
class Map:
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
class Curve:
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


Figure = Map | Curve


@dataclass(frozen=True)
class Section:
    """One question and its answer; ``points`` become a list, ``notes`` small print."""

    title: str
    paragraphs: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
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


#: Rows of a table that are printed.
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


def definitions() -> tuple[str, ...]:
    """Return what the metrics of the study's table are."""
    keys = dict.fromkeys(metric for metric, _ in STUDY_TABLE)
    return tuple(
        f"{METRICS[key].label} ({METRICS[key].unit}, {METRICS[key].better} is better): "
        f"{METRICS[key].definition}"
        for key in keys
    )


def question(overview: Overview, filters: Filters) -> str:
    """Return what the report answers."""
    where = f" on {', '.join(filters.dataset)}" if filters.dataset else ""
    model = known(overview.decisions[0].subject.model)
    return f"Should {model} be served with speculative decoding{where}?"


def tiles(one: Decision) -> tuple[tuple[str, str, str], ...]:
    """Return the gain at the operating load, what it saves, and what is at stake."""
    level, gain = one.operating, one.operating.difference
    saved = () if one.saving is None else (
        ("Cost per output token", percent(-one.saving.per_output_token), "on the same hardware"),
    )  # fmt: skip
    return (
        (tables.line_name(gain), tables.size(gain), f"{gain.word} at {level.load.text}"),
        *saved,
        ("At stake in the choice", tables.at_stake(one), "of arm and K, at most"),
    )


def against(overview: Overview) -> tuple[str, ...]:
    """Return what became worse, of the decisions that lead."""
    sentences = (loss.sentence for one in overview.leads for loss in one.against)
    return first(tuple(dict.fromkeys(sentences))) or ("nothing that was measured",)


def scope(
    overview: Overview, filters: Filters, period: str, cells: int
) -> tuple[tuple[str, str], ...]:
    """Return what the report is about, and how many cells that is."""
    narrowed = [(label, _text(getattr(filters, name))) for name, label in _LABELS.items()]
    about = overview.decisions[0].subject
    arms = dict.fromkeys(tables.arm_taken(one) for one in overview.leads)
    return (
        ("Model", known(about.model)), ("Hardware", known(about.gpu)),
        ("Engine", f"{known(about.engine)} {known(about.engine_version)}"),
        ("Speculation", ", ".join(arms)),
        *((label, text) for label, text in narrowed if text),
        ("Measured", period), ("Cells", f"{cells:,}"),
    )  # fmt: skip


def _text(value: tuple[str, ...] | str) -> str:
    return value if isinstance(value, str) else ", ".join(value)


def first(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return the first of many sentences, and how many more there are."""
    more = len(sentences) - MOST_POINTS
    if more <= 0:
        return tuple(sentences)
    return (*sentences[:MOST_POINTS], f"{more} more in the dashboard.")


def shown_of(drawn: int, there: int, what: str) -> tuple[str, ...]:
    """Say how many of something are shown; empty where all are."""
    if drawn >= there:
        return ()
    return (f"{drawn} of {there} {what} are shown; the others stand in the dashboard.",)


def grid(rows: TextRows, caption: str) -> Grid:
    """Return the first rows of a table; an empty place is a dash."""
    header, lines = rows
    texts = [tuple(text or "–" for text in line) for line in lines[:MOST_ROWS]]
    right = {i for i in range(len(header)) if _numeric([row[i] for row in texts])}
    names = tuple(name or "taken" for name in header)
    return Grid(caption, names, tuple(texts), frozenset(right), len(lines) - len(texts))


def _numeric(texts: list[str]) -> bool:
    """Whether most texts start as numbers do: such a column is set right-aligned."""
    like = [text[:1].isdigit() or (text[:1] in "+-−" and text[1:2].isdigit()) for text in texts]
    return bool(texts) and sum(like) > len(texts) / 2


def costs(rows: Sequence[DecisionCost]) -> TextRows:
    """Return what a million output tokens cost with both arms, what is saved, and the fleet."""
    demanded = any(row.baseline is not None and row.baseline.fleet is not None for row in rows)
    header = ["traffic", "at", "arm", "baseline, USD per million", "with it", "saved", "95 %",
              "how sure"]  # fmt: skip
    more = ["GPUs for the demand", "saved a year, USD"] if demanded else []
    return [*header, *more], [[*_cost(row), *(_fleet(row) if demanded else [])] for row in rows]


def _cost(row: DecisionCost) -> list[str]:
    saving = row.saving
    sure = [UNKNOWN, "", ""] if saving is None else [
        percent(saving.per_output_token), interval(saving.low, saving.high) or "no interval",
        saving.word,
    ]  # fmt: skip
    return [
        row.decision.traffic.name, "no load" if row.load is None else row.load.short, tables.arm_at(row.decision),
        per_million(row.baseline), per_million(row.speculative), *sure,
    ]  # fmt: skip


def _fleet(row: DecisionCost) -> list[str]:
    sides = [None if side is None else side.fleet for side in (row.baseline, row.speculative)]
    unit = "GPU" if row.basis is None else row.basis.unit
    told = " → ".join(UNKNOWN if one is None else gpus(one.gpus, unit) for one in sides)
    year = row.usd_saved_per_year
    return [told, UNKNOWN if year is None else f"{year.value:,.0f}"]
