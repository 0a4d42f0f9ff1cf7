"""Windows cut from recorded counters of the lab's server, whose traffic is known: does ``draftboard live`` say so?

Recorded on 27 November 2026 by ``tests/live/traffic.py``: vLLM 0.32 on two CPU cores serves the lab's pair with
K = 5, one sample of ``/metrics`` a second, four minutes of each kind of traffic. What was measured of the same
models lies in ``examples/lab``, from another machine and day.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

import zstandard

from analysis.drafts.acceptance import Counters
from analysis.drafts.watched import ServerLook, WatchedTraffic, watched
from answers.decide.values import DecideQuestion
from answers.live.answer import live
from answers.live.values import LiveAnswer, LiveQuestion
from ingest.counters import read_series
from warehouse.filters import Filters
from warehouse.store import Reader

RECORDED = Path(__file__).parents[1] / "fixtures" / "live"
SECONDS = 60


@dataclass(frozen=True)
class Traffic:
    """What was recorded, and what it is held against: the dataset and load that were decided on."""

    recorded: str
    dataset: str
    load: int
    holds: bool


#: What is served takes the place of what was decided on structured text (K = 5, at 1 as at 16 at once), or of
#: what was decided on code alone (K = 5; at 16 at once K = 2).
TRAFFIC = (
    Traffic("lab-target-structured-1", "structured", 1, holds=True),
    Traffic("lab-target-structured-16", "structured", 16, holds=True),
    Traffic("lab-target-prose-1", "structured", 1, holds=False),
    Traffic("lab-target-prose-16", "structured", 1, holds=False),
    Traffic("lab-target-costly-code-1", "code", 1, holds=True),
    Traffic("lab-target-costly-code-16", "code", 1, holds=False),
)  # fmt: skip


@cache
def looks(name: str) -> tuple[ServerLook, ...]:
    packed = (RECORDED / f"{name}.jsonl.zst").read_bytes()
    series = read_series(zstandard.ZstdDecompressor().decompress(packed, max_output_size=2**24))
    names = ("generation_tokens", "num_preemptions", "num_requests_running", "num_requests_waiting")
    return tuple(
        ServerLook(at, one.counters, *(one.values.get(name, 0.0) for name in names))
        for at, one in zip(series.at, series.snapshots, strict=True)
    )


def window(name: str, random: Random, seconds: int = SECONDS) -> Sequence[ServerLook]:
    every = looks(name)
    start = random.randrange(len(every) - seconds)
    return every[start : start + seconds + 1]


def restarted(window: Sequence[ServerLook], at: int) -> Sequence[ServerLook]:
    """The same where the server restarts there: counters begin at zero."""
    zero = window[at]
    return [*window[:at], *(_less(one, zero) for one in window[at:])]


def _less(look: ServerLook, zero: ServerLook) -> ServerLook:
    assert look.counters is not None
    assert zero.counters is not None
    now, then = look.counters, zero.counters
    positions = tuple(a - b for a, b in zip(now.by_position, then.by_position, strict=True))
    counted = Counters(
        now.drafts - then.drafts, now.draft_tokens - then.draft_tokens,
        now.accepted_tokens - then.accepted_tokens, positions,
    )  # fmt: skip
    return replace(look, counters=counted, generated=look.generated - zero.generated)


def resampled(window: Sequence[ServerLook], random: Random, stretch: int = 5) -> list[ServerLook]:
    """The same traffic in another order: stretches of five seconds drawn again and again."""
    steps = list(pairwise(window))
    drawn: list[tuple[ServerLook, ServerLook]] = []
    while len(drawn) < len(steps):
        at = random.randrange(len(steps) - stretch)
        drawn += steps[at : at + stretch]
    found = [window[0]]
    for before, after in drawn[: len(steps)]:
        grown, last = _less(after, before), found[-1]
        assert grown.counters is not None
        assert last.counters is not None
        both = zip(last.counters.by_position, grown.counters.by_position, strict=True)
        counted = Counters(
            last.counters.drafts + grown.counters.drafts,
            last.counters.draft_tokens + grown.counters.draft_tokens,
            last.counters.accepted_tokens + grown.counters.accepted_tokens,
            tuple(a + b for a, b in both),
        )
        at = last.at + after.at - before.at
        found.append(
            replace(after, at=at, counters=counted, generated=last.generated + grown.generated)
        )
    return found


def seen(name: str, seed: int) -> WatchedTraffic:
    """A minute of this traffic: as recorded or in another order, of one replica or of two, of which one
    may restart."""
    random = Random(f"{name} {seed}")
    replicas = [window(name, random) for _ in range(1 + seed % 2)]
    if seed % 4 > 1:
        replicas = [resampled(one, random) for one in replicas]
    if seed % 3 == 0:
        replicas[0] = restarted(replicas[0], random.randrange(5, 25))
    return watched(replicas)


def answered(
    reader: Reader, traffic: Traffic, watched: WatchedTraffic, **more: object
) -> LiveAnswer:
    model = traffic.recorded.rpartition("-")[0].rpartition("-")[0]
    study = "laptop-lab-costly" if model.endswith("costly") else "laptop-lab"
    decide = DecideQuestion(Filters(study=(study,), dataset=(traffic.dataset,)), load=traffic.load)
    return live(reader, LiveQuestion(replace(decide, **more), (model,), watched))


def trials(reader: Reader, traffic: Traffic, times: int) -> Iterator[LiveAnswer]:
    for seed in range(times):
        yield answered(reader, traffic, seen(traffic.recorded, seed))
