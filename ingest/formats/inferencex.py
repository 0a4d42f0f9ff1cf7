"""InferenceX (InferenceMAX) results: rows with a result each, alone or in an array.

``agg_*.json`` of its runs holds flat rows, its public interface rows with ``metrics``. Both come
from a ``vllm bench serve`` result whose milliseconds were turned into seconds and whose throughput
was divided by the GPUs (``utils/process_result.py``): TPOT leaves out the first token and is our
ITL, its ITL is the gap between chunks. How many requests were made is seldom passed on. A download
holds each row twice, alone and collected in ``agg_bmk.json``: a row is known by what it says.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from analysis.flags.numbers import ended_otherwise
from ingest.level import FAILED, NOT_COUNTED, Level, cell_of, flat, left_out, reported
from ingest.lines import head_of
from ingest.model import Content, Context, Parsed
from ingest.read import json_bytes
from ingest.stated import count, held_by, number, positive
from ingest.unreadable import UNREADABLE, part, refusal
from warehouse.errors import InvalidInput
from warehouse.rows import Cell, Flag, Measurement

# --- Doubts about an InferenceX row: what it states has to fit the lengths that were asked for.
#
# It counts no tokens; its load generator draws each length between 80 and 100 % of ``isl`` and
# ``osl`` and ignores the end of a text, so that the mean length is known well enough.


#: (e2el - ttft) / tpot was 0.89 to 0.91 of ``osl`` in the public rows that were looked at.
_LENGTH = (0.7, 1.2)
#: Output tokens/s x latency of a stream were 0.85 to 0.88 of ``osl``: streams also start and end.
_STREAM = (0.6, 1.15)
#: Their input and output were as ``isl`` to ``osl`` within 1 %.
_SHARE = (0.8, 1.25)


def doubts(
    row: Mapping[str, Any], means: Mapping[str, Any], output: float | None, total: float | None
) -> Iterator[Flag]:
    """Yield a flag for what does not fit. ``means``: ``mean_*`` of the latencies, s; ``output``,
    ``total``: tokens/s."""
    asked = positive(row, "osl")
    if asked is not None:
        yield from _latencies(means, asked)
        yield from _rates_of(row, asked, _seconds(means, "e2el"), output, total)


def _latencies(means: Mapping[str, Any], asked: int) -> Iterator[Flag]:
    first, gap, whole = (_seconds(means, name) for name in ("ttft", "tpot", "e2el"))
    if first is None or gap is None or whole is None:
        return
    if not _fits(whole - first, gap * asked, _LENGTH):
        yield Flag(
            "latencies_disagree",
            "warning",
            f"The row says a request latency of {whole:,.4g} s, but {first:,.4g} s to the first token "
            f"and {1000 * gap:,.4g} ms for each other of about {asked:,} tokens.",
        )


def _rates_of(
    row: Mapping[str, Any], asked: int, whole: float | None, output: float | None,
    total: float | None,
) -> Iterator[Flag]:  # fmt: skip
    if output is None or output <= 0:
        return
    streams, prompt = positive(row, "conc"), positive(row, "isl")
    if streams and whole is not None and not _fits(output * whole, streams * asked, _STREAM):
        yield _far_apart(
            f"{output:,.1f} output tokens/s, which makes {output * whole / streams:,.0f} tokens of a "
            f"request of {whole:,.4g} s at {streams} at once, but about {asked:,} were asked for"
        )
    if prompt and total is not None and not _fits(total / output, 1 + prompt / asked, _SHARE):
        yield _far_apart(
            f"{output:,.1f} of {total:,.1f} tokens/s are output, but {asked:,} of {prompt + asked:,} "
            "tokens were asked for as output"
        )


def _far_apart(what: str) -> Flag:
    return Flag("rates_disagree", "warning", f"The row contradicts itself: {what}.")


def _fits(value: float, of: float, bounds: tuple[float, float]) -> bool:
    low, high = bounds
    return low * of <= value <= high * of


def _seconds(means: Mapping[str, Any], name: str) -> float | None:
    return number(means, f"mean_{name}")


# --- InferenceX (InferenceMAX) results: rows with a result each, alone or in an array.


NAME, KIND = "inferencex", "an InferenceX result"

_LATENCIES = {"ttft": ("ttft", 1000.0), "itl": ("tpot", 1000.0), "chunk_gap": ("itl", 1000.0),
              "request_latency": ("e2el", 1.0)}  # fmt: skip
#: What else tells how the GPUs share the work.
_LAYOUT = (
    "image", "ep", "dp_attention", "pp", "dcp_size", "pcp_size", "num_prefill_gpu", "num_decode_gpu",
    "prefill_tp", "prefill_ep", "prefill_dp_attention", "prefill_num_workers", "decode_tp",
    "decode_ep", "decode_dp_attention", "decode_num_workers",
)  # fmt: skip
#: Numbers that are no latency, and latencies that are read or follow from what is.
_KNOWN = re.compile(
    r"(?!(mean|median|std|min|max|p[\d.]+)_)\S+|[a-z0-9.]+_(ttft|tpot|itl|e2el|intvty)"
)
_METHODS = {"none": "none", "off": "none", "false": "none", "eagle": "eagle", "eagle3": "eagle3",
            "mtp": "mtp", "ngram": "ngram", "draft_model": "draft_model"}  # fmt: skip


def sniff(data: memoryview) -> bool:
    """Recognise rows with a throughput per GPU; the collected form is an array."""
    head = head_of(data)
    rows = head[:1] in (b"{", b"[") and b'"tput_per_gpu"' in head and b'"conc"' in head
    return rows and (b'"hw"' in head or b'"hardware"' in head)


def parse(content: Content, context: Context) -> Parsed:
    """Read the rows; each is a cell. Raises InvalidInput."""
    said = _said(json_bytes(content.data))
    rows = said if isinstance(said, list) else [said]
    cells = (_cell(row, context, index, len(rows)) for index, row in enumerate(rows))
    return Parsed(NAME, {"rows": len(rows)}, cells, apart=tuple(_apart(rows, context).items()))


def _said(data: memoryview) -> Any:
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        pass
    try:
        # It takes NaN, which is no JSON: only the row that holds it has to be told.
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise refusal("This InferenceX result", error) from None


def _apart(rows: list[Any], context: Context) -> dict[str, Iterator[Cell]]:
    """Return the cell of each row by the hash of what the row says, in whatever order."""
    found = {}
    for index, row in enumerate(rows):
        said = msgspec.json.encode(row, order="deterministic")
        own = hashlib.sha256(said).hexdigest()
        found[own] = _one(row, replace(context, source_id=partial(str, own)), index, len(rows))
    return found


def _one(row: Any, context: Context, index: int, rows: int) -> Iterator[Cell]:
    yield _cell(row, context, index, rows)


def _cell(row: Any, context: Context, index: int, rows: int) -> Cell:
    with part(f"Row {index + 1}", alone=rows == 1):
        return _read(row, context, index)


def _read(row: Any, context: Context, index: int) -> Cell:
    """Return the cell of a row; one of a run in which nothing succeeded is a failed one. Raises
    InvalidInput."""
    if not isinstance(row, dict):
        raise InvalidInput("This InferenceX result is no object: export it again.")
    found = cell_of(_level(row), context, index)
    done = _counted(row, "completed")
    if done is None:
        return found
    made = _counted(row, "num_prompts") or done
    more = [ended_otherwise(done, made)] if done > made else []
    found = replace(
        found, completed=done, requests_made=max(made, done), errored=max(made - done, 0),
        flags=(*(flag for flag in found.flags if flag != NOT_COUNTED), *more),
    )  # fmt: skip
    return found if done else replace(found, status="failed", measurements=(), flags=(FAILED,))


def _counted(row: dict[str, Any], name: str) -> int | None:
    nested = row.get("metrics")
    value = row.get(name, nested.get(name) if isinstance(nested, dict) else None)
    return count({name: value}, name)


def _level(row: dict[str, Any]) -> Level:
    nested = row.get("metrics")
    if "request_metrics" in row or isinstance(row.get("users"), int):
        raise InvalidInput(
            "This is a result of InferenceX's agent traces, whose requests depend on one another: "
            "it has no load that could be compared; give the results of its fixed lengths."
        )
    for name in ("isl", "osl", "conc", "tp"):
        if (said := count(row, name)) is not None and said < 0:
            raise InvalidInput(
                f"This InferenceX result says {name}={said}, which is below zero: export it again."
            )
    numbers = nested if isinstance(nested, dict) else row
    total, output = _rates(row, numbers)
    return Level(
        generator=NAME,
        facts=_facts(row),
        reported=_reported(numbers, total, output),
        completed=None,
        flags=(
            *held_by(row),
            *left_out(numbers, _KNOWN),
            *doubts(row, numbers, output, total),
        ),
    )


def _reported(
    numbers: dict[str, Any], total: float | None, output: float | None
) -> Iterator[Measurement]:
    for metric, (name, factor) in _LATENCIES.items():
        yield from reported(metric, flat(numbers, name), factor)
    for metric, rate in (("total_throughput", total), ("output_throughput", output)):
        if rate is not None:
            yield from reported(metric, rate)


def _rates(row: dict[str, Any], numbers: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return all tokens and output tokens per second of all GPUs."""
    gpus = _gpus(row)
    # With prefill and decode apart, output is counted per GPU that decodes.
    decoding = positive(row, "num_decode_gpu") if _is_split(row) else gpus
    counts = {"tput_per_gpu": gpus, "output_tput_per_gpu": decoding or gpus}
    total, output = (
        None if of is None or (rate := number(numbers, name)) is None else rate * of
        for name, of in counts.items()
    )
    return total, output


