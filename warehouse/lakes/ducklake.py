"""Publishing as DuckLake: another DuckDB than ours does it, in an environment of its own.

Tables are handed over as Parquet files, requests as the warehouse's own files. A password goes by the
environment of that process, never by its arguments.
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq

from warehouse.errors import DraftboardError, InvalidInput
from warehouse.lakes import (
    NAMES,
    Progress,
    PublicationOrder,
    PublishedContent,
    PublishedGeneration,
    foreign,
    is_new,
    nothing_of,
    place_of,
    raced,
    request_schema,
)
from warehouse.store_files import REQUESTS, private_beside

_SCRIPT = Path(__file__).with_name("ducklake_script.py")
_MAKE = (
    "make it with runners/lab/setup.sh ducklake, or name the Python of another with --with-python "
    "(pip install duckdb==1.5.5 duckdb-extension-ducklake==1.5.5 duckdb-extension-postgres==1.5.5 "
    "duckdb-extension-httpfs==1.5.5)."
)
#: The last line of the script has one of these.
_ANSWERS = {"found", "published", "missing", "error"}
#: How an error begins that says the address of the catalogue again.
_ADDRESS = re.compile(r'^.*?Failed to attach DuckLake MetaData "[^"]*" at path \+ "[^"]*"')
#: What DuckLake says where another writer came first.
_RACES = ("conflict", "duplicate key", "could not serialize")


class Lake:
    """A catalogue of DuckLake, reached through the Python that can."""

    def __init__(self, python: Path, order: PublicationOrder) -> None:
        self.python, self.order = python, order
        self._question = {
            "catalogue": _catalogue(order),
            "schema": order.schema,
            "location": place_of(order.location),
            "names": list(NAMES),
        }

    def ask(
        self, more: dict[str, Any], generation: int, advance: Callable[[int], None]
    ) -> dict[str, Any]:
        """Return what the script answers. Raises DraftboardError where it fails."""
        if not self.python.is_file():
            raise InvalidInput(
                "DuckLake needs an environment of its own with DuckDB 1.5.5, and there is none at "
                f"{self.python}: {_MAKE}"
            )
        answer = self._answer({**self._question, **more}, advance)
        if "missing" in answer:
            raise InvalidInput(f"{self.python} has no {answer['missing']}: {_MAKE}")
        if "error" in answer:
            raise self._explained(str(answer["error"]), generation)
        return answer

    def _answer(self, question: dict[str, Any], advance: Callable[[int], None]) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        with tempfile.TemporaryFile("w+") as file:
            file.write(json.dumps(question) + "\n")
            file.seek(0)
            with self._started(file) as process:
                for line in process.stdout or ():
                    try:
                        words = json.loads(line)
                    except json.JSONDecodeError:
                        words = {}  # Another program speaks.
                    answer = words if isinstance(words, dict) else {}
                    advance(answer.get("done", 0))
                wrong = process.stderr.read() if process.stderr else ""
        if process.returncode or not _ANSWERS & set(answer):
            last = (wrong.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
            return {"error": f"{self.python} ended before it was done: {last}"}
        return answer

    def _started(self, question: IO[str]) -> "subprocess.Popen[str]":
        password = self.order.target.password
        try:
            return subprocess.Popen(
                [str(self.python), "-I", str(_SCRIPT)],
                stdin=question, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, **({"PGPASSWORD": password} if password else {})},
            )  # fmt: skip
        except OSError as error:
            raise InvalidInput(
                f"{self.python} cannot be started ({error.strerror}): {_MAKE}"
            ) from None

    def _explained(self, error: str, generation: int) -> DraftboardError:
        target = self.order.target
        nothing = nothing_of(generation)
        if any(word in error.lower() for word in _RACES) and "lock" not in error:
            return raced(target, generation)
        if "DATA_PATH" in error:
            return InvalidInput(
                f"{target.uri} keeps its files elsewhere, or does not know yet where: {nothing}; "
                "say it with --location the first time, a folder or s3://BUCKET/PREFIX, and leave "
                "it out from then on."
            )
        why = target.safe(_ADDRESS.sub("", error))
        return DraftboardError(
            f"The catalogue {target.uri} could not be used ({why}): {nothing}; check "
            "the address, that it is a catalogue of DuckLake or an empty database which nobody else "
            "has open, and your rights there and at --location."
        )


def publish(
    content: PublishedContent, order: PublicationOrder, shown: Progress, python: Path
) -> bool:
    """Publish a generation into a catalogue; return whether there was something to publish.

    Raises InvalidInput for a target that cannot take it, and DraftboardError where it fails; then
    what was published before stays.
    """
    lake, generation = Lake(python, order), content.held.generation
    there = lake.ask({}, generation, lambda _: None)["found"]
    if there["foreign"]:
        raise foreign(order, there["foreign"])
    held = PublishedGeneration(*there["held"]) if there["held"] else None
    if not is_new(content, held, order):
        return False
    new = sorted(set(content.request_files) - set(there["files"]))
    with (
        private_beside(Path(tempfile.gettempdir()) / "publish") as place,
        shown(2 * len(NAMES) + len(new)) as advance,
    ):
        more = {
            "held": there["held"],
            "generation": [generation, content.held.identity],
            "tables": _tables(content, place, advance),
            "wanted": content.request_files,
            "requests": [str(path) for path in content.fetch(new)],
        }
        lake.ask(more, generation, advance)
    return True


def _catalogue(order: PublicationOrder) -> str:
    """Return the catalogue as DuckLake takes it. Raises InvalidInput for another."""
    uri = order.target.uri
    if order.target.is_postgres and "://" in uri:
        return f"postgres:{uri}"
    if "://" in uri or uri.partition(":")[0] in ("postgres", "ducklake", "sqlite", "mysql"):
        raise InvalidInput(
            f"{order.target.safe(uri)} is no catalogue that can be written: name FILE.ducklake or "
            "postgresql://USER@HOST/DATABASE."
        )
    return str(Path(uri).absolute())


def _tables(
    content: PublishedContent, place: Path, advance: Callable[[int], None]
) -> dict[str, str]:
    """Write every table as a file; of requests only how their table looks."""
    paths = {}
    for name, rows in (*content.tables(), (REQUESTS, request_schema().empty_table())):
        paths[name] = str(place / f"{name}.parquet")
        pq.write_table(rows, paths[name])
        advance(1)
    return paths
