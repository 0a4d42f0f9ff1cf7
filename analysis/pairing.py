"""Pairs of cells that are equal in everything but the speculation, and why the others have none."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.nearest import nearest
from warehouse.errors import UnknownKey
from warehouse.rows import Flag

#: What must be equal, and what a person calls it.
MATCH_FIELDS: dict[str, str] = {
    "model": "model", "model_revision": "model revision", "precision": "precision",
    "engine": "engine", "engine_version": "engine version", "gpu": "GPU",
    "gpu_count": "number of GPUs", "tensor_parallel_size": "tensor parallel size",
    "prefix_caching": "prefix caching", "server_args": "server arguments", "dataset": "dataset",
    "prompt_set_hash": "prompt set", "request_format": "request format",
    "temperature": "temperature", "top_p": "top-p", "seed": "seed",
    "max_tokens": "output token limit", "ignore_eos": "ignoring the end of text",
    "load_profile": "load profile", "rate": "request rate", "concurrency": "concurrency",
    "load_generator": "load generator", "comparable_as": "definition of the measurements",
    "evidence": "evidence",
}  # fmt: skip


@dataclass(frozen=True)
class Matching:
    """``pairs``: baseline_id, speculative_id, allowed (tuple of field names), flags (tuple of
    Flag). ``unmatched``: cell_id, reason."""

    pairs: pd.DataFrame
    unmatched: pd.DataFrame


def match(cells: pd.DataFrame, allow: Collection[str] = ()) -> Matching:
    """Pair each speculative cell with the one baseline that suits it best.

    ``cells`` has a row per cell: cell_id, spec_method, status, repeat, started_at and the match
    fields (a missing column is unknown). Raises UnknownKey for a field in ``allow`` that is not
    one of MATCH_FIELDS.
    """
    for name in allow:
        if name not in MATCH_FIELDS:
            raise UnknownKey(
                f"{name!r} is no field that pairs must share; use one of {', '.join(MATCH_FIELDS)}."
            )
    cells = cells.reset_index(drop=True)
    codes = field_codes(cells)
    kind = _kinds(cells)
    chosen = _choose(cells, codes, kind, allow)
    return Matching(_pairs(cells, codes, chosen), _unmatched(cells, codes, kind, chosen))


def field_codes(cells: pd.DataFrame) -> pd.DataFrame:
    """Each match field as integers, equal where the values are; -1 for unknown."""
    empty = np.full(len(cells), -1, dtype=np.int64)
    return pd.DataFrame(
        {name: pd.factorize(cells[name])[0] if name in cells else empty for name in MATCH_FIELDS},
        index=cells.index,
    )


def _kinds(cells: pd.DataFrame) -> pd.Series:
    method = cells["spec_method"]
    kind = pd.Series("speculative", index=cells.index, dtype=object)
    kind[method == "none"] = "baseline"
    kind[method.isna()] = "unknown"
    if "status" in cells:
        kind[cells["status"] == "failed"] = "failed"
    return kind


def _choose(
    cells: pd.DataFrame, codes: pd.DataFrame, kind: pd.Series, allow: Collection[str]
) -> pd.DataFrame:
    """Row numbers ``b`` and ``s`` of each pair, and ``tied``: how many baselines were as good."""
    strict = [name for name in MATCH_FIELDS if name not in allow]
    keys = codes.assign(
        row=np.arange(len(cells)), key=codes.groupby(strict, sort=False).ngroup(),
        repeat=_column(cells, "repeat"), at=_seconds(cells), cell_id=cells["cell_id"].astype(str),
    )  # fmt: skip
    both = keys[kind == "speculative"].merge(
        keys[kind == "baseline"], on="key", suffixes=("_s", "_b")
    )
    both["differing"] = sum(
        ((both[f"{name}_s"] != both[f"{name}_b"]).astype(int) for name in allow),
        start=pd.Series(0, index=both.index),
    )
    both["other_repeat"] = both["repeat_s"] != both["repeat_b"]
    both["apart"] = (both["at_s"] - both["at_b"]).abs()
    rank = ["row_s", "differing", "other_repeat", "apart", "cell_id_b"]
    both = both.sort_values(rank, kind="stable", na_position="last")
    both["tied"] = both.groupby(["row_s", "differing", "other_repeat"])["row_b"].transform("size")
    best = both.drop_duplicates("row_s")
    return best.rename(columns={"row_s": "s", "row_b": "b"})[["b", "s", "tied"]]


def _column(cells: pd.DataFrame, name: str) -> pd.Series:
    if name not in cells:
        return pd.Series(np.nan, index=cells.index)
    return pd.to_numeric(cells[name]).astype("float64")


def _seconds(cells: pd.DataFrame) -> pd.Series:
    if "started_at" not in cells:
        return pd.Series(np.nan, index=cells.index)
    at = pd.to_datetime(cells["started_at"], utc=True)
    return (at - pd.Timestamp(0, tz="UTC")).dt.total_seconds()


def _pairs(cells: pd.DataFrame, codes: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    matrix = codes.to_numpy()
    one, other = matrix[chosen["b"].to_numpy()], matrix[chosen["s"].to_numpy()]
    ids = cells["cell_id"].to_numpy()
    return pd.DataFrame(
        {
            "baseline_id": ids[chosen["b"].to_numpy()],
            "speculative_id": ids[chosen["s"].to_numpy()],
            "allowed": _named(one != other),
            "flags": [
                _flags(unknown, tied)
                for unknown, tied in zip(
                    _named((one == -1) & (other == -1)), chosen["tied"], strict=True
                )
            ],
        }
    ).sort_values(["speculative_id"], ignore_index=True)


def _named(where: np.ndarray) -> list[tuple[str, ...]]:
    """For each row the names of the fields that are true; rows alike share one tuple."""
    names = tuple(MATCH_FIELDS)
    seen: dict[bytes, tuple[str, ...]] = {}
    for row in where:
        if row.tobytes() not in seen:
            seen[row.tobytes()] = tuple(n for n, yes in zip(names, row, strict=True) if yes)
    return [seen[row.tobytes()] for row in where]


def _flags(unknown: tuple[str, ...], tied: int) -> tuple[Flag, ...]:
    doubtful = [MATCH_FIELDS[n] for n in unknown]
    # A closed loop has no request rate and an open one no concurrency: one of them is enough.
    if not {"rate", "concurrency"} <= set(unknown):
        doubtful = [n for n in doubtful if n not in ("request rate", "concurrency")]
    flags = []
    if doubtful:
        sentence = f"Unknown on both sides, so not known to be equal: {', '.join(doubtful)}."
        flags.append(Flag("unverified", "warning", sentence))
    if tied > 1:
        sentence = f"{tied} baselines match; the nearest in time was taken."
        flags.append(Flag("several_baselines", "info", sentence))
    return tuple(flags)


def _unmatched(
    cells: pd.DataFrame, codes: pd.DataFrame, kind: pd.Series, chosen: pd.DataFrame
) -> pd.DataFrame:
    used = np.zeros(len(cells), dtype=bool)
    used[chosen["b"].to_numpy()] = used[chosen["s"].to_numpy()] = True
    reasons: dict[int, str] = {}
    for name, text in _PLAIN_REASONS.items():
        reasons |= dict.fromkeys(np.flatnonzero(kind == name).tolist(), text)
    for mine, theirs in (("speculative", "baseline"), ("baseline", "speculative")):
        lonely = np.flatnonzero((kind == mine) & ~used)
        partners = np.flatnonzero(kind == theirs)
        near = nearest(codes.to_numpy(), lonely, partners)
        for row, other in zip(lonely.tolist(), near.tolist(), strict=True):
            reasons[row] = _reason(cells, codes, (row, other), theirs)
    rows = sorted((str(cells["cell_id"].iat[row]), reason) for row, reason in reasons.items())
    return pd.DataFrame(rows, columns=["cell_id", "reason"])


_PLAIN_REASONS = {
    "failed": "this cell failed, so it is not compared",
    "unknown": "whether it speculates is unknown: ingest it again with --replace and set "
    "spec_method (none for a baseline)",
}


def _reason(cells: pd.DataFrame, codes: pd.DataFrame, rows: tuple[int, int], theirs: str) -> str:
    row, other = rows
    if other < 0:
        return f"there is no good {theirs} cell among those chosen"
    ours, others = codes.to_numpy()[row], codes.to_numpy()[other]
    names = [n for n, differs in zip(MATCH_FIELDS, ours != others, strict=True) if differs]
    if not names:
        return (
            f"another {'baseline' if theirs == 'speculative' else 'cell'} suits its partner better"
        )
    told = [
        f"{MATCH_FIELDS[n]} is {_said(cells, n, row)} here and {_said(cells, n, other)} there"
        for n in names
    ]
    return f"nearest {theirs} {cells['cell_id'].iat[other]} differs: " + "; ".join(told)


def _said(cells: pd.DataFrame, name: str, row: int) -> str:
    value: Any = cells[name].iat[row] if name in cells else None
    if value is None or pd.isna(value):
        return "unknown"
    return f"{value:g}" if isinstance(value, float) else str(value)
