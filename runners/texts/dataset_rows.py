"""The rows of a dataset, wherever they lie, as dictionaries; only files that need no library here.

Parquet files and datasets of the hub are read by a Python that has the library: this one or that
of GuideLLM, which always brings ``datasets`` and ``pyarrow``.
"""

import csv
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runners.planning.datasets import Dataset
from runners.planning.study import Study
from runners.probes import interpreter
from warehouse.errors import RunnerError, StudyError

Row = dict[str, Any]
#: A first download of a large dataset takes its time.
_PROBE_S = 3600.0
_ENDINGS = (".jsonl", ".json", ".csv", ".parquet")


def rows(study: Study, dataset: Dataset) -> Iterator[Row]:
    """Return every row, with the columns that the dataset's field and filter name at least.

    Raises StudyError where it cannot be read: which dataset, what is wrong, what to do.
    """
    if dataset.hub is not None:
        return _probed(study, dataset, {"parquet": None, "hub": dataset.hub.model_dump()})
    path = study.file(str(dataset.file))
    if path.suffix not in _ENDINGS:
        raise StudyError(
            f"Dataset {dataset.name}: {dataset.file} is none of {', '.join(_ENDINGS)}."
        )
    if not path.is_file():
        raise StudyError(
            f"Dataset {dataset.name}: there is no file {dataset.file}; a path in a study is "
            "relative to the study file."
        )
    if path.suffix == ".parquet":
        return _probed(study, dataset, {"parquet": str(path), "hub": None})
    return _read(dataset, path)


def columns(dataset: Dataset) -> list[str]:
    """Return the columns that a dataset's field and filter name; of dotted paths the first part."""
    return sorted({path.partition(".")[0] for path in (dataset.field, *dataset.filter.where)})


def python_with(study: Study, library: str) -> Path:
    """Return a Python that has a library: this one, else GuideLLM's. Raises RunnerError."""
    if importlib.util.find_spec(library) is not None:
        return Path(sys.executable)
    executable = study.executable("guidellm")
    python = None if executable is None else interpreter.python_of(Path(executable))
    if python is None:
        raise RunnerError(
            f"it needs the library {library}, which GuideLLM's environment has: install GuideLLM "
            "and name it under executables.guidellm of the study."
        )
    return python


def _read(dataset: Dataset, path: Path) -> Iterator[Row]:
    reader = {".jsonl": _jsonl, ".json": _json, ".csv": _csv}[path.suffix]
    try:
        for row in reader(path):
            if not isinstance(row, dict):
                raise StudyError(f"Dataset {dataset.name}: {path.name} has rows without columns.")
            yield row
    except (json.JSONDecodeError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(
            f"Dataset {dataset.name}: {path.name} is not {path.suffix[1:].upper()}: {error}."
        ) from None


def _jsonl(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def _json(path: Path) -> Iterator[Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    yield from found if isinstance(found, list) else [found]


def _csv(path: Path) -> Iterator[Any]:
    csv.field_size_limit(1 << 30)
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from csv.DictReader(file)


def _probed(study: Study, dataset: Dataset, source: dict[str, Any]) -> Iterator[Row]:
    library = "datasets" if dataset.hub is not None else "pyarrow"
    with tempfile.TemporaryDirectory(prefix="draftboard-rows-") as folder:
        into = Path(folder) / "rows.jsonl"
        question = source | {"columns": columns(dataset), "into": str(into)}
        try:
            python = python_with(study, library)
            answer = interpreter.ask(python, "probe_rows", question, study.environment, _PROBE_S)
        except RunnerError as error:
            raise StudyError(f"Dataset {dataset.name} cannot be read: {error}") from None
        missing = [name for name in columns(dataset) if name not in answer["columns"]]
        if missing:
            raise StudyError(
                f"Dataset {dataset.name} has no column {missing[0]}; it has "
                f"{', '.join(answer['columns'][:20])}."
            )
        yield from _jsonl(into)
