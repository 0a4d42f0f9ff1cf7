"""Results of SGLang's ``bench_serving``: one line of JSON for each run, appended to one file.

Definitions after ``sglang/benchmark/serving.py`` of SGLang 0.5.23: its TPOT leaves out the first
token and is our ITL, its end-to-end latency is in ms, percentiles are interpolated, and throughput
is everything generated over the time of the run. Its ITL is a gap between chunks for servers that
speak OpenAI's interface, and a gap spread over the tokens of its chunk for SGLang's own. A server that
reports no usage is taken to have generated what was asked for; the texts, counted anew, tell.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ingest.formats import sglang_facts
from ingest.left_out import left_out
from ingest.level import DIFFER, Level, Requests, cell_of, flat, is_number, reported
from ingest.lines import decoded, former, head_of, lines, starts_object
from ingest.model import Content, Context, Parsed
from ingest.stated import count, number
from ingest.unreadable import part
from warehouse.errors import InvalidInput
from warehouse.rows import Cell, Flag, Measurement
from warehouse.secrets.values import scrub

NAME, KIND = "sglang-bench", "a result of SGLang's bench_serving"

_HEAD, _ARGUMENTS = 1 << 20, 1 << 12
_ENDLESS = b'"request_rate": Infinity'
_MARKS = (b"max_concurrency", b"sharegpt_output_len", b"random_range_ratio")
_RATES = {"output_throughput": "output_throughput", "total_throughput": "total_throughput",
          "request_throughput": "request_throughput", "achieved_concurrency": "concurrency",
          "mean_acceptance_length": "accept_length"}  # fmt: skip
_LATENCIES = {"ttft": ("ttft_ms", 1.0), "itl": ("tpot_ms", 1.0),
              "request_latency": ("e2e_latency_ms", 1e-3)}  # fmt: skip
#: Numbers that are read, follow from what is, or say what was asked for.
_KNOWN = re.compile(
    r"(mean|median|std|p\d+|max)_(e2e_latency|ttft|tpot|itl)_ms|\w*throughput|concurrency|duration|"
    r"completed|accept_length|request_rate|(random|sharegpt|image|gsp|total|max|num|cache|server_info)\w*|seed"
)
_OWN_INTERFACE = ("sglang", "sglang-native")
#: Texts that are tokenised again give some tokens more or fewer than were generated.
_RETOKENISED = 1.2


class Details(msgspec.Struct):
    """The lists of ``--output-details``: one member for each request."""

    input_lens: list[int | None] | None = None
    output_lens: list[int] | None = None
    ttfts: list[float] | None = None
    itls: list[list[float]] | None = None
    generated_texts: list[str | None] | None = None
    errors: list[str | None] | None = None


_LISTS = (*Details.__struct_fields__, "cached_tokens", "cached_tokens_details")
Run = tuple[dict[str, Any], Details]


def sniff(data: memoryview) -> bool:
    """Recognise the arguments of a run, which stand before anything that can be long."""
    return starts_object(head_of(data, _HEAD), *_MARKS)


def parse(content: Content, context: Context) -> Parsed:
    """Read a file; each line is a cell. Raises InvalidInput."""
    runs = list(decoded(content.data, _decode, KIND))
    config = {"runs": [_config(said) for (said, _), _ in runs]}
    numbers = [number for number, _ in lines(content.data)]
    return Parsed(NAME, config, _cells(runs, numbers, context), former(content.data))


def _cells(
    runs: list[tuple[Run, tuple[Flag, ...]]], numbers: list[int], context: Context
) -> Iterator[Cell]:
    for index, ((said, details), flags) in enumerate(runs):
        with part(f"Line {numbers[index]}", alone=len(runs) == 1):
            cell = cell_of(_level(said, details, flags), context, index)
        yield cell


def _decode(data: bytes | memoryview) -> Run:
    # Python writes a rate without a bound as Infinity, which is no JSON; only here it is meant.
    if _ENDLESS in bytes(data[:_ARGUMENTS]):
        data = bytes(data).replace(_ENDLESS, b'"request_rate": "inf"', 1)
    raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    kept = {key: msgspec.json.decode(value) for key, value in raw.items() if key not in _LISTS}
    return scrub(kept), msgspec.json.decode(data, type=Details)


def _config(said: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if not key.endswith("_ms")}


def _level(said: dict[str, Any], details: Details, flags: tuple[Flag, ...]) -> Level:
    completed, length = count(said, "completed"), number(said, "duration")
    if completed is None or length is None:
        raise InvalidInput(
            "This SGLang benchmark has no 'completed' or no 'duration', each a number: the run was cut "
            "short; run it again."
        )
    requests = _requests(details)
    failed = 0 if requests is None else sum(error is not None for error in requests.errors)
    return Level(
        generator=NAME,
        facts=sglang_facts.facts_of(said),
        reported=_reported(said, failed if requests else None),
        completed=completed,
        errored=failed,
        duration=length,
        flags=(*flags, *left_out(said, _KNOWN), *as_asked_for(said)),
        requests=requests,
    )


def as_asked_for(said: dict[str, Any]) -> Iterator[Flag]:
    """Yield a flag where more output tokens are counted than the texts hold."""
    counted, held = said.get("total_output_tokens"), said.get("total_output_tokens_retokenized")
    if said.get("backend") in _OWN_INTERFACE or not is_number(counted) or not is_number(held):
        return
    if held > 0 and counted > _RETOKENISED * held:
        yield Flag(
            "tokens_as_asked_for",
            "warning",
            f"{counted:,.0f} output tokens are counted, and the texts hold {held:,.0f}: the server may have "
            "reported no usage, and then those asked for were counted, not those generated, so ITL is too "
            "low and output tokens per second are too many. Texts without a model's reasoning look alike.",
        )


def spreads(said: dict[str, Any], accepted: str) -> bool:
    """Return whether the ITL of a run is a gap spread over the tokens of its chunk: that of SGLang's own
    interface, and with speculation."""
    return said.get("backend") in _OWN_INTERFACE or bool(said.get(accepted))


def _reported(said: dict[str, Any], failed: int | None) -> Iterator[Measurement]:
    for metric, name in _RATES.items():
        if said.get(name) is not None:
            yield from reported(metric, said[name])
    for metric, (name, factor) in _LATENCIES.items():
        yield from reported(metric, flat(said, name), factor)
    if not spreads(said, "accept_length"):
        yield from reported("chunk_gap", flat(said, "itl_ms"))
    done = said["completed"]
    if done > 0:
        # Left at 0 where rounds of a conversation follow one another.
        yield from reported("prompt_tokens", _each(said.get("total_input_tokens") or None, done))
        yield from reported("output_tokens", _each(said.get("total_output_tokens"), done))
    if failed is not None and done + failed > 0:
        yield from reported("error_rate", failed / (done + failed))


def _each(total: Any, count: int) -> Any:
    """Return a total for each of so many; what is no number goes on as it is, to be judged there."""
    return total / count if is_number(total) else total


def _requests(details: Details) -> Requests | None:
    """Return the requests of ``--output-details``, which do not say when they began."""
    if details.ttfts is None or details.output_lens is None:
        return None
    lengths = details.output_lens
    gaps = details.itls or [[] for _ in lengths]
    told = details.errors or [None] * len(lengths)
    if len({len(one) for one in (lengths, gaps, told, details.ttfts)}) > 1:
        raise InvalidInput(DIFFER)
    # A request that failed has no output; one that was cut off says so in words.
    failed = [bool(error) or not length for error, length in zip(told, lengths, strict=True)]
    errors = [
        (error or "no output") if bad else None for error, bad in zip(told, failed, strict=True)
    ]
    ends = [ttft + sum(gap) for ttft, gap in zip(details.ttfts, gaps, strict=True)]
    moments = {"first_token": details.ttfts, "last_token": ends, "end": ends}
    nothing: dict[str, list[Any]] = {
        name: [None if bad else value for value, bad in zip(values, failed, strict=True)]
        for name, values in moments.items()
    }
    texts = details.generated_texts
    return Requests(
        columns={**nothing, "prompt_tokens": details.input_lens, "output_tokens": lengths},
        errors=errors,
        more={"output": texts} if texts and len(texts) == len(lengths) else {},
        timed=False,
    )
