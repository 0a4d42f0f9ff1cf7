"""What runs in a process of its own, so that one measurement cannot warm or burden the next.

``python -m benchmarks.child json|sha256|ingest FILE [WAREHOUSE]`` imports what it needs, prints ``ready``,
does the work, prints its wall time in seconds.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path


def load_json(path: str) -> None:
    """``json.load`` alone."""
    with Path(path).open("rb") as file:
        json.load(file)


def hash_file(path: str) -> None:
    """sha256 over the same bytes."""
    with Path(path).open("rb") as file:
        hashlib.file_digest(file, "sha256")


def ingest(path: str, warehouse: str) -> None:
    """The whole ``draftboard ingest``: parse, check, requests to Parquet, publish."""
    from ingest.cli import ingest as command

    command.main([path, "--warehouse", warehouse, "--json"], standalone_mode=False)


WORK: dict[str, Callable[..., None]] = {"json": load_json, "sha256": hash_file, "ingest": ingest}


def main(kind: str, arguments: list[str]) -> None:
    """Do one piece of work and print how long it took."""
    if kind == "ingest":
        import duckdb  # noqa: F401  # importing is not what is measured, on either side
        import pandas  # noqa: F401  # pyarrow asks for it at the first array
        import pyarrow.parquet  # noqa: F401

        import ingest.cli  # noqa: F401
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
