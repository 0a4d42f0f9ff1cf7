"""``metrics-samples.jsonl``: server metrics over time, read line by line."""

from dataclasses import dataclass

import msgspec

from ingest.prometheus import Snapshot, parse_exposition
from ingest.unreadable import UNREADABLE

_LINE = msgspec.json.Decoder(tuple[float, list[str]])


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
            at, texts = _LINE.decode(line)
        except UNREADABLE:
            continue
        snapshot = parse_exposition(texts)
        if not snapshot.broken:
            found.append((at, snapshot))
    found.sort(key=lambda sample: sample[0])
    return Series(tuple(at for at, _ in found), tuple(snapshot for _, snapshot in found))
