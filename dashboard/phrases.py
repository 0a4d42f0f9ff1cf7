"""The answer in words: one sentence from the comparison, as plain text."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from analysis.significance.improvement import geometric_mean
from warehouse.catalogue import METRICS, Metric, percentile_label

NOTHING = "Does speculation pay? No pair to compare yet."
#: What a chart of amounts shows of its repeats.
BARS = "Bars reach from the lowest to the highest repeat. Hollow: a single repeat."
#: More settings than this are summed up instead of listed.
_LISTED = 3
#: Below this a difference is not worth a direction.
_SAME = 0.005


def headline(totals: pd.DataFrame, reference: str = "baseline") -> str:
    """What speculation does to output throughput against ``reference``, for the best arm.

    ``totals``: one row per setting and arm with ``arm``, ``panel``, ``improvement`` (ratio of the
    geometric means over the levels) and ``concurrencies`` (those levels).
    """
    if totals.empty:
        return NOTHING
    arm = best_arm(totals)
    mine = totals[totals["arm"] == arm]
    gains = dict(zip(mine["panel"], mine["improvement"], strict=True))
    levels = sorted({level for levels in mine["concurrencies"] for level in levels})
    best = " (the best of several arms)" if totals["arm"].nunique() > 1 else ""
    than = "" if reference == "baseline" else f", compared with {reference}"
    return f"{arm}{best} serves {_gains(gains)}{_at(levels)}{than}"


def losses(totals: pd.DataFrame, levels: pd.DataFrame) -> str:
    """Where the best arm is slower than the baseline; empty if there is nothing to say.

    ``levels``: one row per setting, arm and concurrency: arm, panel, concurrency, improvement.
    """
    if totals.empty:
        return ""
    arm = best_arm(totals)
    slower = levels[(levels["arm"] == arm) & (levels["improvement"] < -_SAME)]
    if slower.empty:
        return f"At no level measured does {arm} serve fewer output tokens per second."
    parts = [
        f"{panel} at concurrency {_each(part['concurrency'])}"
        for panel, part in slower.groupby("panel", sort=False)
    ]
    return f"Against it: fewer output tokens per second on {_joined(parts[:_LISTED])}" + (
        f" and {len(parts) - _LISTED} more." if len(parts) > _LISTED else "."
    )


def trades(totals: pd.DataFrame, lines: pd.DataFrame) -> str:
    """Where the best arm is worse in total; empty if nowhere.

    ``lines``: rows of the study's table other than output throughput, with arm, panel, metric,
    statistic, improvement; of each metric the worst setting is told.
    """
    if totals.empty:
        return ""
    worse = lines[(lines["arm"] == best_arm(totals)) & (lines["improvement"] < -_SAME)]
    worst = worse.sort_values("improvement").drop_duplicates("metric").to_dict("records")
    parts = [
        f"{named(METRICS[row['metric']], row['statistic'])} {_signed(row['improvement'])} "
        f"on {row['panel']}"
        for row in worst[:_LISTED]
    ]
    return f" In total worse: {_joined(parts)}." if parts else ""


def best_arm(totals: pd.DataFrame) -> str:
    """The arm with the greatest geometric mean of its ratios over the settings."""
    means = {str(arm): _mean_gain(part) for arm, part in totals.groupby("arm")}
    return max(means, key=lambda arm: means[arm])


def _mean_gain(rows: pd.DataFrame) -> float:
    mean = geometric_mean(1 + rows["improvement"])
    return float("-inf") if mean is None else mean - 1


def _gains(gains: dict[str, float]) -> str:
    unit = "output tokens per second"
    if len(gains) > _LISTED:
        more = sum(gain > _SAME for gain in gains.values())
        low, high = min(gains.values()), max(gains.values())
        return f"more {unit} in {more} of {len(gains)} settings ({_signed(low)} to {_signed(high)})"
    first, *others = [(_amount(gain), name) for name, gain in gains.items()]
    told = [f"{first[0]} {unit} on {first[1]}"]
    return _joined(told + [f"{amount} on {name}" for amount, name in others])


def _amount(gain: float) -> str:
    if abs(gain) < _SAME:
        return "as many"
    return f"{abs(gain) * 100:.1f}\u202f%" + (" more" if gain > 0 else " fewer")


def _signed(gain: float) -> str:
    return f"{gain * 100:+.1f}\u202f%"


def _at(levels: Sequence[int]) -> str:
    if not levels:
        return ""
    span = str(levels[0]) if len(levels) == 1 else f"{levels[0]}\u2013{levels[-1]}"
    return f", at concurrency {span}"


def _each(levels: pd.Series) -> str:
    return _joined([str(int(level)) for level in sorted(levels.unique())])


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def counted(number: int, what: str) -> str:
    """``1 cell``, ``2,000 cells``."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def named(metric: Metric, statistic: str) -> str:
    """A metric with its statistic, e.g. ``Time to first token (TTFT), P95``."""
    return f"{metric.label}, {percentile_label(statistic)}" if metric.distribution else metric.label


def evidence(repeats: pd.Series, flags: Iterable[Sequence[str]]) -> str:
    """What the answer stands on. ``repeats``: pairs per level; ``flags``: names of each pair's."""
    number, most = int(repeats.sum()), int(repeats.max())
    names = Counter(name for own in flags for name in set(own))
    most_first = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{name.replace('_', ' ')} ({counted(n, 'pair')})" for name, n in most_first]
    doubts = ", ".join(told)
    return (
        f"Evidence: {counted(number, 'pair')}, at most {counted(most, 'repeat')} per level. "
        f"Flags: {doubts or 'none'}."
    )


def against(reference: str) -> str:
    """How a chart of improvements is read."""
    return (
        f"Above the dashed line is better than {reference}. Bands are 95 % intervals from repeats; "
        "hollow: a single repeat. A triangle marks the load at which a gain ends."
    )


def cut(drawn: int, there: int) -> str:
    """What is not drawn, and how to see it."""
    return (
        f"{drawn} of {there} settings are drawn, those with most levels. "
        "Choose a dataset or a GPU in the sidebar to see the others."
    )
