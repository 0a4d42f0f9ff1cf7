"""Kinds of prompts that one load mixes, or turns of its sessions: what was accepted of each, how its requests fared,
and by which arm.

One server serves all kinds at once, so that no kind has a throughput of its own: how fast it is, is the time between
tokens of its requests (ITL), and per token of its requests (TPOT). A kind of a cell is judged as a cell of its own:
launches, pairs and intervals are those of every comparison (``effects``), and all that is judged here is one family.
What was accepted is counted: prompts of one kind are a sample of that kind, and scatter.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.evidence.broken_answers import IDS
from analysis.evidence.effects import LEVEL, effects
from analysis.frames import listed, numbered
from analysis.matching.comparison import Comparison

#: With fewer requests in a launch, or fewer prompts behind what was accepted, nothing is said of a kind.
LEAST = 8
#: What tells how fast requests of a kind were, the one that decides first.
SPEEDS: tuple[str, ...] = ("itl", "tpot")
#: All that ``speeds`` tells of them.
_TOLD = ("requests", "ttft", *SPEEDS)
#: Arms as numbers beside those of a comparison: the reference where another arm is the one compared with.
PLAIN = -2
#: Where arms meet, and which cells do.
_AT = ["setting", "load"]
MET = [*_AT, "arm_id", *IDS]
_OF_CELL = ("launch", "source_format", "path", "run_id", "repeat", "started_at")


def speeds(requests: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cell_id and category: ``requests`` (of known ITL), ``ttft``, ``itl`` and ``tpot`` (ms,
    means, the last two weighted by tokens, as the catalogue's are). ``requests`` as the query ``kinds`` returns them."""
    rows = requests.dropna(subset=["category"]).astype({"cell_id": object, "category": object})
    tokens = rows["output_tokens"].astype("float64")
    each = tokens.notna().astype("float64")
    weights = {"ttft": each, "itl": (tokens - 1).clip(lower=0), "tpot": tokens}
    by = [rows["cell_id"], rows["category"]]
    told: dict[str, pd.Series] = {"requests": rows["itl"].notna().astype("int64").groupby(by).sum()}
    for name, weight in weights.items():
        there = rows[name].notna() & (weight > 0)
        of = weight.where(there, 0.0).groupby(by).sum()
        told[name] = (rows[name] * weight).where(there, 0.0).groupby(by).sum() / of.where(of > 0)
    return pd.DataFrame(told).reset_index()


def gains(
    found: Comparison, met: pd.DataFrame, measured: pd.DataFrame, cells: pd.DataFrame,
    lines: tuple[str, ...] = SPEEDS,
) -> pd.DataFrame:  # fmt: skip
    """Return every difference of every kind: the rows of ``Effects.levels`` with ``category``, the setting
    that of ``found``. ``met``: MET, one row per pair of cells, and ``one``, a number that keeps apart
    what is compared with another arm; ``measured`` as ``speeds`` returns it; ``cells`` as the query of
    that name does. Kinds with too few requests in either cell are left out."""
    sides = [measured.rename(columns={n: f"{n}_{side}" for n in _TOLD}) for side in IDS]
    rows = met.merge(sides[0], left_on=IDS[0], right_on="cell_id").drop(columns="cell_id")
    rows = rows.merge(sides[1], left_on=[IDS[1], "category"], right_on=["cell_id", "category"])
    enough = (rows[[f"requests_{side}" for side in IDS]] >= LEAST).all(axis=1)
    rows = rows[enough].reset_index(drop=True)
    code = numbered(rows, ["setting", "category", "one"])
    named = {side: rows[side].astype(str) + "/" + rows["category"].astype(str) for side in IDS}
    parts = [
        rows[["arm_id", "load"]].assign(
            setting=code, metric=line, statistic="mean", **named,
            baseline=rows[f"{line}_baseline_id"], speculative=rows[f"{line}_speculative_id"],
        )
        for line in lines
    ]  # fmt: skip
    places = rows.assign(code=code).drop_duplicates("code").set_index("code")
    kinds = replace(
        found, pairs=pd.concat(parts, ignore_index=True), keys=_keys(found, places["setting"])
    )
    levels = effects(kinds, _cells(cells, rows, named)).levels
    codes = levels["setting"]
    return levels.assign(
        setting=codes.map(places["setting"]), category=codes.map(places["category"]),
        one=codes.map(places["one"]),
    )  # fmt: skip


