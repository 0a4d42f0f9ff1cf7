"""What runs in a process of its own, so that one measurement cannot warm or burden the next.

``python -m benchmarks.child json|sha256|ingest|inside FILE [WAREHOUSE]`` imports what it needs, prints ``ready``,
does the work, prints its wall time in seconds.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def load_json(path: str) -> None:
    """``json.load`` alone."""
    with Path(path).open("rb") as file:
        json.load(file)


def hash_file(path: str) -> None:
    """sha256 over the same bytes."""
    with Path(path).open("rb") as file:
        hashlib.file_digest(file, "sha256")


def ingest_command(path: str, warehouse: str) -> None:
    """The whole ``draftboard ingest``: parse, check, requests to Parquet, publish."""
    from commands.keeping.ingest import ingest as command

    command.main([path, "--warehouse", warehouse, "--json"], standalone_mode=False)


def answers_inside(
    tasks: Iterator[Any], root: Path, known: frozenset[str], processes: int
) -> Iterator[tuple[Any, Any]]:
    """Stand for ``ingest.processes.answers``, and read in this very process: what isolation is held
    against."""
    from ingest.reading import read_unit
    from warehouse.errors import InvalidInput

    for task in tasks:
        try:
            yield task, read_unit(task.unit, task.options, root.absolute(), known)
        except InvalidInput as error:
            yield task, error


def inside(path: str, warehouse: str) -> None:
    """The whole ``draftboard ingest``, reading without a process of its own."""
    import ingest.pipeline
    import ingest.processes
    import ingest.reading  # noqa: F401  # What the command does while the other imports.

    vars(ingest.processes)["start"] = lambda: None
    vars(ingest.pipeline)["answers"] = answers_inside
    ingest_command(path, warehouse)


WORK: dict[str, Callable[..., None]] = {
    "json": load_json, "sha256": hash_file, "ingest": ingest_command, "inside": inside,
}  # fmt: skip


def main(kind: str, arguments: list[str]) -> None:
    """Do one piece of work and print how long it took."""
    if kind == "ingest":
        import duckdb  # noqa: F401  # importing is not what is measured, on either side
        import pyarrow.parquet  # noqa: F401

        import ingest.pipeline  # noqa: F401
        from ingest.processes import _Processes, start

        # When it has forked one, it has imported what reading needs.
        start()
        one = _Processes().Process(target=int)
        one.start()
        one.join()
    say("ready")
    start = time.perf_counter()
    WORK[kind](*arguments)
    say(f"seconds {time.perf_counter() - start}")


def say(line: str) -> None:
    """A line for the parent, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
