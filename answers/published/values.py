"""A published study as values: read like results, and never mixed with what was measured here."""

from dataclasses import dataclass

from analysis.evidence.words import Word
from analysis.metric_words import Named
from analysis.published.claims_file import Row
from analysis.published.printed import decimal
from analysis.verdicts.finding import Finding
from warehouse.filters import Filters

#: What stands in every title that shows a published figure.
BADGE = "published, single run"
#: What a printed value is of, where it is no load: the mean over the study's loads, the best load.
MEAN, PEAK = "mean over the loads", "peak"


@dataclass(frozen=True)
class PrintedValue:
    """One printed value of an arm. ``of``: the load, MEAN or PEAK; ``text``: with the digits that
    were printed."""

    arm: str
    of: str
    value: float
    text: str


@dataclass(frozen=True)
class MeasuredHere:
    """What was measured here of a printed line: an arm's mean over its loads, or one load.

    ``reference`` and ``value`` are in the printed unit. ``low``, ``high`` and ``word`` are those of
    one load; a mean has none.
    """

    arm: str
    badges: tuple[str, ...]
    of: str
    reference: float | None
    value: float | None
    improvement: float | None
    low: float | None
    high: float | None
    word: Word | None


@dataclass(frozen=True)
class PrintedRow:
    """A row of a published table that is about a metric of the catalogue; ``finding`` is None where it
    prints no improvement."""

    row: Row
    named: Named
    finding: Finding | None

    @property
    def place(self) -> tuple[str, str]:
        """Dataset and tensor parallel size, as printed."""
        about = self.row.about
        return about.get("dataset", "unknown"), about.get("tp", "unknown")

    @property
    def of(self) -> str:
        """What the values were measured over: a load, the best load, or the mean over the loads."""
        level = self.row.about.get("concurrency", "")
        if self.named.peak:
            return f"{PEAK} ({level} at once)" if level.isdigit() else PEAK
        return f"{level} at once" if level.isdigit() else MEAN

    @property
    def unit(self) -> str:
        """The printed unit, ``tok/s``, ``s`` or ``ms``, from what the table calls the metric."""
        if self.named.metric.endswith("throughput"):
            return "tok/s"
        return "ms" if self.row.name.rstrip(")").casefold().endswith("ms") else "s"

    @property
    def values(self) -> tuple[float, float]:
        """The value of the baseline, and that of the other arm."""
        old, new = (float(decimal(self.row.fields[x])) for x in ("baseline", "speculative"))
        return old, new

    def printed(self, arms: tuple[str, str]) -> tuple[PrintedValue, ...]:
        """Return the two values, each with the name of its arm."""
        texts = (grouped(self.row.fields[x]) for x in ("baseline", "speculative"))
        return tuple(
            PrintedValue(arm, self.of, value, text)
            for arm, value, text in zip(arms, self.values, texts, strict=True)
        )


def grouped(value: object) -> str:
    """Write a printed number with commas, ``1171.7`` as ``1,171.7``, with the digits that were
    printed."""
    return f"{decimal(value):,}"


@dataclass(frozen=True)
class PrintedLine:
    """One row of a printed table. ``printed`` and ``recomputed`` are improvements as text, positive
    is better; ``flag``: what is wrong with the printed one, in words, None where it follows."""

    metric: str
    statistic: str
    name: str
    unit: str
    of: str
    baseline: str
    speculative: str
    printed: str
    recomputed: str
    flag: str | None
    measured: tuple[MeasuredHere, ...] = ()


@dataclass(frozen=True)
class PrintedTable:
    """The printed rows of one dataset at one tensor parallel size. ``arms``: what the two columns of
    values are of."""

    title: str
    dataset: str
    tensor_parallel_size: str
    arms: tuple[str, str]
    lines: tuple[PrintedLine, ...]


@dataclass(frozen=True)
class Plot:
    """One metric of a figure: the values that were printed of it, and what was measured here."""

    metric: str
    statistic: str
    name: str
    unit: str
    values: tuple[PrintedValue, ...]
    notes: tuple[str, ...]
    measured: tuple[MeasuredHere, ...] = ()


@dataclass(frozen=True)
class PrintedFigure:
    """One drawing of the article, as far as numbers of it were printed. ``answer``: what they say."""

    number: int
    name: str
    answer: str
    dataset: str
    tensor_parallel_size: str
    plots: tuple[Plot, ...]
    table: str


@dataclass(frozen=True)
class Drafts:
    """What was printed of one number of draft tokens."""

    num_speculative_tokens: str
    acceptance_rate: str
    mean_acceptance_length: str
    follows: str


@dataclass(frozen=True)
class PrintedSum:
    """Money as it was printed, and what its own row and a price of the GPUs used give. None:
    nothing says how many GPUs the price buys, or they are the GPUs used."""

    name: str
    printed: str
    recomputed: str
    on_own_gpus: str | None


@dataclass(frozen=True)
class Mistake:
    """One error in print: what went wrong, and the figures that are wrong with it."""

    sentence: str
    figures: tuple[str, ...]


@dataclass(frozen=True)
class PublishedStudy:
    """All that a published study says. ``headline`` is what it prints, never advice; ``about``: one
    line on what was run; ``arm``: the speculative one of its tables."""

    name: str
    source: str
    headline: str
    about: str
    model: str | None
    gpu: str | None
    arm: str
    tables: tuple[PrintedTable, ...]
    figures: tuple[PrintedFigure, ...]
    drafts: tuple[Drafts, ...]
    money: tuple[PrintedSum, ...]
    mistakes: tuple[Mistake, ...]
    checked: int
    flagged: int

    @property
    def title(self) -> str:
        """The study's name with the badge."""
        return f"{self.name}  [{BADGE}]"

    def meets(self, filters: Filters) -> bool:
        """Whether the filters keep the study. It has a model, a GPU and datasets, and nothing else
        that filters could ask for."""
        datasets = {one.dataset for one in self.tables}
        others = (filters.engine_version, filters.tensor_parallel_size, filters.arm, filters.study)
        return (
            not any((*others, filters.since, filters.until))
            and (not filters.model or self.model in filters.model)
            and (not filters.gpu or self.gpu in filters.gpu)
            and (not filters.dataset or bool(datasets & {*filters.dataset}))
        )
