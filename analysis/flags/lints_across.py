"""A doubt that needs both cells of a pair."""

from warehouse.rows import Flag


def lengths_differ(baseline: float | None, speculative: float | None) -> Flag | None:
    """A flag where median output lengths (tokens) are more than 5 % of the baseline's apart."""
    if not baseline or speculative is None or abs(speculative - baseline) <= 0.05 * baseline:
        return None
    return Flag(
        "output_lengths_differ",
        "warning",
        f"Median outputs are {baseline:g} and {speculative:g} tokens long, more than 5 % apart.",
    )
