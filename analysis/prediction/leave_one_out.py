"""How wrong a prediction of something measured is, when that measurement is withheld."""

import pandas as pd

from analysis.frames import records
from analysis.prediction.whatif import Model, Question, build
from warehouse.errors import InvalidInput

#: What is predicted of each point: the prediction's name and the point's.
COMPARED = {
    "mean_length": "length",
    "itl": "itl",
    "ttft": "ttft",
    "output_throughput": "output_throughput",
}

COLUMNS = ["left_out", "value", "k", "concurrency", "inside", "metric", "measured", "predicted",
           "error"]  # fmt: skip


def leave_one_out(
    points: pd.DataFrame, positions: pd.DataFrame, dataset: str, lengths: bool = False
) -> pd.DataFrame:
    """A row per withheld point and metric, of one dataset; parameters as ``whatif.build`` takes
    them.

    ``left_out``: ``k`` (all points of one K > 0 withheld, in all datasets) or ``concurrency`` (one
    level withheld); ``value``: which; ``inside``: whether the rest surrounds it (False: the model
    had to extrapolate); ``error``: predicted / measured - 1. No rows where nothing can be withheld:
    with a single K, or a single level.
    """
    found = []
    for what in ("k", "concurrency"):
        values = sorted(set(points.loc[points["dataset"] == dataset, what]) - {0})
        for value in values if len(values) > 1 else []:
            gone = points[(points[what] == value) & (points["dataset"] == dataset)]
            rest = points[points[what] != value], positions[positions[what] != value]
            if not ((rest[0]["dataset"] == dataset) & (rest[0]["k"] > 0)).any():
                continue  # Nothing speculative is left to predict from.
            found += _withheld(build(*rest, dataset, lengths), gone, what)
    return pd.DataFrame(found, columns=COLUMNS)


def summary(errors: pd.DataFrame) -> pd.DataFrame:
    """A row per left_out and metric: points, typical (median |error|), worst (largest |error|), and
    the same of those that the rest surrounds: typical_inside, worst_inside (NaN for none)."""
    by = ["left_out", "metric"]
    sizes = errors.assign(size=errors["error"].abs())
    inner = sizes[sizes["inside"].astype(bool)].groupby(by)["size"]
    grouped = sizes.groupby(by)["size"]
    return pd.DataFrame(
        {
            "points": grouped.count(),
            "typical": grouped.median(),
            "worst": grouped.max(),
            "typical_inside": inner.median(),
            "worst_inside": inner.max(),
        }
    ).reset_index()


def _withheld(model: Model, gone: pd.DataFrame, what: str) -> list[list[object]]:
    rest = model.points.loc[model.points["k"] > 0, what]
    rows: list[list[object]] = []
    for point in records(gone):
        try:
            found = model.predict(Question(point["k"], point["concurrency"]))
        except InvalidInput:
            # Too far from the rest: the model refuses it to a user as well.
            continue
        inside = bool(rest.min() < point[what] < rest.max())
        for metric, column in COMPARED.items():
            if metric == "mean_length" and point["k"] == 0:
                continue  # 1 by definition: it would flatter the average
            measured, predicted = point[column], getattr(found, metric)
            rows.append([what, point[what], point["k"], point["concurrency"], inside, metric,
                         measured, predicted, predicted / measured - 1])  # fmt: skip
    return rows
