"""T(B, K) and TTFT(B, K): how long a verification step and a first token take.

Measured steps are ITL x mean acceptance length. Two laws compete: each is fitted without every
measured K and without every measured load, and the better it predicts what was withheld, the more it
counts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import gammaln, ndtr, stdtrit

from analysis.prediction.rows import Floats, Mask, Numbers, Rows
from warehouse.errors import InvalidInput

# --- Many candidates' predictions as one distribution, and what it holds between two bounds.


#: How many of a hundred measurements a band is meant to hold.
LEVEL = 0.9
#: The quantile of a normal distribution at the upper end of a band.
EDGE = 1.6448536269514722
_HALVINGS = 14


@dataclass(frozen=True, eq=False)
class Bands:
    """The middle of a band and its ends, one value a row."""

    low: Floats
    middle: Floats
    high: Floats

    def times(self, factor: Floats | float) -> "Bands":
        return Bands(self.low * factor, self.middle * factor, self.high * factor)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Normal distributions with their weights, candidates × rows (or × 1, of all rows alike); weights of a row
    add up to 1."""

    means: Floats
    deviations: Floats
    weights: Floats

    def mean(self) -> Floats:
        """Return the weighted mean of each row."""
        return np.asarray((self.weights * self.means).sum(axis=0))

    def spread(self) -> Bands:
        """Return the median of each row and the ends of its band; above zero, as times are.

        Each is found by halving the interval in which it must lie."""
        tail = (1 - LEVEL) / 2
        levels = np.array([tail, 0.5, 1 - tail])[:, None]
        reach = 4 * EDGE * self.deviations
        shape = (len(levels), self.means.shape[1])
        low = np.broadcast_to((self.means - reach).min(axis=0), shape)
        high = np.broadcast_to((self.means + reach).max(axis=0), shape)
        weights = np.broadcast_to(self.weights, self.means.shape)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            less = ndtr((middle[:, None, :] - self.means) / self.deviations)
            below = np.einsum("cr,lcr->lr", weights, less) < levels
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return Bands(*np.maximum((low + high) / 2, 1e-9))


def mixed(parts: Sequence[tuple[float, Mixture]]) -> Mixture:
    """Join several mixtures of the same rows into one, each with its weight."""
    return Mixture(
        np.concatenate([part.means for _, part in parts]),
        np.concatenate([part.deviations for _, part in parts]),
        np.concatenate([weight * part.weights for weight, part in parts]),
    )


# --- Two laws of a step's time: which parts it may consist of, as columns that a fit weighs.
#
# ``PARTS`` is a sum of parts that grow with the load and K, ``ROOFLINE`` is flat while reading the
# weights takes longest and linear in the tokens in flight once computing does (Williams, Waterman and
# Patterson 2009, doi:10.1145/1498765.1498785). What drafting costs comes on top in both.
#
#     PARTS     T = a + g·(1 - exp(-n/τ)) + q·n² + b·[K > 0] + d·K + e·B + f·B·K
#     ROOFLINE  T = a·bend(n/n₀) + b·[K > 0] + d·K + e·B        n = B·(K + 1)
#
# bend(x) is max(1, x); √(1 + x²) where reading and computing do not quite overlap; 1 + s·max(0, x - 1)
# where the slope s is its own. g: a mixture of experts reads more of them the more tokens a batch
# holds, until it reads all (about τ tokens).
# Where the data hold several prompt lengths, parts for these come on top of both.


#: Tokens in a batch after which a mixture of experts has read most of its experts.
EXPERT_SCALES = np.array([16.0, 32.0, 64.0])
#: A bend is looked for from the fewest measured tokens in flight to so many times the most.
BEND_BEYOND = 4.0
#: Bends that are tried for each doubling of the tokens in flight.
BENDS_A_DOUBLING = 3

