"""The frames that modules of the analysis hand to one another, and small things that pandas does not do."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_ARM = {"setting": int, "arm_id": int}
_LINE = {"metric": object, "statistic": object}
_VALUES = {"baseline": float, "speculative": float, "improvement": float}
_IDS = {"baseline_id": object, "speculative_id": object}
_LEVEL = {
    "setting": int,
    "system": int,
    "dataset": object,
    "family": object,
    "k": int,
    "concurrency": int,
}
_BROKEN = {**_ARM, "load": int, "kind": object, "share": float, "share_baseline": float, "p": float}
_EFFECTS = {
    **_ARM, **_LINE, "launches": int, "independent": bool,
    **dict.fromkeys(("log", "variance", "weight", "share", "dof", "rest_dof", "p_value", "probability",
                     "error", "improvement", "low", "high", "adjusted_low", "adjusted_high"), float),
    "word": object,
}  # fmt: skip
#: Each frame by its name, with its columns and what they hold: whole numbers, numbers (NaN where unknown),
#: whether something is so, anything else. ``load`` is a place in the loads beside the frame. A frame may
#: have more columns: facts of cells, by their names in the contract.
FRAMES: dict[str, Mapping[str, type]] = {
    "matched pairs": {**_IDS, "allowed": object, "flags": object},
    "unmatched": {"cell_id": object, "reason": object},
    "pairs": {**_IDS, "allowed": object, "flags": object, **_ARM, "load": int, **_LINE,
              "origin": object, **_VALUES},
    "levels": {**_ARM, "load": int, **_LINE, **_VALUES, "pairs": int},
    "geometric means": {**_ARM, **_LINE, **_VALUES, "levels": int, "loads": object,
                        "only_baseline": object, "only_speculative": object},
    "launches": {"setting": int, "arm": int, "load": int, "launch": int, "round": int, "known": bool},
    "effects by load": {**_EFFECTS, "load": int},
    "effects": _EFFECTS,
    "values of arms": {**_ARM, "load": int, "cell_id": object, **_LINE, "value": float},
    "means of arms": {**_ARM, "load": int, **_LINE, "value": float, "repeats": int},
    "placed arms": {**_LEVEL, "chooser": object, "prompts": int},
    "load points": {"system": int, "dataset": object, "family": object, "k": int, "concurrency": int,
                    "repeats": int, "length": float, "step": float, "achieved_concurrency": float},
    "acceptance by level": {**_LEVEL, "repeats": int, "source": object, "drafts": float, "rate": float,
                            "mean_length": float},
    "acceptance by position": {**_LEVEL, "position": int, "rate": float, "conditional": float,
                               "drafts": float},
    "counts by position": {**_LEVEL, "position": int, "drafts": float, "accepted": float,
                           "reached": float},
    "broken by length": {**_BROKEN, "tokens": float},
    "broken by text": _BROKEN,
    "texts": {**_ARM, "load": int, **_IDS, "kind": object, "old": float, "new": float},
    "trade": {"group": int, **_ARM, "arm_label": object, "gpus": float, "load": int, "load_short": object,
              "repeats": int, "tokens_per_second_per_user": float, "tokens_per_second_per_gpu": float,
              "dominated": bool, "dominated_by": object},
    "server lines": {"line": object, "at": float, "value": float},
}  # fmt: skip
#: Kinds of columns as numpy names them.
_KINDS: dict[type, str] = {int: "iu", float: "fiu", bool: "b", object: "OU"}


def declared(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame where it is made, as FRAMES declares it. Raises TypeError for one that lacks a
    column, or holds something else in it."""
    kinds = {str(column): held.kind for column, held in frame.dtypes.items()}
    wrong = [
        column
        for column, holds in FRAMES[name].items()
        if column not in kinds or (len(frame) and kinds[column] not in _KINDS[holds])
    ]
    if wrong:
        raise TypeError(
            f"The frame {name!r} lacks, or holds something else in: {', '.join(wrong)}."
        )
    return frame


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
