"""Pairs of cells that are equal in everything but the speculation, and why the others have none."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.frames import declared, numbered
from analysis.matching.fields import (
    ARM,
    IDLE_AT_TEMPERATURE_0,
    MATCH_FIELDS,
    UNKNOWN_MATCHES,
    conflicts,
    differing,
    engine_flags,
    field_codes,
    field_of,
    loads_of,
    require,
)
from warehouse.rows import Flag

# --- Nearest neighbours: in the fields that must be equal, and in time.


Codes = NDArray[np.int64]

#: Distinct candidates compared one by one where none differs in a single column; beyond these a
#: nearer one may be missed, never a pair.
MOST = 256

#: Stands for an unknown time: later than any candidate, earlier than any seeker (unix seconds).
NEVER = 1e15


def nearest(codes: Codes, rows: Codes, candidates: Codes) -> Codes:
    """Return for each of ``rows`` the candidate row with the fewest differing columns; -1 for
    none."""
    if not rows.size or not candidates.size:
        return np.full(rows.size, -1, dtype=np.int64)
    if not codes.shape[1]:
        return np.full(rows.size, candidates[0], dtype=np.int64)
    distinct, back = np.unique(codes[rows], axis=0, return_inverse=True)
    kinds, first = np.unique(codes[candidates], axis=0, return_index=True)
    found = _one_column_off(distinct, kinds)
    left = np.flatnonzero(found < 0)
    columns = np.ascontiguousarray(distinct[left].T.astype(np.int32))
    fewest = np.full(len(left), codes.shape[1] + 1)
    spread = np.unique(np.linspace(0, len(kinds) - 1, min(MOST, len(kinds))).astype(np.int64))
    for at in spread.tolist() if len(left) else ():
        differing = (columns != kinds[at][:, None]).sum(axis=0)
        nearer = differing < fewest
        fewest[nearer], found[left[nearer]] = differing[nearer], at
    return np.asarray(candidates[first[found[back.ravel()]]], dtype=np.int64)


def _one_column_off(wanted: Codes, kinds: Codes) -> Codes:
    """Return the kind that equals each row of ``wanted`` in all columns but one at most; -1 for
    none."""
    found = np.full(len(wanted), -1, dtype=np.int64)
    width = wanted.shape[1]
    weights = np.asarray(np.random.default_rng(0).integers(1, 2**62, size=width))
    with np.errstate(over="ignore"):
        here: Codes = np.asarray(wanted @ weights)
        there: Codes = np.asarray(kinds @ weights)
        for column in range(width):
            seek = here - wanted[:, column] * weights[column]
            keys = there - kinds[:, column] * weights[column]
            order = np.argsort(keys, kind="stable")
            at = np.searchsorted(keys[order], seek).clip(max=len(keys) - 1)
            # Sums can collide, so a hit is counted out before it is believed.
            hit = (kinds[order[at]] != wanted).sum(axis=1) <= 1
            found = np.where((found < 0) & hit, order[at], found)
    return found


def nearest_in_time(seekers: pd.DataFrame, pool: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the row of ``pool`` nearest in time to each seeker, of those equal in ``by``.

    ``seekers``: row, at (unix seconds, NaN unknown) and ``by``; ``pool``: the same. Returns s and b
    (rows of the two) and tied (how many of the pool were equal in ``by``), for the seekers that
    found one. At one distance the earlier wins, at one time the lower row.
    """
    if seekers.empty or pool.empty:
        return pd.DataFrame({"s": [], "b": [], "tied": []}, dtype=np.int64)
    there = pool[[*by, "row", "at"]].rename(columns={"row": "b"})
    there["at"] = there["at"].fillna(NEVER)
    there["tied"] = there.groupby(by, dropna=False)["b"].transform("size")
    there = there.sort_values(["at", "b"]).drop_duplicates([*by, "at"])
    here = seekers[[*by, "row", "at"]].rename(columns={"row": "s"})
    here["at"] = here["at"].fillna(-NEVER)
    here = here.sort_values(["at", "s"])
    found = pd.merge_asof(here, there, on="at", by=by, direction="nearest").dropna(subset=["b"])
    return found[["s", "b", "tied"]].astype(np.int64)


