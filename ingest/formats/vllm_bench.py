"""Results of ``vllm bench serve``, with and without ``--save-detailed``.

Its words differ from the catalogue's: its TPOT is our ITL, its ITL the gap between chunks, its
acceptance rate in percent. Times are monotonic seconds.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.flags.numbers import ended_otherwise
from ingest.level import (
    LevelReport,
    LevelRequests,
    activity,
    cells_of,
    contradicted,
    left_out,
    outlived,
    reported,
)
from ingest.model import Context, FileContent, Parsed
from ingest.stated import UNREADABLE, decoded, former, lines, number, part, refusal
from warehouse.catalogue import QUANTILES
from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Flag, Measurement
from warehouse.secrets import scrub

NAME, KIND = "vllm-bench", "a vllm bench result"

_HEAD = 1 << 16
_MARKS = (b'"model_id"', b'"num_prompts"', b'"request_rate"', b'"tokenizer_id"')
_PER_REQUEST = frozenset(
    {"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times",
     "generated_texts", "errors"}
)  # fmt: skip


class BenchFields(msgspec.Struct, kw_only=True):
    """The fields of a result that are read; the lists stand only with ``--save-detailed``."""

    model_id: str
    num_prompts: int
    request_rate: float | str | None
    completed: int
    duration: float
    total_input_tokens: int
    total_output_tokens: int
    backend: str | None = None
    endpoint_type: str | None = None
    date: str | None = None
    #: Before it could be chosen it was 1.
    burstiness: float | str | None = 1.0
    max_concurrency: int | None = None
    ramp_up_strategy: str | None = None
    ramp_up_start_rps: int | float | None = None
    ramp_up_end_rps: int | float | None = None
    failed: int | None = None
    request_throughput: float | None = None
    output_throughput: float | None = None
    total_token_throughput: float | None = None
    spec_decode_acceptance_rate: float | None = None
    spec_decode_acceptance_length: float | None = None
    spec_decode_num_drafts: int | None = None
    spec_decode_draft_tokens: int | None = None
    spec_decode_accepted_tokens: int | None = None
    spec_decode_per_position_acceptance_rates: list[float] | None = None
    input_lens: list[int] | None = None
    output_lens: list[int] | None = None
    ttfts: list[float] | None = None
    itls: list[list[float]] | None = None
    latencies: list[float] | None = None
    start_times: list[float] | None = None
    generated_texts: list[str] | None = None
    errors: list[str | None] | None = None


#: What follows from what is read, or is another thing's: of queues in the client, of probes.
_DERIVED = (
    r"run_number|max_output_tokens_per_s|max_concurrent_requests|rtfx|input_throughput|"
    r"good_completed|request_goodput|\w+_intvty|\w+_(client_queue_time|including_client_queue)_ms|"
    r"(probe|diffusion)_\w+|total_input_sequences|input_sequence_throughput"
)
_KNOWN = re.compile("|".join((*BenchFields.__struct_fields__, _DERIVED)))
#: A sweep adds what it varied: its numbers are arguments, but for those that are named like a latency.
_KNOWN_OF_SWEEP = re.compile(rf"{_DERIVED}|(?!(mean|median|std|min|max|p[\d.]+)_)\S+")

LOCAL_TIME = Flag(
    "local_time",
    "info",
    "The result says when it ended in the local time of its machine, which is shown as if it were "
    "UTC: it orders the results of one machine and may be up to 14 hours off.",
)


def sniff(data: memoryview) -> bool:
    """Recognise a result by itself, not one of a sweep."""
    return is_result(data) and not is_of_sweep(data)


def is_result(data: memoryview) -> bool:
    """Return whether the head of the file carries the keys that every result has."""
    head = bytes(data[:_HEAD])
    # InferenceX adds its own words to a result and turns its ms into s.
    return all(mark in head for mark in _MARKS) and b'"tput_per_gpu"' not in head


def is_by_product(path: Path) -> bool:
    """Whether a file repeats a result in the format of PyTorch's benchmarks."""
    stem = path.name.removesuffix(".pytorch.json")
    return stem != path.name and (path.parent / f"{stem}.json").is_file()


def is_of_sweep(data: memoryview) -> bool:
    """Return whether a sweep has added its run number, which stands at the end, after any
    per-request lists."""
    return b'"run_number"' in bytes(data[-_HEAD:])