def _keys(found: Comparison, settings: pd.Series) -> pd.DataFrame:
    """Return the fields of each numbered kind: those of its setting, by which its study is known."""
    first = found.keys[~found.keys.index.get_level_values(0).duplicated()].droplevel(1)
    index = pd.MultiIndex.from_arrays(
        [settings.index, [0] * len(settings)], names=["setting", "arm_id"]
    )
    return first.reindex(settings.to_numpy()).set_index(index)


def _cells(cells: pd.DataFrame, rows: pd.DataFrame, named: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Return what is known of the launch of each kind of a cell, under the name that it has in pairs."""
    ids = pd.DataFrame({
        "of": pd.concat([rows[side] for side in IDS]).astype(object).to_numpy(),
        "cell_id": pd.concat([named[side] for side in IDS]).to_numpy(),
    }).drop_duplicates()  # fmt: skip
    told = cells[["cell_id", *(name for name in _OF_CELL if name in cells)]]
    told = told.rename(columns={"cell_id": "of"}).astype({"of": object})
    return ids.merge(told, on="of", how="left").drop(columns="of")


def first_tokens(met: pd.DataFrame, measured: pd.DataFrame, side: str) -> pd.Series:
    """Return the mean TTFT (ms) over launches by setting, load, arm_id and category, of the cells of one side
    of ``met``."""
    by = [*_AT, "arm_id", "category"]
    cells = met[[*by[:-1], side]].drop_duplicates()
    return cells.merge(measured, left_on=side, right_on="cell_id").groupby(by)["ttft"].mean()


# --- The one arm for all kinds: which it would be, and what each other arm does against it.


def one_for_all(levels: pd.DataFrame, shares: pd.DataFrame) -> dict[tuple[int, int], int]:
    """Return (setting, load) -> the arm with which the tokens of all kinds together take least time; PLAIN
    where drafting gains nothing. Arms that lack a kind that another has are no candidates.

    ``levels`` as ``gains`` returns them; ``shares``: setting, load, category, share."""
    rows = levels.loc[levels["metric"] == SPEEDS[0], [*_AT, "arm_id", "category", "log"]]
    rows = rows.merge(shares, on=[*_AT, "category"])
    # Of the time that they take with the reference, tokens of a kind save what its ITL does.
    rows = rows.assign(weighed=-np.expm1(-rows["log"]) * rows["share"])
    sums = rows.groupby([*_AT, "arm_id"]).agg(gain=("weighed", "sum"), kinds=("log", "size"))
    whole = sums[sums["kinds"] == sums.groupby(_AT)["kinds"].transform("max")].reset_index()
    best = whole.sort_values("gain", ascending=False, kind="stable").drop_duplicates(_AT)
    arms = best["arm_id"].where(best["gain"] > 0, PLAIN)
    return dict(zip(listed(best, *_AT), arms.tolist(), strict=True))


def against_one(met: pd.DataFrame, one: Mapping[tuple[int, int], int]) -> pd.DataFrame:
    """Return the pairs of every other arm with the one for all at its load, the former reference among
    them as PLAIN. ``met``: MET; the result has ``one`` too."""
    chosen = pd.Series([one.get(at) for at in listed(met, *_AT)], index=met.index, dtype=object)
    known = met.assign(one=chosen)[chosen.notna()].astype({"one": "int64"})
    # The former reference is an arm as well, which stands beside the others with its own cells.
    itself = known.assign(arm_id=PLAIN, speculative_id=known["baseline_id"])
    every = pd.concat([known, itself], ignore_index=True)
    is_one = every["one"] == every["arm_id"]
    partner = (
        every.loc[is_one, [*_AT, *IDS]].drop_duplicates().set_axis([*_AT, IDS[0], "with"], axis=1)
    )
    rows = every[~is_one].merge(partner, on=[*_AT, IDS[0]])
    rows = rows.drop(columns=IDS[0]).rename(columns={"with": IDS[0]})
    # A cell meets one partner, as everywhere.
    return rows.drop_duplicates([*_AT, "arm_id", "speculative_id"])[[*MET, "one"]]


# --- What was accepted, and whose tokens there are.


def token_shares(requests: pd.DataFrame, at: pd.DataFrame) -> pd.DataFrame:
    """Return setting, load, category (None for none stated) and its share (0-1) of the output tokens.
    ``at``: setting, load and cell_id of every cell that counts."""
    rows = at.drop_duplicates().merge(requests.astype({"cell_id": object}), on="cell_id")
    tokens = rows.groupby([*_AT, "category"], dropna=False)["output_tokens"].sum()
    return (tokens / tokens.groupby(_AT).transform("sum")).rename("share").reset_index()


def accepted(requests: pd.DataFrame, met: pd.DataFrame) -> pd.DataFrame:
    """Return a row per setting, load, arm_id and category: ``requests`` (completed), ``prompts`` (of which
    drafts are known), ``drafts``, ``rate`` (accepted of drafted tokens), ``length`` (tokens that a step
    yields) and ``length_low``, ``length_high``.

    The interval is that of a ratio of sums over prompts, with their number less one degrees of freedom:
    a prompt that was sent in several launches counts once, since it is answered alike. NaN with fewer
    than LEAST prompts."""
    by = [*_AT, "arm_id", "category"]
    cells = met[[*_AT, "arm_id", "speculative_id"]].drop_duplicates()
    rows = cells.merge(
        requests.dropna(subset=["category"]).astype({"cell_id": object}),
        left_on="speculative_id", right_on="cell_id",
    )  # fmt: skip
    drafted = ["drafts", "draft_tokens", "accepted_tokens"]
    whole = rows[drafted].notna().all(axis=1) & (rows["drafts"] > 0)
    prompt = (
        rows["prompt_hash"]
        .astype(object)
        .where(rows["prompt_hash"].notna(), rows.index.to_series())
    )
    counted = rows[whole].assign(prompt=prompt[whole]).groupby([*by, "prompt"])[drafted].sum()
    counted = counted.astype("float64").reset_index()
    sums = counted.groupby(by)[drafted].sum().assign(prompts=counted.groupby(by).size())
    ratio = (sums["accepted_tokens"] / sums["drafts"]).rename("ratio")
    left = counted.merge(ratio.reset_index(), on=by)
    squares = (left["accepted_tokens"] - left["ratio"] * left["drafts"]) ** 2
    n = sums["prompts"]
    variance = (
        squares.groupby([left[name] for name in by]).sum() * n / (n - 1) / sums["drafts"] ** 2
    )
    reach = stdtrit(np.maximum(n.to_numpy() - 1, 1), (1 + LEVEL) / 2)
    half = (variance**0.5 * reach).where(n >= LEAST)
    told = sums.assign(
        rate=sums["accepted_tokens"] / sums["draft_tokens"].where(sums["draft_tokens"] > 0),
        length=1 + ratio, length_low=(1 + ratio - half).clip(lower=1.0),
        # A step yields no more than its draft and one.
        length_high=1 + (ratio + half).clip(upper=sums["draft_tokens"] / sums["drafts"]),
    )  # fmt: skip
    every = rows.groupby(by).size().rename("requests").to_frame()
    return every.join(told.drop(columns=drafted[1:])).reset_index()
