"""What is no number where one belongs is never passed over: it is refused, or nothing read it."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.readers.reading import cells
from tests.secrets.others import OTHERS
from tests.secrets.planted import bench
from warehouse.errors import InvalidInput
from warehouse.rows import Cell

Place = tuple[Any, ...]
#: Of a list so many members are altered; the others are read alike.
_MEMBERS = 2
WRONG = ("fast", True, [1.0])
#: They are kept as they are said.
_OPAQUE = {"server_args": None, "speculative_config": None}
SAMPLES = {
    **{name: other.files for name, other in OTHERS.items()},
    "vllm bench": {"b.json": bench(False)},
    "vllm bench, detailed": {"b.json": bench(True)},
}


def _numbers(value: Any, place: Place = ()) -> Iterator[Place]:
    if isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value[:_MEMBERS])
        for key, member in members:
            yield from _numbers(member, (*place, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place


def _altered(files: dict[str, Any], place: Place, wrong: Any) -> dict[str, Any]:
    holder = altered = copy.deepcopy(files)
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = wrong
    return altered


def _written(folder: Path, files: dict[str, Any], one: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        lines = name.endswith(".jsonl") or (one == "vllm append" and isinstance(value, list))
        text = "\n".join(map(json.dumps, value)) if lines else json.dumps(value)
        (folder / name).write_text(text)
    return folder / next(iter(files))


def _said(found: list[Cell]) -> list[Any]:
    """All that is stored of cells but their requests and what they are called."""
    return [
        (c.facts.model_copy(update=_OPAQUE), c.measurements, c.acceptance, c.completed, c.errored, c.incomplete, c.duration,
         c.requests and c.requests.drop_columns(["cell_id"]).to_pylist())
        for c in found
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLES)
def test_what_is_no_number_is_refused_or_nothing_had_read_it(tmp_path: Path, kind: str) -> None:
    files = SAMPLES[kind]
    before = cells(_written(tmp_path / "right", files, kind))
    flags = [one.flags for one in before]
    passed_over, refused = [], 0
    for n, place in enumerate(_numbers(files)):
        altered = _altered(files, place, WRONG[n % len(WRONG)])
        path = _written(tmp_path / str(n), altered, kind)
        try:
            after = cells(path)
        except InvalidInput:
            refused += 1
            continue
        if _said(after) != _said(before) and [one.flags for one in after] == flags:
            passed_over.append(".".join(map(str, place)))
    assert passed_over == []
    assert refused
