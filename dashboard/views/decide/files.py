"""A decision as rows of a file."""

from collections.abc import Sequence

import pandas as pd

from answers.decide.values import Cell, Decision


def rows_of(found: Sequence[Decision]) -> pd.DataFrame:
    """Return every arm at every load of every decision, unrounded."""
    return pd.DataFrame([_row(one, cell) for one in found for cell in one.arms])


def _row(one: Decision, cell: Cell) -> dict[str, object]:
    told = cell.difference
    return {
        "model": one.subject.model, "gpu": one.subject.gpu,
        "tensor_parallel_size": one.subject.tensor_parallel_size,
        "engine_version": one.subject.engine_version, "evidence": one.subject.evidence,
        "traffic": one.traffic.name, "load": cell.load.text, "arm": cell.arm,
        "metric": told.metric, "statistic": told.statistic, "expected": told.improvement,
        "low": told.low, "high": told.high, "adjusted_low": told.adjusted_low,
        "adjusted_high": told.adjusted_high, "word": told.word, "launches": cell.launches,
        "taken": cell.taken,
    }  # fmt: skip
