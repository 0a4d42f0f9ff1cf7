"""A published study as values and in words: read like results, and never mixed with what was measured
here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.evidence.words import Word
from analysis.matching.comparison import improvement
from analysis.metric_words import NamedMetric, read_metric
from analysis.published.claims import Claims, as_improvement, better_of
from analysis.published.claims_file import Row
from analysis.published.printed import Finding, decimal, shown
from answers.compare.values import metric_name
from answers.wording import UNKNOWN, TextRows, arm_words, badge, between
from warehouse.catalogue import counted
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
    named: NamedMetric
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
    """One row of a printed table. ``printed`` and ``recomputed`` are improvements as text; ``gains``
    are the two in percent, positive is better, None where none was printed; ``flag``: what is wrong
    with the printed one, in words, None where it follows."""

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
    gains: tuple[float, float] | None
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
class Mistake:
    """One error in print: what went wrong, and the figures that are wrong with it."""

    sentence: str
    figures: tuple[str, ...]


@dataclass(frozen=True)
class PublishedStudy:
    """All that a published study says. ``headline`` is what it prints, never advice; ``about``: one
    line on what was run; ``arm``: the speculative one of its tables; ``drafts``: each printed number of draft
    tokens, with its acceptance rate and mean acceptance length, and the length that follows; ``money``: each
    printed sum, its name, as printed, as its own row gives it, and with the price of the GPUs used (empty where
    nothing says how many GPUs the price buys, or they are the GPUs used)."""

    name: str
    source: str
    headline: str
    about: str
    model: str | None
    gpu: str | None
    arm: str
    tables: tuple[PrintedTable, ...]
    figures: tuple[PrintedFigure, ...]
    drafts: tuple[tuple[str, ...], ...]
    money: tuple[tuple[str, ...], ...]
    mistakes: tuple[Mistake, ...]
    checked: int
    flagged: int

    @property
    def title(self) -> str:
        """The study's name with the badge."""
        return f"{self.name}  [{BADGE}]"

    @property
    def soundness(self) -> str:
        """How many of its figures follow from what is printed beside them, in words."""
        return (
            f"{self.flagged} of {self.checked} figures do not follow from their own rows"
            if self.mistakes
            else f"All {self.checked} figures follow from their own rows"
        )

    def meets(self, filters: Filters) -> bool:
        """Whether the filters keep the study. It has a model, a GPU and datasets, and nothing else
        that filters could ask for."""
        datasets = {table.dataset for table in self.tables}
        others = (filters.engine_version, filters.tensor_parallel_size, filters.arm, filters.study)
        return (
            not any((*others, filters.since, filters.until))
            and (not filters.model or self.model in filters.model)
            and (not filters.gpu or self.gpu in filters.gpu)
            and (not filters.dataset or bool(datasets & {*filters.dataset}))
        )


# --- What a published study says, in sentences: what was printed, and what does not follow from it.


_SPEED = "output_throughput"
#: How figures of money are called in a table.
_MONEY = {
    "usd": "cost of a million output tokens", "usd_per_1m": "cost of a million output tokens",
    "usd_per_million_output_tokens": "cost of a million output tokens",
    "usd_per_1k": "cost of a thousand output tokens", "usd_per_day": "cost a day",
    "saving_pct": "saving", "saving_usd": "saved per million output tokens",
    "usd_saved_per_year": "saved a year",
}  # fmt: skip
_SHORTER = {
    "Time to first token (TTFT)": "TTFT", "Time per output token (TPOT)": "TPOT",
    "Inter-token latency (ITL)": "ITL",
}  # fmt: skip
_ARMS = {"baseline_": "baseline", "speculative_": "with speculation"}


