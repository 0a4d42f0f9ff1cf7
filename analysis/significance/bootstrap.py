"""What one repeat can say: the sampling of its requests, and nothing about run-to-run noise.

Requests are drawn again with replacement (Efron 1979); where both arms got the same prompts, the
same draw serves both, so that what a prompt does to both cancels. Requests of one cell share
batches, a warm-up and a machine on one day: such an interval is too narrow, and never a verdict.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.significance.confidence import SERIES, Confidence
from warehouse.catalogue import METRICS, QUANTILES
from warehouse.rows import COMPLETED

Floats = NDArray[np.float64]

DRAWS = 500
#: Fewer requests than this describe no distribution.
FEWEST = 10
#: What is read of a request.
COLUMNS: tuple[str, ...] = (
    "status", "in_window", "ttft", "itl", "tpot", "request_latency", "prompt_tokens",
    "output_tokens", "prompt_hash",
)  # fmt: skip
SENTENCE = (
    "With one repeat the interval covers the sampling of requests only, not run-to-run noise; it "
    "decides nothing. Run 3 to 5 repeats, arms interleaved."
)


@dataclass(frozen=True)
class Resampled:
    """Requests of one arm, and how often each of them is drawn: (draws, requests)."""

    requests: pd.DataFrame
    counts: Floats


def with_sampling(
    sure: Confidence,
    pairs: pd.DataFrame,
    requests_of: Callable[[str], pd.DataFrame],
    level: float = 0.95,
) -> Confidence:
    """Intervals of the levels that have one repeat, from its requests; their verdict stays open.

    ``requests_of(cell_id)``: request rows with COLUMNS, no rows where none were kept. Rows filled
    here say ``sampling`` in ``covers``.
    """
    lonely = sure.levels[sure.levels["repeats"] == 1]
    on = [*SERIES, "concurrency"]
    # Several pairs are one repeat where they share a baseline; one of them speaks for it.
    known = lonely[[*on]].merge(pairs.drop_duplicates(on), on=on)
    found = [
        _of_pair(rows, requests_of(str(ids[0])), requests_of(str(ids[1])), level)
        for ids, rows in known.groupby(["baseline_id", "speculative_id"], sort=False)
    ]
    if not found:
        return sure
    told = pd.concat(found, ignore_index=True).dropna(subset=["low"])
    levels = _filled(sure.levels, told, on)
    return replace(sure, levels=levels, geomean=_filled(sure.geomean, _means(levels), [*SERIES]))


def _filled(rows: pd.DataFrame, told: pd.DataFrame, on: list[str]) -> pd.DataFrame:
    both = rows[on].merge(told[[*on, "low", "high"]], on=on, how="left")
    here = rows["low"].isna().to_numpy() & both["low"].notna().to_numpy()
    return rows.assign(
        low=np.where(here, both["low"], rows["low"]),
        high=np.where(here, both["high"], rows["high"]),
        covers=rows["covers"].where(~here, "sampling"),
    )


def _means(levels: pd.DataFrame) -> pd.DataFrame:
    """Of the means over levels: the levels' errors are independent, so their squares add up."""
    sampled = levels.assign(
        half=(_log(levels, levels["high"]) - _log(levels, levels["low"])).abs() / 2,
        log=_log(levels, levels["improvement"]),
    )
    grouped = sampled.groupby(list(SERIES), sort=False, dropna=False)
    rows = grouped.agg(
        half=("half", lambda h: np.sqrt((h**2).sum(skipna=False)) / len(h)), log=("log", "mean")
    ).reset_index()
    low, high = rows["log"] - rows["half"], rows["log"] + rows["half"]
    return _as_improvements(rows, low.to_numpy(), high.to_numpy()).dropna(subset=["low"])


def _log(rows: pd.DataFrame, improvement: pd.Series) -> pd.Series:
    """log of new / old."""
    sign = np.where(_lower(rows), -1.0, 1.0)
    logs: pd.Series = np.log1p(sign * improvement)
    return logs


def _lower(rows: pd.DataFrame) -> Any:
    return rows["metric"].map({key: m.better == "lower" for key, m in METRICS.items()}).to_numpy()


def _as_improvements(rows: pd.DataFrame, low: Floats, high: Floats) -> pd.DataFrame:
    lower = _lower(rows)
    return rows.assign(
        low=np.where(lower, -np.expm1(high), np.expm1(low)),
        high=np.where(lower, -np.expm1(low), np.expm1(high)),
    )


