"""Small things about frames that pandas does not do, or cannot say with its types."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from warehouse.catalogue import METRICS, percentile_label

UNKNOWN = "unknown"


def number(value: float | None, decimals: int) -> str:
    """Write a value with commas between thousands, ``1,171.7``; an unknown one is said so, never
    0."""
    return UNKNOWN if value is None or pd.isna(value) else f"{value:,.{decimals}f}"


def metric_name(metric: str, statistic: str) -> str:
    """Return a metric in words with its unit, ``TTFT … P95 (ms)``, and its statistic where there is
    a choice."""
    known = METRICS[metric]
    chosen = f" {percentile_label(statistic)}" if known.distribution else ""
    return f"{known.label}{chosen} ({known.unit})"


def plain(value: Any) -> Any:
    """Return a frame's value as Python knows it; None where the frame shows it as missing."""
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dicts by column name."""
    rows: list[Any] = frame.to_dict("records")
    return rows


def records_by(
    frame: pd.DataFrame, by: Sequence[str], names: Sequence[str]
) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Group the rows by ``by`` and return the named columns of each as dicts, in the rows' order.

    It is for many small groups: a frame for each of them costs far more than its rows.
    """
    keys = zip(*(frame[name].tolist() for name in by), strict=True)
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for key, row in zip(keys, records(frame[list(names)]), strict=True):
        found[key].append(row)
    return dict(found)


def among(values: pd.Series, wanted: Collection[Any]) -> pd.Series:
    """Return, for each value, whether it is one of ``wanted``.

    Of thousands of texts it takes a thirtieth of the time of ``isin``, which makes an Arrow scalar of
    every one.
    """
    return values.astype(object).isin(wanted)


def listed(rows: pd.DataFrame, *names: str) -> Iterator[tuple[Any, ...]]:
    """Return an iterator over the rows, as tuples of the named columns.

    Texts are made objects at once: a column of Arrow's texts makes a scalar of each that is asked for,
    at ten times the time.
    """
    return zip(*(rows[name].astype(object) for name in names), strict=True)


def objects(values: Sequence[Any], index: "pd.Index[Any]") -> pd.Series:
    """Return a column whose values are tuples, sets or other objects."""
    return pd.Series(values, index=index, dtype=object)


def numbered(rows: pd.DataFrame, names: Sequence[str]) -> NDArray[np.int64]:
    """Return a number per row, equal where the rows are equal in ``names``; unknown equals unknown.

    Names that are no column are ignored; without any, all rows are one group.
    """
    codes = pd.DataFrame({name: pd.factorize(rows[name])[0] for name in names if name in rows})
    if codes.columns.empty:
        return np.zeros(len(rows), dtype=np.int64)
    return np.asarray(codes.groupby(list(codes), sort=False).ngroup(), dtype=np.int64)