def _facts(row: dict[str, Any]) -> dict[str, Any]:
    lengths = count(row, "isl"), count(row, "osl")
    method = _text(row.get("spec_decoding")) or _text(row.get("spec_method"))
    return {
        "model": _text(row.get("model")) or _text(row.get("infmax_model_prefix")),
        "engine": _engine(row),
        "precision": _text(row.get("precision")),
        "gpu": _text(row.get("hw")) or _text(row.get("hardware")),
        "gpu_count": _gpus(row),
        "tensor_parallel_size": positive(row, "tp") or positive(row, "decode_tp"),
        "dataset": f"random {lengths[0]}/{lengths[1]}" if all(lengths) else None,
        "load_profile": "concurrent",
        "concurrency": positive(row, "conc"),
        "spec_method": None if method is None else _METHODS.get(method.lower(), method.lower()),
        "server_args": _server(row) or None,
    }


def _server(row: dict[str, Any]) -> dict[str, Any]:
    """Return what else says how the server was laid out: two rows that differ in it are two
    servers."""
    return {key: row[key] for key in _LAYOUT if row.get(key) not in (None, "", [], {})}


def _engine(row: dict[str, Any]) -> str | None:
    """Return the server's own name: InferenceX calls TensorRT-LLM ``trt``, and puts ``dynamo-``
    before a name."""
    framework = (_text(row.get("framework")) or "").lower().removeprefix("dynamo-")
    return {"trt": "tensorrt-llm", "trtllm": "tensorrt-llm"}.get(framework, framework) or None


def _is_split(row: dict[str, Any]) -> bool:
    """Return whether some of the GPUs only prefill and others only decode."""
    return row.get("disagg") in (True, "true") or row.get("is_multinode") is True


def _gpus(row: dict[str, Any]) -> int | None:
    """Return the number of GPUs by which the throughput was divided."""
    if _is_split(row):
        prefill, decode = count(row, "num_prefill_gpu"), count(row, "num_decode_gpu")
        return None if prefill is None or decode is None else prefill + decode or None
    if count(row, "tp") is None:
        # Where nothing is split, the public interface gives the same GPUs twice.
        return count(row, "num_decode_gpu") or None
    sizes = (count(row, name) for name in ("tp", "pp", "pcp_size"))
    return math.prod(size for size in sizes if size is not None) or None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
