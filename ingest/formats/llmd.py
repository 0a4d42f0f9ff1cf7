"""llm-d's benchmark reports, versions 0.1 and 0.2, in YAML or JSON: what some load generator said.

A report keeps the meaning that its load generator gave TPOT and ITL (``native_to_br0_*.py``), so its
values are compared only with those of the same one: GuideLLM's TPOT includes the first token, that
of all others leaves it out and is our ITL. Units are stated and converted. No request is passed on.

llm-d-benchmark writes a report of each version beside the file that it is made of
(``analysis/__init__.py``): what that file is read for is not counted again.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ingest.level import (
    LevelReport,
    cell_of,
    error_rate,
    is_number,
    reported,
    reported_sections,
)
from ingest.model import Context, FileContent, Parsed
from ingest.settings import of_arguments
from ingest.stated import (
    count,
    cut_off,
    head_of,
    held_by,
    json_object,
    load_report,
    moment_of,
    number,
    object_of,
    objects_of,
    positive,
    section,
    starts_object,
    text_of,
)
from warehouse.errors import InvalidInput, UnknownKey
from warehouse.rows import Measurement
from warehouse.secrets import scrub

# --- What an llm-d benchmark report says of the servers and the load: its scenario.


def facts_of(report: Mapping[str, Any]) -> dict[str, Any]:
    scenario = object_of(report.get("scenario"))
    load = object_of(scenario.get("load"))
    if isinstance(scenario.get("stack"), list):
        stated = object_of(load.get("standardized"))
        lengths = [
            number(object_of(stated.get(f"{side}_seq_len")), "value")
            for side in ("input", "output")
        ]
        dataset = text_of(stated.get("source"))
        if dataset and None not in lengths:
            dataset = f"{dataset} {lengths[0]:g}/{lengths[1]:g}"
        rate, at_once = positive(stated, "rate_qps"), positive(stated, "concurrency")
    else:
        # Version 0.1 passes the load generator's own settings on, each with words of its own.
        args = object_of(load.get("args"))
        strategy = object_of(args.get("strategy"))
        dataset = text_of(load.get("type"))
        at_once = positive(args, "max_concurrency") or positive(strategy, "streams")
        rate = positive(args, "request_rate") or positive(strategy, "rate")
    return _servers(scenario) | {
        "dataset": dataset,
        "rate": rate,
        "load_profile": "concurrent" if rate is None and at_once else None,
        "concurrency": int(at_once) if at_once else None,
    }


def _servers(scenario: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(scenario.get("stack"), list):
        # Version 0.2: components of which some are engines, each with replicas.
        components = [
            one for one in _listed(scenario["stack"])
            if object_of(one.get("standardized")).get("kind") == "inference_engine"
        ]  # fmt: skip
        engines = [object_of(one.get("standardized")) for one in components]
        args = [object_of(object_of(one.get("native")).get("args")) for one in components]
        cards = [object_of(one.get("accelerator")) for one in engines]
        counts = [
            (positive(card, "count") or 0) * (positive(one, "replicas") or 1)
            for card, one in zip(cards, engines, strict=True)
        ]
        roles, tool = [one.get("role") or "engine" for one in engines], "tool"
        facts = {"model": _alike(object_of(one.get("model")).get("name") for one in engines)}
    else:
        # Version 0.1: hosts and engines stand in lists of the same order.
        model = object_of(scenario.get("model"))
        engines = _listed(object_of(scenario.get("platform")).get("engine"))
        args = [object_of(one.get("args")) for one in engines]
        cards = _listed(object_of(scenario.get("host")).get("accelerator"))
        counts = [positive(card, "count") for card in cards]
        roles, tool = ["engine"] * len(engines), "name"
        facts = {
            "model": text_of(model.get("name")),
            "precision": text_of(model.get("quantization")),
            "engine_version": _alike(text_of(one.get("version")) for one in engines),
        }
    named = str(_alike(one.get(tool) for one in engines) or "").lower()
    facts |= {
        "gpu": _alike(card.get("model") for card in cards),
        "gpu_count": sum(counts) or None if all(counts) else None,
        "tensor_parallel_size": _alike(
            positive(object_of(card.get("parallelism")), "tp") for card in cards
        ),
        "engine": next(
            (engine for engine in ("vllm", "sglang", "tgi", "tensorrt-llm") if engine in named),
            None,
        ),
    }
    arguments = {f"{role} {n}": own for n, (role, own) in enumerate(zip(roles, args, strict=True))}
    # What the report says in its own words wins over the servers' arguments.
    return _arguments(arguments) | {k: value for k, value in facts.items() if value is not None}


def _arguments(arguments: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the arguments of the engines state, by the engines' names; where they differ, all
    stand beside one another. The first that states a speculation tells the arm; of one that
    cannot be read no arm is told.
    """
    by_engine: dict[str, dict[str, Any]] = {}
    for name, args in arguments.items():
        if args:
            try:
                by_engine[name] = of_arguments(args)
            except UnknownKey:
                by_engine[name] = {"server_args": args}
    facts: dict[str, Any] = {}
    for own in reversed(by_engine.values()):
        facts |= own
    servers = {n: own["server_args"] for n, own in by_engine.items() if "server_args" in own}
    if len(servers) == len(by_engine) and len(set(map(repr, servers.values()))) == 1:
        return facts
    return facts | ({"server_args": servers} if servers else {})


