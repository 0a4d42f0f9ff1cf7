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
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from analysis.flags.numbers import ended_otherwise
from ingest import not_a_number
from ingest.formats.inferencex_checks import doubts
from ingest.left_out import left_out
from ingest.level import FAILED, NOT_COUNTED, Level, cell_of, flat, reported
from ingest.lines import head_of
from ingest.model import Content, Context, Parsed
from ingest.read import json_bytes
from ingest.stated import count, number, positive
from ingest.unreadable import UNREADABLE, part, refusal
from warehouse.errors import InvalidInput
from warehouse.rows import Cell, Measurement

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
            *not_a_number.held_by(row),
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
