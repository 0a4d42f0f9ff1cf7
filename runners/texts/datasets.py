"""The prompts of a dataset: its rows' field as text, filtered, each text once."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from runners.models.model_files import commit_here
from runners.planning.datasets import Dataset, Filter
from runners.planning.study import Study
from runners.texts import conversations, dataset_rows, generators
from runners.texts.dataset_rows import Row
from warehouse.errors import StudyError


def origin(study: Study, dataset: Dataset) -> dict[str, Any]:
    """Return the hub's commit, the sha256 of a file, or the generator's settings; unknown is left
    out."""
    if dataset.hub is not None:
        hub = dataset.hub
        commit = commit_here("datasets", hub.id, hub.revision, study.environment)
        said: dict[str, Any] = {"hub": hub.id, "revision": hub.revision, "commit": commit}
    elif dataset.file is not None:
        said = {"file": dataset.file, "sha256": _sha256(study.file(dataset.file))}
    else:
        assert dataset.generator is not None  # the study gives exactly one of the three
        said = {"generator": dataset.generator.model_dump()}
    return {name: value for name, value in said.items() if value is not None}


def _sha256(path: Path) -> str | None:
    try:
        status = path.stat()
        return _hashed(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return None


@lru_cache(maxsize=64)
def _hashed(path: Path, _written: int, _size: int) -> str:
    """Return the hash of a file as it was written then. It is remembered, since every cell of a
    dataset asks for it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def prompt_texts(study: Study, name: str) -> list[str]:
    """Return every usable text of a dataset, in its own order, no text twice.

    Raises StudyError where the dataset cannot be read or no row has a text in the field.
    """
    dataset = study.dataset(name)
    given = dataset.generator
    if given is not None:
        texts: Iterable[str] = generators.prompts(given.kind, given.min_chars, given.max_chars)
    else:
        texts = _texts(dataset, dataset_rows.rows(study, dataset))
    return list(dict.fromkeys(text for text in texts if _long_enough(text, dataset)))


def at(row: Any, path: str) -> Any:
    """Return the value at a dotted path, ``conversations.0.value``; None where there is none."""
    for part in path.split("."):
        if isinstance(row, dict):
            row = row.get(part)
        elif isinstance(row, list) and part.isdigit() and int(part) < len(row):
            row = row[int(part)]
        else:
            return None
    return row


def _texts(dataset: Dataset, rows: Iterable[Row]) -> Iterator[str]:
    seen, empty = 0, True
    for row in rows:
        seen += 1
        found = at(row, dataset.field) if _matches(row, dataset.filter) else None
        for text in _texts_in(found, dataset):
            empty = False
            yield text
    if empty:
        what = (
            "a conversation (messages with role and content)" if dataset.conversations else "a text"
        )
        raise StudyError(
            f"Dataset {dataset.name}: none of its {seen} rows passes the filter and has {what} in "
            f"the field {dataset.field}; look at field and filter in the study."
        )


def _texts_in(found: Any, dataset: Dataset) -> Iterable[str]:
    if dataset.conversations:
        return conversations.turns(found)
    return (found,) if isinstance(found, str) and found.strip() else ()


def _matches(row: Row, wanted: Filter) -> bool:
    """Return whether a row has the wanted values. CSV has only texts, so values are compared as
    texts as well."""
    return all(
        (found := at(row, column)) == value or str(found).lower() == str(value).lower()
        for column, value in wanted.where.items()
    )


def _long_enough(text: str, dataset: Dataset) -> bool:
    wanted = dataset.filter
    size = conversations.length(text) if dataset.conversations else len(text)
    return (wanted.min_chars or 0) <= size <= (wanted.max_chars or size)
