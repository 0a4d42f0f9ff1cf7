"""Results of ``vllm bench serve``, with and without ``--save-detailed``.

Its words differ from the catalogue's: its latencies (``vllm_latencies``), its acceptance rate in
percent. Times are monotonic seconds.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.flags.numbers import ended_otherwise
from ingest import level
from ingest.formats import vllm_facts
from ingest.level import Requests, left_out
from ingest.lines import former, lines
from ingest.model import Content, Context, Parsed
from ingest.stated import decoded, number
from ingest.unreadable import UNREADABLE, part, refusal
from ingest.window import activity, outlived
from warehouse.catalogue import QUANTILES
from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Cell, Flag, Measurement
from warehouse.secrets import scrub

# --- The per-request lists of ``vllm bench serve --save-detailed`` as request rows.


def requests_of(bench: "Bench") -> Requests | None:
    """Return every request with its times (monotonic s) and tokens; None without the lists.

    Raises InvalidInput where the lists differ in length or a time is negative.
    """
    if bench.ttfts is None or bench.output_lens is None:
        return None
    _check_lengths(bench)
    completed = _completed(bench)
    n = len(bench.ttfts)
    start = np.asarray(bench.start_times or [0.0] * n, dtype=np.float64)
    ttft = np.where(completed, np.asarray(bench.ttfts, dtype=np.float64), np.nan)
    end = start + np.where(completed, _latency(bench), np.nan)
    texts = bench.generated_texts
    errors = bench.errors or ["no output"] * n
    return Requests(
        columns={
            "start": start, "first_token": start + ttft, "last_token": end, "end": end,
            "prompt_tokens": bench.input_lens, "output_tokens": bench.output_lens,
        },
        errors=[None if good else error for good, error in zip(completed, errors, strict=True)],
        more={"output": texts} if texts and len(texts) == n else {},
        timed=bool(bench.start_times),
    )  # fmt: skip


def _check_lengths(bench: "Bench") -> None:
    lists = (bench.output_lens, bench.input_lens, bench.itls, bench.start_times, bench.latencies,
             bench.errors)  # fmt: skip
    n = len(bench.ttfts or ())
    if any(member is not None and len(member) != n for member in lists):
        raise InvalidInput(
            "This vllm bench result has per-request lists of different lengths; it was altered or "
            "cut short, run the benchmark again."
        )
    if min(bench.ttfts or (0.0,)) < 0 or min(bench.latencies or (0.0,)) < 0:
        raise InvalidInput(
            "This vllm bench result has a negative duration; the clock jumped, run it again."
        )


def _completed(bench: "Bench") -> np.ndarray[Any, Any]:
    if bench.errors is not None:
        return np.asarray([not error for error in bench.errors], dtype=bool)
    return np.asarray(bench.output_lens, dtype=np.float64) > 0


def _latency(bench: "Bench") -> np.ndarray[Any, Any]:
    """Return request sent to last token, s: as stated, else first token plus the gaps after it."""
    if bench.latencies is not None:
        return np.asarray(bench.latencies, dtype=np.float64)
    gaps = bench.itls or [[] for _ in bench.ttfts or ()]
    decoding = np.asarray([sum(g) for g in gaps], dtype=np.float64)
    latency: np.ndarray[Any, Any] = np.asarray(bench.ttfts, dtype=np.float64) + decoding
    return latency


def mean_gap(bench: "Bench") -> float | None:
    """Return the mean time between two chunks of the requests that succeeded, ms; None where none
    is known."""
    done = _completed(bench)
    gaps = [own for own, good in zip(bench.itls or (), done, strict=False) if good]
    count = sum(map(len, gaps))
    return 1000 * sum(map(sum, gaps)) / count if count else None


# --- Latencies of ``vllm bench serve`` and of its descendants, some of which write seconds.
#
# Its TPOT is our ITL, its ITL is the gap between chunks.


#: Our metric, and how many of its units are a millisecond there.
_METRICS = {"ttft": ("ttft", 1.0), "tpot": ("itl", 1.0), "itl": ("chunk_gap", 1.0),
            "e2el": ("request_latency", 1e-3), "e2e_latency": ("request_latency", 1e-3)}  # fmt: skip
_NAME = re.compile(rf"(mean|median|std|p[\d.]+)_({'|'.join(_METRICS)})(?:_(ms|s))?")
_MS = {"ms": 1.0, "s": 1e3}
_PERCENTILES = {f"p{q * 100:g}": name for name, q in QUANTILES.items()} | {"median": "p50"}
#: Between a number in seconds and the same in milliseconds.
_MIDDLE = math.sqrt(1e3)


def latencies(members: Mapping[str, Any], bench: "Bench | None") -> dict[tuple[str, str], float]:
    """Return each latency once, by metric and statistic, in the catalogue's unit: with percentile 50
    asked for, ``median_*`` and ``p50_*`` are the same number. Raises InvalidInput for one that is none.

    A name without a unit, ``median_ttft``, is in seconds, unless no request can have taken so long.
    """
    found: dict[tuple[str, str], float] = {}
    bare = _bare(members, bench)
    for key, (stated, name, unit) in _named(members).items():
        metric, factor = _METRICS[name]
        value = number(members, key)
        statistic = _statistic(stated)
        if value is not None and statistic is not None:
            found.setdefault((metric, statistic), value * factor * _MS[unit or bare])
    return found


def is_read(key: str) -> bool:
    """Return whether a member is a latency that ``latencies`` returns."""
    match = _NAME.fullmatch(key)
    return match is not None and _statistic(match[1]) is not None


def _named(members: Mapping[str, Any]) -> dict[str, tuple[str, str, str | None]]:
    """Return the latencies' names in their parts, those that state their unit first."""
    found = {key: match for key in members if (match := _NAME.fullmatch(key))}
    ordered = sorted(found.items(), key=lambda one: one[1][3] is None)
    return {key: (match[1], match[2], match[3]) for key, match in ordered}


