"""The server's counters around a cell: the text of ``/metrics``, snapshots, samples, and files that hold none.

The cumulative counters at the edges of a window are those of the last sample before it and the
first one after it, which count exactly the window's requests when the server idles between levels.
Where no sample is near an edge, the counters are interpolated there.
"""

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import msgspec

from analysis.drafts.acceptance import Counters, from_counters
from ingest.unreadable import UNREADABLE
from warehouse.contract import ENGINES, OWN, one_name
from warehouse.rows import Acceptance, Flag, Sample

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
_CACHE = "cache_config_info"
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
    """The kept series at one moment; counters are totals since the server started."""

    values: dict[str, float]
    by_position: tuple[float, ...] = ()
    """Accepted tokens at draft position 0, 1, …"""
    cache_tokens: int | None = None
    """Tokens that the KV cache holds, as the engine says; None: unsaid."""
    broken: bool = False
    """Whether a speculation counter stands there without a number that it may have, or not at all
    beside the others."""

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
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        name, value = one_name(match["engine"], match["name"]), _number(match["value"])
        of_drafts = name in (_DRAFTS, *_OF_DRAFTS, _PER_POSITION)
        if value is None or (of_drafts and value < 0):
            broken |= of_drafts
        elif name == _PER_POSITION:
            positions[_position(match["labels"] or "")] += value
        elif name == _CACHE:
            tokens.append(_cache_tokens(match["labels"] or ""))
        elif name in KEPT:
            _gather(values, name, value)
    # An engine of several ranks has a cache in each; one that does not say leaves the sum unknown.
    known = [count for count in tokens if count is not None]
    whole = sum(known) if known and len(known) == len(tokens) else None
    broken |= _DRAFTS in values and not all(name in values for name in _OF_DRAFTS)
    return Snapshot(values, _by_position(positions), whole, broken)


def _gather(values: dict[str, float], name: str, value: float) -> None:
    if KEPT[name]:
        values[name] = values.get(name, 0.0) + value
    else:
        values[name] = max(values.get(name, value), value)


