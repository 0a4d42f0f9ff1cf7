"""Two laws of a step's time: which parts it may consist of, as columns that a fit weighs.

``PARTS`` is a sum of parts that grow with the load and K, ``ROOFLINE`` is flat while reading the
weights takes longest and linear in the tokens in flight once computing does (Williams, Waterman and
Patterson 2009, doi:10.1145/1498765.1498785). What drafting costs comes on top in both.

    PARTS     T = a + g·(1 - exp(-n/τ)) + q·n² + b·[K > 0] + d·K + e·B + f·B·K
    ROOFLINE  T = a·bend(n/n₀) + b·[K > 0] + d·K + e·B        n = B·(K + 1)

bend(x) is max(1, x); √(1 + x²) where reading and computing do not quite overlap; 1 + s·max(0, x - 1)
where the slope s is its own. g: a mixture of experts reads more of them the more tokens a batch
holds, until it reads all (about τ tokens).
Where the data hold several prompt lengths, parts for these come on top of both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from analysis.prediction.rows import Floats, Mask, Rows

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
#: The cache that a step reads, and the prompts taken in meanwhile.
STEP_LENGTHS: tuple[Column, ...] = (
    lambda rows: rows.batch * (rows.prompt_tokens + rows.output_tokens / 2),
    lambda rows: rows.batch * rows.length * rows.prompt_tokens / rows.output_tokens,
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


def choices(columns: int) -> Mask:
    """Return every choice of columns, candidates × columns: with and without each column but the
    first."""
    some = list(product((False, True), repeat=columns - 1))
    return np.column_stack([np.ones(len(some), dtype=bool), np.array(some, dtype=bool)])


def parts(lengths: tuple[Column, ...]) -> Law:
    """Return the law that is a sum of parts; ``lengths``: columns for prompts of several
    lengths."""
    return Law("sum of parts", _experts, (*_DRAFTING, *_SEQUENCE, *_DRAFTED, *lengths))


def roofline(rows: Rows, lengths: tuple[Column, ...]) -> Law:
    """Return the roofline, with its bend anywhere among the tokens in flight of ``rows`` or just
    beyond."""
    low, high = float(rows.tokens.min()), float(rows.tokens.max()) * BEND_BEYOND
    steps = np.arange(0, np.log2(high / low) * BENDS_A_DOUBLING + 1)
    bends = low * 2 ** (steps / BENDS_A_DOUBLING)
    return Law("roofline", lambda asked: _bent(asked, bends), (*_DRAFTING, *_SEQUENCE, *lengths))


def _experts(rows: Rows) -> Floats:
    read = 1 - np.exp(-rows.tokens / EXPERT_SCALES[:, None])
    return np.stack(
        [np.ones_like(read), read, np.broadcast_to(rows.tokens**2, read.shape)], axis=-1
    )


def _bent(rows: Rows, bends: Floats) -> Floats:
    x = rows.tokens / bends[:, None]
    none, flat = np.zeros_like(x), np.ones_like(x)
    bent = [(np.maximum(x, 1), none), (np.sqrt(1 + x**2), none), (flat, np.maximum(x - 1, 0))]
    return np.concatenate([np.stack(pair, axis=-1) for pair in bent])
