"""The answer in words: one sentence from the matched pairs, as plain text."""

from collections.abc import Sequence

import pandas as pd

from analysis.improvement import geometric_mean
from warehouse.catalogue import Metric, percentile_label

NOTHING = "Does speculation pay? No pair to compare yet."
#: More settings than this are summed up instead of listed.
_LISTED = 3
#: Below this a difference is not worth a direction.
_SAME = 0.005


def headline(rows: pd.DataFrame) -> str:
    """What speculation does to output throughput, for the best arm.

    ``rows``: one per pair of the metric, with ``arm``, ``panel``, ``concurrency`` and
    ``improvement`` (ratio). Means over concurrency are geometric.
    """
    if rows.empty:
        return NOTHING
    arm = _best_arm(rows)
    mine = rows[rows["arm"] == arm]
    gains = gains_by_panel(mine)
    levels = _levels(mine["concurrency"])
    best = " (the best of several arms)" if rows["arm"].nunique() > 1 else ""
    return f"{arm}{best} serves {_gains(gains)}, at concurrency {levels}"


def gains_by_panel(rows: pd.DataFrame) -> dict[str, float]:
    """Panel -> geometric mean of the improvement over its pairs (ratio)."""
    return {str(name): _mean_gain(part) for name, part in rows.groupby("panel", sort=False)}


def losses(rows: pd.DataFrame) -> str:
    """Where the best arm is slower than the baseline; empty if nowhere."""
    if rows.empty:
        return ""
    arm = _best_arm(rows)
    slower = rows[(rows["arm"] == arm) & (rows["improvement"] < -_SAME)]
    if slower.empty:
        return f"{arm} is not slower than the baseline at any level measured."
    parts = [
        f"{panel} at concurrency {_each(part['concurrency'])}"
        for panel, part in slower.groupby("panel", sort=False)
    ]
    return f"Against it: fewer output tokens per second on {_joined(parts[:_LISTED])}" + (
        f" and {len(parts) - _LISTED} more." if len(parts) > _LISTED else "."
    )


def _best_arm(rows: pd.DataFrame) -> str:
    return max(
        (str(arm) for arm in rows["arm"].unique()),
        key=lambda arm: _mean_gain(rows[rows["arm"] == arm]),
    )


def _mean_gain(rows: pd.DataFrame) -> float:
    mean = geometric_mean(1 + rows["improvement"])
    return float("-inf") if mean is None else mean - 1


def _gains(gains: dict[str, float]) -> str:
    unit = "output tokens per second"
    if len(gains) > _LISTED:
        more = sum(gain > _SAME for gain in gains.values())
        low, high = min(gains.values()), max(gains.values())
        return f"more {unit} in {more} of {len(gains)} settings ({low:+.0%} to {high:+.0%})"
    first, *others = [(_amount(gain), name) for name, gain in gains.items()]
    told = [f"{first[0]} {unit} on {first[1]}"]
    return _joined(told + [f"{amount} on {name}" for amount, name in others])


def _amount(gain: float) -> str:
    if abs(gain) < _SAME:
        return "as many"
    return f"{abs(gain):.0%}".replace("%", "\u202f%") + (" more" if gain > 0 else " fewer")


def _levels(levels: pd.Series) -> str:
    low, high = int(levels.min()), int(levels.max())
    return str(low) if low == high else f"{low}\u2013{high}"


def _each(levels: pd.Series) -> str:
    return _joined([str(int(level)) for level in sorted(levels.unique())])


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def named(metric: Metric, statistic: str) -> str:
    """A metric with its statistic, e.g. ``Time to first token (TTFT), P95``."""
    return f"{metric.label}, {percentile_label(statistic)}" if metric.distribution else metric.label


def evidence(rows: pd.DataFrame) -> str:
    """What the answer stands on: pairs, levels, repeats and doubts."""
    most = rows.groupby(["panel", "arm", "concurrency"]).size().max()
    doubtful = int((rows["flags"] != "").sum())
    return (
        f"Evidence: {len(rows):,} pairs, at most {most} repeat{'s' if most > 1 else ''} per level, "
        f"{doubtful:,} pairs with flags."
    )
