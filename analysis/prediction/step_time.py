"""T(c, K): how long one verification step takes, from measured ITL x mean acceptance length.

A step verifies K drafted tokens and one more for each of the batch's sequences. Its time is a sum
of parts that cannot be negative (Lawson and Hanson's non-negative least squares, relative errors):

    T = a + b·[K > 0] + d·K + e·B + f·B·K + Σ g_τ·(1 - exp(-n/τ)) + q·n²,   n = B·(K + 1)

a: reading the weights; b, d: the draft's fixed cost and its passes; e, f: work that grows with the
batch B; g: a mixture of experts reads more experts the more tokens a batch holds, until it reads
all; q: the bend from memory-bound to compute-bound. Where the data hold several prompt lengths,
two more: B x tokens in the cache of a sequence, and B·L·P/O, the prompt tokens that have to be
taken in for each step (L tokens a step, P and O prompt and output tokens a request).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls

from warehouse.errors import InvalidInput

Floats = NDArray[np.float64]
#: A frame, or one row as its values by name.
Rows = pd.DataFrame | Mapping[str, Any]
Term = Callable[[Any], Any]

#: Tokens in a batch after which a mixture of experts has read most of its experts.
EXPERT_SCALES = (16, 32, 64)
#: Bends are fitted only to this many loads or more: two would be met by any.
LEVELS_FOR_BENDS = 3
#: Prompt lengths this far apart (longest / shortest) tell what a prompt token costs.
LENGTHS_APART = 1.5


def _tokens(rows: Any) -> Any:
    return rows["batch"] * (rows["k"] + 1)


def _experts(scale: int) -> Term:
    return lambda rows: 1 - np.exp(-_tokens(rows) / scale)


_STRAIGHT: dict[str, Term] = {
    "step": lambda rows: rows["batch"] * 0 + 1,
    "drafting": lambda rows: (rows["k"] > 0) * 1,
    "draft token": lambda rows: rows["k"],
    "sequence": lambda rows: rows["batch"],
    "drafted token of a sequence": lambda rows: rows["batch"] * rows["k"],
}
_BENDS: dict[str, Term] = {
    **{f"experts {scale}": _experts(scale) for scale in EXPERT_SCALES},
    "compute": lambda rows: _tokens(rows) ** 2,
}
_LENGTHS: dict[str, Term] = {
    "context": lambda rows: rows["batch"] * (rows["prompt_tokens"] + rows["output_tokens"] / 2),
    "prefill": lambda rows: (
        rows["batch"] * rows["length"] * rows["prompt_tokens"] / rows["output_tokens"]
    ),
}
_FIRST_TOKEN_LENGTHS: dict[str, Term] = {
    "prompt": lambda rows: rows["prompt_tokens"],
    "prompts of the batch": lambda rows: rows["batch"] * rows["prompt_tokens"],
    "prompt for the draft": lambda rows: (rows["k"] > 0) * rows["prompt_tokens"],
}
_TERMS = _STRAIGHT | _BENDS | _LENGTHS | _FIRST_TOKEN_LENGTHS


@dataclass(frozen=True)
class Fit:
    """``parts``: ms per unit of each term that counts. ``residual``: root mean square of the
    relative errors of the fit on its own data, ``worst``: the largest."""

    parts: dict[str, float]
    residual: float
    worst: float

    def at(self, rows: Rows) -> Floats:
        """ms at each row: batch, k, and where lengths count prompt_tokens, output_tokens, length.

        One number for one row that is given by name: a frame of one costs a hundred times more.
        """
        total = np.zeros(np.shape(rows["batch"]))
        for name, size in self.parts.items():
            total += size * np.asarray(_TERMS[name](rows), dtype=np.float64)
        return total

    @property
    def knows_prompts(self) -> bool:
        """Whether the data told what the prompt length does."""
        return bool((_LENGTHS | _FIRST_TOKEN_LENGTHS).keys() & self.parts.keys())


def fit_step_time(rows: pd.DataFrame) -> Fit:
    """T(B, K) in ms; ``rows``: step (ms), batch, k, prompt_tokens, output_tokens, length.

    Raises InvalidInput for no rows.
    """
    names = [*_STRAIGHT]
    if rows["concurrency"].nunique() >= LEVELS_FOR_BENDS:
        names += _BENDS
    if _lengths_differ(rows):
        names += _LENGTHS
    return _fit(rows, names, "step")


def fit_first_token(rows: pd.DataFrame) -> Fit:
    """Mean TTFT in ms over the same terms: it waits for a batch's steps and its own prompt.

    ``rows`` as for ``fit_step_time``, with ttft instead of step. Raises InvalidInput for no rows.
    """
    names = [*_STRAIGHT]
    if _lengths_differ(rows):
        names += _FIRST_TOKEN_LENGTHS
    return _fit(rows, names, "ttft")


def _lengths_differ(rows: pd.DataFrame) -> bool:
    prompts = rows["prompt_tokens"]
    return bool(prompts.max() >= LENGTHS_APART * prompts.min())


def _fit(rows: pd.DataFrame, names: list[str], target: str) -> Fit:
    if rows.empty:
        raise InvalidInput(
            "There is no measurement to fit the time of a step to; ingest speculative cells with "
            "acceptance counters, or use the textbook models."
        )
    measured = rows[target].to_numpy(dtype=np.float64)
    matrix = np.column_stack([_TERMS[name](rows).to_numpy(dtype=np.float64) for name in names])
    relative = matrix / measured[:, None]
    # Columns differ by orders of magnitude (1 and n²); scaled, none is lost to rounding.
    scale = np.maximum(relative.max(axis=0), 1e-300)
    sizes = nnls(relative / scale, np.ones(len(rows)))[0] / scale
    parts = {name: float(size) for name, size in zip(names, sizes, strict=True) if size > 0}
    errors = np.abs(matrix @ sizes / measured - 1)
    return Fit(parts, float(np.sqrt(np.mean(errors**2))), float(errors.max()))