def spread(chosen: pd.DataFrame, rows: pd.DataFrame, pool: pd.DataFrame) -> pd.DataFrame:
    """Return the choice with launches of one arm that all took one baseline spread over all of them.

    Where one arm ran after the other, the nearest baseline is one for all, and its own luck would
    stand against every launch. So as many baselines as there are launches, the nearest in time, are
    taken in the order of their starts. ``chosen`` as ``nearest_in_time`` returns it; ``rows``: key,
    arm, repeat (-1 unknown), study and at, a row per cell; ``pool``: key, row, at, repeat and study
    of baselines. Adds ``spread``: whether a pair was made so.
    """
    chosen = chosen.assign(spread=False)
    seekers = rows.iloc[chosen["s"].to_numpy()].reset_index(drop=True)
    taken = seekers.assign(b=chosen["b"], tied=chosen["tied"])
    taken = taken[(taken["tied"] > 1) & (taken["repeat"] == -1)]
    groups = taken.groupby(["key", "arm", "study"])["b"]
    crowded = taken[(groups.transform("size") > 1) & (groups.transform("nunique") == 1)]
    if crowded.empty:
        return chosen
    baselines = pool[pool["repeat"] == -1].drop_duplicates(["key", "row"])
    order = _in_turns(crowded, baselines.assign(at=baselines["at"].fillna(NEVER)))
    chosen.loc[order.index, "b"] = order
    chosen.loc[order.index, "spread"] = True
    return chosen


def _in_turns(launches: pd.DataFrame, baselines: pd.DataFrame) -> pd.Series:
    """Return the row of a baseline for each launch that has one to take, by the launch's index."""
    launches = launches.assign(at=launches["at"].fillna(-NEVER))
    groups = launches.groupby(["key", "arm", "study"])
    launches["group"] = groups.ngroup()
    about = groups.agg(group=("group", "first"), middle=("at", "median"), launches=("at", "size"))
    # Of each group as many baselines as it has launches, of its own study where there are any.
    there = baselines[["key", "row", "at", "study"]].rename(columns={"row": "baseline"})
    near = about.reset_index().merge(there, on="key", suffixes=("", "_there"))
    own = near["study"] == near["study_there"]
    near = near[own | ~own.groupby(near["group"]).transform("any")]
    near["away"] = (near["at"] - near["middle"]).abs()
    near = near.sort_values(["group", "away", "baseline"])
    near = near[near.groupby("group").cumcount() < near["launches"]]
    near = near.sort_values(["group", "at", "baseline"])
    near = near.assign(turn=near.groupby("group").cumcount())[["group", "baseline", "turn"]]
    launches = launches.sort_values(["group", "at", "row"])
    launches["turn"] = launches.groupby("group").cumcount() % launches["group"].map(
        near.groupby("group").size()
    )
    turns = launches.reset_index().merge(near, on=["group", "turn"])
    return turns.set_index("index")["baseline"].astype(np.int64)


# --- Why a cell is in no pair, told by the nearest cell that could have been its partner.


#: Where these differ, two cells answer two questions: nothing is gained by comparing them.
_OTHER_QUESTIONS = frozenset({"model", "dataset", "load", "evidence"})
_MOST = 4


