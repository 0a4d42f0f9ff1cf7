"""The verdict in words that a manager can repeat: plain text, no markup."""

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.significance.crossover import ENDS
from analysis.significance.evidence import BETTER, MARGIN, OPEN, SAME, WORSE
from analysis.verdicts.overall import Overall, saved_per_token
from warehouse.catalogue import METRICS, Metric, percentile_label

NOTHING = "Not known yet: no pair of cells to compare."
_METHODS = {
    "eagle": "EAGLE",
    "eagle3": "EAGLE-3",
    "draft_model": "a draft model",
    "ngram": "n-gram lookup",
    "mtp": "multi-token prediction",
    "suffix": "suffix decoding",
    "medusa": "Medusa",
}
#: The same in a tile, whose name says what of.
_SHORT = {
    "output_throughput": ("more", "fewer"),
    "ttft": ("sooner", "later"),
    "request_latency": ("faster", "slower"),
}
_LABEL = re.compile(r"(?P<method>\S+) K=(?P<k>\d+|\?)(?P<rest>.*)", re.DOTALL)
#: More settings than this are counted instead of listed.
_LISTED = 3
_SPACE = "\u202f"
#: How lines of the study's table are told: (better, worse).
_FELT = {
    "output_throughput": ("more output tokens per second", "fewer output tokens per second"),
    "total_throughput": ("more total tokens per second", "fewer total tokens per second"),
    "ttft": ("sooner first token", "later first token"),
    "tpot": ("less time per output token", "more time per output token"),
    "itl": ("shorter gap between tokens", "longer gap between tokens"),
    "request_latency": ("faster request", "slower request"),
}


def arm_words(label: str) -> str:
    """``eagle3 K=3`` as ``EAGLE-3 with 3 draft tokens``; a label of another kind as it is."""
    found = _LABEL.fullmatch(label)
    if found is None:
        return label
    method = _METHODS.get(found["method"], found["method"])
    if found["k"] == "?":
        return f"{method}{found['rest']}"
    tokens = "1 draft token" if found["k"] == "1" else f"{found['k']} draft tokens"
    return f"{method} with {tokens}{found['rest']}"


def headline(one: Overall, arm: str, names: dict[int, str]) -> str:
    """The first line. ``names``: setting -> dataset and TP in words."""
    gain, told = one.gain, arm_words(arm)
    if one.answer == "undecided":
        return f"Not known yet: {told} {_measured(gain)}. {_need(one, names)}"
    if one.answer == "no":
        return f"Leave it off: {told} {_effect(gain)}{_below(one)}."
    if one.answer == "it depends":
        return f"It depends: {told} pays {_where(one, names)}. Over all it {_effect(gain)}."
    if one.answer == "yes, up to a load":
        until = f"up to about {one.ends_at:.0f} concurrent requests"
        return f"Turn it on {until}: {told} {_effect(gain)}, over all loads measured."
    return f"Turn it on: {told} {_effect(gain)}, at every load {_up_to(one)}."


def _effect(gain: dict[str, Any]) -> str:
    """``serves 20.7 % more … and each token costs 17 % less``."""
    if gain["verdict"] == SAME:
        return f"makes no measurable difference to output tokens per second ({interval(gain)})"
    size = gain["improvement"]
    saved = saved_per_token(size)
    return (
        f"serves {amount(size)} {_FELT['output_throughput'][size < 0]} ({interval(gain)}) and each "
        f"token costs {cheaper(saved, 0)}"
    )


def cheaper(saved: float, decimals: int = 1) -> str:
    """``17 % less``, given the share of the cost that is saved."""
    return f"{abs(saved) * 100:.{decimals}f}{_SPACE}% {'less' if saved > 0 else 'more'}"


def _measured(gain: dict[str, Any]) -> str:
    size = gain["improvement"]
    if pd.isna(size):
        return "has no output throughput that could be compared"
    word = _FELT["output_throughput"][size < 0]
    return f"served {amount(size)} {word} ({interval(gain)})"


def _need(one: Overall, names: dict[int, str]) -> str:
    """Why nothing is decided, and what would decide it."""
    if pd.isna(one.gain["low"]):
        return "One repeat cannot tell a gain from noise: run 3 to 5."
    open_ones = [names[s.setting] for s in one.settings if s.answer == "undecided"]
    return f"Not enough evidence on {listed(open_ones)}: run more repeats."


def _below(one: Overall) -> str:
    if one.ends_at is None:
        return ""
    return f", and pays below about {one.ends_at:.0f} concurrent requests at most"


def _where(one: Overall, names: dict[int, str]) -> str:
    yes = [names[s.setting] for s in one.settings if s.answer.startswith("yes")]
    no = [names[s.setting] for s in one.settings if s.answer == "no"]
    unknown = [names[s.setting] for s in one.settings if s.answer == "undecided"]
    parts = [f"on {listed(yes)}"]
    parts += [f"not on {listed(no)}"] if no else []
    parts += [f"and it is not known on {listed(unknown)}"] if unknown else []
    return ", ".join(parts)


