"""Rows of a dataset that needs a library: a dataset of the Hugging Face hub, or a Parquet file.

In: {"parquet": path or null, "hub": {"id", "config", "split", "revision", "file"} or null,
"columns": […], "into": path}. Out: {"columns": every column there is}; the rows, one JSON object
a line with the asked columns that exist, go to ``into``.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any


def _hub(asked: dict[str, Any]) -> tuple[list[str], Any]:
    library = importlib.import_module("datasets")
    library.disable_progress_bars()
    found = library.load_dataset(
        asked["id"],
        asked["config"],
        split=asked["split"],
        revision=asked["revision"],
        data_files=asked["file"],
    )
    return list(found.column_names), found


def _parquet(path: str) -> tuple[list[str], Any]:
    found = importlib.import_module("pyarrow.parquet").ParquetFile(path)
    return list(found.schema_arrow.names), found


def _rows(found: Any, columns: list[str], parquet: bool) -> Iterator[dict[str, Any]]:
    if not parquet:
        yield from found.select_columns(columns)
        return
    for batch in found.iter_batches(columns=columns):
        yield from batch.to_pylist()


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    parquet = asked["parquet"] is not None
    columns, found = _parquet(asked["parquet"]) if parquet else _hub(asked["hub"])
    wanted = [name for name in asked["columns"] if name in columns]
    with open(asked["into"], "w", encoding="utf-8") as file:  # noqa: PTH123
        for row in _rows(found, wanted, parquet) if wanted else ():
            file.write(json.dumps(row, default=str) + "\n")
    sys.stdout.write(json.dumps({"columns": columns}) + "\n")


main()
