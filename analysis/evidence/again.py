"""One launch of a cell against later launches of it: the same, or not?"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence.effects import judged

Floats = NDArray[np.float64]


def again(
    original: Floats, siblings: Floats, launches: Floats, lower: NDArray[np.bool_]
) -> pd.DataFrame:
    """Return a row per line: log, improvement, its intervals and word, as ``Effects.levels`` has
    them.

    ``original`` (lines,): the values of the launch that is repeated; ``siblings`` (any, lines):
    other launches of that time, which only tell the scatter; ``launches`` (one or more, lines): the
    later ones; ``lower`` (lines,): whether lower is better. All above zero.

    Both groups have one variance of logarithms, pooled (two-sample t-test): its degrees of freedom
    are siblings + launches - 1. The difference of one launch from the mean of n has 1 + 1 / n of
    it.
    """
    turned = np.where(lower, -1.0, 1.0)
    first = turned * np.log(np.vstack([original[None], siblings]))
    later = turned * np.log(launches)
    dof = len(first) + len(later) - 2
    squares = ((first - first.mean(axis=0)) ** 2).sum(axis=0)
    squares = squares + ((later - later.mean(axis=0)) ** 2).sum(axis=0)
    rows = pd.DataFrame(
        {
            "setting": 0, "line": np.arange(len(original)), "lower": lower, "independent": True,
            "log": later.mean(axis=0) - first[0], "variance": squares / dof if dof else np.nan,
            "weight": 1 + 1 / len(later), "share": 1.0, "dof": float(dof), "rest_dof": float(dof),
        }
    )  # fmt: skip
    return judged(rows, {0: 0})
