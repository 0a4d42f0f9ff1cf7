"""How far variances of several levels may borrow from each other (Smyth 2004, *limma*).

Variances s² with d degrees of freedom each scatter around a common one. If they scatter no more
than chance makes them, they are one variance; if more, each keeps a part of its own. The prior
degrees of freedom d0 say how much the common one weighs:
s̃² = (d0 s0² + d s²) / (d0 + d), doi:10.2202/1544-6115.1027, section 6.2.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

Floats = NDArray[np.float64]

#: Stands for "as many as one likes": the levels then share one variance.
MANY = 1e6
_STEPS = 30


def prior_dof(ratios: Floats, dof: Floats) -> float:
    """Return the prior degrees of freedom d0 behind variances that were divided by their group's
    mean.

    ``ratios`` (groups, levels): variance of a level / mean over its group's levels, NaN where there
    is none; ``dof`` (groups,): degrees of freedom of each of a group's variances. The excess of the
    variance of log ratios over trigamma(d / 2) is trigamma(d0 / 2); no excess gives MANY.
    """
    half = np.maximum(dof, 1e-9)[:, None] / 2
    logs = np.log(np.maximum(ratios, 1e-12)) - digamma(half) + np.log(half)
    known = np.isfinite(logs)
    spare = (known.sum(axis=1) - 1).clip(0)
    if not spare.sum():
        return MANY
    logs = np.where(known, logs, np.nan)
    centre = np.nansum(logs, axis=1) / np.maximum(known.sum(axis=1), 1)
    squares = np.nansum((logs - centre[:, None]) ** 2, axis=1)
    expected = (spare * polygamma(1, half[:, 0])).sum() / spare.sum()
    excess = squares.sum() / spare.sum() - expected
    return MANY if excess <= 1e-6 else min(2 * _trigamma_inverse(float(excess)), MANY)


def _trigamma_inverse(value: float) -> float:
    """Return x with trigamma(x) = value, by Newton's method (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(_STEPS):
        now = float(polygamma(1, x))
        x += now * (1 - now / value) / float(polygamma(2, x))
    return x
