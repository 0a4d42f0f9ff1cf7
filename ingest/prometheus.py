"""The text exposition of vLLM's ``/metrics``: speculation counters and the load gauges.

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

_LINE = re.compile(
    r"^(?:vllm|draftboard):(?P<name>\w+)(?:\{(?P<labels>.*)\})?\s+(?P<value>[-+.\w]+)(?:\s+-?\d+)?\s*$"
)
_POSITION = re.compile(r'(?:^|,)\s*position="(\d+)"')
_PER_POSITION = "spec_decode_num_accepted_tokens_per_pos"

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

    @property
    def counters(self) -> Counters | None:
        """The speculation counters, or None where the server exposes none."""
        if "spec_decode_num_drafts" not in self.values:
            return None
        return Counters(
            drafts=self.values["spec_decode_num_drafts"],
            draft_tokens=self.values.get("spec_decode_num_draft_tokens", 0.0),
            accepted_tokens=self.values.get("spec_decode_num_accepted_tokens", 0.0),
            by_position=self.by_position,
        )


def parse_exposition(lines: Iterable[str]) -> Snapshot:
    """Read ``name{labels} value`` lines; comments, other series and broken lines are passed over."""
    values: dict[str, float] = {}
    positions: dict[int, float] = defaultdict(float)
    for line in lines:
        match = _LINE.match(line)
        value = _number(match["value"]) if match else None
        if match is None or value is None:
            continue
        name = match["name"].removesuffix("_total")
        if name == _PER_POSITION:
            positions[_position(match["labels"] or "")] += value
        elif name in KEPT:
            _gather(values, name, value)
    return Snapshot(values, _by_position(positions))


def _gather(values: dict[str, float], name: str, value: float) -> None:
    if KEPT[name]:
        values[name] = values.get(name, 0.0) + value
    else:
        values[name] = max(values.get(name, value), value)


def _number(text: str) -> float | None:
    """A finite value, else None (``NaN`` stands for "nothing observed yet")."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _position(labels: str) -> int:
    match = _POSITION.search(labels)
    return int(match[1]) if match else 0


def _by_position(positions: dict[int, float]) -> tuple[float, ...]:
    # A position beyond any sensible K is a broken file, not a reason for a huge tuple.
    known = [i for i in positions if i < 1000]
    return tuple(positions.get(i, 0.0) for i in range(max(known) + 1)) if known else ()
