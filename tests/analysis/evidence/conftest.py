"""Studies small enough to work out by hand."""

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
import pytest

from analysis.evidence.effects import Effects, effects
from analysis.matching.comparison import Comparison, compare

Row = Callable[..., dict[str, Any]]
#: arm, concurrency, launch (None: unknown), value
Cell = tuple[str, int, str | None, float]
Study = Callable[..., tuple[Comparison, Effects]]


@pytest.fixture
def study(row: Row) -> Study:
    """``study(cells, metric="output_throughput", **facts)``: the comparison and its differences.

    Cells are (arm, concurrency, launch, value); the n-th cell of an arm at a load is its n-th
    repeat, and the arm ``none`` is the baseline.
    """

    def build(
        cells: Iterable[Cell], metric: str = "output_throughput", **facts: Any
    ) -> tuple[Comparison, Effects]:
        rows, values, counts = [], [], dict[tuple[str, int], int]()
        for arm, load, launch, value in cells:
            repeat = counts.setdefault((arm, load), 0)
            counts[arm, load] += 1
            cell_id = f"{arm}-{load}-{repeat}"
            told = {
                "concurrency": load, "repeat": repeat, "launch": launch, "arm_label": arm,
                "reported_definition": "x", "study": "s",
                "started_at": pd.Timestamp("2026-01-02", tz="UTC") + pd.Timedelta(hours=repeat),
            }  # fmt: skip
            rows.append(row(cell_id, arm, **(told | facts)))
            values.append((cell_id, "canonical", metric, "mean", value))
        known = pd.DataFrame(rows)
        columns = ["cell_id", "origin", "metric", "statistic", "value"]
        found = compare(known, pd.DataFrame(values, columns=columns))
        return found, effects(found, known)

    return build
