"""What a published study says, in sentences: what was printed, and what does not follow from it."""

from collections.abc import Iterator, Mapping, Sequence

from analysis.matching.comparison import improvement
from analysis.metric_words import read_metric
from analysis.published.claims import Claims
from analysis.published.claims_improvements import as_improvement, better_of
from analysis.verdicts.finding import Finding, shown
from answers.compare.values import counted, metric_name
from answers.published.lines import Read
from answers.published.values import MEAN, Line, Mistake, Plot, Sum
from answers.wording import arm_words, known

_SPEED = "output_throughput"
#: How figures of money are called in a table.
_MONEY = {
    "usd": "cost of a million output tokens", "usd_per_1m": "cost of a million output tokens",
    "usd_per_million_output_tokens": "cost of a million output tokens",
    "usd_per_1k": "cost of a thousand output tokens", "usd_per_day": "cost a day",
    "saving_pct": "saving", "saving_usd": "saved per million output tokens",
    "usd_saved_per_year": "saved a year",
}  # fmt: skip
_ARMS = {"baseline_": "baseline", "speculative_": "with speculation"}


def name(facts: Mapping[str, str]) -> str:
    """Return what a list calls the study: ``gpt-oss-120b on NVIDIA H200``."""
    model = known(facts.get("target_model")).rpartition("/")[2]
    return f"{model} on {known(facts.get('gpu'))}"


def about(facts: Mapping[str, str]) -> str:
    """Return what was run, in a line."""
    draft = facts.get("draft_model")
    told = [
        known(facts.get("target_model")), f"draft {draft}" if draft else "", facts.get("gpu", ""),
        facts.get("engine", ""), facts.get("load_generator", ""),
    ]  # fmt: skip
    return f"{', '.join(filter(None, told))}. Printed in: {known(facts.get('source'))}."


def headline(means: Sequence[Read], arm: str, loads: Sequence[object]) -> str:
    """Return what the tables print of output throughput, over all datasets; recomputed from their
    rows."""
    speeds = [_gain(row) for row in means if row.named.metric == _SPEED]
    if not speeds:
        return f"Published: {counted(len(means), 'mean')}, none of output throughput."
    method, _, k = arm.partition(" K=")
    told = arm_words(method, int(k) if k.isdigit() else None)
    low, high = f"{min(speeds):.1f}", f"{max(speeds):.1f}"
    span = f"{low} to {high}" if low != high else low
    over = f" over loads {loads[0]} to {loads[-1]}" if loads else ""
    return f"Published: {told}, {span} % more output tokens per second on average{over}."


def _gain(row: Read) -> float:
    old, new = row.values
    return 100 * (improvement(old, new, better_of(row.row)) or 0.0)


def answer(plots: Sequence[Plot], rows: Sequence[Read]) -> str:
    """Return what a figure's means say: ``Output throughput +20.7 %, total throughput +21.0 %.``"""
    wanted = [(plot.metric, plot.statistic) for plot in plots]
    told = {
        (row.named.metric, row.named.statistic): f"{_short(row)} {_said(row):+.1f} %"
        for row in rows
        if row.of == MEAN
    }
    parts = [told[line] for line in wanted if line in told]
    return f"Means over the loads against the baseline: {', '.join(parts)}." if parts else ""


def _said(row: Read) -> float:
    """Return the improvement as printed, where it follows from its row; else what its row gives."""
    told = row.finding
    return _gain(row) if told is None or told.flagged else as_improvement(told).published


def _short(row: Read) -> str:
    label = metric_name(row.named.metric, row.named.statistic)
    return label.replace("Time to first token (TTFT)", "TTFT").replace(
        "Time per output token (TPOT)", "TPOT").replace("Inter-token latency (ITL)", "ITL")  # fmt: skip


def drafts_answer(plots: Sequence[Plot]) -> str:
    """Say with which number of draft tokens each mean is best, as printed."""
    parts = []
    for plot in plots:
        best, how = (max, "highest") if plot.metric.endswith("throughput") else (min, "lowest")
        means = [one for one in plot.values if one.of == MEAN]
        if means:
            one = best(means, key=lambda value: value.value)
            name = plot.name.lower()
            parts.append(f"{name} {how} with {one.arm} ({one.text} {plot.unit})")
    return f"Means over the loads: {'; '.join(parts)}."


def flag_note(line: Line) -> str:
    """Say what is wrong with a printed improvement."""
    return f"printed {line.printed}, its row gives {line.recomputed}: {line.flag}"


def money(findings: Sequence[Finding]) -> Iterator[Sum]:
    """Yield every printed sum, as printed and recomputed."""
    for one in findings:
        per_gpu = one.reason.partition("On the per-GPU basis it is ")[2].rstrip(".")
        price = f" at {float(one.about['usd_per_hour']):,.2f} USD/h"
        yield Sum(
            f"{_sum(one.metric)[:1].upper()}{_sum(one.metric)[1:]}{price}", shown(one.published, one.unit),
            shown(one.recomputed, one.unit), per_gpu or None,
        )  # fmt: skip


def _sum(metric: str) -> str:
    prefix = next((p for p in _ARMS if metric.startswith(p)), "")
    told = _MONEY.get(metric.removeprefix(prefix), metric)
    return f"{told}, {_ARMS[prefix]}" if prefix else told


def mistakes(judged: Claims) -> Iterator[Mistake]:
    """Yield every error in print with the figures that are wrong with it."""
    for error in judged.errors:
        yield Mistake(in_words(error.sentence, judged), tuple(map(figure, error.findings)))


def in_words(sentence: str, judged: Claims) -> str:
    """Rewrite a reason with the catalogue's names in place of a table's keys."""
    for key in sorted({one.metric for one in judged.findings}, key=len, reverse=True):
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
_TOLD = ("usd_per_hour", "arm", "levels")


def figure(one: Finding) -> str:
    """Say where a figure stands and what is wrong with it: ``MLPerf, TP 1: Inter-token latency
    (ITL), P95, printed +6.6 %, its row gives +3.6 %``."""
    where = ", ".join(_place(name, text) for name, text in one.about.items() if name not in _TOLD)
    told = f"{metric_words(one.metric)}, printed {shown(one.published, one.unit)}"
    gives = f"its row gives {shown(one.recomputed, one.unit)}"
    if one.kind == "basis":
        gives = "on the price of 8 GPUs" if "8 GPUs" in one.reason else "on another price"
    elif one.kind == "drafts":
        told = f"{metric_words(one.metric)}, {shown(one.published, 'x')} the baseline's"
        gives = f"{one.recomputed:.2f} tokens a step"
    sentence = f"{where}: {told}, {gives}" if where else f"{told}, {gives}"
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
