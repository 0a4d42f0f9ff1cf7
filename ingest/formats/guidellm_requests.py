"""The request records of one GuideLLM level as columns, and as the table that is stored."""

import itertools
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingest.formats.guidellm_shape import Benchmark, Request, Speculation, Timings
from ingest.prompts import Body, prompt_text, read_arguments
from warehouse.contract import hash_text
from warehouse.errors import InvalidInput
from warehouse.rows import COMPLETED, ERRORED, INCOMPLETE, REQUEST_SCHEMA

Columns = dict[str, NDArray[Any]]
_TIMES = ("start", "first_token", "last_token", "end")
#: What 0.2 and 0.3 wrote for a moment that never came.
_NEVER = -1
_decode_text = msgspec.json.Decoder(str | None).decode
_NO_TIMINGS, _NO_SPECULATION = Timings(), Speculation()


@dataclass(frozen=True)
class Asked:
    """What the requests' bodies say: the hashes, the first body, the lengths that were asked for."""

    hashes: list[str | None]
    texts: list[str | None]
    first: Body | None
    max_tokens: frozenset[int]
    whole: bool = True
    """Whether these are all requests of the cell, so that their prompts are its prompt set."""

    def of_a_part(self) -> "Asked":
        """Return the same, marked as said of a part of the cell's requests."""
        return replace(self, whole=False)


def records_of(benchmark: Benchmark) -> tuple[list[Request], list[str]]:
    """Return all records with their status, completed ones first."""
    lists = benchmark.requests
    groups = [(lists.successful, COMPLETED), (lists.errored, ERRORED)]
    groups.append((lists.incomplete, INCOMPLETE))
    pairs = [(records or [], status) for records, status in groups]
    records = list(itertools.chain.from_iterable(r for r, _ in pairs))
    return records, [s for r, status in pairs for s in itertools.repeat(status, len(r))]


def columns_of(records: list[Request], status: list[str], old: bool) -> Columns:
    """Return times (unix s) and tokens as float64, NaN for unknown; ``old`` is 0.2 and 0.3."""
    values = _old_times(records) if old else _times(records)
    values |= {
        "prompt_tokens": [r.prompt_tokens for r in records],
        "output_tokens": [r.output_tokens for r in records],
    }
    columns: Columns = {k: np.array(v, dtype=np.float64) for k, v in values.items()}
    columns["status"] = np.array(status, dtype=object)
    if old:
        columns["output_tokens"][columns["status"] == ERRORED] = np.nan
    for name in _TIMES:
        if np.any((columns[name] < 0) & (columns[name] != _NEVER)):
            raise InvalidInput(
                f"A request has a time below zero ({name}): the report is damaged; run it again."
            )
        columns[name][columns[name] <= 0] = np.nan
    _check(columns)
    return columns


def _times(records: list[Request]) -> dict[str, list[float | None]]:
    timings = [(r.info.timings if r.info else None) or _NO_TIMINGS for r in records]
    ends = [t.resolve_end if t.request_end is None else t.request_end for t in timings]
    return {
        "start": [t.request_start for t in timings],
        "first_token": [t.first_token_iteration for t in timings],
        "last_token": [t.last_token_iteration for t in timings],
        "end": ends,
        "iterations": [t.token_iterations for t in timings],
    }


def _old_times(records: list[Request]) -> dict[str, list[float | None]]:
    return {
        "start": [r.start_time for r in records],
        "first_token": [r.first_token_time for r in records],
        "last_token": [r.last_token_time for r in records],
        "end": [r.end_time for r in records],
        "iterations": [None] * len(records),
    }


def _check(columns: Columns) -> None:
    done = columns["status"] == COMPLETED
    for earlier, later in itertools.pairwise(_TIMES):
        if np.any(columns[later][done] < columns[earlier][done] - 1e-3):
            raise InvalidInput(
                f"A completed request has a negative duration ({later} before {earlier}): the "
                "report is damaged or its clock jumped; run it again."
            )
    for name in ("prompt_tokens", "output_tokens"):
        if np.any(columns[name] < 0) or np.any(columns[name] >= 2**31):
            raise InvalidInput(f"A request has {name} out of range; the report is damaged.")


def asked(records: list[Request], keep_text: bool) -> Asked:
    """Hash all prompts, decoding one request's arguments at a time."""
    hashes: list[str | None] = []
    texts: list[str | None] = []
    lengths: set[int] = set()
    first = None
    for record in records:
        body = _body(record)
        if body is None:
            hashes.append(None)
            texts.append(None)
            continue
        text = prompt_text(body)
        hashes.append(None if text is None else hash_text(text))
        texts.append(text if keep_text else None)
        first = first or body
        length = body.max_tokens if body.max_tokens is not None else body.max_completion_tokens
        if isinstance(length, int):
            lengths.add(length)
    return Asked(hashes, texts, first, frozenset(lengths))


def _body(record: Request) -> Body | None:
    if (text := _text(record.request_args)) is not None:
        arguments = read_arguments(text)
        return None if arguments is None else arguments.body
    prompt = _text(record.prompt)
    return None if prompt is None else Body(prompt=prompt)


def _text(raw: msgspec.Raw) -> str | None:
    return _decode_text(raw) if memoryview(raw).nbytes else None


def answer(record: Request) -> str | None:
    """Return the text of an answer with its calls of tools as models write them; None where it is no text."""
    try:
        text = _text(record.output) or ""
    except msgspec.DecodeError:
        return None
    calls = (bytes(call).decode("utf-8", "replace") for call in record.tool_calls or ())
    return text + "".join(f"<tool_call>{call}</tool_call>" for call in calls)


def table_of(cell_id: str, records: list[Request], full: Columns, said: Asked) -> pa.Table:
    """Return the stored rows (REQUEST_SCHEMA); ``full`` holds the latencies too."""
    names = REQUEST_SCHEMA.names
    arrays: dict[str, Any] = {n: values for n, values in full.items() if n in names}
    arrays |= _speculations(records)
    arrays |= {
        "cell_id": pa.repeat(cell_id, len(records)),
        "index": np.arange(len(records), dtype=np.int32),
        "prompt_hash": said.hashes,
        "prompt": said.texts,
        "error": [r.error if r.error is not None else r.info and r.info.error for r in records],
        "output": [
            None if text is None else _text(r.output)
            for r, text in zip(records, said.texts, strict=True)
        ],
    }
    return pa.table([_array(arrays[f.name], f) for f in REQUEST_SCHEMA], schema=REQUEST_SCHEMA)


def _speculations(records: list[Request]) -> dict[str, list[int | None]]:
    metrics = [r.response_metrics for r in records]
    found = [(m.speculative_decoding if m else None) or _NO_SPECULATION for m in metrics]
    return {
        "drafts": [s.num_spec_steps for s in found],
        "draft_tokens": [s.num_draft_tokens for s in found],
        "accepted_tokens": [s.num_accepted_draft_tokens for s in found],
    }


def _array(values: Any, field: pa.Field) -> pa.Array:
    if pa.types.is_dictionary(field.type):
        plain = pa.array(values, field.type.value_type)
        return plain.dictionary_encode().cast(field.type)
    if isinstance(values, np.ndarray) and values.dtype == np.float64:
        return pa.array(values, from_pandas=True).cast(field.type)
    return pa.array(values, field.type)
