"""A published study as values: read like results, and never mixed with what was measured here."""

from dataclasses import dataclass

from analysis.evidence.words import Word
from warehouse.filters import Filters

#: What stands in every title that shows a published figure.
BADGE = "published, single run"
#: What a printed value is of, where it is no load: the mean over the study's loads, the best load.
MEAN, PEAK = "mean over the loads", "peak"


@dataclass(frozen=True)
class Value:
    """One printed value of an arm. ``of``: the load, MEAN or PEAK; ``text``: with the digits that
    were printed."""

    arm: str
    of: str
    value: float
    text: str


@dataclass(frozen=True)
class Measured:
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
class Line:
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
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True)
class Table:
    """The printed rows of one dataset at one tensor parallel size. ``arms``: what the two columns of
    values are of."""

    title: str
    dataset: str
    tensor_parallel_size: str
    arms: tuple[str, str]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Plot:
    """One metric of a figure: the values that were printed of it, and what was measured here."""

    metric: str
    statistic: str
    name: str
    unit: str
    values: tuple[Value, ...]
    notes: tuple[str, ...]
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True)
class Figure:
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
class Sum:
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
class Study:
    """All that a published study says. ``headline`` is what it prints, never advice; ``about``: one
    line on what was run; ``arm``: the speculative one of its tables."""

    name: str
    source: str
    headline: str
    about: str
    model: str | None
    gpu: str | None
    arm: str
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    drafts: tuple[Drafts, ...]
    money: tuple[Sum, ...]
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
