"""Acceptance per dataset, arm and load: rate, mean length, and what each draft position keeps.

Formulas as in ``analysis.drafts.acceptance``: rate = ΣA / ΣT, mean length = 1 + ΣA / ΣD, position
r_i = ΣA_i / ΣD, conditional p_i = ΣA_i / ΣA_(i-1) with A_0 = D; sums over the repeats of a level,
never a mean of ratios, where the counts are known. Beside that what rules of thumb make of it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from analysis.frames import FRAMES, declared
from analysis.matching.arms import ENGINE_CHOOSES, place_arms

#: The source that is believed, of several counts of one cell.
SOURCES: tuple[str, ...] = ("counters", "requests", "vllm_bench")
_COUNTS = ["drafts", "accepted", "reached"]
LEVEL: list[str] = ["setting", "system", "dataset", "family", "k", "concurrency"]


def acceptance_by_level(cells: pd.DataFrame, acceptance: pd.DataFrame) -> pd.DataFrame:
    """Return a row per setting, dataset, family, k and concurrency: repeats, source, drafts, rate
    (0-1), mean_length (tokens per step). ``cells`` and ``acceptance`` as the queries of these
    names."""
    rows = believed(acceptance).merge(place_arms(cells).reset_index(), on="cell_id")
    if rows.empty:
        return pd.DataFrame(columns=[*LEVEL, "repeats", "source", "drafts", "rate", "mean_length"])
    counts = rows[["drafts", "draft_tokens", "accepted_tokens"]].astype("float64")
    grouped = rows.assign(**counts).groupby(LEVEL, sort=True)
    sums = grouped[list(counts)].sum(min_count=1)
    # A file that states ratios alone has no totals to pool: its repeats count alike.
    whole = grouped["accepted_tokens"].count() == grouped.size()
    means = grouped[["rate", "mean_length"]].mean()
    table = pd.DataFrame(
        {
            "repeats": grouped.size(),
            "source": grouped["source"].agg(lambda names: ", ".join(sorted(set(names)))),
            "drafts": sums["drafts"],
            "rate": (sums["accepted_tokens"] / sums["draft_tokens"]).where(whole, means["rate"]),
            "mean_length": (1 + sums["accepted_tokens"] / sums["drafts"]).where(
                whole, means["mean_length"]
            ),
        }
    )
    return declared("acceptance by level", table.reset_index())


def acceptance_by_position(
    cells: pd.DataFrame, acceptance: pd.DataFrame, by_position: pd.DataFrame
) -> pd.DataFrame:
    """Return a row per level (as above) and position (from 1): rate (r_i), conditional (p_i),
    drafts.

    ``by_position`` as the query of that name returns it (there the first position is 0).
    """
    counts = position_counts(cells, acceptance, by_position)
    table = counts.groupby([*LEVEL, "position"], sort=True)[_COUNTS].sum().reset_index()
    rates = table.assign(
        rate=table["accepted"] / table["drafts"],
        conditional=table["accepted"] / table["reached"].where(table["reached"] > 0),
    )
    return declared("acceptance by position", rates[[*FRAMES["acceptance by position"]]])


def position_counts(
    cells: pd.DataFrame, acceptance: pd.DataFrame, by_position: pd.DataFrame
) -> pd.DataFrame:
    """Return a row per cell and position (from 1): the columns of LEVEL, drafts, accepted (tokens
    there) and reached (tokens accepted at the position before). Where drafts were not counted, the
    counts are those of one draft. Arms whose engine chooses K are left out."""
    counted = believed(acceptance)[["cell_id", "source", "drafts"]]
    rows = by_position.merge(counted, on=["cell_id", "source"])
    placed = place_arms(cells).reset_index()
    # A draft of two tokens cannot be accepted at the third: shares of all drafts would mislead.
    placed = placed[~placed["chooser"].isin(ENGINE_CHOOSES)]
    rows = rows.merge(placed, on="cell_id")
    rows = rows.sort_values(["cell_id", "position"])
    drafts = rows["drafts"].astype("float64").fillna(1.0)
    before = rows.groupby("cell_id")["rate"].shift(1).fillna(1.0)
    rows = rows.assign(
        position=rows["position"] + 1,
        drafts=drafts,
        accepted=drafts * rows["rate"],
        reached=drafts * before,
    )
    return declared("counts by position", rows[[*LEVEL, "position", *_COUNTS]])


def believed(acceptance: pd.DataFrame) -> pd.DataFrame:
    """Return one source for each cell: the first of SOURCES that states an acceptance."""
    said = acceptance[acceptance["rate"].notna() | acceptance["mean_length"].notna()]
    order = said["source"].map({name: at for at, name in enumerate(SOURCES)})
    best = said.assign(order=order.astype(np.float64)).sort_values(["cell_id", "order"])
    return best.drop_duplicates("cell_id").drop(columns="order")


# --- The published rules of thumb, and what each would have said; the measurement decides.
#
# Three articles give three rules. They contradict one another (the published study runs at an
# acceptance of 0.28 to 0.45, which two of them call poor, and still wins), so a rule never decides
# here: it stands beside the measured answer, which it meets or not.


#: Draft more tokens than now, as many, fewer, or stop drafting.
Says = Literal["more", "keep", "fewer", "off"]


@dataclass(frozen=True)
class Opinion:
    """What one rule of thumb says. ``says`` and ``why`` follow the rule; ``agrees``: whether the
    measurement says the same, None where it cannot tell (it has no larger, or no smaller, K to
    compare with)."""

    rule: str
    says: Says
    why: str
    agrees: bool | None = None


@dataclass(frozen=True)
class Arm:
    """One measured arm: its K, acceptance rate (0-1) and mean acceptance length (with bonus)."""

    k: int
    rate: float
    mean_length: float


def opinions(arm: Arm, best: Collection[int], measured: Collection[int]) -> tuple[Opinion, ...]:
    """Return what each rule says of ``arm``, and whether the measurement says so too.

    ``best``: the K that did best at this load, several where they are tied, 0 for no speculation;
    ``measured``: all that were measured there.
    """
    truth: set[Says] = {"off" if k == 0 else _towards(k, arm.k) for k in best}
    reach = {"more": max(measured) > arm.k, "fewer": any(0 < k < arm.k for k in measured),
             "off": 0 in measured}  # fmt: skip
    return tuple(
        Opinion(rule, says, why, says in truth or (False if reach.get(says, True) else None))
        for rule, says, why in (_by_thresholds(arm), _by_sweet_spot(arm), _by_tokens_per_cycle(arm))
    )


_Said = tuple[str, Says, str]


def _by_thresholds(arm: Arm) -> _Said:
    rule = "start at 3; above 50 % acceptance 4 to 5, below 30 % 2 or another draft"
    if arm.rate > 0.50:
        return rule, "more" if arm.k < 4 else "keep", _acceptance(arm, "above 50 %")
    if arm.rate < 0.30:
        return rule, "fewer" if arm.k > 2 else "keep", _acceptance(arm, "below 30 %")
    return rule, _towards(3, arm.k), _acceptance(arm, "between 30 and 50 %: K = 3")


def _by_sweet_spot(arm: Arm) -> _Said:
    rule = "start at 4 to 5; 60-80 % is the sweet spot, below 50 % is poor, above 85 % raise it"
    if arm.rate > 0.85:
        return rule, "more", _acceptance(arm, "above 85 %")
    if arm.rate < 0.50:
        return rule, "fewer", _acceptance(arm, "below 50 %: poorly aligned")
    return rule, "keep", _acceptance(arm, "near the sweet spot")


def _by_tokens_per_cycle(arm: Arm) -> _Said:
    rule = "4-5 accepted tokens a cycle are good; below 2 not worth the draft, below 1 a net loss"
    accepted = arm.mean_length - 1
    why = f"{accepted:.2f} accepted tokens a cycle"
    if accepted < 2:
        return rule, "off", f"{why}: {'a net loss' if accepted < 1 else 'not worth the draft'}"
    return rule, "keep", why


def _acceptance(arm: Arm, where: str) -> str:
    return f"acceptance of {arm.rate * 100:.0f} % is {where}"


def _towards(best: int, k: int) -> Says:
    if best == k:
        return "keep"
    return "more" if best > k else "fewer"
