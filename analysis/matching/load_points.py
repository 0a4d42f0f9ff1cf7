"""What was measured at each K and load: one row per arm and level, the input of every prediction."""

import numpy as np
import pandas as pd

from analysis.matching.arms import BASELINE, ENGINE_CHOOSES, place_arms

#: The measurements (their means) that a load point holds.
METRICS_READ: tuple[str, ...] = (
    "output_throughput", "itl", "ttft", "prompt_tokens", "output_tokens", "achieved_concurrency",
    "mean_acceptance_length",
)  # fmt: skip
_NEEDED = ["output_throughput", "itl", "ttft", "prompt_tokens", "output_tokens"]
_POINT = ["system", "dataset", "family", "k", "concurrency"]


def load_points(cells: pd.DataFrame, measurements: pd.DataFrame) -> pd.DataFrame:
    """Return a row per system, dataset, family, k (0: baseline) and concurrency, means over the
    repeats.

    Columns: those, ``repeats``, METRICS_READ in the catalogue's units, ``length`` (tokens per
    verification step, 1 for a baseline) and ``step`` (ms per step: itl x length, since a step
    yields ``length`` tokens). Means are geometric. ``measurements``: cell_id, metric, statistic,
    value. Cells without one of the measurements, or speculative ones without a mean acceptance
    length, are left out. Where a method drafts only in some steps (n-gram, suffix), ``length`` is
    that of the steps which drafted, as the server counts them, and ``step`` is longer to match.
    Arms whose engine chooses K in each step say nothing of any one K and are left out.
    """
    means = measurements[
        (measurements["statistic"] == "mean") & measurements["metric"].isin(METRICS_READ)
    ]
    wide = means.pivot_table(index="cell_id", columns="metric", values="value").reindex(
        columns=list(METRICS_READ)
    )
    placed = place_arms(cells)
    rows = placed[~placed["chooser"].isin(ENGINE_CHOOSES)].join(wide, how="inner")
    baseline = rows["family"] == BASELINE
    rows["length"] = rows["mean_acceptance_length"].mask(baseline, 1.0)
    rows = rows[(rows[[*_NEEDED, "length"]] > 0).all(axis=1)]
    values = [*METRICS_READ, "length"]
    grouped = rows[values].apply(np.log).join(rows[_POINT]).groupby(_POINT, sort=True)
    points: pd.DataFrame = grouped.mean().apply(np.exp).assign(repeats=grouped.size())
    points = points.reset_index()
    batch = points["achieved_concurrency"].fillna(points["concurrency"])
    return points.assign(
        achieved_concurrency=np.minimum(batch, points["concurrency"]),
        step=points["itl"] * points["length"],
    )


def of_family(points: pd.DataFrame, system: int, family: str) -> pd.DataFrame:
    """Return the points of one system's baseline and one family, all datasets."""
    mine = (points["system"] == system) & points["family"].isin([BASELINE, family])
    return points[mine].reset_index(drop=True)
