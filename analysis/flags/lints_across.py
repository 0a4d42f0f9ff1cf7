"""Doubts that need both cells of a pair."""

from warehouse.rows import Flag

#: Clocks of two arms may be so far apart, as a share of the baseline's.
_CLOCKS_APART = 0.02


def lengths_differ(
    baseline: float | None, speculative: float | None, what: str = "Median outputs",
    name: str = "output_lengths_differ", most: float = 0.05,
) -> Flag | None:  # fmt: skip
    """Return a flag where lengths (tokens) are more than ``most`` of the baseline's apart."""
    if not baseline or speculative is None or abs(speculative - baseline) <= most * baseline:
        return None
    said = f"{what} are {baseline:g} and {speculative:g} tokens long, more than {most * 100:g} % apart."
    return Flag(name, "warning", said)


def clocks_differ(what: str, baseline: float | None, speculative: float | None) -> Flag | None:
    """Return a flag where mean clocks (MHz) are more than 2 % of the baseline's apart; ``what``:
    GPU, CPU."""
    if not baseline or speculative is None:
        return None
    if abs(speculative - baseline) <= _CLOCKS_APART * baseline:
        return None
    return Flag(
        "clocks_differ",
        "warning",
        f"The {what} ran at {baseline:,.0f} MHz for the baseline and at {speculative:,.0f} MHz for "
        f"the speculative arm, {speculative / baseline - 1:+.1%}: part of the difference is the "
        "clock's.",
    )


def company_differs(baseline: float | None, speculative: float | None) -> Flag | None:
    """Return a flag where the mean numbers of launches beside the two arms are more than one
    apart."""
    if baseline is None or speculative is None or abs(speculative - baseline) <= 1:
        return None
    return Flag(
        "company_differs",
        "warning",
        f"On average {baseline:.1f} other launches ran beside the baseline and {speculative:.1f} "
        "beside the speculative arm, and they share the machine's processor and power.",
    )


#: A cache is smaller where it holds so much less; hits differ where their shares are so far apart.
_SMALLER, _APART = 0.01, 0.02


def less_cache(
    baseline: float | None, speculative: float | None, request_tokens: float | None
) -> Flag | None:
    """Return a flag where the draft takes room from the KV cache (tokens), with the requests of
    ``request_tokens`` each (prompt and answer) that no longer fit at once."""
    if not baseline or speculative is None or speculative > (1 - _SMALLER) * baseline:
        return None
    said = (
        f"The KV cache holds {speculative:,.0f} tokens instead of {baseline:,.0f} "
        f"({speculative / baseline - 1:.1%}), since the draft takes memory"
    )
    if request_tokens:
        fit = [int(size / request_tokens) for size in (baseline, speculative)]
        said += (
            f": of requests like these ({request_tokens:,.0f} tokens) {fit[1]:,} fit at once "
            f"instead of {fit[0]:,}"
        )
    return Flag("less_cache", "info", f"{said}.")


def hits_differ(baseline: float | None, speculative: float | None) -> Flag | None:
    """Return a flag where one arm found more of its prompts (shares, 0-1) in the prefix cache."""
    if baseline is None or speculative is None or abs(baseline - speculative) <= _APART:
        return None
    return Flag(
        "prefix_hits_differ",
        "warning",
        f"{baseline:.1%} of the baseline's prompt tokens came from the prefix cache and "
        f"{speculative:.1%} of the other arm's: part of the difference is the cache's.",
    )