@dataclass(frozen=True)
class BenchResult:
    """A result that was read: its typed fields, its own scalar members and short lists without
    credentials, its flags.
    """

    bench: BenchFields
    members: dict[str, Any]
    flags: tuple[Flag, ...]

    @property
    def config(self) -> dict[str, Any]:
        """What the result says of its own configuration: everything that is not a measurement."""
        return {
            key: value
            for key, value in self.members.items()
            if _latency_named(key) is None
            and not key.endswith(("_ms", "throughput"))
            and not key.startswith("spec_decode")
        }


def parse(content: FileContent, context: Context) -> Parsed:
    """Read a result, which is one cell, or those of ``--append-result``. Raises InvalidInput."""
    parts = list(lines(content.data))
    # ``--append-result`` writes each result as one line; otherwise a file is one result.
    if len(parts) == 1 or not bytes(parts[0][1][-64:]).rstrip().endswith(b"}"):
        parts = [(1, content.data)]
    results = []
    for line, one in parts:
        with part(f"Line {line}", alone=len(parts) == 1):
            results.append((line, read(one)))
    configs = [one.config for _, one in results]
    return Parsed(
        NAME,
        {"results": configs} if len(configs) > 1 else configs[0],
        cells_of("Line", results, level_of, context),
        former(content.data) if len(configs) > 1 else (),
    )


def read(data: memoryview) -> BenchResult:
    """Read the typed result. Raises InvalidInput with what is missing or out of range."""
    try:
        (bench, members), flags = decoded(data, _decode, infinity=b'"inf"')
    except UNREADABLE as error:
        raise refusal("This vllm bench result", error) from None
    if bench.duration <= 0 or min(bench.completed, bench.num_prompts, bench.failed or 0) < 0:
        raise InvalidInput(
            "This vllm bench result has a duration or a count below zero; run the benchmark again."
        )
    return BenchResult(bench, members, flags)


def _decode(data: bytes | memoryview) -> tuple[BenchFields, dict[str, Any]]:
    raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    members = {
        key: msgspec.json.decode(value) for key, value in raw.items() if key not in _PER_REQUEST
    }
    return msgspec.json.decode(data, type=BenchFields), scrub(members)


def level_of(result: BenchResult) -> LevelReport:
    """Return what a result states of its level."""
    bench = result.bench
    errored = bench.failed if bench.failed is not None else bench.num_prompts - bench.completed
    requests = _requests(bench)
    # Only a vLLM server counts drafts under the names that the bench asks for.
    counts_drafts = bench.spec_decode_num_drafts is not None
    return LevelReport(
        generator=NAME,
        facts={
            "model": bench.model_id,
            "engine": "vllm" if counts_drafts else
            bench.backend if bench.backend in _SERVERS else None,
            "request_format": _FORMATS.get(bench.endpoint_type or bench.backend or ""),
            # The server has one counter for each position of a step.
            "num_speculative_tokens": len(bench.spec_decode_per_position_acceptance_rates or ())
            or None,
            **facts_of_load(bench),
        },
        reported=chain(latencies(result.members, bench), means(bench, errored)),
        completed=bench.completed,
        errored=max(errored, 0),
        made=bench.num_prompts,
        started_at=_started_at(bench),
        duration=bench.duration,
        acceptance=tuple(acceptance(bench)),
        flags=(*result.flags, *_doubts(result, requests)),
        requests=requests,
    )  # fmt: skip


def _doubts(result: BenchResult, requests: LevelRequests | None) -> Iterator[Flag]:
    bench = result.bench
    others = {key: said for key, said in result.members.items() if _latency_named(key) is None}
    yield from left_out(others, _KNOWN_OF_SWEEP if "run_number" in others else _KNOWN)
    yield from () if _started_at(bench) is None else (LOCAL_TIME,)
    if bench.completed == 0:
        return
    ended = bench.completed + (bench.failed or 0)
    if requests is None:
        # Where its requests are there, they are counted with those of all formats.
        if bench.failed is not None and ended < bench.num_prompts:
            yield ended_otherwise(ended, bench.num_prompts)
        return
    done = [error is None for error in requests.errors]
    gaps = [gap for own, good in zip(bench.itls or (), done, strict=False) if good for gap in own]
    mean = 1000 * sum(gaps) / len(gaps) if gaps else None
    yield from contradicted("chunk_gap", result.members.get("mean_itl_ms"), mean)
    if requests.timed:
        first, last = activity(requests.columns)
        yield from outlived(bench.duration, min(last - first, bench.duration))


