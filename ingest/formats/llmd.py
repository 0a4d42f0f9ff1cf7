"""llm-d's benchmark reports, versions 0.1 and 0.2, in YAML or JSON: what some load generator said.

A report keeps the meaning that its load generator gave TPOT and ITL (``native_to_br0_*.py``), so its
values are compared only with those of the same one: GuideLLM's TPOT includes the first token, that
of all others leaves it out and is our ITL. Units are stated and converted. No request is passed on.

llm-d-benchmark writes a report of each version beside the file that it is made of
(``analysis/__init__.py``): what that file is read for is not counted again.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ingest.level import Level, cell_of, is_number, reported
from ingest.lines import cut_off, head_of, load_report, members, starts_object
from ingest.model import Content, Context, Parsed
from ingest.speculation import of_arguments
from ingest.stated import count, decoded, held_by, in_its_unit, number, positive, section
from ingest.unreadable import UNREADABLE, refusal
from warehouse.errors import InvalidInput, UnknownKey
from warehouse.rows import Flag, Measurement
from warehouse.secrets import scrub

# --- What an llm-d benchmark report says of the servers and the load: its scenario.


_ENGINES = ("vllm", "sglang", "tgi", "tensorrt-llm")


def facts_of(said: dict[str, Any]) -> dict[str, Any]:
    """Return the facts, in the contract's words; None for what the scenario does not say."""
    scenario = _object(said.get("scenario"))
    if isinstance(scenario.get("stack"), list):
        return _of_stack(scenario) | _load(scenario)
    return _of_host(scenario) | _load_before(scenario)