Column = Callable[[Rows], Floats]
_DRAFTING: tuple[Column, ...] = (lambda rows: np.where(rows.k > 0, 1.0, 0.0), lambda rows: rows.k)
_SEQUENCE: tuple[Column, ...] = (lambda rows: rows.batch,)
_DRAFTED: tuple[Column, ...] = (lambda rows: rows.batch * rows.k,)
#: The prompts taken in by a step: where one yields more tokens, requests end and begin in fewer.
PREFILL: tuple[Column, ...] = (
    lambda rows: rows.batch * rows.length * rows.prompt_tokens / rows.output_tokens,
)
#: The cache that a step reads, and the prompts taken in meanwhile.
STEP_LENGTHS: tuple[Column, ...] = (
    lambda rows: rows.batch * (rows.prompt_tokens + rows.output_tokens / 2),
    *PREFILL,
)
#: A first token waits for its own prompt, those of the batch, and the draft's.
FIRST_TOKEN_LENGTHS: tuple[Column, ...] = (
    lambda rows: rows.prompt_tokens,
    lambda rows: rows.batch * rows.prompt_tokens,
    lambda rows: (rows.k > 0) * rows.prompt_tokens,
)


@dataclass(frozen=True, eq=False)
class Law:
    """A law as the columns that a fit weighs. ``shaped``: rows to columns that exist in several
    shapes (shapes × rows × columns), of which the first is in every candidate; ``plain``: columns
    that have one shape."""

    name: str
    shaped: Callable[[Rows], Floats]
    plain: tuple[Column, ...]

    def columns(self, rows: Rows) -> Floats:
        """Return the columns at the rows: shapes × rows × columns."""
        shaped = self.shaped(rows)
        plain = np.stack([np.broadcast_to(c(rows), shaped.shape[:2]) for c in self.plain], axis=-1)
        return np.concatenate([shaped, plain], axis=-1)


def parts(lengths: tuple[Column, ...]) -> Law:
    """Return the law that is a sum of parts; ``lengths``: columns for prompts of several
    lengths."""

    def experts(at: Rows) -> Floats:
        read = 1 - np.exp(-at.tokens / EXPERT_SCALES[:, None])
        squares = np.broadcast_to(at.tokens**2, read.shape)
        return np.stack([np.ones_like(read), read, squares], axis=-1)

    return Law("sum of parts", experts, (*_DRAFTING, *_SEQUENCE, *_DRAFTED, *lengths))


def roofline(rows: Rows, lengths: tuple[Column, ...]) -> Law:
    """Return the roofline, with its bend anywhere among the tokens in flight of ``rows`` or just
    beyond."""
    low, high = float(rows.tokens.min()), float(rows.tokens.max()) * BEND_BEYOND
    steps = np.arange(0, np.log2(high / low) * BENDS_A_DOUBLING + 1)
    bends = low * 2 ** (steps / BENDS_A_DOUBLING)

    def bent(at: Rows) -> Floats:
        x = at.tokens / bends[:, None]
        none, flat = np.zeros_like(x), np.ones_like(x)
        shapes = [(np.maximum(x, 1), none), (np.sqrt(1 + x**2), none), (flat, np.maximum(x - 1, 0))]
        return np.concatenate([np.stack(pair, axis=-1) for pair in shapes])

    return Law("roofline", bent, (*_DRAFTING, *_SEQUENCE, *lengths))