# --- The per-request lists of ``--save-detailed``.


def _requests(bench: BenchFields) -> LevelRequests | None:
    if bench.ttfts is None or bench.output_lens is None:
        return None
    n = len(bench.ttfts)
    lists = (bench.output_lens, bench.input_lens, bench.itls, bench.start_times, bench.latencies,
             bench.errors)  # fmt: skip
    if any(member is not None and len(member) != n for member in lists):
        raise InvalidInput(
            "This vllm bench result has per-request lists of different lengths; it was altered or "
            "cut short, run the benchmark again."
        )
    if min(bench.ttfts or (0.0,)) < 0 or min(bench.latencies or (0.0,)) < 0:
        raise InvalidInput(
            "This vllm bench result has a negative duration; the clock jumped, run it again."
        )
    if bench.errors is not None:
        completed = np.asarray([not error for error in bench.errors], dtype=bool)
    else:
        completed = np.asarray(bench.output_lens, dtype=np.float64) > 0
    ttft: NDArray[Any] = np.asarray(bench.ttfts, dtype=np.float64)
    if bench.latencies is not None:
        latency = np.asarray(bench.latencies, dtype=np.float64)
    else:
        gaps = bench.itls or [[]] * n
        latency = ttft + np.asarray([sum(own) for own in gaps], dtype=np.float64)
    start = np.asarray(bench.start_times or [0.0] * n, dtype=np.float64)
    end = start + np.where(completed, latency, np.nan)
    texts = bench.generated_texts
    errors = bench.errors or ["no output"] * n
    return LevelRequests(
        columns={
            "start": start, "first_token": start + np.where(completed, ttft, np.nan),
            "last_token": end, "end": end,
            "prompt_tokens": bench.input_lens, "output_tokens": bench.output_lens,
        },
        errors=[None if good else error for good, error in zip(completed, errors, strict=True)],
        more={"output": texts} if texts and len(texts) == n else {},
        timed=bool(bench.start_times),
        # Without the times of its requests nothing is recomputed.
        recomputed=bool(bench.start_times),
    )  # fmt: skip


# --- What is stated: latencies, also of descendants, some of which write seconds; rates; acceptance.


#: Our metric, and how many of its units are a millisecond there.
_METRICS = {"ttft": ("ttft", 1.0), "tpot": ("itl", 1.0), "itl": ("chunk_gap", 1.0),
            "e2el": ("request_latency", 1e-3), "e2e_latency": ("request_latency", 1e-3)}  # fmt: skip
_NAMED = re.compile(rf"(mean|median|std|p[\d.]+)_({'|'.join(_METRICS)})(?:_(ms|s))?")
_MS = {"ms": 1.0, "s": 1e3}
_STATISTICS = {"mean": "mean", "std": "std", "median": "p50"} | {
    word: name for name, q in QUANTILES.items() for word in (name, f"p{q * 100:g}")
}
#: Between a number in seconds and the same in milliseconds.
_MIDDLE = math.sqrt(1e3)


def _latency_named(key: str) -> tuple[str, str, str | None] | None:
    match = _NAMED.fullmatch(key)
    statistic = None if match is None else _STATISTICS.get(match[1])
    return None if match is None or statistic is None else (statistic, match[2], match[3])


def latencies(members: Mapping[str, Any], bench: BenchFields | None) -> Iterator[Measurement]:
    """Yield each latency once, in the catalogue's unit: with percentile 50 asked for, ``median_*`` and
    ``p50_*`` are the same number. Raises InvalidInput for one that is none.

    A name without a unit, ``median_ttft``, is in seconds, unless no request can have taken so long.
    """
    found: dict[tuple[str, str], float] = {}
    named = {key: parts for key in members if (parts := _latency_named(key))}
    bare = _bare_unit(members, bench)
    # Those that state their unit first.
    for key in sorted(named, key=lambda one: named[one][2] is None):
        statistic, name, unit = named[key]
        metric, factor = _METRICS[name]
        value = number(members, key)
        if value is not None:
            found.setdefault((metric, statistic), value * factor * _MS[unit or bare])
    yield from (Measurement("reported", *name, value) for name, value in found.items())


