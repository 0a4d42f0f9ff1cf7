"""Whether GuideLLM sent the requests of an open load when it meant to."""

import numpy as np

from ingest.formats.guidellm_adapter import at
from ingest.formats.guidellm_shape import Benchmark, Request
from warehouse.rows import Flag

_SCHEDULED = ("constant", "poisson", "trace")
#: Seconds by which one request in twenty may be later than the most punctual one.
_LATE_S = 0.25


def late(benchmark: Benchmark, records: list[Request]) -> tuple[Flag, ...]:
    """Return a flag where arrivals were not those of the load that was asked for.

    A client that is starved, or starts after the first times are over, sends in heaps.
    """
    strategy = at(benchmark.config, "strategy")
    if (at(strategy, "type_") or at(strategy, "kind")) not in _SCHEDULED:
        return ()
    timings = [r.info.timings for r in records if r.info and r.info.timings]
    lags = np.array(
        [t.request_start - t.targeted_start for t in timings
         if t.request_start and t.targeted_start],
        dtype=np.float64,
    )  # fmt: skip
    if lags.size < 2:
        return ()
    behind = float(np.quantile(lags - lags.min(), 0.95, method="inverted_cdf"))
    if behind <= _LATE_S:
        return ()
    return (
        Flag(
            "sent_late",
            "warning",
            f"One request in twenty was sent {behind:.2f} s or more behind its time, so arrivals "
            "are not those of the load; give the load generator a core of its own, or lower the rate.",
        ),
    )