def _of_pair(
    rows: pd.DataFrame, baseline: pd.DataFrame, speculative: pd.DataFrame, level: float
) -> pd.DataFrame:
    """``rows`` (a row per metric and statistic of one pair) with low and high, NaN for unknown."""
    arms = resample(_usable(baseline), _usable(speculative))
    if arms is None:
        return rows.assign(low=np.nan, high=np.nan)
    ends = np.array(
        [
            log_ratio_ends(arms, metric, statistic, level)
            for metric, statistic in zip(rows["metric"], rows["statistic"], strict=True)
        ]
    )
    measured = np.log((rows["speculative"] / rows["baseline"]).to_numpy(dtype=np.float64))
    return _as_improvements(rows, measured + ends[:, 0], measured + ends[:, 1])


def _usable(requests: pd.DataFrame) -> pd.DataFrame:
    return requests[(requests["status"] == COMPLETED) & requests["in_window"].astype(bool)]


def resample(
    baseline: pd.DataFrame, speculative: pd.DataFrame
) -> tuple[Resampled, Resampled] | None:
    """Draws of both arms, of common prompts where nearly all are; None for too few requests."""
    if min(len(baseline), len(speculative)) < FEWEST:
        return None
    chance = np.random.default_rng(0)
    one, other = (_keyed(arm) for arm in (baseline, speculative))
    common = one.index.intersection(other.index)
    if len(common) >= 0.9 * max(len(baseline), len(speculative)):
        counts = _counts(chance, len(common))
        return Resampled(one.loc[common], counts), Resampled(other.loc[common], counts)
    return (
        Resampled(baseline, _counts(chance, len(baseline))),
        Resampled(speculative, _counts(chance, len(speculative))),
    )


def _keyed(requests: pd.DataFrame) -> pd.DataFrame:
    """By prompt; the same prompt sent twice is told apart by its turn."""
    known = requests.dropna(subset=["prompt_hash"])
    turn = known.groupby("prompt_hash").cumcount()
    return known.set_index(pd.MultiIndex.from_arrays([known["prompt_hash"], turn]))


def _counts(chance: np.random.Generator, requests: int) -> Floats:
    even = np.full(requests, 1 / requests)
    drawn = chance.multinomial(requests, even, size=DRAWS)
    # The first row is the sample itself.
    return np.vstack([np.ones(requests), drawn]).astype(np.float64)


def log_ratio_ends(
    arms: tuple[Resampled, Resampled], metric: str, statistic: str, level: float = 0.95
) -> tuple[float, float]:
    """How far below and above the measured log ratio of new / old the draws lie; NaN for unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        old, new = (np.log(drawn_values(arm, metric, statistic)) for arm in arms)
    moved = (new - old)[1:] - (new - old)[0]
    if not np.isfinite(moved).all():
        return (np.nan, np.nan)
    low, high = np.quantile(moved, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def drawn_values(arm: Resampled, metric: str, statistic: str) -> Floats:
    """The statistic in each draw, the first of which is the sample itself; NaN for unknown."""
    if metric in ("output_throughput", "total_throughput"):
        return _throughput(arm, metric)
    if metric not in arm.requests or statistic not in {"mean", *QUANTILES}:
        return np.full(len(arm.counts), np.nan)
    values, weights = _weighted(arm.requests, metric)
    drawn = arm.counts * weights
    if statistic == "mean":
        return np.asarray(drawn @ values / drawn.sum(axis=1))
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(drawn[:, order], axis=1)
    target = QUANTILES[statistic] * reached[:, -1:] * (1 - 1e-12)
    return np.asarray(values[order][np.argmax(reached >= target, axis=1)])


def _weighted(requests: pd.DataFrame, metric: str) -> tuple[Floats, Floats]:
    """Values and weights of the catalogue's definition; an unknown value weighs nothing."""
    tokens = requests["output_tokens"].to_numpy(dtype=np.float64)
    values = requests[metric].to_numpy(dtype=np.float64)
    weights = {"itl": tokens - 1, "tpot": tokens}.get(metric, np.ones(len(values)))
    known = np.isfinite(values) & (weights > 0)
    return np.where(known, values, 0.0), np.where(known, weights, 0.0)


def _throughput(arm: Resampled, metric: str) -> Floats:
    """Proportional to tokens/s at a fixed number in flight: tokens over time in flight (Little
    1961)."""
    tokens = arm.requests["output_tokens"].to_numpy(dtype=np.float64)
    if metric == "total_throughput":
        tokens = tokens + arm.requests["prompt_tokens"].to_numpy(dtype=np.float64)
    latency = arm.requests["request_latency"].to_numpy(dtype=np.float64)
    return np.asarray(arm.counts @ tokens / (arm.counts @ latency))
