"""Pairs of cells that are equal in everything but the speculation, and why the others have none."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.frames import numbered
from analysis.matching.engines import engine_flags
from analysis.matching.fields import (
    ARM,
    IDLE_AT_TEMPERATURE_0,
    UNKNOWN_MATCHES,
    conflicts,
    field_codes,
    field_of,
    require,
)
from analysis.matching.fields import MATCH_FIELDS as MATCH_FIELDS
from analysis.matching.nearest import nearest_in_time, spread
from analysis.matching.unmatched import named, shown, unmatched
from warehouse.rows import Flag

Flags = Iterator[Flag]


@dataclass(frozen=True)
class Matching:
    """The pairs that were found, and the cells without one. ``pairs``: baseline_id, speculative_id,
    allowed (tuple of field names), flags (tuple of Flag). ``unmatched``: cell_id, reason."""

    pairs: pd.DataFrame
    unmatched: pd.DataFrame


def match(cells: pd.DataFrame, allow: Collection[str] = ()) -> Matching:
    """Pair each speculative cell with the one baseline that suits it best.

    ``cells`` has a row per cell: cell_id, spec_method, status, repeat, started_at and the match
    fields (a missing column is unknown). ``allow``: fields in which two may differ, or one server
    argument as ``server_args.max-num-seqs``. Raises UnknownKey for one that names nothing.
    """
    allow = tuple(dict.fromkeys(map(field_of, allow)))
    require(allow, cells)
    # Whatever the order of the rows, the same cells give the same pairs and reasons.
    cells = cells.sort_values("cell_id", ignore_index=True)
    codes = field_codes(cells, [name for name in allow if name not in MATCH_FIELDS])
    kind = _kinds(cells)
    strict = [str(name) for name in codes if name not in allow]
    chosen = _choose(cells, codes, kind, strict)
    pairs = _pairs(cells, codes, chosen)
    return Matching(pairs, unmatched(cells, codes[strict], kind, chosen, allow))


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
    """Return a row per pair: row numbers ``b`` and ``s``, ``tied``: how many baselines were as
    good, ``spread``: whether launches took turns, ``repeat_b``, ``repeat_s``, and ``timed``:
    whether both starts are known.

    Best is: the fewest differences in allowed fields, then the same study and repeat, then the same
    study, then the same repeat, then the nearest in time; launches that all took one baseline, as
    where one arm ran after the other, are spread over those there are. No step makes a row per spec x baseline
    of a key, so repeats cost no more than cells.
    """
    repeat = _column(cells, "repeat")
    # The repeat is compared as a number: -1 is unknown and equals unknown.
    rows = pd.DataFrame(
        {
            "row": np.arange(len(cells)), "at": _seconds(cells), "repeat": repeat.fillna(-1),
            "study": pd.factorize(_texts(cells, "study"))[0],
        }
    )  # fmt: skip
    equal = [name for name in strict if name not in UNKNOWN_MATCHES]
    rows["key"], rows["suits"] = _groups(codes, [*map(str, codes)]), _groups(codes, equal)
    seekers, baselines = rows[kind == "speculative"], rows[kind == "baseline"]
    suits = _suitable(seekers, baselines, codes.drop(columns=equal), strict)
    pool = suits.merge(baselines, left_on="key_b", right_on="key", suffixes=("", "_own"))
    parts = []
    for alike in (["study", "repeat"], ["study"], ["repeat"], []):
        parts.append(nearest_in_time(seekers, pool, ["key", *alike]))
        seekers = seekers[~seekers["row"].isin(parts[-1]["s"])]
    chosen = pd.concat(parts, ignore_index=True)
    chosen = spread(chosen, rows.assign(arm=numbered(cells, ("spec_method", *ARM))), pool)
    at = rows["at"].to_numpy()
    return chosen.assign(
        repeat_b=repeat.to_numpy()[chosen["b"]], repeat_s=repeat.to_numpy()[chosen["s"]],
        timed=~np.isnan(at[chosen["b"]] + at[chosen["s"]]),
    )  # fmt: skip


def _groups(codes: pd.DataFrame, names: list[str]) -> NDArray[np.int64]:
    """Return a number per row, equal where all the named fields are."""
    if not names or codes.empty:
        return np.zeros(len(codes), dtype=np.int64)
    return np.asarray(codes.groupby(names, sort=False).ngroup(), dtype=np.int64)


def _suitable(
    seekers: pd.DataFrame, baselines: pd.DataFrame, codes: pd.DataFrame, strict: list[str]
) -> pd.DataFrame:
    """Return each ``key`` of a seeker with each ``key_b`` of the baselines that differ least from
    it.

    ``codes`` are those of the fields that may differ: where they are ``strict``, only by one of the
    two being unknown.
    """
    wanted, offered = (
        x.drop_duplicates("key")[["key", "suits", "row"]] for x in (seekers, baselines)
    )
    equal = wanted["key"].isin(offered["key"])
    exact = pd.DataFrame({"key": wanted.loc[equal, "key"], "key_b": wanted.loc[equal, "key"]})
    near = wanted[~equal].merge(offered, on="suits", suffixes=("", "_b"))
    names, matrix = tuple(map(str, codes)), codes.to_numpy()
    one, other = matrix[near["row"]], matrix[near["row_b"]]
    must = np.array([name in strict for name in names], dtype=np.bool_)
    near["differing"] = (one != other).sum(axis=1)
    near = near.iloc[np.flatnonzero(~(conflicts(one, other, names) & must).any(axis=1))]
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
    matrix, ids = codes.to_numpy(), cells["cell_id"].to_numpy()
    one, other = matrix[chosen["b"].to_numpy()], matrix[chosen["s"].to_numpy()]
    names = tuple(map(str, codes))
    differ = conflicts(one, other, names)
    unknown = named(((one < 0) | (other < 0)) & ~differ & ~_idle(cells, chosen, names), names)
    columns = ("tied", "spread", "timed", "repeat_b", "repeat_s")
    engines = engine_flags(cells, chosen)
    found = zip(engines, unknown, *(chosen[name] for name in columns), strict=True)
    return pd.DataFrame(
        {
            "baseline_id": ids[chosen["b"].to_numpy()],
            "speculative_id": ids[chosen["s"].to_numpy()],
            "allowed": pd.Series(named(differ, names), dtype=object),
            "flags": pd.Series(
                [(*_doubts(u), *_choice(*choice), *e) for e, u, *choice in found], dtype=object
            ),
        }
    ).sort_values(["speculative_id"], ignore_index=True)


def _idle(cells: pd.DataFrame, chosen: pd.DataFrame, names: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return (pairs, ``names``): whether the field has no effect in the pair, so that nobody
    need know it."""
    greedy = (_column(cells, "temperature") == 0).to_numpy()
    on_cpu = _texts(cells, "evidence") == "cpu"
    rows = chosen["b"].to_numpy(), chosen["s"].to_numpy()
    idle = np.zeros((len(chosen), len(names)), dtype=np.bool_)
    for at, name in enumerate(names):
        if name in IDLE_AT_TEMPERATURE_0:
            idle[:, at] = greedy[rows[0]] & greedy[rows[1]]
        if name == "gpu_count":
            idle[:, at] = on_cpu[rows[0]] & on_cpu[rows[1]]
    return idle


def _doubts(unknown: tuple[str, ...]) -> tuple[Flag, ...]:
    if not unknown:
        return ()
    fields = ", ".join(MATCH_FIELDS[name] for name in unknown)
    return (
        Flag("unverified", "warning", f"Unknown in one arm or both, so not known equal: {fields}."),
    )


#: How a baseline was chosen among several: whether launches took turns, whether starts are known.
_HOW = {
    (True, True): "repeats of both arms were paired in the order of their starts",
    (True, False): "repeats of both arms were paired one by one, for their order is unknown",
    (False, True): "the nearest in time was taken",
    (False, False): "one of them was taken, for their order is unknown",
}


def _choice(tied: int, in_turns: bool, timed: bool, baseline: float, speculative: float) -> Flags:
    """Yield a flag where the baseline was chosen among several, or is of another repeat."""
    if baseline != speculative and not (np.isnan(baseline) and np.isnan(speculative)):
        yield Flag(
            "other_repeat",
            "warning",
            f"The repeat is {shown(baseline)} in the baseline and {shown(speculative)} in the "
            "other arm: no baseline has the same one.",
        )
    if tied > 1:
        yield Flag("several_baselines", "info", f"{tied} baselines match; {_HOW[in_turns, timed]}.")
