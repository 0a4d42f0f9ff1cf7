"""What an arm says of its drafts, before a server is started: tables of K by batch size, and acceptance that is
set by hand."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from warehouse.contract import TABLE, table_of

# --- A table of K by batch size as vLLM reads it.


def table_problem(config: Mapping[str, Any]) -> str | None:
    """Say what keeps vLLM from taking the table of an arm; None where there is no table, or nothing
    wrong with it.
    """
    stated = config.get(TABLE)
    if stated is None:
        return None
    table = table_of(config)
    if not table or len(table) != len(stated):
        return f"{TABLE} wants [[from, to, K], …] in whole numbers, and is {stated!r}"
    if table[0][0] != 1:
        return f"{TABLE} begins at batch size {table[0][0]}; begin at 1"
    before = 0
    for start, end, _ in table:
        if start <= before or end < start:
            return f"{TABLE} has a range {start} to {end} after one that ends at {before}"
        before = end
    most, largest = config.get("num_speculative_tokens"), max(k for _, _, k in table)
    if not isinstance(most, int) or most < max(largest, 1):
        return f"num_speculative_tokens must be {max(largest, 1)}, the largest K of its table"
    return None


# --- Acceptance that vLLM takes from the study and not from the drafts: what a step costs, whatever the
# draft is worth. A rate is the share of drafts of which this position and all before it are accepted.


_VERIFIED, _SYNTHETIC = "rejection_sample_method", "synthetic"
RATES, LENGTH = "synthetic_acceptance_rates", "synthetic_acceptance_length"
#: Assumed of drafts that nobody has measured: this share of those accepted so far is at the next position, too.
_ACCEPTED = 0.6


def synthetic_problem(config: Mapping[str, Any], counts: Sequence[int]) -> str | None:
    """Say what is wrong with the acceptance that an arm sets by hand, for these numbers of draft
    tokens; None where it sets none, or nothing is wrong with it."""
    rates, most = config.get(RATES), max(counts, default=0)
    if rates is None:
        return None
    if config.get(_VERIFIED, _SYNTHETIC) != _SYNTHETIC or config.get(LENGTH) is not None:
        return f"{RATES} goes with {_VERIFIED}: {_SYNTHETIC} alone, and without {LENGTH}"
    fit = (
        isinstance(rates, list)
        and 0 < len(rates) <= most
        and all(type(rate) in (int, float) and 0 <= rate <= 1 for rate in rates)
        and all(after <= before for before, after in pairwise(rates))
    )
    few = f"at most {most}" if most else "num_speculative_tokens beside it and at most so many"
    told = f"{RATES} is {rates!r}; write {few} shares from 0 to 1, one for each draft token, none above the one before it"
    return None if fit else told


def with_synthetic(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration as vLLM takes it: as many rates as draft tokens. Of a longer list the
    first are taken; where one is missing nothing is accepted."""
    rates, k = config.get(RATES), config.get("num_speculative_tokens") or 0
    told = {_VERIFIED: _SYNTHETIC, RATES: [*(rates or ()), *[0.0] * k][:k]}
    return config if rates is None else config | told


def expected_length(config: Mapping[str, Any]) -> float:
    """Return the tokens that a step yields: as set by hand, else as assumed of drafts that nobody has
    measured."""
    k = config.get("num_speculative_tokens") or 0
    rates = config.get(RATES) or [_ACCEPTED**position for position in range(1, k + 1)]
    return float(config.get(LENGTH) or 1.0 + sum(rates))
