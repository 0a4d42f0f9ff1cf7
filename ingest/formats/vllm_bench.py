"""Results of ``vllm bench serve``, with and without ``--save-detailed``.

Its words differ from the catalogue's: its latencies (``vllm_latencies``), its acceptance rate in
percent. Times are monotonic seconds.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from analysis.flags.numbers import ended_otherwise
from ingest import level, not_a_number
from ingest.formats import vllm_facts
from ingest.formats.vllm_latencies import is_read, latencies
from ingest.formats.vllm_requests import mean_gap, requests_of
from ingest.left_out import left_out
from ingest.lines import former, lines
from ingest.model import Content, Context, Parsed
from ingest.unreadable import UNREADABLE, part, refusal
from ingest.window import activity, outlived
from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Cell, Flag, Measurement
from warehouse.secrets.values import scrub

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
        (bench, members), flags = not_a_number.decoded(data, _decode, infinity=b'"inf"')
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