# --- What measurements say of one law: every candidate's coefficients, weighed by its evidence.
#
# A candidate is a shape of the law with some of its columns. Its coefficients are those of a linear
# regression of relative errors, with a prior that lets no column weigh much more than the whole step;
# the noise is unknown (inverse gamma). Candidates are weighed by their marginal likelihood (Hoeting,
# Madigan, Raftery and Volinsky 1999, doi:10.1214/ss/1009212519); one with a negative part counts only
# where no other does. The forms are those of O'Hagan and Forster, Kendall's Advanced Theory 2B, 2004.


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

    def shares(self) -> Floats:
        """Return each candidate's share of the evidence."""
        relative = np.exp(self.evidence - self.evidence.max(axis=-1, keepdims=True))
        return np.asarray(relative / relative.sum(axis=-1, keepdims=True))


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

    def at(self, rows: Rows, noise: float = 1.0) -> Mixture:
        """Return the predicted times at ``rows``; ``noise``: the share of a measurement's noise
        (variance) that counts."""
        shares = self.fit.shares()
        kept = shares > _SMALL * shares.max()
        return self._mixture(
            rows, kept, _Fit(*(every[kept] for every in vars(self.fit).values())), noise
        )

    def without(self, rows: Rows, group: Numbers) -> Mixture:
        """Return the times at ``rows``, each predicted without the group of that number."""
        shares = self.left_out.shares()
        kept = (shares > _SMALL * shares.max(axis=1, keepdims=True)).any(axis=0)
        shape = (int(kept.sum()), len(group))
        found = Mixture(np.empty(shape), np.empty(shape), np.empty(shape))
        for each in np.unique(group):
            mine = group == each
            fit = _Fit(*(every[each, kept] for every in vars(self.left_out).values()))
            part = self._mixture(rows.where(mine), kept, fit)
            for name, values in vars(found).items():
                values[:, mine] = getattr(part, name)
        return found

    def _mixture(self, rows: Rows, kept: Mask, fit: _Fit, noise: float = 1.0) -> Mixture:
        """Return what the kept candidates, with this fit of each, predict, with the doubt about their
        coefficients and the noise of a measurement."""
        columns = self.law.columns(rows)[self.shape[kept]] * self.units[kept, None, :]
        means = (columns @ fit.sizes[..., None])[..., 0]
        doubt = ((columns @ fit.inverse) * columns).sum(axis=-1)
        deviations = fit.noise[:, None] * np.sqrt(noise * means**2 + doubt)
        return Mixture(means, deviations, fit.shares()[:, None])


def posterior(law: Law, rows: Rows, times: Floats, groups: Mask) -> Posterior:
    """Return what ``times`` (ms) at ``rows`` say of the law, with all of them and without each of
    the ``groups`` (groups × rows)."""
    columns = law.columns(rows)
    relative = columns / times[:, None]
    largest = relative.max(axis=1)
    scale = 1 / np.where(largest > 0, largest, 1.0)
    some = list(product((False, True), repeat=columns.shape[-1] - 1))
    masks = np.column_stack([np.ones(len(some), dtype=bool), np.array(some, dtype=bool)])
    # Each candidate is a shape and a choice of its columns; those of no account are left out.
    shape, choice = np.nonzero(~(masks & ~(largest > 0)[:, None, :]).any(axis=-1))
    every, chosen = _sums(relative * scale[:, None, :], np.ones_like(times)), masks[choice]
    pairs = every.columns[shape] * chosen[:, :, None] * chosen[:, None, :]
    measured = every.measured[shape] * chosen
    evidence = _solved(Sums(pairs, measured, every.total, every.count), chosen).evidence
    likely = evidence >= evidence.max() - _UNLIKELY
    shape, choice = shape[likely], choice[likely]
    units = scale[shape] * masks[choice]
    used = columns[shape] * units[:, None, :]
    sums = _sums(used / times[:, None], np.ones_like(times))
    first = _solved(sums, units > 0)
    # Errors are relative to a first fit: relative to the measurements, low ones would count most.
    reference = first.shares() @ (used @ first.sizes[..., None])[..., 0]
    used, measured = used / reference[:, None], times / reference
    sums = _sums(used, measured)
    withheld = used * groups[:, None, :, None]
    rest = Sums(
        sums.columns - withheld.transpose(0, 1, 3, 2) @ used,
        sums.measured - measured @ withheld,
        sums.total - (groups * measured**2).sum(axis=1)[:, None],
        sums.count - groups.sum(axis=1)[:, None],
    )
    return Posterior(law, shape, units, _solved(sums, units > 0), _solved(rest, units > 0))


def _sums(columns: Floats, measured: Floats) -> Sums:
    return Sums(
        columns.transpose(0, 2, 1) @ columns, measured @ columns,
        np.asarray(measured @ measured), np.asarray(float(len(measured))),
    )  # fmt: skip


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
    # The band of Student's t, as the normal distribution that has one as wide.
    degrees, where = np.unique(freedom, return_inverse=True)
    wider = (stdtrit(degrees, (1 + LEVEL) / 2) / EDGE)[where].reshape(freedom.shape)
    noise = np.sqrt(spread / freedom) * wider
    return _Fit(sizes, np.asarray(inverse), noise, evidence - _NEGATIVE * negative)


