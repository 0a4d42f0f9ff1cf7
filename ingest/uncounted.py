"""Zeros that stand for what nobody counted: load generators write 0 where they have no value."""

from dataclasses import replace

from warehouse.rows import Cell

#: Of a completed request none of these is 0. A rate of requests may be.
_NEVER_ZERO = frozenset(
    {"output_throughput", "total_throughput", "ttft", "itl", "tpot", "chunk_gap",
     "request_latency", "prompt_tokens", "output_tokens"}
)  # fmt: skip


def without_uncounted(cell: Cell) -> Cell:
    """Return the cell without reported metrics whose mean of completed requests is 0: they are
    unknown.

    A server without streaming has no first token, one that says no usage no tokens; GuideLLM and
    ``vllm bench`` then report 0 for every statistic.
    """
    unknown = {
        m.metric
        for m in cell.measurements
        if (m.origin, m.statistic, m.value) == ("reported", "mean", 0) and m.metric in _NEVER_ZERO
    }
    if not unknown:
        return cell
    kept = (m for m in cell.measurements if m.origin != "reported" or m.metric not in unknown)
    return replace(cell, measurements=tuple(kept))
