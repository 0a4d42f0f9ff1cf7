"""What a draft achieved: rate = A/T, mean length = 1 + A/D, per position A_i/D.

D drafts, T drafted tokens, A accepted tokens, A_i accepted at position i (from 0).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.matching.arms import ENGINE_CHOOSES, place_arms
from warehouse.rows import Acceptance, AcceptanceSource, Flag

# --- Acceptance per dataset, arm and load: rate, mean length, and what each draft position keeps.
#
# Formulas as in ``analysis.drafts.acceptance``: rate = ΣA / ΣT, mean length = 1 + ΣA / ΣD, position
# r_i = ΣA_i / ΣD, conditional p_i = ΣA_i / ΣA_(i-1) with A_0 = D; sums over the repeats of a level,
# never a mean of ratios, where the counts are known.


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
    return table.reset_index()


def acceptance_by_position(
    cells: pd.DataFrame, acceptance: pd.DataFrame, by_position: pd.DataFrame
) -> pd.DataFrame:
    """Return a row per level (as above) and position (from 1): rate (r_i), conditional (p_i),
    drafts.

    ``by_position`` as the query of that name returns it (there the first position is 0).
    """
    counts = position_counts(cells, acceptance, by_position)
    table = counts.groupby([*LEVEL, "position"], sort=True)[_COUNTS].sum().reset_index()
    return table.assign(
        rate=table["accepted"] / table["drafts"],
        conditional=table["accepted"] / table["reached"].where(table["reached"] > 0),
    )[[*LEVEL, "position", "rate", "conditional", "drafts"]]


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
    return rows.assign(
        position=rows["position"] + 1,
        drafts=drafts,
        accepted=drafts * rows["rate"],
        reached=drafts * before,
    )[[*LEVEL, "position", *_COUNTS]]


def believed(acceptance: pd.DataFrame) -> pd.DataFrame:
    """Return one source for each cell: the first of SOURCES that states an acceptance."""
    said = acceptance[acceptance["rate"].notna() | acceptance["mean_length"].notna()]
    order = said["source"].map({name: at for at, name in enumerate(SOURCES)})
    best = said.assign(order=order.astype(np.float64)).sort_values(["cell_id", "order"])
    return best.drop_duplicates("cell_id").drop(columns="order")


# ---


#: Two sources of one cell may differ by this much (a request at the edge of the load point).
TOLERANCE = 0.02


@dataclass(frozen=True)
class Counters:
    """vLLM's cumulative ``spec_decode`` counters at one moment, summed over engines."""

    drafts: float
    draft_tokens: float
    accepted_tokens: float
    by_position: tuple[float, ...] = ()


def from_counters(before: Counters, after: Counters) -> Acceptance | None:
    """Return the acceptance between two snapshots; None where a counter fell: the server
    restarted."""
    difference = _difference(before, after)
    counts = (difference.drafts, difference.draft_tokens, difference.accepted_tokens)
    if min(*counts, *difference.by_position) < 0:
        return None
    return _acceptance("counters", difference)


def from_requests(
    drafts: int, draft_tokens: int, accepted_tokens: int, by_position: Sequence[float] = ()
) -> Acceptance:
    """Pool acceptance over requests: from totals of steps and tokens, never as a mean of means.

    ``by_position`` holds accepted tokens at each position (counts).
    """
    counts = Counters(drafts, draft_tokens, accepted_tokens, tuple(by_position))
    return _acceptance("requests", counts)


def cross_check(sources: Sequence[Acceptance]) -> list[Flag]:
    """Return a flag for each source that disagrees with the first one by more than 2 %."""
    return [
        flag
        for other in sources[1:]
        for flag in (
            _disagreement("acceptance rate", sources[0], other),
            _disagreement("mean acceptance length", sources[0], other),
        )
        if flag is not None
    ]


def _difference(before: Counters, after: Counters) -> Counters:
    length = max(len(before.by_position), len(after.by_position))
    old = before.by_position + (0.0,) * (length - len(before.by_position))
    new = after.by_position + (0.0,) * (length - len(after.by_position))
    return Counters(
        after.drafts - before.drafts,
        after.draft_tokens - before.draft_tokens,
        after.accepted_tokens - before.accepted_tokens,
        tuple(b - a for a, b in zip(old, new, strict=True)),
    )


def _acceptance(source: AcceptanceSource, counts: Counters) -> Acceptance:
    drafts, drafted, accepted = counts.drafts, counts.draft_tokens, counts.accepted_tokens
    return Acceptance(
        source,
        int(drafts),
        int(drafted),
        int(accepted),
        accepted / drafted if drafted > 0 else None,
        1 + accepted / drafts if drafts > 0 else None,
        tuple(at / drafts for at in counts.by_position) if drafts > 0 else (),
    )


def _disagreement(what: str, one: Acceptance, other: Acceptance) -> Flag | None:
    a, b = (x.rate if what == "acceptance rate" else x.mean_length for x in (one, other))
    if a is None or b is None or abs(a - b) <= TOLERANCE * max(abs(a), abs(b)):
        return None
    return Flag(
        "acceptance_sources_disagree",
        "warning",
        f"The {what} is {a:.3f} by {one.source} but {b:.3f} by {other.source}.",
    )
