"""The text exposition of ``/metrics``: speculation counters, load gauges, the KV cache.

Names are vLLM's; what SGLang and llama.cpp's server call otherwise is renamed (``warehouse/series.py``).

Formulas: acceptance rate = accepted / draft tokens, mean length = 1 + accepted / drafts, both from
the difference of two snapshots. Series of several engines are added up; the ``_created`` series
are times and are left out.

``prometheus_client`` has a parser of this text. It was tried and takes 36 times as long (7.8 ms for 3 kB, where a
drop holds a text for each second of load), and a broken line would cost it the whole text.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from analysis.drafts.acceptance import Counters
from warehouse.series import ENGINES, OWN, one_name

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
