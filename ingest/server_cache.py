"""The engine's KV cache around a load: how much it holds, and how much of the prompts it had already."""

from collections.abc import Iterator

from ingest.prometheus import Snapshot
from warehouse.rows import Measurement

_QUERIES, _HITS = "prefix_cache_queries", "prefix_cache_hits"


def cache_measurements(before: Snapshot | None, after: Snapshot | None) -> Iterator[Measurement]:
    """Yield the size of the cache, and the share of looked-up prompt tokens that were in it, from
    the snapshots around a report of one level. What was not counted, or fell because of a restart,
    is left out."""
    first = before or after
    if first is not None and first.cache_tokens:
        yield Measurement("canonical", "kv_cache_tokens", "mean", float(first.cache_tokens))
    if before is None or after is None:
        return
    looked_up, found = (_more(before, after, name) for name in (_QUERIES, _HITS))
    if looked_up and found is not None and 0 <= found <= looked_up:
        yield Measurement("canonical", "prefix_cache_hit_rate", "mean", found / looked_up)


def _more(before: Snapshot, after: Snapshot, name: str) -> float | None:
    known = name in before.values and name in after.values
    return after.values[name] - before.values[name] if known else None
