"""What an interval allows to say of a difference, and how many repeats would allow more."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

Floats = NDArray[np.float64]
Verdict = Literal["better", "worse", "no measurable difference", "not enough evidence"]

BETTER: Verdict = "better"
WORSE: Verdict = "worse"
SAME: Verdict = "no measurable difference"
OPEN: Verdict = "not enough evidence"
#: In the order of a summary.
VERDICTS: tuple[Verdict, ...] = (BETTER, WORSE, SAME, OPEN)

#: A difference below this (ratio) changes no decision: an interval inside it says "none".
MARGIN = 0.05
#: Repeats worth trying before the noise itself is to be looked into.
MOST_REPEATS = 50
#: The chance with which the advised repeats settle it, if effect and noise are as estimated.
POWER = 0.8
#: Share of wrong ones among the differences that a summary counts (Benjamini and Hochberg 1995).
FALSE_DISCOVERIES = 0.05


def verdicts(low: Floats, high: Floats, margin: float = MARGIN) -> NDArray[Any]:
    """One word for each interval of an improvement (ratios, positive is better).

    *better* and *worse* where it excludes zero, *no measurable difference* where it lies inside
    ± ``margin``, *not enough evidence* where it does neither or there is none (NaN).
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    return np.select(
        [low > 0, high < 0, (low > -margin) & (high < margin)], [BETTER, WORSE, SAME], OPEN
    ).astype(object)


def repeats_enough(
    mean: Floats, noise: Floats, dof_per_repeat: Floats, margin: float = MARGIN
) -> Floats:
    """The fewest repeats, 2 to MOST_REPEATS, that would settle each difference; NaN for none.

    ``mean``: log ratio, ``noise``: standard deviation of one repeat's log ratio,
    ``dof_per_repeat``: degrees of freedom that each repeat after the first adds. Settled is an
    interval of half the width h = max(|mean|, margin - |mean|): it excludes zero, or lies inside
    the margin. Needed: (t_0.975 + t_POWER) noise / sqrt(repeats) <= h.
    """
    wanted = np.maximum(np.abs(mean), margin - np.abs(mean))
    noise, dof = np.asarray(noise, dtype=np.float64), np.asarray(dof_per_repeat, dtype=np.float64)

    def enough(repeats: NDArray[np.int64]) -> NDArray[np.bool_]:
        with_them = dof * (repeats - 1)
        reach = stdtrit(with_them, 0.975) + stdtrit(with_them, POWER)
        return np.asarray(reach * noise / np.sqrt(repeats) <= wanted)

    # More repeats never reach less far, so the fewest are found by halving.
    low, high = np.full(wanted.shape, 2), np.full(wanted.shape, MOST_REPEATS)
    for _ in range(MOST_REPEATS.bit_length()):
        middle = (low + high) // 2
        met = enough(middle)
        low, high = np.where(met, low, np.minimum(middle + 1, high)), np.where(met, middle, high)
    return np.where(enough(high), high.astype(np.float64), np.nan)


@dataclass(frozen=True)
class Summary:
    """How many rows say what, where each difference also stands among all that were looked at."""

    rows: int
    counts: dict[Verdict, int]
    withdrawn: int
    """Rows that are better or worse by themselves, but no longer among so many."""


def summary(rows: pd.DataFrame) -> Summary:
    """Count the verdicts of rows (p_value, verdict), with multiple comparisons accounted for."""
    return counted(rows["p_value"].to_numpy(dtype=np.float64), rows["verdict"].tolist())


def counted(p_values: Floats, said: Sequence[str]) -> Summary:
    """``summary`` of rows whose columns are these."""
    stands = standing(p_values)
    gone = [word in (BETTER, WORSE) and not known for word, known in zip(said, stands, strict=True)]
    kept = Counter(OPEN if lost else word for word, lost in zip(said, gone, strict=True))
    return Summary(len(said), {word: kept[word] for word in VERDICTS}, sum(gone))


def standing(p_values: Floats) -> NDArray[np.bool_]:
    """Which differences stand with FALSE_DISCOVERIES among all the given ones; NaN never does."""
    known = np.isfinite(p_values)
    stands = np.zeros(len(p_values), dtype=bool)
    if known.any():
        stands[known] = _false_discovery_rate(p_values[known]) <= FALSE_DISCOVERIES
    return stands


def _false_discovery_rate(p_values: Floats) -> Floats:
    """p x number / rank, made monotone (Benjamini and Hochberg 1995), as
    ``scipy.stats.false_discovery_control`` has it; that import takes longer than a page."""
    order = np.argsort(p_values)
    scaled = p_values[order] * (len(order) / np.arange(1, len(order) + 1))
    found = np.empty(len(order))
    found[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return np.minimum(found, 1.0)


def summary_sentence(found: Summary) -> str:
    """``Of 36 rows 12 are better, 2 worse …``: for a person."""
    told = ", ".join(f"{count} {word}" for word, count in found.counts.items() if count)
    sentence = f"Of {found.rows} rows: {told}" if found.rows else "There are no rows"
    if found.withdrawn:
        sentence += (
            f" ({found.withdrawn} that would count alone do not among so many; "
            f"{FALSE_DISCOVERIES:.0%} false discoveries)"
        )
    return sentence + "."
