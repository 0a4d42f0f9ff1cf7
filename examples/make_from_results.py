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

import click
import zstandard

from ingest.clean import redact
from runners.surroundings.layout import AFTER, BEFORE, RECORD, REPORT, SAMPLES, records_under

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
