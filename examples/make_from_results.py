"""Makes an example of a results folder: ``python examples/make_from_results.py RESULTS/STUDY EXAMPLE``.

Every good cell becomes a drop whose texts are hashes; reports and metrics are packed, and of each
stretch of samples in which nothing moved only the two ends are kept. Paths lose what stands before
``studies/``, ``results/`` and ``.lab/``: where somebody keeps a clone is nobody's business.
"""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import msgspec
import zstandard

from ingest.clean import Body, prompt_text, read_arguments
from runners.surroundings.layout import AFTER, BEFORE, RECORD, REPORT, SAMPLES, records_under
from warehouse.contract import MARKER, hash_text
from warehouse.secrets import scrub

#: What ingest reads of an exposition; the rest is of the web server and of Python.
_KEPT = re.compile(
    r"(vllm:(spec_decode|num_requests|kv_cache|gpu_cache|generation|prompt)|draftboard:)"
)

_CLONE = re.compile(rb"/(?:[\w.+-]+/)+?(?=(?:\.lab|studies|results)/)")


def placeless(data: bytes) -> bytes:
    """Paths below a clone, without the place of the clone."""
    return _CLONE.sub(b"", data)


def packed(data: bytes) -> bytes:
    """As small as it gets."""
    return zstandard.ZstdCompressor(level=19).compress(data)


def good_cells(study: Path) -> Iterator[Path]:
    """Folders of good cells; failed attempts and what is hidden stay out."""
    for record in sorted(records_under(study)):
        hidden = any(part.startswith(".") for part in record.relative_to(study).parts)
        if not hidden and json.loads(record.read_bytes()).get("status", "good") == "good":
            yield record.parent


def thinned(lines: list[str]) -> list[str]:
    """Of every stretch in which nothing moved, only its two ends."""
    said = [json.loads(line) for line in lines]
    kept = [(at, [text for text in texts if _KEPT.match(text)]) for at, texts in said]
    moved = [False, *(a[1] != b[1] for a, b in pairwise(kept)), False]
    edge = {0, len(kept) - 1}
    chosen = [x for i, x in enumerate(kept) if i in edge or moved[i] or moved[i + 1]]
    return [json.dumps(one) for one in chosen]


def exposition(text: str) -> str:
    """The lines of a snapshot of /metrics that somebody reads."""
    return "".join(line for line in text.splitlines(keepends=True) if _KEPT.match(line))


_HASHED = ("output", "reasoning_output")


def redact(report: bytes) -> bytes:
    """Return a GuideLLM report (JSON) without prompt and output texts and without credentials.

    Each prompt becomes ``sha256:<32 hex>`` of its flattened text, each output of its own text.
    """
    content = msgspec.json.decode(report)
    for benchmark in content.get("benchmarks", ()):
        for records in (benchmark.get("requests") or {}).values():
            for record in records or ():
                _redact_record(record)
    return msgspec.json.encode(scrub(content))


def _redact_record(record: dict[str, Any]) -> None:
    for key in (*_HASHED, "prompt"):
        if isinstance(record.get(key), str):
            record[key] = MARKER + hash_text(record[key])
    if record.get("tool_calls"):
        record["tool_calls"] = None
    if isinstance(record.get("request_args"), str):
        record["request_args"] = _redact_arguments(record["request_args"])


def _redact_arguments(text: str) -> str | None:
    arguments = read_arguments(text)
    if arguments is None or arguments.body is None:
        return None
    marked = _marked(arguments.body)
    body = {k: v for k, v in msgspec.to_builtins(arguments.body).items() if v is not None}
    kept = {k: v for k, v in body.items() if k not in ("prompt", "messages")}
    return msgspec.json.encode({"body": kept | marked}).decode()


def _marked(body: Body) -> dict[str, Any]:
    text = prompt_text(body)
    if text is None:
        return {}
    marker = MARKER + hash_text(text)
    if body.messages is not None:
        return {"messages": [{"role": "user", "content": marker}]}
    return {"prompt": marker}


def write_drop(cell: Path, folder: Path) -> None:
    """One drop: record, redacted report, counters."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECORD).write_bytes(placeless((cell / RECORD).read_bytes()))
    (folder / f"{REPORT}.zst").write_bytes(packed(placeless(redact((cell / REPORT).read_bytes()))))
    for name in (BEFORE, AFTER):
        text = exposition((cell / name).read_text(encoding="utf-8"))
        (folder / f"{name}.zst").write_bytes(packed(text.encode()))
    lines = thinned((cell / SAMPLES).read_text(encoding="utf-8").splitlines())
    (folder / f"{SAMPLES}.zst").write_bytes(packed("\n".join(lines).encode()))


@click.command()
@click.argument("study", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("example", type=click.Path(file_okay=False, path_type=Path))
def make(study: Path, example: Path) -> None:
    """Write the good cells of STUDY, a study's results folder, as drops below EXAMPLE."""
    cells = list(good_cells(study))
    for cell in cells:
        write_drop(cell, example / cell.relative_to(study))
    size = sum(file.stat().st_size for file in example.rglob("*") if file.is_file())
    click.echo(f"{len(cells)} cells, {size / 1e6:.1f} MB in {example}")


if __name__ == "__main__":
    make()
