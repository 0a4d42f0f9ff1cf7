"""What measurements say of one law: every candidate's coefficients, weighed by its evidence.

A candidate is a shape of the law with some of its columns. Its coefficients are those of a linear
regression of relative errors, with a prior that lets no column weigh much more than the whole step;
the noise is unknown (inverse gamma). Candidates are weighed by their marginal likelihood (Hoeting,
Madigan, Raftery and Volinsky 1999, doi:10.1214/ss/1009212519); one with a negative part counts only
where no other does. The forms are those of O'Hagan and Forster, Kendall's Advanced Theory 2B, 2004.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, stdtrit

from analysis.prediction.laws import Law, choices
from analysis.prediction.mixture import EDGE, LEVEL, Mixture
from analysis.prediction.rows import Floats, Mask, Numbers, Rows

#: The noise of a measurement that is expected before any, and how many measurements that is worth.
EXPECTED_NOISE = 0.04
WORTH = 2.0
#: A column may be as large as the whole step; in units of the expected noise, squared.
_RIDGE = EXPECTED_NOISE**2
#: Logarithm of the odds below which a candidate is dropped; a negative part costs more than that.
_UNLIKELY = 8.0
_NEGATIVE = 50.0
#: A candidate with a smaller share of the weight is left out of predictions.
_SMALL = 1e-3


@dataclass(frozen=True, eq=False)
class _Fit:
    """The fit of each candidate (last axes; left-out groups before): coefficients, the inverse of
    their precision, the noise (the deviation of the normal distribution with the same band),
    evidence."""

    sizes: Floats
    inverse: Floats
    noise: Floats
    evidence: Floats

    @property
    def weights(self) -> Floats:
        """Each candidate's share of the evidence, with candidates on the last axis."""
        return self.shares(-1)

    def shares(self, axis: int) -> Floats:
        """Return each candidate's share of the evidence, with candidates on ``axis``."""
        relative = np.exp(self.evidence - self.evidence.max(axis=axis, keepdims=True))
        return np.asarray(relative / relative.sum(axis=axis, keepdims=True))


@dataclass(frozen=True, eq=False)
class Sums:
    """Products of columns with each other, with the measurements, and of these; number of rows."""

    columns: Floats
    measured: Floats
    total: Floats
    count: Floats


@dataclass(frozen=True, eq=False)
class Posterior:
    """One law after the measurements. ``shape``: that of each candidate; ``units``: ms of each of
    its columns, 0 for one that it lacks."""

    law: Law
    shape: Numbers
    units: Floats
    fit: _Fit
    left_out: _Fit

    def at(self, rows: Rows) -> Mixture:
        """Return the predicted times at ``rows``."""
        kept = self.fit.weights > _SMALL * self.fit.weights.max()
        columns = self.law.columns(rows)[self.shape[kept]] * self.units[kept, None, :]
        fit = _Fit(*(values[kept][:, None] for values in vars(self.fit).values()))
        return _mixture(columns, fit, fit.shares(axis=0))

    def without(self, rows: Rows, group: Numbers) -> Mixture:
        """Return the times at ``rows``, each predicted without the group of that number."""
        weights = self.left_out.weights
        kept = (weights > _SMALL * weights.max(axis=1, keepdims=True)).any(axis=0)
        columns = self.law.columns(rows)[self.shape[kept]] * self.units[kept, None, :]
        every = vars(self.left_out).values()
        fit = _Fit(*(np.moveaxis(values[:, kept][group], 0, 1) for values in every))
        return _mixture(columns, fit, fit.shares(axis=0))


