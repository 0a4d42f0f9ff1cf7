"""A decision as rows of text: the same for terminals, pages and reports."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from answers.decide.values import Cell, Decision, Difference, Level
from answers.decide.words import loads_short
from answers.wording import UNKNOWN, interval, known, percent
from warehouse.catalogue import METRICS, percentile_label

Rows = tuple[list[str], list[list[str]]]
#: What stands where an arm has no gain to tell: at this load nothing is drafted.
NO_DRAFTS = "no drafts"


def summary(decisions: Sequence[Decision]) -> Rows:
    """Return a line per traffic and tensor parallel size: what to do, at which loads, and for
    what."""
    loads = {one.operating_load.short for one in decisions if one.operating_load is not None}
    where = f" at {loads.pop()}" if len(loads) == 1 else ""
    header = ["traffic", "TP", "answer", "take", "loads", f"gain{where}", "95 %", "costs", "stake"]
    return header, [_line(one, alone=bool(where)) for one in decisions]


def _line(one: Decision, alone: bool) -> list[str]:
    told = None if one.operating is None else one.operating.difference
    load = f" at {one.operating.load.short}" if one.operating is not None and not alone else ""
    return [
        traffic_short(one), known(one.subject.tensor_parallel_size), one.answer, arm_taken(one),
        words_by_load(one.levels),
        UNKNOWN if told is None else f"{percent(told.improvement)}{load}",
        "" if told is None else interval(told.low, told.high) or "no interval",
        _saved(one), at_stake(one),
    ]  # fmt: skip


def traffic_short(one: Decision) -> str:
    """Return the traffic in a word: ``code``; a mix as ``mix of 3``."""
    return f"mix of {len(one.traffic.mix)}" if one.traffic.mix else one.traffic.name


def arm_taken(one: Decision) -> str:
    """Return the arm to take: ``draft_model K=5``; ``draft_model K=5/3/2`` where K follows the
    load."""
    if one.table is None or one.k_kind != "table":
        return one.arm
    ks = dict.fromkeys(k for _, _, k in one.table)
    return f"{one.method} K={'/'.join(map(str, ks))}"


def words_by_load(levels: Sequence[Level]) -> str:
    """Return the loads of each word, ``likely gain 1, 4; open 16``: neighbouring loads of one word
    together."""
    grouped = groupby(levels, lambda level: level.difference.word)
    return "; ".join(f"{word} {loads_short([x.load for x in part])}" for word, part in grouped)


def _saved(one: Decision) -> str:
    return UNKNOWN if one.saving is None else percent(-one.saving.per_output_token)


def at_stake(one: Decision) -> str:
    """Write what is at stake: ``13.9 %``; unknown where nothing repeats."""
    return percent(one.at_stake, sign=False) if one.at_stake is not None else UNKNOWN


def size(told: Difference) -> str:
    """Write an improvement with its interval: ``+11.6 % (+1.6 to +39.6 %)``."""
    ends = interval(told.low, told.high)
    return f"{percent(told.improvement)} ({ends})" if ends else percent(told.improvement)


def by_load(one: Decision) -> Rows:
    """Return the load map: what to draft at each load, and what that brings."""
    header = ["load", "K", "gain", "certainty", "launches", "in"]
    return header, [
        [
            level.load.text, _k_of(level), size(level.difference),
            level.difference.word, str(level.launches), line_name(level.difference),
        ]
        for level in one.levels
    ]  # fmt: skip


def _k_of(level: Level) -> str:
    """Write a number of draft tokens: ``3``, ``no drafts``; ``engine`` where the engine chooses."""
    if level.num_speculative_tokens is None:
        return UNKNOWN if level.k_kind == "unknown" else "engine"
    return str(level.num_speculative_tokens) if level.num_speculative_tokens else NO_DRAFTS


def taken(level: Level) -> str:
    """Return what is taken at a load: ``draft_model K=5 (+11.8 %)``; ``no drafts``."""
    if level.num_speculative_tokens == 0:
        return NO_DRAFTS
    return f"{level.arm} ({percent(level.difference.improvement)})"


def line_name(told: Difference) -> str:
    """Return the name of the metric behind a difference: ``Output throughput``, ``TTFT P95``."""
    metric = METRICS[told.metric]
    return (
        f"{metric.label} {percentile_label(told.statistic)}"
        if metric.distribution
        else metric.label
    )


def by_arm(one: Decision) -> Rows:
    """Return every arm at every load; ``take`` marks what the decision takes."""
    header = ["load", "arm", "gain", "certainty", "launches", ""]
    return header, [_cell(cell) for cell in sorted(one.arms, key=lambda x: x.load.order)]


def _cell(cell: Cell) -> list[str]:
    told = cell.difference
    mark = "take" if cell.taken else ""
    return [cell.load.text, cell.arm, size(told), told.word, str(cell.launches), mark]


def doubts(one: Decision) -> Iterator[str]:
    """Yield what to keep in mind, what would settle it and what was left out, a sentence each."""
    yield from one.doubts
    for more in one.settle:
        number = "1 more launch" if more.launches == 1 else f"{more.launches} more launches"
        yield f"To settle {more.load.text}: {number} of {more.arm} and of the baseline."


def table_notes(one: Decision) -> Iterator[str]:
    """Say what a reader has to know before pasting the table of K."""
    if one.table is None:
        return
    loads = [level.load.short for level in one.levels]
    yield f"Measured at {', '.join(loads)}: vLLM goes on with the last K above."
    yield "vLLM ignores the table where data parallelism is used."
    if any(k == 0 for _, _, k in one.table):
        yield "K = 0 was measured on a server without a draft; here the draft stays in memory."


def left_out(one: Decision) -> Iterator[str]:
    """Return the cells that decide nothing, and why."""
    return (f"{cell.cell}: {cell.why}" for cell in one.excluded)


def entries(one: Decision) -> str | None:
    """Return the table of K by batch size as vLLM takes it."""
    if one.table is None:
        return None
    told = ", ".join(f"[{start}, {end}, {k}]" for start, end, k in one.table)
    return f"num_speculative_tokens_per_batch_size: [{told}]"


def nothing_to_paste(one: Decision) -> str:
    """Say why there are no flags to paste; empty where there are."""
    if one.config is not None:
        return ""
    drafts = any(level.num_speculative_tokens != 0 for level in one.levels)
    if drafts and one.answer != "no":
        return "What to paste is not known: the results do not say which method drafted how much."
    return "Nothing to paste: serve without speculation."