def study_headline(means: Sequence[PrintedRow], arm: str, loads: Sequence[object]) -> str:
    """Return what the tables print of output throughput, over all datasets; recomputed from their
    rows."""
    speeds = [_gain(row) for row in means if row.named.metric == _SPEED]
    if not speeds:
        return f"Published: {counted(len(means), 'mean')}, none of output throughput."
    method, _, k = arm.partition(" K=")
    arm_text = arm_words(method, int(k) if k.isdigit() else None)
    low, high = f"{min(speeds):.1f}", f"{max(speeds):.1f}"
    span = f"{low} to {high}" if low != high else low
    over = f" over loads {loads[0]} to {loads[-1]}" if loads else ""
    return f"Published: {arm_text}, {span} % more output tokens per second on average{over}."


def _gain(row: PrintedRow) -> float:
    old, new = row.values
    return 100 * (improvement(old, new, better_of(row.row)) or 0.0)


def figure_answer(plots: Sequence[Plot], rows: Sequence[PrintedRow]) -> str:
    """Return what a figure's means say: ``Output throughput +20.7 %, total throughput +21.0 %.``"""
    gains = {}
    for row in rows:
        if row.of != MEAN:
            continue
        key, finding = (row.named.metric, row.named.statistic), row.finding
        # The improvement as printed, where it follows from its row; else what its row gives.
        followed = finding is not None and not finding.flagged
        gain = as_improvement(finding).published if finding and followed else _gain(row)
        label = metric_name(*key)
        for long, short in _SHORTER.items():
            label = label.replace(long, short)
        gains[key] = f"{label} {gain:+.1f} %"
    wanted = ((plot.metric, plot.statistic) for plot in plots)
    parts = [gains[line] for line in wanted if line in gains]
    return f"Means over the loads against the baseline: {', '.join(parts)}." if parts else ""


def drafts_answer(plots: Sequence[Plot]) -> str:
    """Say with which number of draft tokens each mean is best, as printed."""
    parts = []
    for plot in plots:
        best, how = (max, "highest") if plot.metric.endswith("throughput") else (min, "lowest")
        winner = best(
            (value for value in plot.values if value.of == MEAN),
            key=lambda value: value.value, default=None,
        )  # fmt: skip
        if winner is not None:
            parts.append(f"{plot.name.lower()} {how} with {winner.arm} ({winner.text} {plot.unit})")
    return f"Means over the loads: {'; '.join(parts)}."


def money_sums(findings: Sequence[Finding]) -> Iterator[tuple[str, ...]]:
    """Yield every printed sum, as ``PublishedStudy.money`` has it."""
    for finding in findings:
        per_gpu = finding.reason.partition("On the per-GPU basis it is ")[2].rstrip(".")
        name, price = _sum(finding.metric), float(finding.about["usd_per_hour"])
        yield (
            f"{name[:1].upper()}{name[1:]} at {price:,.2f} USD/h", shown(finding.published, finding.unit),
            shown(finding.recomputed, finding.unit), per_gpu,
        )  # fmt: skip


def _sum(metric: str) -> str:
    prefix = next((p for p in _ARMS if metric.startswith(p)), "")
    name = _MONEY.get(metric.removeprefix(prefix), metric)
    return f"{name}, {_ARMS[prefix]}" if prefix else name


def mistakes(judged: Claims) -> Iterator[Mistake]:
    """Yield every error in print with the figures that are wrong with it."""
    for error in judged.errors:
        yield Mistake(in_words(error.sentence, judged), tuple(map(figure_words, error.findings)))


def in_words(sentence: str, judged: Claims) -> str:
    """Rewrite a reason with the catalogue's names in place of a table's keys."""
    for key in sorted({finding.metric for finding in judged.findings}, key=len, reverse=True):
        sentence = sentence.replace(key, metric_words(key))
    return sentence


def metric_words(metric: str) -> str:
    """Return the catalogue's name of a metric where a table's metric is one of them; else the
    table's."""
    named = read_metric(metric)
    if named is None:
        return _sum(metric).replace("_", " ")
    label = metric_name(named.metric, named.statistic)
    return f"peak {label[:1].lower()}{label[1:]}" if named.peak else label


#: What the sum of money above the figure says, or its name.
_SAID_ABOVE = ("usd_per_hour", "arm", "levels")


