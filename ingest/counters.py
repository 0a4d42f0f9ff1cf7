"""What the server counted and the machine did around a cell: the text of ``/metrics``, snapshots, samples.

The cumulative counters at the edges of a window are those of the last sample before it and the
first one after it, which count exactly the window's requests when the server idles between levels.
Where no sample is near an edge, the counters are interpolated there.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from operator import itemgetter
from statistics import fmean

import msgspec

from analysis.drafts.acceptance import Counters, from_counters
from ingest.stated import UNREADABLE
from warehouse.catalogue import METRICS
from warehouse.contract import ENGINES, OWN, Record, common_name
from warehouse.rows import Acceptance, Flag, Measurement, Sample

# --- The text exposition of ``/metrics``: speculation counters, load gauges, the KV cache.
#
# Names are vLLM's; what SGLang and llama.cpp's server call otherwise is renamed (``warehouse/contract.py``).
#
# Formulas: acceptance rate = accepted / draft tokens, mean length = 1 + accepted / drafts, both from
# the difference of two snapshots. Series of several engines are added up; the ``_created`` series
# are times and are left out.
#
# ``prometheus_client`` has a parser of this text. It was tried and takes 36 times as long (7.8 ms for 3 kB, where a
# drop holds a text for each second of load), and a broken line would cost it the whole text.


_LINE = re.compile(
    rf"^(?P<engine>{'|'.join((*ENGINES, OWN))}):(?P<name>\w+)"
    r"(?:\{(?P<labels>.*)\})?(?:\s+(?P<value>\S+))?(?:\s+-?\d+)?\s*$"
)
_POSITION = re.compile(r'(?:^|,)\s*position="(\d+)"')
_LABEL = re.compile(r'(\w+)="(\d+)"')
_PER_POSITION = "spec_decode_num_accepted_tokens_per_pos"
_DRAFTS = "spec_decode_num_drafts"
_OF_DRAFTS = ("spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens")

#: Series worth keeping over time: name (without ``_total``) -> whether it adds up over engines, GPUs.
KEPT: dict[str, bool] = {
    "spec_decode_num_drafts": True,
    "spec_decode_num_draft_tokens": True,
    "spec_decode_num_accepted_tokens": True,
    "prompt_tokens": True,
    "generation_tokens": True,
    "num_requests_running": True,
    "num_requests_waiting": True,
    "num_preemptions": True,
    "prefix_cache_queries": True,
    "prefix_cache_hits": True,
    # A share of one engine's cache: the fullest engine is the one that matters.
    "kv_cache_usage_perc": False,
    # These two the runners' sampler adds beside what the server says.
    "gpu_power_watts": True,
    "cpu_cores_used_by_others": True,
}


@dataclass(frozen=True)
class Snapshot:
    """The kept series at one moment, of a server or of its machine; counters are totals since the server
    started.

    ``by_position``: accepted tokens at draft position 0, 1, …; ``cache_tokens``: how many the KV cache
    holds, as the engine says, None where it does not. ``broken``: a speculation counter stands there
    without a number that it may have, or not at all beside the others.
    """

    values: dict[str, float]
    by_position: tuple[float, ...] = ()
    cache_tokens: int | None = None
    broken: bool = False

    @property
    def counters(self) -> Counters | None:
        """The speculation counters; None where the server exposes none, or they are broken."""
        if self.broken or _DRAFTS not in self.values:
            return None
        drafted, accepted = (self.values[name] for name in _OF_DRAFTS)
        return Counters(self.values[_DRAFTS], drafted, accepted, self.by_position)


def parse_exposition(lines: Iterable[str]) -> Snapshot:
    """Read ``name{labels} value`` lines; comments, other series and broken lines are passed over."""
    values: dict[str, float] = {}
    positions: dict[int, float] = defaultdict(float)
    tokens: list[int | None] = []
    broken = False
    for match in filter(None, map(_LINE.match, lines)):
        name, labels = common_name(match["engine"], match["name"]), match["labels"] or ""
        of_drafts = name in (_DRAFTS, *_OF_DRAFTS, _PER_POSITION)
        value = _finite(match["value"])
        if value is None or (of_drafts and value < 0):
            broken |= of_drafts
        elif name == _PER_POSITION:
            position = _POSITION.search(labels)
            positions[int(position[1]) if position else 0] += value
        elif name == "cache_config_info":
            tokens.append(_cache_tokens(labels))
        elif name in KEPT:
            if (before := values.get(name)) is not None:
                value = before + value if KEPT[name] else max(before, value)
            values[name] = value
    # A position beyond any sensible K is a broken file, not a reason for a huge tuple.
    last = max((position for position in positions if position < 1000), default=-1)
    # An engine of several ranks has a cache in each; one that does not say leaves the sum unknown.
    counts = [count for count in tokens if count is not None]
    return Snapshot(
        values,
        tuple(positions.get(position, 0.0) for position in range(last + 1)),
        sum(counts) if counts and len(counts) == len(tokens) else None,
        broken or (_DRAFTS in values and not all(name in values for name in _OF_DRAFTS)),
    )


def _finite(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _cache_tokens(labels: str) -> int | None:
    """Return the size of the KV cache in tokens: vLLM's ``kv_cache_size_tokens``; of releases that
    lack it, blocks times their size.
    """
    numbers = {name: int(count) for name, count in _LABEL.findall(labels)}
    if "kv_cache_size_tokens" in numbers:
        return numbers["kv_cache_size_tokens"]
    blocks, size = numbers.get("num_gpu_blocks"), numbers.get("block_size")
    return None if blocks is None or size is None else blocks * size


def cache_measurements(before: Snapshot | None, after: Snapshot | None) -> Iterator[Measurement]:
    """Yield the size of the engine's KV cache, and the share of looked-up prompt tokens that were in
    it, from the snapshots around a report of one level. What was not counted, or fell because of a
    restart, is left out."""
    first = before or after
    if first is not None and first.cache_tokens:
        yield Measurement("canonical", "kv_cache_tokens", "mean", float(first.cache_tokens))
    names = ("prefix_cache_queries", "prefix_cache_hits")
    if before and after and before.values.keys() & after.values.keys() >= set(names):
        looked_up, hits = (after.values[name] - before.values[name] for name in names)
        if looked_up and 0 <= hits <= looked_up:
            yield Measurement("canonical", "prefix_cache_hit_rate", "mean", hits / looked_up)


# --- ``metrics-samples.jsonl``: server metrics over time, read line by line.


_ONE_LINE = msgspec.json.Decoder(tuple[float, list[str]])
Window = tuple[float, float]


@dataclass(frozen=True)
class MetricSeries:
    """Snapshots in the order of their moments (unix seconds)."""

    at: tuple[float, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.at)


def read_series(data: bytes) -> MetricSeries:
    """Read the samples of a drop.

    A line that cannot be read is passed over: the last one is cut short when a run is killed. So is
    one with a broken counter: the samples beside it say as much.
    """
    samples: list[tuple[float, Snapshot]] = []
    for line in data.splitlines():
        try:
            at, texts = _ONE_LINE.decode(line)
        except UNREADABLE:
            continue
        snapshot = parse_exposition(texts)
        if not snapshot.broken:
            samples.append((at, snapshot))
    samples.sort(key=itemgetter(0))
    return MetricSeries(tuple(at for at, _ in samples), tuple(snapshot for _, snapshot in samples))


def samples_within(series: MetricSeries, window: Window | None) -> Iterator[Sample]:
    """Yield every value that was sampled in a window, at moments in their order (unix seconds)."""
    if window is not None:
        chosen = slice(bisect_left(series.at, window[0]), bisect_right(series.at, window[1]))
        for moment, snapshot in zip(series.at[chosen], series.snapshots[chosen], strict=True):
            for name, value in snapshot.values.items():
                yield Sample(moment, name, value)


#: A snapshot beside the other one, each with the name of its file.
Named = tuple[str, Snapshot | None]


def unread_snapshots(before: Named, after: Named, series: MetricSeries) -> Iterator[str]:
    """Yield which of two files holds none of the counters that it should; one that is not there should
    where the other one is and no sample was taken."""
    for (name, own), (_, other) in ((before, after), (after, before)):
        counted = None if other is None else other.counters
        if own is None:
            unread = counted is not None and not series
        else:
            unread = own.broken or not own.values
            if counted is not None:
                # A position that was counted once stays; one may come with the first draft.
                cut = name == after[0] and len(own.by_position) < len(counted.by_position)
                unread |= own.counters is None or cut
        if unread:
            yield name


# --- The server's counters around a cell: from two snapshots or from the samples around its window.


#: An acceptance, or doubts about why there is none.
Counted = tuple[Acceptance | None, tuple[Flag, ...]]

#: A sample is near an edge within this many seconds, or within this share of the window.
_NEAR_SECONDS, _NEAR_SHARE = 1.0, 0.05


RESTARTED = Flag(
    "counters_restarted",
    "warning",
    "A counter of the server fell during this run, so the server restarted; acceptance was not "
    "taken from its counters.",
)
INCOMPLETE = Flag(
    "counters_incomplete",
    "info",
    "The samples of the server's counters do not span this cell, so acceptance was not taken from "
    "them.",
)


def before_after(before: Snapshot | None, after: Snapshot | None) -> Counted:
    """Return the acceptance between two snapshots; None with a flag where the server restarted."""
    snapshots = [snapshot for snapshot in (before, after) if snapshot is not None]
    return _between(snapshots, [snapshot.counters for snapshot in snapshots])


def over_window(series: MetricSeries, window: Window | None) -> Counted:
    """Return the acceptance over a window of unix seconds; None with a flag where it cannot be
    told."""
    if not series or window is None:
        return None, ()
    start, end = window
    within = series.snapshots[bisect_left(series.at, start) : bisect_right(series.at, end)]
    is_covered = series.at[0] <= start and series.at[-1] >= end
    if series.snapshots[0].counters is None or not is_covered:
        # A server that restarted is flagged also where it drafts nothing.
        _, flags = _between(within, [])
        if not flags and series.snapshots[0].counters is not None:
            flags = (INCOMPLETE,)
        return None, flags
    inside = series.snapshots[bisect_right(series.at, start) : bisect_left(series.at, end)]
    first, last = _at_edge(series, window, late=False), _at_edge(series, window, late=True)
    return _between(within, [first, *(snapshot.counters for snapshot in inside), last])


def _between(snapshots: Sequence[Snapshot], counters: Iterable[Counters | None]) -> Counted:
    """Return the acceptance from the first to the last of counters in the order of time;
    ``snapshots`` tell whether the server restarted, also one that drafts nothing: its counted
    tokens fell.
    """
    counted = [each for each in counters if each is not None]
    # What every server of vLLM counts.
    totals = [
        [snapshot.values.get(name) for snapshot in snapshots]
        for name in ("generation_tokens", "prompt_tokens")
    ]
    for before, after in pairwise(counted):
        *first, positions = astuple(before)
        *last, later = astuple(after)
        totals += [[a, b] for a, b in zip((*first, *positions), (*last, *later), strict=False)]
    steps = (step for total in totals for step in pairwise(total))
    if any(a is not None and b is not None and b < a - 0.5 for a, b in steps):
        return None, (RESTARTED,)
    return (None if len(counted) < 2 else from_counters(counted[0], counted[-1])), ()


def _at_edge(series: MetricSeries, window: Window, late: bool) -> Counters | None:
    edge = window[1] if late else window[0]
    after = min(bisect_left(series.at, edge), len(series.at) - 1)
    before = max(bisect_right(series.at, edge) - 1, 0)
    outer = after if late else before
    near = max(_NEAR_SECONDS, _NEAR_SHARE * (window[1] - window[0]))
    if abs(series.at[outer] - edge) <= near:
        return series.snapshots[outer].counters
    first, last = series.snapshots[before].counters, series.snapshots[after].counters
    if first is None or last is None or series.at[after] == series.at[before]:
        return first
    share = (edge - series.at[before]) / (series.at[after] - series.at[before])

    def value(a: float, b: float) -> float:
        return float(round(a + share * (b - a)))

    return Counters(
        drafts=value(first.drafts, last.drafts),
        draft_tokens=value(first.draft_tokens, last.draft_tokens),
        accepted_tokens=value(first.accepted_tokens, last.accepted_tokens),
        by_position=tuple(map(value, first.by_position, last.by_position)),
    )


# --- What a record says of the circumstances under which its cell was measured, as flags.


_NEIGHBOURS = 4


def circumstances(record: Record) -> Iterator[Flag]:
    """Yield what a reader should know of the circumstances in which a cell was measured: who ran on the
    same machine, by name or, in an older record, by how many there could be; what nobody watched; what
    was served from a cache."""
    shared = "they share its processor, memory and power."
    neighbours = record.environment.get("neighbours")
    placement = record.environment.get("placement")
    beside = placement.get("launches_side_by_side") if isinstance(placement, dict) else None
    if isinstance(neighbours, list):
        launches = (each.get("launch") if isinstance(each, dict) else None for each in neighbours)
        names = sorted(
            {name[:80] if isinstance(name, str) else "a launch without a name" for name in launches}
        )
        more = f" and {len(names) - _NEIGHBOURS} more" if len(names) > _NEIGHBOURS else ""
        if names:
            named = ", ".join(names[:_NEIGHBOURS]) + more
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
#
# A line of names, ``["at", "gpu_power_watts{gpu="0"}", …]``, stands where they begin and where they
# change; every other line holds unix seconds and a number or null for each name.


_MACHINE_LINE = msgspec.json.Decoder(list[str | float | None])

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
_MEANS: dict[str, str] = {
    "gpu_clock": "gpu_sm_clock_mhz", "gpu_power": "gpu_power_watts",
    "cpu_clock": "cpu_mhz", "cpu_steal": "cpu_steal_share", "launches_beside": "launches_beside",
}  # fmt: skip


def read_machine(data: bytes) -> MetricSeries:
    """Read the machine of a drop. A line that cannot be read, the last one of a killed run, is
    passed over."""
    names: list[str] = []
    samples = []
    for line in data.splitlines():
        try:
            row = _MACHINE_LINE.decode(line)
        except UNREADABLE:
            continue
        if row[:1] == ["at"]:
            names = [str(name) for name in row[1:]]
        elif row and isinstance(row[0], float) and len(row) == len(names) + 1:
            by_series: dict[str, list[float]] = {}
            for name, value in zip(names, row[1:], strict=True):
                if isinstance(value, float) and 0 <= value < math.inf:
                    by_series.setdefault(name.partition("{")[0], []).append(value)
            samples.append((row[0], Snapshot(dict(_kept(by_series)))))
    samples.sort(key=itemgetter(0))
    return MetricSeries(tuple(at for at, _ in samples), tuple(snapshot for _, snapshot in samples))


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
    for metric, series in _MEANS.items():
        if series in by_name and (mean := fmean(by_name[series])) <= METRICS[metric].highest:
            yield Measurement("canonical", metric, "mean", mean)
