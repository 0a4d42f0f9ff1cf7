"""Whether an arm answers as its baseline does at temperature 0, but for rounding.

Speculation that verifies exactly changes no token but at a near tie, which rounding decides: another batch
size, or several tokens in one step, add in another order. After such a tie a text goes on otherwise, so
of long texts many differ, and how many says little. What tells is how soon they part: rounding parts them
once in some hundred tokens, a draft whose tokens are taken unchecked within the first few.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd
from scipy.special import gammainccinv, gammaincinv

from analysis.evidence.output_check import completed_by_both

#: Answers that part more often than once in so many tokens do so by more than rounding, …
TOKENS = 50
#: … and it has to be so sure that they do (one-sided).
_CHANCE = 0.001


@dataclass(frozen=True)
class Parting:
    """How soon the answers of two arms part. ``texts``: prompts that both answered; ``parted``: so many
    answers differ; ``tokens``: so many came before they did, and of the others altogether."""

    texts: int = 0
    parted: int = 0
    tokens: float = 0.0

    def __add__(self, other: "Parting") -> "Parting":
        return Parting(
            self.texts + other.texts, self.parted + other.parted, self.tokens + other.tokens
        )

    @property
    def least(self) -> float:
        """How often answers part for each token, at least (Poisson, exact)."""
        return float(gammaincinv(self.parted, _CHANCE)) / self.tokens if self.parted else 0.0

    @property
    def most(self) -> float:
        """How often answers part for each token, at most; without end where none were read."""
        if not self.tokens:
            return float("inf")
        return float(gammainccinv(self.parted + 1, _CHANCE)) / self.tokens

    def is_other(self, own: "Parting") -> bool:
        """Return whether they part more often than rounding parts them. ``own``: the same of two
        launches of the baseline, which may part by itself; nothing where it was launched once."""
        allowed = 1 / TOKENS
        if own.parted:
            allowed = max(allowed, own.most)
        return self.least > allowed


def parting(baseline: pd.DataFrame, other: pd.DataFrame) -> Parting:
    """Read the answers of two cells that ran at temperature 0, given their requests
    (``output_check.COLUMNS``)."""
    both = completed_by_both(baseline, other)[["output_b", "output_s", "output_tokens_b"]].dropna()
    return together(_of(*row) for row in both.itertuples(index=False, name=None))


def together(found: Iterable[Parting]) -> Parting:
    """Return several as one."""
    return sum(found, Parting())


def _of(one: str, other: str, tokens: float) -> Parting:
    """Read one answer. Where its tokens lie is not kept: each is taken for equally long."""
    if one == other:
        return Parting(1, 0, tokens)
    same = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    return Parting(1, 1, 1 + tokens * same / max(len(one), 1))