def figure_words(finding: Finding) -> str:
    """Say where a figure stands and what is wrong with it: ``MLPerf, TP 1: Inter-token latency
    (ITL), P95, printed +6.6 %, its row gives +3.6 %``."""
    where = ", ".join(
        _place(name, text) for name, text in finding.about.items() if name not in _SAID_ABOVE
    )
    printed = f"{metric_words(finding.metric)}, printed {shown(finding.published, finding.unit)}"
    gives = f"its row gives {shown(finding.recomputed, finding.unit)}"
    if finding.kind == "basis":
        gives = "on the price of 8 GPUs" if "8 GPUs" in finding.reason else "on another price"
    elif finding.kind == "drafts":
        printed = f"{metric_words(finding.metric)}, {shown(finding.published, 'x')} the baseline's"
        gives = f"{finding.recomputed:.2f} tokens a step"
    sentence = f"{where}: {printed}, {gives}" if where else f"{printed}, {gives}"
    return sentence[:1].upper() + sentence[1:]


def _place(name: str, text: str) -> str:
    if name == "dataset":
        return text
    if name == "concurrency" and text.isdigit():
        return f"{text} at once"
    return f"TP {text}" if name == "tp" else f"{name.replace('_', ' ')} {text}"


def headline_of_claims(judged: Claims) -> str:
    """Say how many errors there are, and how many figures are wrong through them."""
    count, flagged = len(judged.findings), len(judged.flagged)
    if not count:
        return "Nothing in this table can be recomputed."
    if not flagged:
        return f"None of {counted(count, 'published figure')} contradicts its own row."
    verb = "does" if flagged == 1 else "do"
    made = counted(len(judged.errors), "error")
    return (
        f"{flagged} of {counted(count, 'published figure')} {verb} not follow from their own row: "
        f"{made}."
    )


# --- A published table that was recomputed, in words: which figures do not follow, and why.


#: Words of keys that are written large.
_SHORT = ("tp", "usd", "gpu")


@dataclass(frozen=True, slots=True)
class ClaimHere:
    """Our own measurement of the same thing."""

    metric: str
    about: str
    published: str
    measured: str
    interval: str
    word: str
    arm: str
    model: str
    gpu: str
    loads: str
    evidence: str


def checked(findings: Sequence[Finding]) -> TextRows:
    """Return a row per figure: where it stands, what is printed, and what its own row gives."""
    header = ["where", "metric", "published", "its own row gives", "flag", "why", "can be"]
    return header, [
        [
            ", ".join([_key_words(one.section), *_about(one)]), metric_words(one.metric),
            shown(one.published, one.unit), shown(one.recomputed, one.unit), one.kind or "follows", one.reason,
            " to ".join(dict.fromkeys(shown(end, one.unit) for end in (one.low, one.high))),
        ]
        for one in findings
    ]  # fmt: skip


def where_printed(finding: Finding) -> str:
    """Say where a figure stands: ``Output throughput, dataset code, TP 1``."""
    return ", ".join([metric_words(finding.metric), *_about(finding)])


def _about(finding: Finding) -> list[str]:
    return [f"{_key_words(key)} {value}" for key, value in finding.about.items()]


def _key_words(name: str) -> str:
    words = name.replace("_", " ").split(" ")
    return " ".join(word.upper() if word in _SHORT else word for word in words)


def here(findings: Sequence[Finding]) -> Iterator[ClaimHere]:
    """Yield our own measurements that stand beside the figures."""
    for finding in findings:
        for measured in finding.measured:
            word = measured["word"] or (
                "over several loads" if len(measured["loads"]) > 1 else UNKNOWN
            )
            span = between(measured["low"], measured["high"], "{:+.1f}".format, " %")
            yield ClaimHere(
                metric_words(finding.metric), ", ".join(_about(finding)), shown(finding.published, finding.unit),
                shown(measured["improvement"], "%"), span or f"{UNKNOWN}: a single launch", word,
                measured["arm"], measured["model"] or UNKNOWN, measured["gpu"] or UNKNOWN,
                ", ".join(measured["loads"]), badge(measured["evidence"]) or "GPU",
            )  # fmt: skip
