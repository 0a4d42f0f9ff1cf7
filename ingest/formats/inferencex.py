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
from itertools import chain
from typing import Any

import msgspec

from analysis.flags.numbers import ended_otherwise
from ingest.level import LevelReport, cells_of, left_out, reported, reported_flat
from ingest.model import Context, FileContent, Parsed, json_bytes
from ingest.stated import (
    UNREADABLE,
    count,
    head_of,
    held_by,
    number,
    positive,
    refusal,
    text_of,
)
from warehouse.errors import InvalidInput
from warehouse.rows import Flag

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
    ``total``: tokens/s.
    """
    asked = positive(row, "osl")
    if asked is None:
        return
    first, gap, whole = (number(means, f"mean_{name}") for name in ("ttft", "tpot", "e2el"))
    if (
        first is not None and gap is not None and whole is not None
        and not _fits(whole - first, gap * asked, _LENGTH)
    ):  # fmt: skip
        yield Flag(
            "latencies_disagree",
            "warning",
            f"The row says a request latency of {whole:,.4g} s, but {first:,.4g} s to the first token "
            f"and {1000 * gap:,.4g} ms for each other of about {asked:,} tokens.",
        )
    if output is None or output <= 0:
        return
    streams, prompt = positive(row, "conc"), positive(row, "isl")
    contradictions = []
    if streams and whole is not None and not _fits(output * whole, streams * asked, _STREAM):
        contradictions.append(
            f"{output:,.1f} output tokens/s, which makes {output * whole / streams:,.0f} tokens of a "
            f"request of {whole:,.4g} s at {streams} at once, but about {asked:,} were asked for"
        )
    if prompt and total is not None and not _fits(total / output, 1 + prompt / asked, _SHARE):
        contradictions.append(
            f"{output:,.1f} of {total:,.1f} tokens/s are output, but {asked:,} of {prompt + asked:,} "
            "tokens were asked for as output"
        )
    for what in contradictions:
        yield Flag("rates_disagree", "warning", f"The row contradicts itself: {what}.")


def _fits(value: float, of: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] * of <= value <= bounds[1] * of


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


def parse(content: FileContent, context: Context) -> Parsed:
    """Read the rows; each is a cell. Raises InvalidInput."""
    decoded = _decoded(json_bytes(content.data))
    rows = list(enumerate(decoded if isinstance(decoded, list) else [decoded], start=1))
    # The cell of each row by the hash of what the row says, in whatever order.
    apart = {}
    for place, row in rows:
        own = hashlib.sha256(msgspec.json.encode(row, order="deterministic")).hexdigest()
        alone = replace(context, source_id=partial(str, own))
        apart[own] = cells_of(
            "Row", [(place, row)], _level, alone, always=len(rows) > 1, first=place - 1
        )
    cells = cells_of("Row", rows, _level, context)
    return Parsed(NAME, {"rows": len(rows)}, cells, apart=tuple(apart.items()))


def _decoded(data: memoryview) -> Any:
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        pass
    try:
        # It takes NaN, which is no JSON: only the row that holds it has to be told.
        return json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise refusal("This InferenceX result", error) from None


def _level(row: Any) -> LevelReport:
    if not isinstance(row, dict):
        raise InvalidInput("This InferenceX result is no object: export it again.")
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
    nested = row.get("metrics")
    numbers = nested if isinstance(nested, dict) else row
    # All tokens and output tokens per second of all GPUs; with prefill and decode apart, output is
    # counted per GPU that decodes.
    gpus = _gpus(row)
    decoding = positive(row, "num_decode_gpu") if _is_split(row) else gpus
    total, output = (
        None if of is None or (rate := number(numbers, name)) is None else rate * of
        for name, of in (("tput_per_gpu", gpus), ("output_tput_per_gpu", decoding or gpus))
    )
    done, made = (
        count({name: row.get(name, numbers.get(name))}, name)
        for name in ("completed", "num_prompts")
    )
    flags = [*held_by(row), *left_out(numbers, _KNOWN), *doubts(row, numbers, output, total)]
    if done == 0:
        flags = []
    elif done is not None and done > (made or done):
        flags.append(ended_otherwise(done, made or done))
    return LevelReport(
        generator=NAME,
        facts=_facts(row, gpus),
        reported=chain(
            reported_flat(numbers, _LATENCIES),
            reported("total_throughput", total),
            reported("output_throughput", output),
        ),
        completed=done,
        errored=0 if done is None else max((made or done) - done, 0),
        flags=tuple(flags),
    )


def _facts(row: Mapping[str, Any], gpus: int | None) -> dict[str, Any]:
    lengths = count(row, "isl"), count(row, "osl")
    method = (text_of(row.get("spec_decoding")) or text_of(row.get("spec_method")) or "").lower()
    # InferenceX calls TensorRT-LLM ``trt``, and puts ``dynamo-`` before a server's name.
    engine = (text_of(row.get("framework")) or "").lower().removeprefix("dynamo-")
    # How else the server was laid out: two rows that differ in it are two servers.
    layout = {key: row[key] for key in _LAYOUT if row.get(key) not in (None, "", [], {})}
    return {
        "model": text_of(row.get("model")) or text_of(row.get("infmax_model_prefix")),
        "engine": {"trt": "tensorrt-llm", "trtllm": "tensorrt-llm"}.get(engine, engine) or None,
        "precision": text_of(row.get("precision")),
        "gpu": text_of(row.get("hw")) or text_of(row.get("hardware")),
        "gpu_count": gpus,
        "tensor_parallel_size": positive(row, "tp") or positive(row, "decode_tp"),
        "dataset": f"random {lengths[0]}/{lengths[1]}" if all(lengths) else None,
        "load_profile": "concurrent",
        "concurrency": positive(row, "conc"),
        "spec_method": _METHODS.get(method, method) or None,
        "server_args": layout or None,
    }


def _is_split(row: Mapping[str, Any]) -> bool:
    return row.get("disagg") in (True, "true") or row.get("is_multinode") is True


def _gpus(row: Mapping[str, Any]) -> int | None:
    if _is_split(row):
        prefill, decode = count(row, "num_prefill_gpu"), count(row, "num_decode_gpu")
        return None if prefill is None or decode is None else prefill + decode or None
    if count(row, "tp") is None:
        # Where nothing is split, the public interface gives the same GPUs twice.
        return count(row, "num_decode_gpu") or None
    sizes = (count(row, name) for name in ("tp", "pp", "pcp_size"))
    return math.prod(size for size in sizes if size is not None) or None
