"""What a record says of the circumstances under which its cell was measured, as flags."""

from collections.abc import Iterator
from typing import Any

from warehouse.contract import Record
from warehouse.rows import Flag

_NAMED = 4


def circumstances(record: Record) -> tuple[Flag, ...]:
    """Return what a reader should know of the circumstances in which a cell was measured, as
    flags."""
    return tuple(flag for told in (_company, _unread, _cache) for flag in told(record))


def _company(record: Record) -> Iterator[Flag]:
    """Yield a flag with the launches that ran on the same machine: those that the record names, or
    how many an older record says there could be."""
    shared = "they share its processor, memory and power."
    met = record.environment.get("neighbours")
    if isinstance(met, list):
        names = sorted({_launch(one) for one in met})
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        if names:
            named = ", ".join(names[:_NAMED]) + more
            yield Flag("neighbours", "info", f"Beside it on the same machine ran {named}: {shared}")
        return
    placement = record.environment.get("placement")
    beside = placement.get("launches_side_by_side") if isinstance(placement, dict) else None
    if isinstance(beside, int) and beside > 1:
        sentence = f"Up to {beside} servers ran side by side on this machine: {shared}"
        yield Flag("neighbours", "info", sentence)


def _launch(met: Any) -> str:
    named = met.get("launch") if isinstance(met, dict) else None
    return named[:80] if isinstance(named, str) else "a launch without a name"


def _unread(record: Record) -> Iterator[Flag]:
    why = record.environment.get("gpus_unread")
    if isinstance(why, str) and record.evidence == "gpu":
        yield Flag(
            "gpus_unread",
            "info",
            f"Nobody watched the GPUs, so throttling and neighbours would not show: {why[:200]}.",
        )


def _cache(record: Record) -> Iterator[Flag]:
    if record.prefix_cache == "kept" and record.prefix_caching is not False:
        yield Flag(
            "prefix_cache_kept",
            "info",
            "The prefix cache was not emptied before this load: what earlier requests share with "
            "these was served from it.",
        )
