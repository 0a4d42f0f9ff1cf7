"""Open loads that the servers keep up with: there every arm serves what is offered.

At such a load, a rate or a trace, latency and attainment are compared; throughput is what was offered
and says nothing.
"""

from analysis.matching.comparison import Comparison

#: Below this share of the offered rate an arm no longer keeps up.
KEEPS_UP = 0.95
#: The metric and statistic that say which share of the offered rate was served.
ATTAINED = ("request_attainment", "mean")
#: What only says what was offered where all arms keep up.
THROUGHPUTS: tuple[str, ...] = ("output_throughput", "total_throughput", "request_throughput")


def kept_up(found: Comparison) -> frozenset[tuple[int, int]]:
    """Return (setting, place of the load) of each open load that no arm falls short of.

    Where nobody measured the share that was served, it counts as kept up with.
    """
    rates = {place for place, load in enumerate(found.loads) if load.is_open}
    rows = found.levels[found.levels["load"].isin(rates)]
    attained = rows[(rows["metric"] == ATTAINED[0]) & (rows["statistic"] == ATTAINED[1])]
    short = attained[(attained[["baseline", "speculative"]] < KEEPS_UP).any(axis=1)]
    there, fall_short = (
        set(zip(part["setting"].tolist(), part["load"].tolist(), strict=True))
        for part in (rows, short)
    )
    return frozenset(there - fall_short)
