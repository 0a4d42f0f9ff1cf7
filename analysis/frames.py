"""Two things that the types of pandas cannot say."""

from collections.abc import Sequence
from typing import Any

import pandas as pd


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as dicts by column name."""
    rows: list[Any] = frame.to_dict("records")
    return rows


def objects(values: Sequence[Any], index: "pd.Index[Any]") -> pd.Series:
    """A column whose values are tuples, sets or other objects."""
    return pd.Series(values, index=index, dtype=object)
