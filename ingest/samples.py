"""``metrics-samples.jsonl``: server metrics over time, read line by line."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from ingest.prometheus import Snapshot, parse_exposition

_LINE = msgspec.json.Decoder(tuple[float, list[str]])


@dataclass(frozen=True)
class Series:
    """Snapshots in the order of their moments (unix seconds)."""

    at: tuple[float, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.at)


def read_series(path: Path) -> Series:
    """The samples of a drop; empty where there is no such file.

    A line that cannot be read is passed over: the last one is cut short when a run is killed.
    """
    if not path.is_file():
        return Series()
    found: list[tuple[float, Snapshot]] = []
    with path.open("rb") as lines:
        for line in lines:
            try:
                at, texts = _LINE.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            found.append((at, parse_exposition(texts)))
    found.sort(key=lambda sample: sample[0])
    return Series(tuple(at for at, _ in found), tuple(snapshot for _, snapshot in found))