def _bare_unit(members: Mapping[str, Any], bench: BenchFields | None) -> str:
    """Return the unit of names that state none: that in which a request took about as long as so
    many at once and their rate say, or else at most as long as the run.
    """

    def stated(name: str) -> float | None:
        found = (number(members, f"{one}_{name}") for one in ("mean", "median"))
        return next((value for value in found if value is not None), None)

    taken = stated("e2el") or stated("e2e_latency")
    if bench is None:
        return "s"
    step = stated("tpot") or stated("itl")
    if taken is None and step is not None and bench.completed:
        taken = step * bench.total_output_tokens / bench.completed
    longest = bench.duration
    if bench.max_concurrency and bench.completed and bench.request_rate in ("inf", math.inf):
        at_once = min(bench.max_concurrency, bench.completed)
        longest = at_once * bench.duration / bench.completed * _MIDDLE
    return "s" if taken is None or taken <= longest else "ms"


def means(bench: BenchFields, errored: int | None) -> Iterator[Measurement]:
    """Yield what is stated of rates, and of tokens by request."""
    done = bench.completed
    totals = {"prompt_tokens": bench.total_input_tokens, "output_tokens": bench.total_output_tokens}
    stated = {
        "output_throughput": bench.output_throughput,
        "total_throughput": bench.total_token_throughput,
        "request_throughput": bench.request_throughput,
        "error_rate": errored / (done + errored) if done and errored is not None else None,
    } | {
        metric: None if not done or total is None else total / done
        for metric, total in totals.items()
    }
    for metric, value in stated.items():
        yield from reported(metric, value)


def acceptance(bench: BenchFields) -> Iterator[Acceptance]:
    """Yield the acceptance that a result counted; nothing where none is stated."""
    if bench.spec_decode_num_drafts is None:
        return
    drafted = bench.spec_decode_num_drafts > 0
    percent = bench.spec_decode_acceptance_rate
    yield Acceptance(
        source="vllm_bench",
        drafts=bench.spec_decode_num_drafts,
        draft_tokens=bench.spec_decode_draft_tokens,
        accepted_tokens=bench.spec_decode_accepted_tokens,
        rate=percent / 100 if drafted and percent is not None else None,
        mean_length=bench.spec_decode_acceptance_length if drafted else None,
        by_position=tuple(bench.spec_decode_per_position_acceptance_rates or ()),
    )


# --- What a result says of its cell beside the measurements: engine, load, time.


#: ``--backend`` names the interface that is spoken. These are named after a server; ``openai`` and
#: its kin are spoken by any.
_SERVERS = ("vllm", "sglang", "tgi", "tensorrt-llm", "scalellm", "deepspeed-mii", "llama.cpp")
_FORMATS = {"openai-chat": "chat_completions"} | dict.fromkeys(
    ("openai", "vllm", "sglang", "lmi", "scalellm", "llama.cpp"), "text_completions"
)


def facts_of_load(bench: BenchFields) -> dict[str, Any]:
    """Return the load's facts; a rate that grows is a trace of its own, where its bounds are known."""
    limit, rate = bench.max_concurrency, _rate(bench.request_rate)
    if bench.ramp_up_strategy is not None and bench.ramp_up_start_rps is None:
        return {}
    if bench.ramp_up_strategy is not None:
        rates = f"from {bench.ramp_up_start_rps} to {bench.ramp_up_end_rps} requests/s"
        trace = f"{bench.ramp_up_strategy} ramp-up {rates}"
        return {"load_profile": "trace", "trace": trace, "concurrency": limit}
    if rate == math.inf:
        return {"load_profile": "concurrent" if limit else "throughput", "concurrency": limit}
    if rate is None or rate <= 0:
        return {}
    # Gaps between requests follow a gamma distribution, Poisson's at burstiness 1.
    burstiness = _rate(bench.burstiness)
    arrivals = None
    if burstiness is not None and burstiness > 0:
        arrivals = {math.inf: "constant", 1.0: "poisson"}.get(
            burstiness, f"gamma (burstiness {burstiness:g})"
        )
    return {"load_profile": arrivals, "rate": rate, "concurrency": limit}


def _rate(value: float | str | None) -> float | None:
    try:
        number = math.nan if value is None else float(value)
    except ValueError:
        raise InvalidInput(
            f"This vllm bench result says {str(value)[:40]!r} where the rate of its requests belongs; "
            "run the benchmark again."
        ) from None
    return None if math.isnan(number) else number


def _started_at(bench: BenchFields) -> datetime | None:
    """Return when the load began, by the clock of its machine: ``date`` is written when it has
    ended.
    """
    try:
        ended = datetime.strptime(bench.date or "", "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        return ended - timedelta(seconds=bench.duration)
    except (ValueError, OverflowError):
        return None