# --- The fit: both laws, each by how well it predicts what was withheld.


#: Prompt lengths this far apart (longest / shortest) tell what a prompt token costs.
LENGTHS_APART = 1.5
#: A withheld point that is missed by more counts as missed by so much (logarithm).
_WORST = 0.5
#: No law is believed to be better than this (relative error), however few points it met.
_FINEST = 1e-3


@dataclass(frozen=True)
class LawShare:
    """A law, the relative error (root mean square) with which it predicts withheld points (None
    where none could be withheld), and its share of the prediction."""

    law: str
    error: float | None
    share: float


@dataclass(frozen=True, eq=False)
class Fit:
    """The fitted time of a step or of a first token. ``residual``: root mean square of the relative
    errors on its own data, ``worst``: the largest. ``knows_prompts``: whether the data told what
    the prompt length does."""

    laws: tuple[Posterior, ...]
    choices: tuple[LawShare, ...]
    residual: float
    worst: float
    knows_prompts: bool

    def at(self, rows: Rows, noise: float = 1.0) -> Mixture:
        """Predict the times (ms) at ``rows``, as ``Posterior.at`` does."""
        shares = (choice.share for choice in self.choices)
        return mixed([(s, law.at(rows, noise)) for s, law in zip(shares, self.laws, strict=True)])

    def without(self, rows: Rows, group: Numbers) -> Mixture:
        """Predict the times (ms) at ``rows``, each from all points but those of its group."""
        shares = (choice.share for choice in self.choices)
        return mixed(
            [(s, law.without(rows, group)) for s, law in zip(shares, self.laws, strict=True)]
        )


def fit_times(
    rows: Rows,
    times: Floats,
    groups: Mask,
    lengths: tuple[Column, ...] = STEP_LENGTHS,
    usual: tuple[Column, ...] = (),
) -> Fit:
    """Fit T(B, K) to ``times`` (ms); ``groups`` (groups × rows): what is withheld together.

    ``lengths``: columns where prompts differ much in length, ``usual``: where they do not. With
    FIRST_TOKEN_LENGTHS ``times`` are mean TTFT, by the same laws: a first token waits for a
    batch's steps and its own prompt. Raises InvalidInput for no rows.
    """
    if not len(times):
        raise InvalidInput(
            "There is no measurement to fit the time of a step to; ingest speculative cells with "
            "acceptance counters, or use the textbook models."
        )
    prompts = rows.prompt_tokens
    differ = bool(prompts.max() >= LENGTHS_APART * prompts.min())
    more = lengths if differ else usual
    laws = tuple(posterior(law, rows, times, groups) for law in (roofline(rows, more), parts(more)))
    choices = _choices(laws, rows, times, groups)
    fitted = mixed([(c.share, law.at(rows)) for c, law in zip(choices, laws, strict=True)])
    errors = np.abs(fitted.mean() / times - 1)
    return Fit(laws, choices, float(np.sqrt(np.mean(errors**2))), float(errors.max()), differ)


def _choices(
    laws: Sequence[Posterior], rows: Rows, times: Floats, groups: Mask
) -> tuple[LawShare, ...]:
    """Share the prediction among the laws by withheld error: the likelihood of normal errors with
    each law's own deviation. In the root mean square (of logarithms) each group counts once."""
    group, row = np.nonzero(groups)
    if not len(group):
        return tuple(LawShare(law.law.name, None, 1 / len(laws)) for law in laws)
    errors = []
    for law in laws:
        predicted = np.maximum(law.without(rows.where(row), group).mean(), 1e-9)
        missed = np.minimum(np.abs(np.log(predicted / times[row])), _WORST)
        squares = np.bincount(group, missed**2) / np.bincount(group)
        errors.append(float(np.sqrt(squares.mean())))
    # Every point is withheld twice, with its K and with its load: half as many errors as groups.
    shares = (np.array(errors) ** 2 + _FINEST**2) ** (-len(groups) / 4)
    shares /= shares.sum()
    each = zip(laws, errors, shares.tolist(), strict=True)
    return tuple(LawShare(law.law.name, error, share) for law, error, share in each)