def _alike(values: Iterable[Any]) -> Any:
    known = {value for value in values if isinstance(value, str | int | float)}
    return known.pop() if len(known) == 1 else None


def _listed(value: Any) -> list[dict[str, Any]]:
    return objects_of(value) if isinstance(value, list) else []


# --- llm-d's benchmark reports, versions 0.1 and 0.2, in YAML or JSON: what some load generator said.


NAME, KIND = "llm-d", "an llm-d benchmark report"

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
    head = head_of(data, 1 << 20)
    if head[:1] == b"{":
        of_one = starts_object(head, b"version", b"scenario", b"metrics")
        return of_one or starts_object(head, b"version", b"run", b"scenario", b"results")
    of_requests = b"\nscenario:" in head or b"request_performance:" in head
    return of_requests and all(mark.search(head) for mark in (_SECTIONS, _VERSION))


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
    if (found := _MADE.fullmatch(path.name)) is not None:
        earlier = _MARKS[: _MARKS.index(found["mark"])]
        return tuple(path.with_name(_name(mark, found["rest"])) for mark in earlier)
    return tuple(one for mark in _MARKS for one in _reports(path, mark))


def _reports(path: Path, mark: str) -> Iterator[Path]:
    yield path.with_name(f"{_name(mark, path.name)}.yaml")
    levels = (f"{_name(mark, path.name)}_{level}.yaml" for level in itertools.count())
    yield from itertools.takewhile(Path.is_file, map(path.with_name, levels))


def _name(mark: str, rest: str) -> str:
    return f"benchmark_report{mark},_{rest}"