def _statistic(stated: str) -> str | None:
    statistic = _PERCENTILES.get(stated, stated)
    return statistic if statistic in {"mean", "std"} or statistic in QUANTILES else None


def _bare(members: Mapping[str, Any], bench: "Bench | None") -> str:
    """Return the unit of names that state none: that in which a request took about as long as so many
    at once and their rate say, or else at most as long as the run."""
    taken = _request(members, bench)
    if bench is None or taken is None:
        return "s"
    longest = bench.duration
    if bench.max_concurrency and bench.completed and bench.request_rate in ("inf", math.inf):
        at_once = min(bench.max_concurrency, bench.completed)
        longest = at_once * bench.duration / bench.completed * _MIDDLE
    return "s" if taken <= longest else "ms"


def _request(members: Mapping[str, Any], bench: "Bench | None") -> float | None:
    """Return how long a request took, by the names that state no unit; None where they do not say."""

    def said(name: str) -> float | None:
        found = (number(members, f"{one}_{name}") for one in ("mean", "median"))
        return next((value for value in found if value is not None), None)

    whole = said("e2el") or said("e2e_latency")
    if whole is not None or bench is None or not bench.completed:
        return whole
    step = said("tpot") or said("itl")
    return None if step is None else step * bench.total_output_tokens / bench.completed


# --- Results of ``vllm bench serve``, with and without ``--save-detailed``.


NAME, KIND = "vllm-bench", "a vllm bench result"

_HEAD = 1 << 16
_MARKS = (b'"model_id"', b'"num_prompts"', b'"request_rate"', b'"tokenizer_id"')
#: InferenceX adds its own words to a result and turns its ms into s.
_PER_GPU = b'"tput_per_gpu"'
_PER_REQUEST = frozenset(
    {"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times",
     "generated_texts", "errors"}
)  # fmt: skip


class Bench(msgspec.Struct, kw_only=True):
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
_KNOWN = re.compile("|".join((*Bench.__struct_fields__, _DERIVED)))
#: A sweep adds what it varied: its numbers are arguments, but for those that are named like a latency.
_KNOWN_OF_SWEEP = re.compile(rf"{_DERIVED}|(?!(mean|median|std|min|max|p[\d.]+)_)\S+")


def sniff(data: memoryview) -> bool:
    """Recognise a result by itself, not one of a sweep."""
    return is_result(data) and not is_of_sweep(data)


def is_result(data: memoryview) -> bool:
    """Return whether the head of the file carries the keys that every result has."""
    head = bytes(data[:_HEAD])
    return all(mark in head for mark in _MARKS) and _PER_GPU not in head


def is_by_product(path: Path) -> bool:
    """Whether a file repeats a result in the format of PyTorch's benchmarks."""
    stem = path.name.removesuffix(".pytorch.json")
    return stem != path.name and (path.parent / f"{stem}.json").is_file()


def is_of_sweep(data: memoryview) -> bool:
    """Return whether a sweep has added its run number, which stands at the end, after any
    per-request lists."""
    return b'"run_number"' in bytes(data[-_HEAD:])


@dataclass(frozen=True)
class Result:
    """A result that was read: its typed fields, its other members, its flags."""

    bench: Bench
    members: dict[str, Any]
    """Its own scalar members and short lists, credentials removed."""
    flags: tuple[Flag, ...]

    @property
    def config(self) -> dict[str, Any]:
        """What the result says of its own configuration: everything that is not a measurement."""
        return {
            key: value
            for key, value in self.members.items()
            if not is_read(key)
            and not key.endswith(("_ms", "throughput"))
            and not key.startswith("spec_decode")
        }


def parse(content: Content, context: Context) -> Parsed:
    """Read a result, which is one cell, or those of ``--append-result``. Raises InvalidInput."""
    parts = _results(content.data)
    results = []
    for line, one in parts:
        with part(f"Line {line}", alone=len(parts) == 1):
            results.append(read(one))
    first = results[0].config
    config = first if len(results) == 1 else {"results": [one.config for one in results]}
    cells = _cells(results, [number for number, _ in parts], context)
    return Parsed(NAME, config, cells, former(content.data) if len(results) > 1 else ())


