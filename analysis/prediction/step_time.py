"""T(B, K) and TTFT(B, K): how long a verification step and a first token take.

Measured steps are ITL x mean acceptance length. Two laws compete (``analysis.prediction.posterior``):
each is fitted without every measured K and without every measured load, and the better it predicts
what was withheld, the more it counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.prediction.posterior import (
    FIRST_TOKEN_LENGTHS,
    STEP_LENGTHS,
    Column,
    Mixture,
    Posterior,
    mixed,
    parts,
    posterior,
    roofline,
)
from analysis.prediction.rows import Floats, Mask, Numbers, Rows
from warehouse.errors import InvalidInput

#: Prompt lengths this far apart (longest / shortest) tell what a prompt token costs.
LENGTHS_APART = 1.5
#: A withheld point that is missed by more counts as missed by so much (logarithm).
_WORST = 0.5
#: No law is believed to be better than this (relative error), however few points it met.
_FINEST = 1e-3


@dataclass(frozen=True)
class Choice:
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
    choices: tuple[Choice, ...]
    residual: float
    worst: float
    knows_prompts: bool

    def at(self, rows: Rows) -> Mixture:
        """Predict the times (ms) at ``rows``."""
        shares = (choice.share for choice in self.choices)
        return mixed([(s, law.at(rows)) for s, law in zip(shares, self.laws, strict=True)])

    def without(self, rows: Rows, group: Numbers) -> Mixture:
        """Predict the times (ms) at ``rows``, each from all points but those of its group."""
        shares = (choice.share for choice in self.choices)
        return mixed(
            [(s, law.without(rows, group)) for s, law in zip(shares, self.laws, strict=True)]
        )


def fit_step_time(rows: Rows, times: Floats, groups: Mask) -> Fit:
    """Fit T(B, K) to ``times`` (ms); ``groups`` (groups × rows): what is withheld together.

    Raises InvalidInput for no rows.
    """
    return _fit(rows, times, groups, STEP_LENGTHS)


def fit_first_token(rows: Rows, times: Floats, groups: Mask) -> Fit:
    """Fit the mean TTFT by the same laws: a first token waits for a batch's steps and its own
    prompt."""
    return _fit(rows, times, groups, FIRST_TOKEN_LENGTHS)


def _fit(rows: Rows, times: Floats, groups: Mask, lengths: tuple[Column, ...]) -> Fit:
    if not len(times):
        raise InvalidInput(
            "There is no measurement to fit the time of a step to; ingest speculative cells with "
            "acceptance counters, or use the textbook models."
        )
    prompts = rows.prompt_tokens
    differ = bool(prompts.max() >= LENGTHS_APART * prompts.min())
    more = lengths if differ else ()
    laws = tuple(posterior(law, rows, times, groups) for law in (roofline(rows, more), parts(more)))
    choices = _choices(laws, rows, times, groups)
    fitted = mixed([(c.share, law.at(rows)) for c, law in zip(choices, laws, strict=True)])
    errors = np.abs(fitted.mean() / times - 1)
    residual = float(np.sqrt(np.mean(errors**2)))
    return Fit(laws, choices, residual, float(errors.max()), differ)


def _choices(
    laws: Sequence[Posterior], rows: Rows, times: Floats, groups: Mask
) -> tuple[Choice, ...]:
    """Share the prediction among the laws by withheld error: the likelihood of normal errors with
    each law's own deviation. In the root mean square (of logarithms) each group counts once."""
    group, row = np.nonzero(groups)
    if not len(group):
        return tuple(Choice(law.law.name, None, 1 / len(laws)) for law in laws)
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
    return tuple(Choice(law.law.name, error, share) for law, error, share in each)
