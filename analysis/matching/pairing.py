"""Pairs of cells that are equal in everything but the speculation, and why the others have none."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.matching.nearest import nearest, nearest_in_time
from warehouse.errors import UnknownKey
from warehouse.rows import Flag

Flags = Iterator[Flag]
Rows = NDArray[np.int64]

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
#: The most likely token is taken whatever these are.
IDLE_AT_TEMPERATURE_0 = ("top_p", "seed")


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
    # Whatever the order of the rows, the same cells give the same pairs and reasons.
    cells = cells.sort_values("cell_id", ignore_index=True)
    codes, kind = field_codes(cells), _kinds(cells)
    strict = [name for name in MATCH_FIELDS if name not in allow]
    chosen = _choose(cells, codes, kind, strict)
    return Matching(_pairs(cells, codes, chosen), _unmatched(cells, codes[strict], kind, chosen))


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
    cells: pd.DataFrame, codes: pd.DataFrame, kind: pd.Series, strict: list[str]
) -> pd.DataFrame:
    """Row numbers ``b`` and ``s`` of each pair, ``tied``: how many baselines were as good, and
    ``repeat_b``, ``repeat_s``.

    Best is: the fewest differences in allowed fields, then the same repeat, then the nearest in
    time. No step makes a row per spec x baseline of a key, so repeats cost no more than cells.
    """
    repeat = _column(cells, "repeat")
    # The repeat is compared as a number: -1 is unknown and equals unknown.
    rows = pd.DataFrame(
        {"row": np.arange(len(cells)), "at": _seconds(cells), "repeat": repeat.fillna(-1)}
    )
    rows["key"], rows["suits"] = _groups(codes, list(MATCH_FIELDS)), _groups(codes, strict)
    seekers, baselines = rows[kind == "speculative"], rows[kind == "baseline"]
    suits = _suitable(seekers, baselines, codes.drop(columns=strict))
    pool = suits.merge(baselines, left_on="key_b", right_on="key", suffixes=("", "_own"))
    same = nearest_in_time(seekers, pool, ["key", "repeat"])
    rest = nearest_in_time(seekers[~seekers["row"].isin(same["s"])], pool, ["key"])
    chosen = pd.concat([same, rest], ignore_index=True)
    return chosen.assign(
        repeat_b=repeat.to_numpy()[chosen["b"]], repeat_s=repeat.to_numpy()[chosen["s"]]
    )


def _groups(codes: pd.DataFrame, names: list[str]) -> NDArray[np.int64]:
    """A number per row, equal where all the named fields are."""
    if not names or codes.empty:
        return np.zeros(len(codes), dtype=np.int64)
    return np.asarray(codes.groupby(names, sort=False).ngroup(), dtype=np.int64)


def _suitable(
    seekers: pd.DataFrame, baselines: pd.DataFrame, allowed: pd.DataFrame
) -> pd.DataFrame:
    """``key`` of a seeker and ``key_b`` of the baselines with the fewest differences to it."""
    wanted, offered = (
        x.drop_duplicates("key")[["key", "suits", "row"]] for x in (seekers, baselines)
    )
    equal = wanted["key"].isin(offered["key"])
    exact = pd.DataFrame({"key": wanted.loc[equal, "key"], "key_b": wanted.loc[equal, "key"]})
    near = wanted[~equal].merge(offered, on="suits", suffixes=("", "_b"))
    matrix = allowed.to_numpy()
    near["differing"] = (matrix[near["row"]] != matrix[near["row_b"]]).sum(axis=1)
    fewest = near.groupby("key")["differing"].transform("min")
    return pd.concat([exact, near.loc[near["differing"] == fewest, ["key", "key_b"]]])


def _column(cells: pd.DataFrame, name: str) -> pd.Series:
    if name not in cells:
        return pd.Series(np.nan, index=cells.index)
    return pd.to_numeric(cells[name]).astype("float64")


def _texts(cells: pd.DataFrame, name: str) -> NDArray[np.object_]:
    known = cells[name] if name in cells else pd.Series(None, index=cells.index)
    return known.astype(object).to_numpy()


def _seconds(cells: pd.DataFrame) -> pd.Series:
    if "started_at" not in cells:
        return pd.Series(np.nan, index=cells.index)
    at = pd.to_datetime(cells["started_at"], utc=True)
    return (at - pd.Timestamp(0, tz="UTC")).dt.total_seconds()


def _pairs(cells: pd.DataFrame, codes: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    matrix = codes.to_numpy()
    one, other = matrix[chosen["b"].to_numpy()], matrix[chosen["s"].to_numpy()]
    ids = cells["cell_id"].to_numpy()
    unknown = _named((one == -1) & (other == -1) & ~_idle(cells, chosen))
    found = zip(unknown, chosen["tied"], chosen["repeat_b"], chosen["repeat_s"], strict=True)
    return pd.DataFrame(
        {
            "baseline_id": ids[chosen["b"].to_numpy()],
            "speculative_id": ids[chosen["s"].to_numpy()],
            "allowed": pd.Series(_named(one != other), dtype=object),
            "flags": pd.Series(
                [(*_doubts(u), *_choice(t, b, s)) for u, t, b, s in found], dtype=object
            ),
        }
    ).sort_values(["speculative_id"], ignore_index=True)


def _idle(cells: pd.DataFrame, chosen: pd.DataFrame) -> NDArray[np.bool_]:
    """Pair x match field: whether the field has no effect there, so that nobody need know it."""
    greedy = (_column(cells, "temperature") == 0).to_numpy()
    on_cpu = _texts(cells, "evidence") == "cpu"
    rows = chosen["b"].to_numpy(), chosen["s"].to_numpy()
    idle = np.zeros((len(chosen), len(MATCH_FIELDS)), dtype=np.bool_)
    for at, name in enumerate(MATCH_FIELDS):
        if name in IDLE_AT_TEMPERATURE_0:
            idle[:, at] = greedy[rows[0]] & greedy[rows[1]]
        if name == "gpu_count":
            idle[:, at] = on_cpu[rows[0]] & on_cpu[rows[1]]
    return idle


def _named(
    where: NDArray[np.bool_], names: tuple[str, ...] = tuple(MATCH_FIELDS)
) -> list[tuple[str, ...]]:
    """For each row the names of the fields that are true; rows alike share one tuple."""
    seen: dict[bytes, tuple[str, ...]] = {}
    for row in where:
        if row.tobytes() not in seen:
            seen[row.tobytes()] = tuple(n for n, yes in zip(names, row, strict=True) if yes)
    return [seen[row.tobytes()] for row in where]


def _doubts(unknown: tuple[str, ...]) -> tuple[Flag, ...]:
    doubtful = [MATCH_FIELDS[n] for n in unknown]
    # A closed loop has no request rate and an open one no concurrency: one of them is enough.
    if not {"rate", "concurrency"} <= set(unknown):
        doubtful = [n for n in doubtful if n not in ("request rate", "concurrency")]
    if not doubtful:
        return ()
    sentence = f"Unknown on both sides, so not known to be equal: {', '.join(doubtful)}."
    return (Flag("unverified", "warning", sentence),)


def _choice(tied: int, baseline: float, speculative: float) -> Flags:
    """Flags for how the baseline was chosen: of several, or of another repeat."""
    if baseline != speculative and not (np.isnan(baseline) and np.isnan(speculative)):
        yield Flag(
            "other_repeat",
            "warning",
            f"The repeat is {_shown(baseline)} in the baseline and {_shown(speculative)} in the "
            "other arm: no baseline has the same one.",
        )
    if tied > 1:
        sentence = f"{tied} baselines match; the nearest in time was taken."
        yield Flag("several_baselines", "info", sentence)


def _unmatched(
    cells: pd.DataFrame, codes: pd.DataFrame, kind: pd.Series, chosen: pd.DataFrame
) -> pd.DataFrame:
    """``codes`` has the fields that had to be equal; only these are named in a reason."""
    used = np.zeros(len(cells), dtype=bool)
    used[chosen["b"].to_numpy()] = used[chosen["s"].to_numpy()] = True
    reasons: dict[int, str] = {}
    for name, text in _PLAIN_REASONS.items():
        reasons |= dict.fromkeys(np.flatnonzero(kind == name).tolist(), text)
    for mine, theirs in (("speculative", "baseline"), ("baseline", "speculative")):
        lonely = np.flatnonzero((kind == mine) & ~used)
        near = nearest(codes.to_numpy(), lonely, np.flatnonzero(kind == theirs))
        reasons |= zip(lonely.tolist(), _reasons(cells, codes, (lonely, near), theirs), strict=True)
    ids = cells["cell_id"].to_numpy()
    rows = [(ids[row], reasons[row]) for row in sorted(reasons)]
    return pd.DataFrame(rows, columns=["cell_id", "reason"])


_PLAIN_REASONS = {
    "failed": "this cell failed, so it is not compared",
    "unknown": "whether it speculates is unknown: ingest it again with --replace and set "
    "spec_method (none for a baseline)",
}


def _reasons(
    cells: pd.DataFrame, codes: pd.DataFrame, rows: tuple[Rows, Rows], theirs: str
) -> Iterator[str]:
    """Why each of the first rows has no partner, told by the nearest, which the second names."""
    matrix, ids = codes.to_numpy(), cells["cell_id"].to_numpy()
    values = {name: cells[name].to_numpy(dtype=object) for name in codes if name in cells}
    names = _named(matrix[rows[0]] != matrix[rows[1]], tuple(map(str, codes)))
    for row, other, differing in zip(*(r.tolist() for r in rows), names, strict=True):
        if other < 0:
            yield f"there is no good {theirs} cell among those chosen"
        elif not differing:
            yield "another baseline suits each of its possible partners better"
        else:
            told = "; ".join(
                f"{MATCH_FIELDS[n]} is {_shown(values[n][row])} here and "
                f"{_shown(values[n][other])} there"
                for n in differing
            )
            yield f"nearest {theirs} {ids[other]} differs: {told}"


def _shown(value: Any) -> str:
    if value is None or pd.isna(value):
        return "unknown"
    return f"{value:.15g}" if isinstance(value, float) else str(value)
