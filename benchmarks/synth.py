"""Large reports in GuideLLM 0.8.1's shape, written in a stream from the structure of a recorded one."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

SAMPLE = Path(__file__).parents[1] / "tests/fixtures/lab-first/baseline/code/guidellm.json.zst"
LEVELS = (1, 4, 16, 64, 128, 256)
PROMPT_CHARACTERS, OUTPUT_CHARACTERS = 1150, 750
LATENCY, FIRST = 1.8, 0.12
EPOCH = 1_790_000_000.0
HOLE = "@hole:"
#: Field of a request record -> its place in the list that ``request_values`` returns.
TIMINGS = {"request_start": 3, "first_request_iteration": 4, "first_token_iteration": 4,
           "first_output_token_iteration": 4, "last_token_iteration": 5,
           "last_request_iteration": 5, "request_end": 6, "resolve_end": 6, "finalized": 6,
           "queued": 3, "dequeued": 3, "scheduled_at": 3, "resolve_start": 3}  # fmt: skip
TOP = {"request_start_time": 3, "request_end_time": 6}


def sample_report() -> dict[str, Any]:
    """The recorded report that lends its structure."""
    raw = zstandard.ZstdDecompressor().decompress(SAMPLE.read_bytes())
    report: dict[str, Any] = json.loads(raw)
    return report


def text(seed: int, characters: int) -> str:
    """Words with line breaks and quotes, about as much to unescape as real text has."""
    words = random.Random(seed)
    lines = (f'{words.getrandbits(40):x} "{words.getrandbits(32):x}" {words.getrandbits(96):x}\n'
             for _ in range(characters // 40))  # fmt: skip
    return "".join(lines)[:characters]


def request_template(report: dict[str, Any]) -> list[str]:
    """A request record as JSON, cut at its holes: literal, hole number, literal, …"""
    record = report["benchmarks"][0]["requests"]["successful"][0]
    arguments = json.loads(record["request_args"])
    arguments["body"]["prompt"] = f"{HOLE}1@"
    record |= {"request_id": f"{HOLE}0@", "request_args": json.dumps(arguments)}
    record |= {"output": f"{HOLE}2@", "request_latency": LATENCY}
    record |= {key: f"{HOLE}{number}@" for key, number in TOP.items()}
    record["info"]["request_id"] = f"{HOLE}0@"
    record["info"]["timings"] |= {key: f"{HOLE}{number}@" for key, number in TIMINGS.items()}
    pieces = json.dumps(record).split(HOLE)
    return [
        part for piece in pieces for part in (piece.split("@", 1) if piece[1] == "@" else [piece])
    ]


def holes(template: list[str]) -> list[str]:
    """The template with numbers unquoted: times are numbers, texts keep their quotes."""
    filled = list(template)
    for i in range(1, len(filled), 2):
        if filled[i] in "3456":
            filled[i - 1] = filled[i - 1].removesuffix('"')
            filled[i + 1] = filled[i + 1].removeprefix('"')
    return filled


def request_values(
    index: int, streams: int, start: float, texts: list[tuple[str, str]]
) -> list[str]:
    """What stands in the holes of one request: id, prompt, output, start, first, last, end."""
    begin = start + (index // streams) * (LATENCY + 0.05) + (index % streams) * 0.0007
    prompt, output = texts[index % len(texts)]
    times = (begin, begin + FIRST, begin + LATENCY - 0.001, begin + LATENCY)
    return [f"{index:08x}-{streams:04x}", f"{index} {prompt}", output, *map(repr, times)]


def records(template: list[str], streams: int, start: float, count: int) -> Iterator[str]:
    """The request records of one level, as JSON."""
    texts = escaped_texts()
    literals, numbers = template[::2], [int(n) for n in template[1::2]]
    for index in range(count):
        values = request_values(index, streams, start, texts)
        parts = (x for i, n in enumerate(numbers) for x in (literals[i], values[n]))
        yield "".join(parts) + literals[-1]


def escaped_texts() -> list[tuple[str, str]]:
    """Prompts (escaped twice: JSON within JSON) and outputs (escaped once), without quotes."""
    prompts = (json.dumps(json.dumps(text(i, PROMPT_CHARACTERS))[1:-1])[1:-1] for i in range(64))
    return [(p, json.dumps(text(-i, OUTPUT_CHARACTERS))[1:-1]) for i, p in enumerate(prompts, 1)]


def level_frame(report: dict[str, Any], number: int, start: float, count: int) -> tuple[str, str]:
    """A level as JSON without its requests: what stands before them and after them."""
    streams = LEVELS[number]
    level = report["benchmarks"][0] | {"requests": f"{HOLE}@"}
    end = start + -(-count // streams) * (LATENCY + 0.05) + 1
    level["config"] |= {"id_": f"level-{number}"}
    level["config"]["strategy"] |= {"streams": streams, "max_concurrency": streams}
    level |= {"start_time": start, "end_time": end, "duration": end - start}
    scheduler = level["scheduler_metrics"]
    scheduler |= dict.fromkeys(("start_time", "request_start_time", "measure_start_time"), start)
    scheduler |= dict.fromkeys(("measure_end_time", "request_end_time", "end_time"), end)
    totals = {"successful": count, "errored": 0, "incomplete": 0, "total": count}
    scheduler["requests_made"] = level["metrics"]["request_totals"] = totals
    before, after = json.dumps(level).split(f'"{HOLE}@"')
    return before, after


def write_report(path: Path, size: int, levels: int = len(LEVELS)) -> int:
    """Write a report of about ``size`` bytes with ``levels`` levels; returns its number of requests."""
    report = sample_report()
    template = holes(request_template(report))
    one = len(next(records(template, 1, EPOCH, 1))) + 1
    count = max(1, size // one // levels)
    head = {key: value for key, value in report.items() if key != "benchmarks"}
    with path.open("w", encoding="utf-8") as out:
        out.write(json.dumps(head)[:-1] + ', "benchmarks": [')
        for number in range(levels):
            start = EPOCH + number * 1e6
            before, after = level_frame(report, number, start, count)
            out.write((", " if number else "") + before + '{"successful": [')
            for i, record in enumerate(records(template, LEVELS[number], start, count)):
                out.write(("," if i else "") + record)
            out.write('], "errored": [], "incomplete": [], "total": null}' + after)
        out.write("]}")
    return count * levels
