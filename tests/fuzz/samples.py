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
from tests.ingest.readers import test_aiperf, test_bench_text
from tests.secrets.others import OTHERS, Other
from tests.secrets.planted import bench, drops, report, report_of, reports


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
    """A drop of which one file is changed: the record, or one of samples, line by line."""
    source = drops()[1]

    def write(place: Path, change: Callable[[Any], bytes]) -> None:
        shutil.copytree(source, place)
        if part == "record.json":
            (place / part).write_bytes(change(json.loads((source / part).read_bytes())))
        else:
            lines = _MACHINE if part == "machine-samples.jsonl" else _served(source)[:40]
            (place / part).write_bytes(b"\n".join(map(change, lines)))

    return Sample(write)


def _served(drop: Path) -> list[Any]:
    lines = (drop / "metrics-samples.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


#: What a machine did, from the first second of the recorded drop on.
_MACHINE: list[Any] = [
    ["at", 'gpu_power_watts{gpu="0"}', "cpu_mhz"],
    *([_served(drops()[1])[0][0] + second, 300.0 + second, 2400.0] for second in range(8)),
]


def _snapshots() -> Sample:
    """A drop with the server's counters before and after, of which those after are changed."""
    source = drops()[1]

    def write(place: Path, change: Callable[[Any], bytes]) -> None:
        shutil.copytree(source, place)
        (place / "metrics-samples.jsonl").unlink()
        # Counters around a report belong to its level where it has but one.
        said = report_of(source / "guidellm.json.zst")
        one = said | {"benchmarks": said["benchmarks"][:1]}
        (place / "guidellm.json.zst").write_text(json.dumps(one), "utf-8")
        (_, before), *_, (_, after) = _served(source)
        (place / "metrics-before.prom").write_text("\n".join(before), "utf-8")
        (place / "metrics-after.prom").write_bytes(_as_lines(change(after)))

    return Sample(write)


def _text() -> Sample:
    """What a benchmark printed; its labels and values are changed as the members of an object."""
    _, *lines = [
        line.partition(":") for line in test_bench_text.SGLANG.format(at_once=4).splitlines()
    ]
    said = {label: _number(value.strip()) for label, colon, value in lines if colon}

    def write(place: Path, change: Callable[[Any], bytes]) -> None:
        place.with_suffix(".txt").write_bytes(_as_text(change(said)))

    return Sample(write, may_be_passed_over=True)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _as_text(data: bytes) -> bytes:
    """The members of an object as a benchmark prints them; what is no object as it is."""
    try:
        lines = [f"{label}: {value}" for label, value in json.loads(data).items()]
    except (ValueError, AttributeError, RecursionError):
        return data
    title = f"{' Serving Benchmark Result ':=^50}"
    return "\n".join([title, *lines, "=" * 50]).encode("utf-8", "replace")


def _as_lines(data: bytes) -> bytes:
    """The members of a list as lines; what is no list of texts as it is."""
    try:
        return "\n".join(json.loads(data)).encode("utf-8", "replace")
    except (ValueError, TypeError, RecursionError):
        return data


def _sweep() -> dict[str, Any]:
    more = {"run_number": 0, "speculative_config": {"method": "ngram", "num_speculative_tokens": 2}}
    return bench(True) | more


def _parts() -> dict[str, Other]:
    """Files that may lie alone as well as beside the others of their run."""
    (stage, _), (requests, rows), (config, settings) = OTHERS["inference-perf"].files.items()
    return {
        "aiperf requests": Other({test_aiperf.REQUESTS: test_aiperf.rows()}),
        "inference-perf requests": Other({requests: rows, config: settings}),
        "inference-perf summary": Other(
            {"summary_lifecycle_metrics.json": OTHERS["inference-perf"].files[stage]}
        ),
    }


SAMPLES: dict[str, Sample] = {
    **{f"guidellm {name}": _plain(report(name, kept=1000)) for name in reports()},
    "vllm bench": _plain(bench(False)),
    "vllm bench detailed": _plain(bench(True)),
    "vllm sweep": _plain(_sweep()),
    "record": _of_drop("record.json"),
    "drop samples": _of_drop("metrics-samples.jsonl"),
    "drop machine": _of_drop("machine-samples.jsonl"),
    "drop counters": _snapshots(),
    "text": _text(),
    **{name: _other(other) for name, other in (OTHERS | _parts()).items()},
}

#: Readers whose names are two words.
_TWO_WORDS = (
    "guidellm yaml",
    "vllm bench",
    "vllm sweep",
    "vllm append",
    "vllm throughput",
    "vllm latency",
)


def reader(name: str) -> str:
    """Which reader reads a sample: ``sglang`` of ``sglang detailed``."""
    return next((two for two in _TWO_WORDS if name.startswith(two)), name.split()[0])


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
