"""A small sample of each format that is read, and how one lies on the disk."""

import itertools
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import mutated
from tests.secrets.others import OTHERS, Other
from tests.secrets.planted import bench, drops, report, reports


@dataclass(frozen=True)
class Sample:
    """``write`` puts the sample, or what ``change`` makes of it, at a place below a folder.

    ``parts``: of several files, how many values each of them holds, where only one of all is changed.
    """

    write: Callable[[Path, Callable[[Any], bytes]], None]
    may_be_passed_over: bool = False
    parts: tuple[int, ...] = ()


def _plain(value: Any) -> Sample:
    def write(place: Path, change: Callable[[Any], bytes]) -> None:
        place.with_suffix(".json").write_bytes(change(value))

    return Sample(write)


def _other(other: Other) -> Sample:
    """One value of one file is changed: where each of many lines is, hardly a result stays one."""
    return Sample(other.write, not next(iter(other.files)).endswith(".json"), other.parts)


def _of_drop(part: str) -> Sample:
    """A drop of which one file is changed: the record, the samples or a snapshot."""
    (source, *_) = drops()

    def write(place: Path, change: Callable[[Any], bytes]) -> None:
        shutil.copytree(source, place)
        if part == "record.json":
            (place / part).write_bytes(change(json.loads((source / part).read_bytes())))
            return
        lines = (source / "metrics-samples.jsonl").read_text("utf-8").splitlines()
        if part == "metrics-samples.jsonl":
            (place / part).write_bytes(b"\n".join(change(json.loads(one)) for one in lines[:40]))
        else:
            said = json.loads(change(json.loads(lines[0])) or b"[0, []]")
            (place / part).write_text("\n".join(map(str, said[-1])), "utf-8")

    return Sample(write)


def _sweep() -> dict[str, Any]:
    more = {"run_number": 0, "speculative_config": {"method": "ngram", "num_speculative_tokens": 2}}
    return bench(True) | more


SAMPLES: dict[str, Sample] = {
    **{f"guidellm {name}": _plain(report(name, kept=1000)) for name in reports()},
    "vllm bench": _plain(bench(False)),
    "vllm bench detailed": _plain(bench(True)),
    "vllm sweep": _plain(_sweep()),
    "record": _of_drop("record.json"),
    "drop samples": _of_drop("metrics-samples.jsonl"),
    **{name: _other(other) for name, other in OTHERS.items()},
}


def unchanged(value: Any) -> bytes:
    """The sample itself."""
    return json.dumps(value).encode()


def changed(source: random.Random, parts: tuple[int, ...]) -> Callable[[Any], bytes]:
    """Another change each time; where there are ``parts``, of one value of one of them."""
    if not parts:
        return lambda value: mutated(value, source)
    file = source.randrange(len(parts))
    chosen = sum(parts[:file]) + source.randrange(parts[file])
    number = itertools.count()
    return lambda value: mutated(value, source) if next(number) == chosen else unchanged(value)