def posterior(law: Law, rows: Rows, times: Floats, groups: Mask) -> Posterior:
    """Return what ``times`` (ms) at ``rows`` say of the law, with all of them and without each of
    the ``groups`` (groups × rows)."""
    columns = law.columns(rows)
    relative = columns / times[:, None]
    largest = relative.max(axis=1)
    scale = 1 / np.where(largest > 0, largest, 1.0)
    masks = choices(columns.shape[-1])
    shape, choice = _likely(relative * scale[:, None, :], masks, largest > 0)
    units = scale[shape] * masks[choice]
    used = columns[shape] * units[:, None, :]
    sums = _sums(used / times[:, None], np.ones_like(times))
    first = _solved(sums, units > 0)
    # Errors are relative to a first fit: relative to the measurements, low ones would count most.
    reference = first.weights @ (used @ first.sizes[..., None])[..., 0]
    used, measured = used / reference[:, None], times / reference
    sums = _sums(used, measured)
    rest = _without(sums, used, measured, groups)
    return Posterior(law, shape, units, _solved(sums, units > 0), _solved(rest, units > 0))


def _likely(relative: Floats, masks: Mask, there: Mask) -> tuple[Numbers, Numbers]:
    """Return two numbers for each candidate whose evidence comes within ``_UNLIKELY`` of the best
    one's: its shape, and its choice of columns."""
    shape, choice = np.nonzero(~(masks & ~there[:, None, :]).any(axis=-1))
    sums, used = _sums(relative, np.ones(relative.shape[1])), masks[choice]
    chosen = Sums(
        sums.columns[shape] * used[:, :, None] * used[:, None, :],
        sums.measured[shape] * used, sums.total, sums.count,
    )  # fmt: skip
    evidence = _solved(chosen, used).evidence
    likely = evidence >= evidence.max() - _UNLIKELY
    return shape[likely], choice[likely]


def _sums(columns: Floats, measured: Floats) -> Sums:
    return Sums(
        columns.transpose(0, 2, 1) @ columns, measured @ columns,
        np.asarray(measured @ measured), np.asarray(float(len(measured))),
    )  # fmt: skip


def _without(sums: Sums, columns: Floats, measured: Floats, groups: Mask) -> Sums:
    """Return the sums without each of the groups."""
    taken = columns * groups[:, None, :, None]
    return Sums(
        sums.columns - taken.transpose(0, 1, 3, 2) @ columns,
        sums.measured - measured @ taken,
        sums.total - (groups * measured**2).sum(axis=1)[:, None],
        sums.count - groups.sum(axis=1)[:, None],
    )


def _solved(sums: Sums, used: Mask) -> _Fit:
    """Fit the coefficients and the evidence of each candidate; ``used``: the columns that it
    has."""
    width = used.shape[-1]
    precision = sums.columns + _RIDGE * np.eye(width)
    inverse = np.linalg.inv(precision)
    sizes = (inverse @ sums.measured[..., None])[..., 0]
    left = np.maximum(sums.total - (sums.measured * sizes).sum(axis=-1), 1e-12)
    columns = used.sum(axis=-1)
    freedom = WORTH + np.maximum(sums.count - columns, 0)
    spread = WORTH * EXPECTED_NOISE**2 + left
    # A column that is not used adds its ridge to the determinant and nothing else.
    volume = np.linalg.slogdet(precision)[1] - (width - columns) * np.log(_RIDGE)
    evidence = gammaln(freedom / 2) - freedom / 2 * np.log(spread / 2) - volume / 2
    negative = ((sizes < 0) & used).any(axis=-1)
    noise = np.sqrt(spread / freedom) * _wider(freedom)
    return _Fit(sizes, np.asarray(inverse), noise, evidence - _NEGATIVE * negative)


def _wider(freedom: Floats) -> Floats:
    """Return how much wider the band of Student's t is than that of a normal distribution."""
    known, where = np.unique(freedom, return_inverse=True)
    return np.asarray((stdtrit(known, (1 + LEVEL) / 2) / EDGE)[where].reshape(freedom.shape))


def _mixture(columns: Floats, fit: _Fit, weights: Floats) -> Mixture:
    """Return the candidates' predictions, each with the doubt about its coefficients and the
    noise."""
    means = (columns * fit.sizes).sum(axis=-1)
    doubt = np.einsum("...p,...pq,...q->...", columns, fit.inverse, columns)
    return Mixture(means, fit.noise * np.sqrt(means**2 + doubt), weights)