def _of_host(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of version 0.1, whose hosts and engines stand in lists of the same order."""
    model, host = _object(scenario.get("model")), _object(scenario.get("host"))
    accelerators = _objects(host.get("accelerator"))
    engines = _objects(_object(scenario.get("platform")).get("engine"))
    sizes = [_object(one.get("parallelism")) for one in accelerators]
    facts = {
        "model": _text(model.get("name")),
        "precision": _text(model.get("quantization")),
        "gpu": _alike([one.get("model") for one in accelerators]),
        "gpu_count": _sum([positive(one, "count") for one in accelerators]),
        "tensor_parallel_size": _alike([positive(size, "tp") for size in sizes]),
        "engine": _engine(_alike([one.get("name") for one in engines])),
        "engine_version": _alike([_text(one.get("version")) for one in engines]),
    }
    own = _arguments({f"engine {n}": _object(one.get("args")) for n, one in enumerate(engines)})
    return _first(facts, own)


def _of_stack(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of version 0.2: components of which some are engines, each with replicas."""
    stack = _objects(scenario["stack"])
    engines = [
        one for one in stack if _object(one.get("standardized")).get("kind") == "inference_engine"
    ]
    said = [_object(one["standardized"]) for one in engines]
    cards = [_object(one.get("accelerator")) for one in said]
    sizes = [_object(card.get("parallelism")) for card in cards]
    counts = [
        (positive(card, "count") or 0) * (positive(one, "replicas") or 1)
        for card, one in zip(cards, said, strict=True)
    ]
    facts = {
        "model": _alike([_object(one.get("model")).get("name") for one in said]),
        "gpu": _alike([card.get("model") for card in cards]),
        "gpu_count": _sum(counts),
        "tensor_parallel_size": _alike([positive(size, "tp") for size in sizes]),
        "engine": _engine(_alike([one.get("tool") for one in said])),
    }
    own = {
        f"{one.get('role') or 'engine'} {n}": _object(_object(whole.get("native")).get("args"))
        for n, (one, whole) in enumerate(zip(said, engines, strict=True))
    }
    return _first(facts, _arguments(own))


def _first(facts: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of the report's own words, and what only the servers' arguments state."""
    return own | {key: value for key, value in facts.items() if value is not None}


def _arguments(arguments: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what the arguments of the engines state, by the engines' names; where they differ, all
    stand beside one another. The first that states a speculation tells the arm."""
    told = {name: _stated(args) for name, args in arguments.items() if args}
    facts: dict[str, Any] = {}
    for one in reversed(told.values()):
        facts |= one
    servers = {name: one["server_args"] for name, one in told.items() if "server_args" in one}
    if len(servers) == len(told) and len({repr(one) for one in servers.values()}) == 1:
        return facts
    return facts | ({"server_args": servers} if servers else {})


def _stated(args: dict[str, Any]) -> dict[str, Any]:
    """Return what one engine's arguments state; of a speculation that cannot be read no arm."""
    try:
        return of_arguments(args)
    except UnknownKey:
        return {"server_args": args}


def _load(scenario: dict[str, Any]) -> dict[str, Any]:
    said = _object(_object(scenario.get("load")).get("standardized"))
    rate, at_once = positive(said, "rate_qps"), positive(said, "concurrency")
    lengths = [
        number(_object(said.get(side)), "value") for side in ("input_seq_len", "output_seq_len")
    ]
    source = _text(said.get("source"))
    known = source and None not in lengths
    return {
        "dataset": f"{source} {lengths[0]:g}/{lengths[1]:g}" if known else source,
        "rate": rate,
        "load_profile": "concurrent" if rate is None and at_once else None,
        "concurrency": int(at_once) if at_once else None,
    }


def _load_before(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the load of version 0.1, which passes the load generator's own settings on, each with
    words of its own."""
    load = _object(scenario.get("load"))
    args = _object(load.get("args"))
    strategy = _object(args.get("strategy"))
    at_once = positive(args, "max_concurrency") or positive(strategy, "streams")
    rate = positive(args, "request_rate") or positive(strategy, "rate")
    return {
        "dataset": _text(load.get("type")),
        "rate": rate,
        "load_profile": "concurrent" if rate is None and at_once else None,
        "concurrency": int(at_once) if at_once else None,
    }


def _engine(name: Any) -> str | None:
    """Return an engine's own name; what packs it, as llm-d does, says nothing of it."""
    text = str(name or "").lower()
    return next((known for known in _ENGINES if known in text), None)


def _alike(values: list[Any]) -> Any:
    """Return the value that all state; None where they differ or state nothing."""
    known = {value for value in values if isinstance(value, str | int | float)}
    return known.pop() if len(known) == 1 else None


def _sum(counts: list[Any]) -> int | None:
    """Return the sum; None where one of them is unknown."""
    return sum(counts) or None if all(counts) else None


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


# --- llm-d's benchmark reports, versions 0.1 and 0.2, in YAML or JSON: what some load generator said.


NAME, KIND = "llm-d", "an llm-d benchmark report"

_HEAD = 1 << 20
#: Versions by their mark in a file's name, the later the better.
_MARKS = ("", "_v0.2", "_v0.2.1")
#: ``benchmark_report_v0.2,_results.json_0.yaml``: the first run of ``results.json``.
_MADE = re.compile(
    r"benchmark_report(?P<mark>(?:_v0\.2(?:\.1)?)?),_"
    r"(?P<rest>(?P<source>.+?)(?:_\d+)?\.(?:ya?ml|json))"
)
_VERSION = re.compile(rb"^version:\s*['\"]?0\.\d", re.MULTILINE)
_SECTIONS = re.compile(rb"^(?:metrics|results|run):", re.MULTILINE)
_ALL = {"ttft": "time_to_first_token", "request_latency": "request_latency"}
_WITHOUT_FIRST = _ALL | {"itl": "time_per_output_token", "tpot": "normalized_time_per_output_token"}
_OF_WHAT_SUCCEEDED = ("vllm-benchmark", "inferencemax")
_METRICS = {
    "guidellm": _ALL | {"itl": "inter_token_latency", "tpot": "time_per_output_token"},
    "aiperf": _ALL | {"itl": "inter_token_latency"},
    "vllm-benchmark": _WITHOUT_FIRST | {"chunk_gap": "inter_token_latency"},
    "inferencemax": _WITHOUT_FIRST | {"chunk_gap": "inter_token_latency"},
}
_RATES = {
    "output_throughput": ("output_tokens_per_sec", "output_token_rate"),
    "total_throughput": ("total_tokens_per_sec", "total_token_rate"),
    "request_throughput": ("requests_per_sec", "request_rate"),
}


def sniff(data: memoryview) -> bool:
    """Recognise the version of a benchmark report and its sections."""
    head = head_of(data, _HEAD)
    if head[:1] == b"{":
        of_one = starts_object(head, b"version", b"scenario", b"metrics")
        return of_one or starts_object(head, b"version", b"run", b"scenario", b"results")
    of_requests = b"\nscenario:" in head or b"request_performance:" in head
    sections = of_requests and _SECTIONS.search(head) is not None
    return sections and _VERSION.search(head) is not None


def made_of(path: Path) -> tuple[Path, ...]:
    """Return the file of which a report was made, and the reports of later versions."""
    found = _MADE.fullmatch(path.name)
    if found is None:
        return ()
    later = _MARKS[_MARKS.index(found["mark"]) + 1 :]
    names = (found["source"], *(_name(mark, found["rest"]) for mark in later))
    return tuple(map(path.with_name, names))


def stands_for(path: Path) -> tuple[Path, ...]:
    """Return the reports that are made of a result; those of a report are of earlier versions."""
    found = _MADE.fullmatch(path.name)
    if found is not None:
        earlier = _MARKS[: _MARKS.index(found["mark"])]
        return tuple(path.with_name(_name(mark, found["rest"])) for mark in earlier)
    return tuple(one for mark in _MARKS for one in _reports(path, mark))


def _reports(path: Path, mark: str) -> Iterator[Path]:
    """Yield the report that is made of a result, and those of its levels as far as they are
    there."""
    yield path.with_name(f"{_name(mark, path.name)}.yaml")
    levels = (f"{_name(mark, path.name)}_{level}.yaml" for level in itertools.count())
    yield from itertools.takewhile(Path.is_file, map(path.with_name, levels))


def _name(mark: str, rest: str) -> str:
    return f"benchmark_report{mark},_{rest}"


def parse(content: Content, context: Context) -> Parsed:
    """Read a report, which is one cell. Raises InvalidInput."""
    said, flags = _read(content)
    version = str(said.get("version"))
    scenario = _object(said.get("scenario"))
    if version.startswith("0.1"):
        tool = str(_object(scenario.get("load")).get("name") or "")
        told = _object(said.get("metrics"))
    elif version.startswith("0.2"):
        tool = str(_object(_object(scenario.get("load")).get("standardized")).get("tool") or "")
        # inference-perf writes such a report itself, for others to add the servers.
        own = str(_object(said.get("run")).get("uid")).startswith("inference-perf-")
        tool = tool or ("inference-perf" if own else "")
        performance = _object(_object(said.get("results")).get("request_performance"))
        told = _object(performance.get("aggregate"))
    else:
        raise InvalidInput(
            f"This llm-d benchmark report has version {version[:20]}, 0.1 and 0.2 are read: export "
            "it in one of these, or give the report of its load generator."
        )
    # All converters write it, after the latencies and the requests.
    is_yaml = head_of(content.data)[:1] != b"{"
    if is_yaml and _object(told.get("requests")) and not _object(told.get("throughput")):
        raise cut_off(KIND)
    # A load may say Infinity, as of requests at once.
    flags = (*flags, *held_by(told))
    level = replace(_level(said, told, tool.lower()), flags=flags)
    config = scrub({"version": version, "scenario": scenario})
    return Parsed(NAME, config, iter([cell_of(level, context)]))


def _read(content: Content) -> tuple[dict[str, Any], tuple[Flag, ...]]:
    if head_of(content.data)[:1] != b"{":
        return load_report(content.data, KIND), ()
    try:
        return decoded(content.data, members)
    except UNREADABLE as error:
        raise refusal("This llm-d benchmark report", error) from None


def _level(said: dict[str, Any], told: dict[str, Any], tool: str) -> Level:
    requests = section(told, "requests")
    if number(requests, "total") is None:
        raise InvalidInput(
            "This llm-d benchmark report has no results of requests: it describes the servers or a "
            "run that failed; give the report of the run's load."
        )
    cut = count(requests, "incomplete") or 0
    time = _object(told.get("time")) or _object(_object(said.get("run")).get("time"))
    completed, failed = _counted(said, told, requests, tool)
    return Level(
        generator=NAME,
        definition=f"llm-d: {tool}" if tool else "unknown",
        facts=facts_of(said),
        reported=_reported(told, requests, tool, (completed - cut, failed)),
        completed=completed - cut,
        errored=failed,
        incomplete=cut,
        version=str(said.get("version")),
        started_at=_moment(time.get("start")),
        duration=_duration(time),
    )


def _reported(
    told: dict[str, Any], requests: dict[str, Any], tool: str, counts: tuple[int, int | None]
) -> Iterator[Measurement]:
    latencies, rates = section(told, "latency"), section(told, "throughput")
    for metric, name in _METRICS.get(tool, _WITHOUT_FIRST).items():
        statistics = section(latencies, name)
        yield from reported(metric, statistics, in_its_unit(metric, statistics, "", name))
    for metric, names in _RATES.items():
        for name in names:
            rate = rates.get(name)
            yield from reported(metric, rate.get("mean") if isinstance(rate, dict) else rate)
    yield from reported("prompt_tokens", section(requests, "input_length"))
    yield from reported("output_tokens", section(requests, "output_length"))
    completed, failed = counts
    if failed is not None and completed + failed > 0:
        yield from reported("error_rate", failed / (completed + failed))


def _counted(
    said: dict[str, Any], told: dict[str, Any], requests: dict[str, Any], tool: str
) -> tuple[int, int | None]:
    """Return how many requests did not fail, and how many did; None where nobody says it."""
    total, failed = count(requests, "total") or 0, count(requests, "failures")
    if failed is None:
        # What is said and no number, as NaN, is unknown.
        if tool not in _OF_WHAT_SUCCEEDED or requests.get("failures") is not None:
            return total, None
        # Version 0.1 has of these what succeeded, and what was asked for elsewhere.
        load = _object(_object(said.get("scenario")).get("load"))
        asked = count(_object(load.get("args")), "num_prompts")
        return total, None if asked is None else max(asked - total, 0)
    if tool == "aiperf" and _succeeded(told, total, failed):
        return total, None
    return total - failed, failed


def _succeeded(told: dict[str, Any], total: int, failed: int) -> bool:
    """Return whether all of AIPerf's total succeeded, as its rate of successes says: its failures
    are kinds of errors then. Later converters add what failed; so does one that cannot be told."""
    rate = _object(told.get("throughput")).get("requests_per_sec")
    length = _object(told.get("time")).get("duration")
    if not (failed and is_number(rate) and is_number(length)):
        return False
    return abs(rate * length - total) < abs(rate * length - (total - failed))


_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d*)?)S)?)?")


def _duration(time: dict[str, Any]) -> float | None:
    """Return the seconds that a run took, from a number or from ISO 8601's ``PT1M30.5S``."""
    value = time.get("duration")
    found = _ISO.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return number(time, "duration")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        return datetime.fromtimestamp(value, UTC) if is_number(value) and value > 0 else None
    except (OverflowError, OSError, ValueError):
        return None