def named(where: NDArray[np.bool_], names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return for each row the names of the fields that are true; rows alike share one tuple."""
    seen: dict[bytes, tuple[str, ...]] = {}
    for row in where:
        if row.tobytes() not in seen:
            seen[row.tobytes()] = tuple(n for n, yes in zip(names, row, strict=True) if yes)
    return [seen[row.tobytes()] for row in where]


def unmatched(
    cells: pd.DataFrame, codes: pd.DataFrame, kind: pd.Series, chosen: pd.DataFrame,
    allow: Collection[str] = (),
) -> pd.DataFrame:  # fmt: skip
    """Return cell_id and reason of each cell that is in no pair.

    ``codes`` has the fields that had to be equal; only these are named in a reason. ``kind`` says
    what each cell is: baseline, speculative, failed or unknown. ``allow``: the fields, or single
    server arguments, that might differ.
    """
    used = np.zeros(len(cells), dtype=bool)
    used[chosen["b"].to_numpy()] = used[chosen["s"].to_numpy()] = True
    reasons: dict[int, str] = {}
    for name, text in _PLAIN_REASONS.items():
        reasons |= dict.fromkeys(np.flatnonzero(kind == name).tolist(), text)
    ids, matrix, fields = cells["cell_id"].to_numpy(), codes.to_numpy(), tuple(map(str, codes))
    values = {name: cells[name].to_numpy(dtype=object) for name in fields if name in cells}
    if "load" in fields:
        values["load"] = np.array([load and load.text for load in loads_of(cells)], dtype=object)
    for mine, theirs in (("speculative", "baseline"), ("baseline", "speculative")):
        lonely = np.flatnonzero((kind == mine) & ~used)
        near = nearest(matrix, lonely, np.flatnonzero(kind == theirs))
        differing = named(conflicts(matrix[lonely], matrix[near], fields), fields)
        for row, other, names in zip(lonely.tolist(), near.tolist(), differing, strict=True):
            if other < 0:
                reasons[row] = f"there is no good {theirs} cell among those chosen"
            elif not names:
                reasons[row] = "another baseline suits each of its possible partners better"
            else:
                both = {name: (values[name][row], values[name][other]) for name in names}
                reasons[row] = f"nearest {theirs} {ids[other]} differs: {_differing(both, allow)}"
    rows = [(ids[row], reasons[row]) for row in sorted(reasons)]
    return pd.DataFrame(rows, columns=["cell_id", "reason"])


_PLAIN_REASONS = {
    "failed": "this cell failed, so it is not compared",
    "unknown": "whether it speculates is unknown: ingest it again with --replace and set "
    "spec_method (none for a baseline)",
}


def _differing(both: dict[str, tuple[Any, Any]], allow: Collection[str]) -> str:
    fields = dict(both)
    if "server_args" in both:
        arguments = differing(*both["server_args"])
        alone = {name: values for name, values in arguments.items() if name not in allow}
        # Of more nobody reads which they are.
        if 0 < len(alone) <= _MOST:
            del fields["server_args"]
            fields |= alone
    sentence = "; ".join(
        f"{MATCH_FIELDS.get(name, name)} is {shown(here)} here and {shown(there)} there"
        for name, (here, there) in fields.items()
    )
    if not _OTHER_QUESTIONS.isdisjoint(fields):
        return sentence
    # An option may stand several times, so what was allowed before is allowed still.
    options = " ".join(f"--allow {name}" for name in (*allow, *fields))
    return f"{sentence}: compare all the same with {options}"


def shown(value: Any) -> str:
    """Write a fact as a sentence says it."""
    if value is None or pd.isna(value):
        return "unknown"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


# --- Pairs of cells that are equal in everything but the speculation, and why the others have none.


@dataclass(frozen=True)
class Matching:
    """The pairs that were found (``allowed``: tuple of field names, ``flags``: tuple of Flag), and
    the cells without one; as FRAMES declares them."""

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
    kind = pd.Series("speculative", index=cells.index, dtype=object)
    kind[cells["spec_method"] == "none"] = "baseline"
    kind[cells["spec_method"].isna()] = "unknown"
    if "status" in cells:
        kind[cells["status"] == "failed"] = "failed"
    strict = [str(name) for name in codes if name not in allow]
    chosen = _choose(cells, codes, kind, strict)
    return Matching(
        declared("matched pairs", _pairs(cells, codes, chosen)),
        declared("unmatched", unmatched(cells, codes[strict], kind, chosen, allow)),
    )


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
    stated = cells.reindex(columns=["repeat", "study", "started_at"])
    repeat = pd.to_numeric(stated["repeat"]).astype("float64")
    started = pd.to_datetime(stated["started_at"], utc=True)
    # The repeat is compared as a number: -1 is unknown and equals unknown.
    rows = pd.DataFrame(
        {
            "row": np.arange(len(cells)), "repeat": repeat.fillna(-1),
            "at": (started - pd.Timestamp(0, tz="UTC")).dt.total_seconds(),
            "study": pd.factorize(stated["study"])[0],
        }
    )  # fmt: skip
    equal = [name for name in strict if name not in UNKNOWN_MATCHES]
    rows["key"], rows["suits"] = numbered(codes, [*map(str, codes)]), numbered(codes, equal)
    seekers, baselines = rows[kind == "speculative"], rows[kind == "baseline"]
    # Each key of a seeker with those of the baselines that differ least from it: in fields that may
    # differ, or where one of the two is unknown.
    wanted, offered = (
        x.drop_duplicates("key")[["key", "suits", "row"]] for x in (seekers, baselines)
    )
    same = wanted["key"].isin(offered["key"])
    exact = pd.DataFrame({"key": wanted.loc[same, "key"], "key_b": wanted.loc[same, "key"]})
    near = wanted[~same].merge(offered, on="suits", suffixes=("", "_b"))
    lenient = codes.drop(columns=equal)
    names, matrix = tuple(map(str, lenient)), lenient.to_numpy()
    one, other = matrix[near["row"]], matrix[near["row_b"]]
    must = np.array([name in strict for name in names], dtype=np.bool_)
    near["differing"] = (one != other).sum(axis=1)
    near = near.iloc[np.flatnonzero(~(conflicts(one, other, names) & must).any(axis=1))]
    least = near["differing"] == near.groupby("key")["differing"].transform("min")
    suits = pd.concat([exact, near.loc[least, ["key", "key_b"]]])
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


def _pairs(cells: pd.DataFrame, codes: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    matrix, ids = codes.to_numpy(), cells["cell_id"].to_numpy()
    one, other = matrix[chosen["b"].to_numpy()], matrix[chosen["s"].to_numpy()]
    names = tuple(map(str, codes))
    differ = conflicts(one, other, names)
    # A field that has no effect in a pair nobody need know.
    stated = cells.reindex(columns=["temperature", "evidence"]).astype(object)
    greedy = (pd.to_numeric(stated["temperature"]).astype("float64") == 0).to_numpy()
    on_cpu = (stated["evidence"] == "cpu").to_numpy()
    idle = np.zeros(differ.shape, dtype=np.bool_)
    for at, name in enumerate(names):
        if name in IDLE_AT_TEMPERATURE_0:
            idle[:, at] = greedy[chosen["b"]] & greedy[chosen["s"]]
        if name == "gpu_count":
            idle[:, at] = on_cpu[chosen["b"]] & on_cpu[chosen["s"]]
    unknown = named(((one < 0) | (other < 0)) & ~differ & ~idle, names)
    columns = ("tied", "spread", "timed", "repeat_b", "repeat_s")
    each = zip(unknown, *(chosen[name] for name in columns), strict=True)
    flags = [
        (*_doubts(*facts), *engines)
        for facts, engines in zip(each, engine_flags(cells, chosen), strict=True)
    ]
    return pd.DataFrame(
        {
            "baseline_id": ids[chosen["b"].to_numpy()],
            "speculative_id": ids[chosen["s"].to_numpy()],
            "allowed": pd.Series(named(differ, names), dtype=object),
            "flags": pd.Series(flags, dtype=object),
        }
    ).sort_values(["speculative_id"], ignore_index=True)


#: How a baseline was chosen among several: whether launches took turns, whether starts are known.
_HOW = {
    (True, True): "repeats of both arms were paired in the order of their starts",
    (True, False): "repeats of both arms were paired one by one, for their order is unknown",
    (False, True): "the nearest in time was taken",
    (False, False): "one of them was taken, for their order is unknown",
}


def _doubts(
    unknown: tuple[str, ...], tied: int, in_turns: bool, timed: bool, baseline: float, arm: float
) -> Iterator[Flag]:
    """Yield a flag where fields are not known to be equal, and where the baseline is of another
    repeat (``baseline`` and ``arm``: theirs) or was chosen among several."""
    if unknown:
        fields = ", ".join(MATCH_FIELDS[name] for name in unknown)
        doubt = f"Unknown in one arm or both, so not known equal: {fields}."
        yield Flag("unverified", "warning", doubt)
    if baseline != arm and not (np.isnan(baseline) and np.isnan(arm)):
        yield Flag(
            "other_repeat",
            "warning",
            f"The repeat is {shown(baseline)} in the baseline and {shown(arm)} in the "
            "other arm: no baseline has the same one.",
        )
    if tied > 1:
        yield Flag("several_baselines", "info", f"{tied} baselines match; {_HOW[in_turns, timed]}.")
