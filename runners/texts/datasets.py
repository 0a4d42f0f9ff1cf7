"""The prompts of a dataset: its rows wherever they lie, their field as text, and conversations."""

import csv
import hashlib
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from runners.models.model_files import commit_here
from runners.planning.datasets import Dataset, Filter
from runners.planning.study import Study
from runners.probes import interpreter
from runners.texts import generators
from warehouse.contract import flatten_messages
from warehouse.errors import RunnerError, StudyError

# --- Conversations: each turn of a user is a request, with all that was said before it.
#
# The answers before it are those of the dataset and not the server's own: so every arm is sent the
# same, and the requests pair. Among prompts such a request is one text, its messages as JSON.


Message = dict[str, str]
#: Who speaks, as datasets say it and as a server wants to hear it.
_ROLES = {
    "system": "system", "user": "user", "human": "user",
    "assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant",
}  # fmt: skip


def turns(found: Any) -> Iterator[str]:
    """Yield one text for each turn of a user in a list of messages, the turns before it included.

    A message without words or of another speaker, and a speaker who speaks twice, end it: chat
    templates of models refuse them.
    """
    said: list[Message] = []
    for one in found if isinstance(found, list) else ():
        message = _message(one)
        if message is None or (said and said[-1]["role"] == message["role"]):
            return
        said.append(message)
        if message["role"] == "user":
            yield json.dumps(said)


def messages_of(text: str) -> list[Message]:
    """Return the messages of a text of ``turns``."""
    said: list[Message] = json.loads(text)
    return said


def flattened(text: str) -> str:
    """Return the messages as ingest reads them in a report."""
    return flatten_messages([(one["role"], one["content"]) for one in messages_of(text)])


def length(text: str) -> int:
    """Return the characters of all messages together."""
    return sum(len(one["content"]) for one in messages_of(text))


def _message(one: Any) -> Message | None:
    """Return a message in OpenAI's words; ShareGPT says ``from`` and ``value``."""
    if not isinstance(one, dict):
        return None
    role = _ROLES.get(str(one.get("role", one.get("from"))))
    content = one.get("content", one.get("value"))
    if role is None or not isinstance(content, str) or not content.strip():
        return None
    return {"role": role, "content": content}


# --- The rows of a dataset, wherever they lie, as dictionaries; only files that need no library here.
#
# Parquet files and datasets of the hub are read by a Python that has the library: this one or that
# of GuideLLM, which always brings ``datasets`` and ``pyarrow``.


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


# --- The prompts of a dataset: its rows' field as text, filtered, each text once.


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
        texts = _texts(dataset, rows(study, dataset))
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
        return turns(found)
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
    size = length(text) if dataset.conversations else len(text)
    return (wanted.min_chars or 0) <= size <= (wanted.max_chars or size)
