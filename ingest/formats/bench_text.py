"""The console text of ``vllm bench serve`` and of SGLang's ``bench_serving``, kept in place of the file.

Both print ``label: value`` between a title and a line of ``=``. What they do not print is unknown: all
percentiles but those asked for, and in older releases load, failures and acceptance.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ingest.formats import sglang_bench
from ingest.formats.sglang_bench import facts_of
from ingest.formats.vllm_bench import BenchFields, acceptance, facts_of_load, latencies, means
from ingest.level import LevelReport, cells_of, left_out, reported
from ingest.model import Context, FileContent, Parsed, head_of_file
from ingest.stated import count, part, shown
from warehouse.errors import InvalidInput
from warehouse.rows import Measurement

NAME, KIND = "bench-text", "the console text of vllm bench serve or SGLang's bench_serving"

_HEAD, _FILE = 1 << 20, 8 << 20
_TITLE = re.compile(r"^[>|\s]*=+ Serving Benchmark Result =+[|\s]*$", re.MULTILINE)
_SNIFFED = re.compile(_TITLE.pattern.encode(), re.MULTILINE)
_END = re.compile(r"^[>|\s]*={20,}[|\s]*$")
_LINE = re.compile(r"^[>|\s]*([A-Za-z][^:]*):\s+([^\s|].*?)[|\s]*$")
_LATENCY = re.compile(r"(mean|median|std|p[\d.]+) (ttft|tpot|itl|e2el|e2e latency) \((ms|s)\)")
_POSITION = re.compile(r"position \d+")
#: What is printed before the title and belongs to the result.
_BEFORE = {"traffic request rate": "request_rate", "maximum request concurrency": "max_concurrency",
           "burstiness factor": "burstiness", "traffic ramp-up strategy": "ramp_up_strategy"}  # fmt: skip
_LABELS = _BEFORE | {
    "backend": "backend", "max request concurrency": "max_concurrency",
    "request rate configured (rps)": "request_rate", "successful requests": "completed",
    "failed requests": "failed", "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens", "total generated tokens": "total_output_tokens",
    "total generated tokens (retokenized)": "total_output_tokens_retokenized",
    "request throughput (req/s)": "request_throughput",
    "output token throughput (tok/s)": "output_throughput",
    "total token throughput (tok/s)": "total_token_throughput", "concurrency": "achieved_concurrency",
    "accept length": "mean_acceptance_length", "acceptance rate (%)": "spec_decode_acceptance_rate",
    "acceptance length": "spec_decode_acceptance_length", "drafts": "spec_decode_num_drafts",
    "draft tokens": "spec_decode_draft_tokens", "accepted tokens": "spec_decode_accepted_tokens",
}  # fmt: skip
_WHOLE = ("completed", "failed", "max_concurrency", "spec_decode_num_drafts",
          "spec_decode_draft_tokens", "spec_decode_accepted_tokens")  # fmt: skip
_NO_SPEED = {"error_rate", "prompt_tokens", "output_tokens"}
#: What follows from what is read, or is another thing's.
_DERIVED = re.compile(
    r"peak .*|(max|min|std) .*|request goodput.*|.*client queue.*|.*probe.*|total input \w+ tokens|"
    r"input token throughput.*|rtfx.*|committed.*|denoising.*|canvas.*"
)
_DURATION, _TOKENS = (
    re.compile(rb'"%s": ?([\d.]+)' % name) for name in (b"duration", b"total_output_tokens")
)


def sniff(data: memoryview) -> bool:
    """Recognise the title on a line of its own, also behind a long log."""
    return any(_SNIFFED.search(bytes(part)) for part in (data[:_HEAD], data[-_HEAD:]))


def parse(content: FileContent, context: Context) -> Parsed:
    """Read a text; each result in it is a cell. Raises InvalidInput where two of them are of the same
    load, so that nothing tells which arm or repeat each is."""
    results = _results(content.data)
    loads: dict[str, int] = {}
    for line, fields in results:
        before = loads.setdefault(repr(facts_of_load(_bench(fields))), line)
        if before != line:
            raise InvalidInput(
                f"This text holds results of the same load at lines {before} and {line}, and does not say "
                "which arm or repeat each is: give each of them a file of its own."
            )
    return Parsed(NAME, {"results": len(results)}, cells_of("Line", results, _level, context))


def is_repeated(path: Path, results: Sequence[Path]) -> bool:
    """Return whether all results of a text stand in the files of the same runs too: as long, with as
    many output tokens."""
    known = {run for one in results for run in _runs_of(one)}
    try:
        printed = [fields for _, fields in _results(head_of_file(path, _FILE))]
    except (OSError, InvalidInput):
        return False
    return all((run.get("duration"), run.get("total_output_tokens")) in known for run in printed)


def _runs_of(path: Path) -> Iterator[tuple[float, float]]:
    try:
        head = bytes(head_of_file(path, _FILE))
    except (OSError, InvalidInput):
        return
    for length, tokens in zip(_DURATION.findall(head), _TOKENS.findall(head), strict=False):
        yield round(float(length), 2), float(tokens)


def _results(data: memoryview) -> list[tuple[int, dict[str, Any]]]:
    """Return the results of a text by the lines of their titles: what they print, under our names."""
    found: list[tuple[int, dict[str, Any]]] = []
    before: dict[str, Any] = {}
    fields: dict[str, Any] | None = None
    for place, line in enumerate(bytes(data).decode(errors="replace").splitlines(), start=1):
        if _TITLE.match(line):
            fields, before = before, {}
            found.append((place, fields))
        elif fields is not None and _END.match(line):
            fields = None
        elif printed := _LINE.match(line):
            label = " ".join(printed[1].lower().split())
            if fields is not None:
                with part(f"Line {place}"):
                    _add(fields, label, printed[2])
            elif label in _BEFORE:
                before[_BEFORE[label]] = _value(_BEFORE[label], printed[2].split(" (")[0])
    return found


def _add(fields: dict[str, Any], label: str, text: str) -> None:
    if _POSITION.fullmatch(label):
        rates = fields.setdefault("spec_decode_per_position_acceptance_rates", [])
        rates.append((_value(label, text) or 0.0) / 100)
    elif latency := _LATENCY.fullmatch(label):
        fields["_".join(latency.groups()).replace(" ", "_")] = _value(label, text)
    elif label in _LABELS:
        fields[_LABELS[label]] = _value(_LABELS[label], text)
    elif re.fullmatch(r"[\d.,]+", text):
        fields.setdefault("others", {})[label] = _value(label, text)


def _value(name: str, text: str) -> Any:
    if text in ("nan", "None", "not set", "N/A"):
        return None
    try:
        return float(text.replace(",", ""))
    except ValueError:
        if name in ("backend", "request_rate", "ramp_up_strategy"):
            return text
        raise InvalidInput(
            f"{name} is {shown(text)} where a number belongs: copy the text once more."
        ) from None


def _bench(fields: Mapping[str, Any]) -> BenchFields:
    """Return what is printed as a result of vLLM's bench; None for what is not. Where a limit is
    printed and no rate there was none.
    """
    known: dict[str, Any] = {name: fields.get(name) for name in BenchFields.__struct_fields__}
    known |= {name: count(fields, name) for name in _WHOLE}
    if known["max_concurrency"] and "request_rate" not in fields:
        known["request_rate"] = "inf"
    if "backend" in fields:
        known["burstiness"] = 1.0
    return BenchFields(**known)


def _level(fields: Mapping[str, Any]) -> LevelReport:
    bench = _bench(fields)
    is_sglang = bench.backend is not None
    facts = facts_of({"backend": bench.backend}) if is_sglang else {}
    facts |= {"load_profile": None, "concurrency": None} | facts_of_load(bench)
    drafts, values = tuple(acceptance(bench)), list(_reported(fields, bench))
    if bench.completed != 0 and {one.metric for one in values} <= _NO_SPEED:
        raise InvalidInput("This result prints no throughput and no latency: copy the whole text.")
    return LevelReport(
        generator="sglang-bench" if is_sglang else "vllm-bench",
        facts=facts | ({"engine": "vllm"} if drafts else {}),
        reported=values,
        completed=bench.completed,
        errored=bench.failed,
        duration=bench.duration,
        acceptance=drafts,
        flags=(*left_out(fields.get("others", {}), _DERIVED), *sglang_bench.overcounted(fields)),
    )


def _reported(fields: Mapping[str, Any], bench: BenchFields) -> Iterator[Measurement]:
    yield from means(bench, bench.failed)
    for metric in ("achieved_concurrency", "mean_acceptance_length"):
        yield from reported(metric, fields.get(metric))
    spread = bench.backend is not None and sglang_bench.spreads(fields, "mean_acceptance_length")
    yield from (one for one in latencies(fields, None) if one.metric != "chunk_gap" or not spread)
