"""The console text of ``vllm bench serve`` and of SGLang's ``bench_serving``, kept in place of the file.

Both print ``label: value`` between a title and a line of ``=``. What they do not print is unknown: all
percentiles but those asked for, and in older releases load, failures and acceptance.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ingest.formats import sglang_bench, sglang_facts
from ingest.formats.vllm_latencies import latencies
from ingest.left_out import left_out
from ingest.level import Level, cell_of, reported
from ingest.model import Content, Context, Parsed
from ingest.read import head_of_file
from ingest.stated import count, number
from ingest.unreadable import part, shown
from warehouse.errors import InvalidInput
from warehouse.rows import Acceptance, Measurement

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
           "burstiness factor": "burstiness", "traffic ramp-up strategy": "ramp_up"}  # fmt: skip
_LABELS = _BEFORE | {
    "backend": "backend", "max request concurrency": "max_concurrency",
    "request rate configured (rps)": "request_rate", "successful requests": "completed",
    "failed requests": "failed", "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens", "total generated tokens": "total_output_tokens",
    "total generated tokens (retokenized)": "total_output_tokens_retokenized",
    "request throughput (req/s)": "request_throughput",
    "output token throughput (tok/s)": "output_throughput",
    "total token throughput (tok/s)": "total_throughput", "concurrency": "achieved_concurrency",
    "accept length": "mean_acceptance_length", "acceptance rate (%)": "acceptance_rate",
    "acceptance length": "acceptance_length", "drafts": "num_drafts",
    "draft tokens": "draft_tokens", "accepted tokens": "accepted_tokens",
}  # fmt: skip
_WORDS = ("backend", "request_rate", "ramp_up")
_UNKNOWN = ("nan", "None", "not set", "N/A")
_RATES = ("output_throughput", "total_throughput", "request_throughput", "achieved_concurrency",
          "mean_acceptance_length")  # fmt: skip
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


def parse(content: Content, context: Context) -> Parsed:
    """Read a text; each result in it is a cell. Raises InvalidInput where two of them are of the same
    load, so that nothing tells which arm or repeat each is."""
    results = _results(content.data)
    loads: dict[str, int] = {}
    for line, said in results:
        before = loads.setdefault(repr(_load(said)), line)
        if before != line:
            raise InvalidInput(
                f"This text holds results of the same load at lines {before} and {line}, and does not say "
                "which arm or repeat each is: give each of them a file of its own."
            )
    return Parsed(NAME, {"results": len(results)}, _cells(results, context))


def is_repeated(path: Path, results: Sequence[Path]) -> bool:
    """Return whether all results of a text stand in the files of the same runs too: as long, with as
    many output tokens."""
    known = {run for one in results for run in _runs_of(one)}
    try:
        said = [one for _, one in _results(head_of_file(path, _FILE))]
    except (OSError, InvalidInput):
        return False
    return all((one.get("duration"), one.get("total_output_tokens")) in known for one in said)


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
    said: dict[str, Any] | None = None
    for place, line in enumerate(bytes(data).decode(errors="replace").splitlines(), start=1):
        if _TITLE.match(line):
            said, before = before, {}
            found.append((place, said))
        elif said is not None and _END.match(line):
            said = None
        elif printed := _LINE.match(line):
            label = " ".join(printed[1].lower().split())
            if said is not None:
                with part(f"Line {place}"):
                    _take(said, label, printed[2])
            elif label in _BEFORE:
                before[_BEFORE[label]] = _value(_BEFORE[label], printed[2].split(" (")[0])
    return found


def _take(said: dict[str, Any], label: str, text: str) -> None:
    if _POSITION.fullmatch(label):
        said.setdefault("positions", []).append(_value(label, text))
    elif latency := _LATENCY.fullmatch(label):
        key = "_".join((latency[1], latency[2].replace(" ", "_"), latency[3]))
        said[key] = _value(label, text)
    elif label in _LABELS:
        said[_LABELS[label]] = _value(_LABELS[label], text)
    elif re.fullmatch(r"[\d.,]+", text):
        said.setdefault("others", {})[label] = _value(label, text)


def _value(name: str, text: str) -> Any:
    if text in _UNKNOWN:
        return None
    try:
        return float(text.replace(",", ""))
    except ValueError:
        if name in _WORDS:
            return text
        raise InvalidInput(
            f"{name} is {shown(text)} where a number belongs: copy the text once more."
        ) from None


def _cells(results: list[tuple[int, dict[str, Any]]], context: Context) -> Iterator[Any]:
    for index, (line, said) in enumerate(results):
        with part(f"Line {line}", alone=len(results) == 1):
            cell = cell_of(_level(said), context, index)
            if cell.status == "good" and {one.metric for one in cell.measurements} <= _NO_SPEED:
                raise InvalidInput(
                    "This result prints no throughput and no latency: copy the whole text."
                )
        yield cell


def _level(said: dict[str, Any]) -> Level:
    is_sglang = "backend" in said
    drafts = _acceptance(said)
    facts: dict[str, Any] = {"engine": "vllm" if drafts else None}
    if is_sglang:
        facts = sglang_facts.facts_of({"backend": said["backend"]})
    return Level(
        generator="sglang-bench" if is_sglang else "vllm-bench",
        facts=facts | {"load_profile": None, "concurrency": None} | _load(said),
        reported=_reported(said, is_sglang),
        completed=count(said, "completed"),
        errored=count(said, "failed"),
        duration=number(said, "duration"),
        acceptance=drafts,
        flags=(*left_out(said.get("others", {}), _DERIVED), *sglang_bench.as_asked_for(said)),
    )


def _load(said: dict[str, Any]) -> dict[str, Any]:
    """Return the load as far as it is printed: that there was a rate, or none, is not always."""
    limit, rate = count(said, "max_concurrency"), said.get("request_rate")
    if "ramp_up" in said or isinstance(rate, str):
        return {}
    if rate is None or rate == float("inf"):
        known = limit or rate is not None
        return (
            {"load_profile": "concurrent" if limit else "throughput", "concurrency": limit}
            if known
            else {}
        )
    is_poisson = "backend" in said or said.get("burstiness") == 1
    return {"load_profile": "poisson" if is_poisson else None, "rate": rate, "concurrency": limit}


def _reported(said: dict[str, Any], is_sglang: bool) -> Iterator[Measurement]:
    for metric in _RATES:
        if said.get(metric) is not None:
            yield from reported(metric, said[metric])
    spread = is_sglang and sglang_bench.spreads(said, "mean_acceptance_length")
    for (metric, statistic), value in latencies(said, None).items():
        if metric != "chunk_gap" or not spread:
            yield Measurement("reported", metric, statistic, value)
    yield from _of_requests(said)


def _of_requests(said: dict[str, Any]) -> Iterator[Measurement]:
    done, failed = said.get("completed"), said.get("failed")
    if not done:
        return
    for metric, name in (("prompt_tokens", "input"), ("output_tokens", "output")):
        if said.get(f"total_{name}_tokens"):
            yield from reported(metric, said[f"total_{name}_tokens"] / done)
    if failed is not None:
        yield from reported("error_rate", failed / (done + failed))


def _acceptance(said: dict[str, Any]) -> tuple[Acceptance, ...]:
    if said.get("num_drafts") is None:
        return ()
    rate = number(said, "acceptance_rate")
    return (
        Acceptance(
            source="vllm_bench",
            drafts=count(said, "num_drafts"),
            draft_tokens=count(said, "draft_tokens"),
            accepted_tokens=count(said, "accepted_tokens"),
            rate=None if rate is None else rate / 100,
            mean_length=number(said, "acceptance_length"),
            by_position=tuple(one / 100 for one in said.get("positions", ()) if one is not None),
        ),
    )
