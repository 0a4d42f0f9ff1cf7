"""``machine-samples.jsonl``: what the machine did during a load, and what of it a cell keeps.

A line of names, ``["at", "gpu_power_watts{gpu=\"0\"}", …]``, stands where they begin and where they
change; every other line holds unix seconds and a number or null for each name.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

import msgspec

from ingest.stated import UNREADABLE
from warehouse.catalogue import METRICS
from warehouse.contract import Record
from warehouse.rows import Flag, Measurement, Sample

# --- What a record says of the circumstances under which its cell was measured, as flags.


_NAMED = 4


def circumstances(record: Record) -> Iterator[Flag]:
    """Yield what a reader should know of the circumstances in which a cell was measured: who ran on the
    same machine, by name or, in an older record, by how many there could be; what nobody watched; what
    was served from a cache."""
    shared = "they share its processor, memory and power."
    met = record.environment.get("neighbours")
    placement = record.environment.get("placement")
    beside = placement.get("launches_side_by_side") if isinstance(placement, dict) else None
    if isinstance(met, list):
        launches = (one.get("launch") if isinstance(one, dict) else None for one in met)
        names = sorted(
            {one[:80] if isinstance(one, str) else "a launch without a name" for one in launches}
        )
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        if names:
            named = ", ".join(names[:_NAMED]) + more
            yield Flag("neighbours", "info", f"Beside it on the same machine ran {named}: {shared}")
    elif isinstance(beside, int) and beside > 1:
        sentence = f"Up to {beside} servers ran side by side on this machine: {shared}"
        yield Flag("neighbours", "info", sentence)
    why = record.environment.get("gpus_unread")
    if isinstance(why, str) and record.evidence == "gpu":
        yield Flag(
            "gpus_unread",
            "info",
            f"Nobody watched the GPUs, so throttling and neighbours would not show: {why[:200]}.",
        )
    if record.prefix_cache == "kept" and record.prefix_caching is not False:
        yield Flag(
            "prefix_cache_kept",
            "info",
            "The prefix cache was not emptied before this load: what earlier requests share with "
            "these was served from it.",
        )


# --- ``machine-samples.jsonl``: what the machine did during a load, and what of it a cell keeps.


_LINE = msgspec.json.Decoder(list[str | float | None])

#: NVML's bits of why a clock is held back (nvmlClocksEventReasons): heat, in software and hardware;
#: the power brake and what only "hardware" says; the limit of power that the card always has.
_HOT, _BRAKED, _CAPPED = 0x20 | 0x40, 0x80 | 0x08, 0x04
#: Series of each GPU that are kept as one of all: the slowest clock and the hottest card matter.
_OF_GPUS: dict[str, Callable[[Iterable[float]], float]] = {
    "gpu_power_watts": sum, "gpu_sm_clock_mhz": min, "gpu_memory_clock_mhz": min,
    "gpu_temperature_celsius": max, "gpu_memory_used_bytes": sum, "gpu_processes_of_others": sum,
}  # fmt: skip
_REASONS = "gpu_throttle_reasons"
_OF_MACHINE = (
    "cpu_mhz", "cpu_steal_share", "cpu_cores_used_by_others", "load_average", "launches_beside",
)  # fmt: skip
#: Which series a metric of the catalogue is the mean of, over the measured window.
_METRICS: dict[str, str] = {
    "gpu_clock": "gpu_sm_clock_mhz", "gpu_power": "gpu_power_watts",
    "cpu_clock": "cpu_mhz", "cpu_steal": "cpu_steal_share", "launches_beside": "launches_beside",
}  # fmt: skip


@dataclass(frozen=True)
class MachineSeries:
    """Values by series at moments (unix seconds) in their order."""

    at: tuple[float, ...] = ()
    values: tuple[Mapping[str, float], ...] = ()


def read_machine(data: bytes) -> MachineSeries:
    """Read the machine of a drop. A line that cannot be read, the last one of a killed run, is
    passed over."""
    names: list[str] = []
    found = []
    for line in data.splitlines():
        try:
            told = _LINE.decode(line)
        except UNREADABLE:
            continue
        if told[:1] == ["at"]:
            names = [str(name) for name in told[1:]]
        elif told and isinstance(told[0], float) and len(told) == len(names) + 1:
            by_series: dict[str, list[float]] = {}
            for name, value in zip(names, told[1:], strict=True):
                if isinstance(value, float) and 0 <= value < math.inf:
                    by_series.setdefault(name.partition("{")[0], []).append(value)
            found.append((told[0], dict(_kept(by_series))))
    found.sort(key=lambda one: one[0])
    return MachineSeries(tuple(at for at, _ in found), tuple(values for _, values in found))


def _kept(by_series: Mapping[str, list[float]]) -> Iterator[tuple[str, float]]:
    for name, together in _OF_GPUS.items():
        if name in by_series:
            yield name, together(by_series[name])
    if _REASONS in by_series:
        reasons = [int(value) for value in by_series[_REASONS]]
        for name, bits in (("hot", _HOT), ("braked", _BRAKED), ("power_capped", _CAPPED)):
            # A power brake and heat in hardware also raise the bit that says "hardware" alone.
            hit = any(each & bits and not (bits == _BRAKED and each & _HOT) for each in reasons)
            yield f"gpu_{name}", float(hit)
    for name in _OF_MACHINE:
        if name in by_series:
            yield name, by_series[name][0]


def means(samples: Iterable[Sample]) -> Iterator[Measurement]:
    """Average what the machine's samples say of a cell, as the catalogue's metrics."""
    by_name: dict[str, list[float]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample.value)
    for metric, series in _METRICS.items():
        if series in by_name and (mean := fmean(by_name[series])) <= METRICS[metric].highest:
            yield Measurement("canonical", metric, "mean", mean)