def _cells(results: list[Result], numbers: list[int], context: Context) -> Iterator[Cell]:
    for index, one in enumerate(results):
        with part(f"Line {numbers[index]}", alone=len(results) == 1):
            cell = cell_of(one, context, {}, index)
        yield cell


def _results(data: memoryview) -> list[tuple[int, memoryview]]:
    """Split a file into its results, each with its line: ``--append-result`` writes each as one;
    otherwise a file is one."""
    parts = list(lines(data))
    appended = len(parts) > 1 and bytes(parts[0][1][-64:]).rstrip().endswith(b"}")
    return parts if appended else [(1, data)]


def read(data: memoryview) -> Result:
    """Read the typed result. Raises InvalidInput with what is missing or out of range."""
    try:
        (bench, members), flags = decoded(data, _decode, infinity=b'"inf"')
    except UNREADABLE as error:
        raise refusal("This vllm bench result", error) from None
    _check(bench)
    return Result(bench, members, flags)


def _decode(data: bytes | memoryview) -> tuple[Bench, dict[str, Any]]:
    raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    kept = {key: value for key, value in raw.items() if key not in _PER_REQUEST}
    members = {key: msgspec.json.decode(value) for key, value in kept.items()}
    return msgspec.json.decode(data, type=Bench), scrub(members)


def _check(bench: Bench) -> None:
    counts = (bench.completed, bench.num_prompts, bench.failed or 0)
    if bench.duration <= 0 or min(counts) < 0:
        raise InvalidInput(
            "This vllm bench result has a duration or a count below zero; run the benchmark again."
        )


def cell_of(result: Result, context: Context, extra: dict[str, Any], index: int = 0) -> Cell:
    """Return the cell of a result, a failed one where no request succeeded; ``extra`` facts (of a
    sweep) override the result's own."""
    bench = result.bench
    errored = bench.failed if bench.failed is not None else bench.num_prompts - bench.completed
    requests = requests_of(bench)
    found = level.cell_of(
        level.Level(
            generator=NAME,
            facts=vllm_facts.facts_of(bench) | extra,
            reported=_reported(result, errored),
            completed=bench.completed,
            errored=max(errored, 0),
            started_at=vllm_facts.started_at(bench),
            duration=bench.duration,
            acceptance=tuple(acceptance(bench)),
            flags=(*result.flags, *_doubts(result, requests)),
            requests=requests,
        ),
        context,
        index,
    )
    kept = found.measurements if bench.start_times else _stated(found)
    return replace(found, requests_made=bench.num_prompts, measurements=kept)


def _stated(cell: Cell) -> tuple[Measurement, ...]:
    """Return what the result states: without the times of its requests nothing is recomputed."""
    return tuple(one for one in cell.measurements if one.origin == "reported")


def _doubts(result: Result, requests: level.Requests | None) -> Iterator[Flag]:
    bench = result.bench
    others = {key: said for key, said in result.members.items() if not is_read(key)}
    yield from left_out(others, _KNOWN_OF_SWEEP if "run_number" in others else _KNOWN)
    if vllm_facts.started_at(bench) is not None:
        yield vllm_facts.LOCAL_TIME
    if bench.completed == 0:
        return
    ended = bench.completed + (bench.failed or 0)
    # Where its requests are there, they are counted with those of all formats.
    if requests is None and bench.failed is not None and ended < bench.num_prompts:
        yield ended_otherwise(ended, bench.num_prompts)
    if requests is not None:
        gap = result.members.get("mean_itl_ms")
        yield from level.contradicted("chunk_gap", gap, mean_gap(bench))
    if requests is not None and requests.timed:
        first, last = activity(requests.columns)
        cut = outlived(bench.duration, min(last - first, bench.duration))
        yield from () if cut is None else (cut,)


def _reported(result: Result, errored: int) -> Iterator[Measurement]:
    for (metric, statistic), value in latencies(result.members, result.bench).items():
        yield Measurement("reported", metric, statistic, value)
    for metric, rate in means(result.bench, errored):
        if rate is not None:
            yield Measurement("reported", metric, "mean", rate)


def means(bench: Bench, errored: int | None) -> Iterator[tuple[str, float | None]]:
    """Yield what is stated of rates, and of tokens by request, by metric; None where it is not."""
    yield "output_throughput", bench.output_throughput
    yield "total_throughput", bench.total_token_throughput
    yield "request_throughput", bench.request_throughput
    done = bench.completed
    if done and errored is not None:
        yield "error_rate", errored / (done + errored)
    for metric, total in (
        ("prompt_tokens", bench.total_input_tokens), ("output_tokens", bench.total_output_tokens)
    ):  # fmt: skip
        yield metric, None if not done or total is None else total / done


def acceptance(bench: Bench) -> Iterator[Acceptance]:
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
