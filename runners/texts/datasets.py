"""The prompts of a dataset: its rows wherever they lie, their field as text, and conversations."""

import contextlib
import csv
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from runners.planning.datasets import Dataset, Filter
from runners.planning.study import Study
from runners.probes import interpreter
from runners.surroundings.models import commit_here
from runners.texts import generators
from warehouse.errors import RunnerError, StudyError
from warehouse.store_files import sha256_of

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


def turns(talk: Any) -> Iterator[str]:
    """Yield one text for each turn of a user in a list of messages, the turns before it included.

    A message without words or of another speaker, and a speaker who speaks twice, end it: chat
    templates of models refuse them. OpenAI's words are read and ShareGPT's (``from``, ``value``).
    """
    messages: list[Message] = []
    for row in talk if isinstance(talk, list) else ():
        if not isinstance(row, dict):
            return
        role = _ROLES.get(str(row.get("role", row.get("from"))))
        content = row.get("content", row.get("value"))
        twice = bool(messages) and messages[-1]["role"] == role
        if role is None or twice or not isinstance(content, str) or not content.strip():
            return
        messages.append({"role": role, "content": content})
        if role == "user":
            yield json.dumps(messages)


def messages_of(text: str) -> list[Message]:
    """Return the messages of a text of ``turns``."""
    messages: list[Message] = json.loads(text)
    return messages


# --- The rows of a dataset, wherever they lie, as dictionaries; only files that need no library here.
#
# Parquet files and datasets of the hub are read by a Python that has the library: this one or that
# of GuideLLM, which always brings ``datasets`` and ``pyarrow``.


Row = dict[str, Any]
#: A first download of a large dataset takes its time.
_PROBE_S = 3600.0
_ENDINGS = (".jsonl", ".json", ".csv", ".parquet")


def rows(study: Study, dataset: Dataset) -> Iterator[Row]:
    """Yield every row, with the columns that the dataset's field and filter name at least.

    Raises StudyError where it cannot be read: which dataset, what is wrong, what to do.
    """
    if dataset.hub is not None:
        yield from _probed(study, dataset, {"parquet": None, "hub": dataset.hub.model_dump()})
        return
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
        yield from _probed(study, dataset, {"parquet": str(path), "hub": None})
        return
    try:
        for row in _parsed(path):
            if not isinstance(row, dict):
                raise StudyError(f"Dataset {dataset.name}: {path.name} has rows without columns.")
            yield row
    except (json.JSONDecodeError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(
            f"Dataset {dataset.name}: {path.name} is not {path.suffix[1:].upper()}: {error}."
        ) from None


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


def _parsed(path: Path) -> Iterator[Any]:
    if path.suffix == ".csv":
        csv.field_size_limit(1 << 30)
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file)
    elif path.suffix == ".json":
        content = json.loads(path.read_text(encoding="utf-8"))
        yield from content if isinstance(content, list) else [content]
    else:
        with path.open(encoding="utf-8") as file:
            yield from (json.loads(line) for line in file if line.strip())


def _probed(study: Study, dataset: Dataset, source: dict[str, Any]) -> Iterator[Row]:
    library = "datasets" if dataset.hub is not None else "pyarrow"
    # Of dotted paths the first part.
    columns = sorted({path.partition(".")[0] for path in (dataset.field, *dataset.filter.where)})
    with tempfile.TemporaryDirectory(prefix="draftboard-rows-") as folder:
        into = Path(folder) / "rows.jsonl"
        question = source | {"columns": columns, "into": str(into)}
        try:
            python = python_with(study, library)
            answer = interpreter.ask(python, "probe_rows", question, study.environment, _PROBE_S)
        except RunnerError as error:
            raise StudyError(f"Dataset {dataset.name} cannot be read: {error}") from None
        missing = [name for name in columns if name not in answer["columns"]]
        if missing:
            raise StudyError(
                f"Dataset {dataset.name} has no column {missing[0]}; it has "
                f"{', '.join(answer['columns'][:20])}."
            )
        yield from _parsed(into)


# --- The prompts of a dataset: its rows' field as text, filtered, each text once.


def origin(study: Study, dataset: Dataset) -> dict[str, Any]:
    """Return the hub's commit, the sha256 of a file, or the generator's settings; unknown is left
    out."""
    hub, generator = dataset.hub, dataset.generator
    if hub is not None:
        commit = commit_here("datasets", hub.id, hub.revision, study.environment)
        facts: dict[str, Any] = {"hub": hub.id, "revision": hub.revision, "commit": commit}
    elif dataset.file is not None:
        path, digest = study.file(dataset.file), None
        with contextlib.suppress(OSError):
            status = path.stat()
            digest = _sha256(path, status.st_mtime_ns, status.st_size)
        facts = {"file": dataset.file, "sha256": digest}
    else:
        facts = {"generator": None if generator is None else generator.model_dump()}
    return {name: value for name, value in facts.items() if value is not None}


@lru_cache(maxsize=64)
def _sha256(path: Path, _written: int, _size: int) -> str:
    # The hash of a file as it was written then. It is remembered, since every cell of a
    # dataset asks for it.
    return sha256_of(path)


def prompt_texts(study: Study, name: str) -> list[str]:
    """Return every usable text of a dataset, in its own order, no text twice.

    Raises StudyError where the dataset cannot be read or no row has a text in the field.
    """
    dataset = study.dataset(name)
    given, wanted = dataset.generator, dataset.filter
    if given is not None:
        texts: Iterable[str] = generators.prompts(given.kind, given.min_chars, given.max_chars)
    else:
        texts = _texts(dataset, rows(study, dataset))
    usable: dict[str, None] = {}
    for text in texts:
        size = len(text)
        if dataset.conversations:
            size = sum(len(message["content"]) for message in messages_of(text))
        if (wanted.min_chars or 0) <= size <= (wanted.max_chars or size):
            usable[text] = None
    return list(usable)


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
        if not _matches(row, dataset.filter):
            continue
        value = at(row, dataset.field)
        single = (value,) if isinstance(value, str) and value.strip() else ()
        for text in turns(value) if dataset.conversations else single:
            empty = False
            yield text
    if empty:
        talk = "a conversation (messages with role and content)"
        raise StudyError(
            f"Dataset {dataset.name}: none of its {seen} rows passes the filter and has "
            f"{talk if dataset.conversations else 'a text'} in the field {dataset.field}; look at "
            "field and filter in the study."
        )


def _matches(row: Row, wanted: Filter) -> bool:
    # Whether a row has the wanted values. CSV has only texts, so values are compared as texts
    # as well.
    return all(
        (value := at(row, column)) == expected or str(value).lower() == str(expected).lower()
        for column, expected in wanted.where.items()
    )