def _number(text: str | None) -> float | None:
    """Return a finite value, else None (``NaN`` stands for "nothing observed yet")."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _cache_tokens(labels: str) -> int | None:
    """Return the size of the KV cache in tokens: vLLM's ``kv_cache_size_tokens``; of releases that
    lack it, blocks times their size."""
    said = {name: int(count) for name, count in _LABEL.findall(labels)}
    if "kv_cache_size_tokens" in said:
        return said["kv_cache_size_tokens"]
    blocks, size = said.get("num_gpu_blocks"), said.get("block_size")
    return None if blocks is None or size is None else blocks * size


def _position(labels: str) -> int:
    match = _POSITION.search(labels)
    return int(match[1]) if match else 0


def _by_position(positions: dict[int, float]) -> tuple[float, ...]:
    # A position beyond any sensible K is a broken file, not a reason for a huge tuple.
    known = [i for i in positions if i < 1000]
    return tuple(positions.get(i, 0.0) for i in range(max(known) + 1)) if known else ()


# --- ``metrics-samples.jsonl``: server metrics over time, read line by line.


_ONE_LINE = msgspec.json.Decoder(tuple[float, list[str]])


@dataclass(frozen=True)
class Series:
    """Snapshots in the order of their moments (unix seconds)."""

    at: tuple[float, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.at)


def read_series(data: bytes) -> Series:
    """Read the samples of a drop.

    A line that cannot be read is passed over: the last one is cut short when a run is killed. So is
    one with a broken counter: the samples beside it say as much.
    """
    found: list[tuple[float, Snapshot]] = []
    for line in data.splitlines():
        try:
            at, texts = _ONE_LINE.decode(line)
        except UNREADABLE:
            continue
        snapshot = parse_exposition(texts)
        if not snapshot.broken:
            found.append((at, snapshot))
    found.sort(key=lambda sample: sample[0])
    return Series(tuple(at for at, _ in found), tuple(snapshot for _, snapshot in found))


# --- The metrics files of a drop that hold no counters: told, since an acceptance may be missing for it.


#: A snapshot beside the other one, each with the name of its file.
Named = tuple[str, Snapshot | None]


def unread_snapshots(before: Named, after: Named, series: Series) -> Iterator[str]:
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


def is_unread(series: Series) -> bool:
    """Return whether samples hold nothing that a server says."""
    return not any(snapshot.values for snapshot in series.snapshots)


def told(names: tuple[str, ...]) -> tuple[Flag, ...]:
    """Return the flag of a cell whose drop has such files."""
    if not names:
        return ()
    return (
        Flag(
            "counters_unread", "warning",
            f"No counters of the server can be read from {' and '.join(names)} (empty, damaged, cut "
            "off or missing), so acceptance was not taken from there.",
        ),
    )  # fmt: skip


# --- The server's counters around a cell: from two snapshots or from the samples around its window.


Window = tuple[float, float]
Found = tuple[Acceptance | None, tuple[Flag, ...]]

#: A sample is near an edge within this many seconds, or within this share of the window.
_NEAR_SECONDS, _NEAR_SHARE = 1.0, 0.05

#: What every server of vLLM counts.
_TOTALS = ("generation_tokens", "prompt_tokens")

RESTARTED = Flag(
    "counters_restarted",
    "warning",
    "A counter of the server fell during this run, so the server restarted; acceptance was not "
    "taken from its counters.",
)
_INCOMPLETE = Flag(
    "counters_incomplete",
    "info",
    "The samples of the server's counters do not span this cell, so acceptance was not taken from "
    "them.",
)


def before_after(before: Snapshot | None, after: Snapshot | None) -> Found:
    """Return the acceptance between two snapshots; None with a flag where the server restarted."""
    there = [snapshot for snapshot in (before, after) if snapshot is not None]
    if _began_anew(there):
        return None, (RESTARTED,)
    return _difference([s.counters for s in there if s.counters is not None])


def over_window(series: Series, window: Window | None) -> Found:
    """Return the acceptance over a window of unix seconds; None with a flag where it cannot be
    told."""
    if not series or window is None:
        return None, ()
    start, end = window
    if _began_anew(series.snapshots[bisect_left(series.at, start) : bisect_right(series.at, end)]):
        return None, (RESTARTED,)
    if series.snapshots[0].counters is None:
        return None, ()
    if series.at[0] > start or series.at[-1] < end:
        return None, (_INCOMPLETE,)
    inside = series.snapshots[bisect_right(series.at, start) : bisect_left(series.at, end)]
    edges = [_at_edge(series, window, late=False), _at_edge(series, window, late=True)]
    counted = [edges[0], *(s.counters for s in inside), edges[1]]
    return _difference([c for c in counted if c is not None])


def samples_within(series: Series, window: Window | None) -> tuple[Sample, ...]:
    """Return every sampled value of a window, e.g. requests running and waiting."""
    if window is None:
        return ()
    chosen = slice(bisect_left(series.at, window[0]), bisect_right(series.at, window[1]))
    return tuple(
        Sample(at, name, value)
        for at, snapshot in zip(series.at[chosen], series.snapshots[chosen], strict=True)
        for name, value in snapshot.values.items()
    )


def _began_anew(snapshots: Sequence[Snapshot]) -> bool:
    """Return whether the server restarted: its counted tokens fell, also on a server that drafts
    nothing."""
    pairs = list(itertools.pairwise(snapshots))
    return any(
        after.values[name] < before.values[name] - 0.5
        for name in _TOTALS
        for before, after in pairs
        if name in before.values and name in after.values
    )


def _difference(counted: list[Counters]) -> Found:
    """Return the acceptance from the first to the last of counters in the order of time."""
    if len(counted) < 2:
        return None, ()
    if any(_fell(a, b) for a, b in zip(counted, counted[1:], strict=False)):
        return None, (RESTARTED,)
    found = from_counters(counted[0], counted[-1])
    return (None, (found,)) if isinstance(found, Flag) else (found, ())


def _fell(before: Counters, after: Counters) -> bool:
    totals = [f.name for f in fields(Counters) if f.name != "by_position"]
    if any(getattr(after, name) < getattr(before, name) - 0.5 for name in totals):
        return True
    pairs = zip(before.by_position, after.by_position, strict=False)
    return any(b < a - 0.5 for a, b in pairs)


def _at_edge(series: Series, window: Window, late: bool) -> Counters | None:
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
    return _between(first, last, share)


def _between(first: Counters, last: Counters, share: float) -> Counters:
    def value(a: float, b: float) -> float:
        return float(round(a + share * (b - a)))

    return Counters(
        drafts=value(first.drafts, last.drafts),
        draft_tokens=value(first.draft_tokens, last.draft_tokens),
        accepted_tokens=value(first.accepted_tokens, last.accepted_tokens),
        by_position=tuple(
            value(a, b) for a, b in zip(first.by_position, last.by_position, strict=False)
        ),
    )