def parse(content: FileContent, context: Context) -> Parsed:
    """Read a report, which is one cell. Raises InvalidInput."""
    is_yaml = head_of(content.data)[:1] != b"{"
    report, flags = (
        (load_report(content.data, KIND), ())
        if is_yaml
        else json_object(content.data, "This llm-d benchmark report")
    )
    version = str(report.get("version"))
    scenario, run = object_of(report.get("scenario")), object_of(report.get("run"))
    load = object_of(scenario.get("load"))
    if version.startswith("0.1"):
        tool = load.get("name")
        measured = object_of(report.get("metrics"))
    elif version.startswith("0.2"):
        tool = object_of(load.get("standardized")).get("tool")
        # inference-perf writes such a report itself, for others to add the servers.
        if not tool and str(run.get("uid")).startswith("inference-perf-"):
            tool = "inference-perf"
        performance = object_of(object_of(report.get("results")).get("request_performance"))
        measured = object_of(performance.get("aggregate"))
    else:
        raise InvalidInput(
            f"This llm-d benchmark report has version {version[:20]}, 0.1 and 0.2 are read: export "
            "it in one of these, or give the report of its load generator."
        )
    # All converters write it, after the latencies and the requests.
    if (
        is_yaml
        and object_of(measured.get("requests"))
        and not object_of(measured.get("throughput"))
    ):
        raise cut_off(KIND)
    requests = section(measured, "requests")
    if number(requests, "total") is None:
        raise InvalidInput(
            "This llm-d benchmark report has no results of requests: it describes the servers or a "
            "run that failed; give the report of the run's load."
        )
    tool = str(tool or "").lower()
    cut = count(requests, "incomplete") or 0
    time = object_of(measured.get("time")) or object_of(run.get("time"))
    total, failed = _counted(report, measured, requests, tool)
    level = LevelReport(
        generator=NAME,
        definition=f"llm-d: {tool}" if tool else "unknown",
        facts=facts_of(report),
        reported=_reported(measured, requests, tool, (total - cut, failed)),
        completed=total - cut,
        errored=failed,
        incomplete=cut,
        version=version,
        started_at=_moment(time.get("start")),
        duration=_duration(time),
        # A load may say Infinity, as of requests at once.
        flags=(*flags, *held_by(measured)),
    )
    config = scrub({"version": version, "scenario": scenario})
    return Parsed(NAME, config, iter([cell_of(level, context)]))


def _reported(
    measured: Mapping[str, Any],
    requests: Mapping[str, Any],
    tool: str,
    counts: tuple[int, int | None],
) -> Iterator[Measurement]:
    rates = section(measured, "throughput")
    yield from reported_sections(
        section(measured, "latency"), _METRICS.get(tool, _WITHOUT_FIRST), ""
    )
    for metric, names in _RATES.items():
        for name in names:
            rate = rates.get(name)
            yield from reported(metric, rate.get("mean") if isinstance(rate, dict) else rate)
    yield from reported("prompt_tokens", section(requests, "input_length"))
    yield from reported("output_tokens", section(requests, "output_length"))
    yield from error_rate(*counts)


def _counted(
    report: Mapping[str, Any], measured: Mapping[str, Any], requests: Mapping[str, Any], tool: str
) -> tuple[int, int | None]:
    total, failed = count(requests, "total") or 0, count(requests, "failures")
    if failed is None:
        # What is said and no number, as NaN, is unknown.
        if tool not in ("vllm-benchmark", "inferencemax") or requests.get("failures") is not None:
            return total, None
        # Version 0.1 has of these what succeeded, and what was asked for elsewhere.
        load = object_of(object_of(report.get("scenario")).get("load"))
        prompts = count(object_of(load.get("args")), "num_prompts")
        return total, None if prompts is None else max(prompts - total, 0)
    rate = object_of(measured.get("throughput")).get("requests_per_sec")
    length = object_of(measured.get("time")).get("duration")
    if (
        tool == "aiperf" and failed and is_number(rate) and is_number(length)
        # The rate of successes says whether all of AIPerf's total succeeded: its failures are kinds of
        # errors then. Later converters add what failed; so does one that cannot be told.
        and abs(rate * length - total) < abs(rate * length - (total - failed))
    ):  # fmt: skip
        return total, None
    return total - failed, failed


_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d*)?)S)?)?")


def _duration(time: Mapping[str, Any]) -> float | None:
    value = time.get("duration")
    found = _ISO.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return number(time, "duration")
    units = zip(found.groups(), (86_400, 3600, 60, 1), strict=True)
    return sum(float(part or 0) * length for part, length in units)


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return moment_of(value) if is_number(value) and value > 0 else None