def _up_to(one: Overall) -> str:
    low, high = one.measured
    return f"measured ({low:.0f})" if low == high else f"up to {high:.0f} concurrent requests"


def interval(row: dict[str, Any]) -> str:
    """``95 %: 18.9 to 22.4``, in percent; what there is instead where there is none."""
    if pd.isna(row["low"]) or pd.isna(row["high"]):
        return "no interval"
    ends = sorted(abs(value) * 100 for value in (row["low"], row["high"]))
    if row["low"] < 0 < row["high"]:
        return f"95{_SPACE}%: {row['low'] * 100:+.1f} to {row['high'] * 100:+.1f}"
    return f"95{_SPACE}%: {ends[0]:.1f} to {ends[1]:.1f}"


def amount(ratio: float) -> str:
    """``20.7 %`` without a sign: the words beside it say the direction."""
    return f"{abs(ratio) * 100:.1f}{_SPACE}%"


def against(one: Overall, rows: pd.DataFrame, names: dict[int, str]) -> tuple[str, ...]:
    """What speaks against it: the worst of each line, where the gain ends, what is not settled.

    ``rows``: a row per setting and line of the study's table: setting, metric, statistic,
    improvement, verdict.
    """
    told = [_worse(part, names) for _, part in rows.groupby(["metric", "statistic"], sort=False)]
    unsettled = [names[s.setting] for s in one.settings if s.answer == "undecided"]
    doubts = [f"not settled on {listed(unsettled)}"] if unsettled else []
    return tuple(text for text in (*told, _ends(one, names), *doubts) if text)


def _worse(rows: pd.DataFrame, names: dict[int, str]) -> str:
    """The setting in which one line is worst; empty where none is worse."""
    bad = rows[(rows["verdict"] == WORSE) | _may_be_worse(rows)].sort_values("improvement")
    if bad.empty:
        return ""
    row = bad.iloc[0]
    metric = METRICS[str(row["metric"])]
    statistic = f" ({percentile_label(row['statistic'])})" if metric.distribution else ""
    sure = "" if row["verdict"] == WORSE else "perhaps "
    more = f", worse in {len(bad)} of {len(rows)} settings" if len(bad) > 1 else ""
    return (
        f"{sure}{amount(row['improvement'])} {_FELT[metric.key][1]}{statistic} on "
        f"{names[row['setting']]}{more}"
    )


def _may_be_worse(rows: pd.DataFrame) -> pd.Series:
    return (rows["verdict"] == OPEN) & (rows["improvement"] < -MARGIN)


def _ends(one: Overall, names: dict[int, str]) -> str:
    ends = {
        names[s.setting]: s.crossover.at
        for s in one.settings
        if s.crossover.kind == ENDS and s.crossover.at is not None
    }
    told = [f"{ends[name]:.0f} on {name}" for name in sorted(ends, key=lambda name: ends[name])]
    return f"the gain ends at about concurrency {listed(told)}" if told else ""


def listed(names: Sequence[str]) -> str:
    """``a, b and c``; ``a, b, c and 4 more``."""
    if len(names) > _LISTED:
        return f"{', '.join(names[:_LISTED])} and {len(names) - _LISTED} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def direction(row: dict[str, Any]) -> str:
    """A tile's value: ``17.2 % faster``."""
    if pd.isna(row["improvement"]):
        return "unknown"
    if row["verdict"] == SAME:
        return "no difference"
    return f"{amount(row['improvement'])} {_SHORT[row['metric']][row['improvement'] < 0]}"


def spread(row: dict[str, Any]) -> str:
    """In how many settings a line is better and worse."""
    settings, better, worse = (int(row[name]) for name in ("settings", "better", "worse"))
    if settings == 1:
        return str(row["verdict"])
    counts = {BETTER: better, WORSE: worse, "not settled": settings - better - worse}
    there = {word: number for word, number in counts.items() if number}
    if len(there) == 1:
        return f"{next(iter(there))} in all {settings} settings"
    return ", ".join(f"{number} {word}" for word, number in there.items()) + f" of {settings}"


def panel_answer(answer: str, row: dict[str, Any], ends: float | None) -> str:
    """The title of one small panel: what its setting says."""
    size = "unknown" if pd.isna(row["improvement"]) else f"{row['improvement'] * 100:+.1f}{_SPACE}%"
    words = {
        "yes": "at every load",
        "yes, up to a load": f"up to about {ends or 0:.0f}",
        "no": "no difference" if row["verdict"] == SAME else "does not pay",
        "undecided": "not settled",
    }
    return f"{size}, {words[answer]}"


def short_name(metric: Metric, statistic: str) -> str:
    """``TTFT P95``: the abbreviation where the catalogue has one."""
    found = re.search(r"\((\w+)\)", metric.label)
    name = found.group(1) if found else metric.label
    return f"{name} {percentile_label(statistic)}" if metric.distribution else name
