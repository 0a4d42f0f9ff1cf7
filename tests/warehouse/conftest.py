"""Processes of their own, for what only another process can show."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``start("ingest", root, 5)``: child.py in its own process, returned when it has imported."""
    children: list[subprocess.Popen[str]] = []

    def begin(*arguments: Any) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
        child = subprocess.Popen(
            [sys.executable, str(HERE / "child.py"), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    yield begin
    for child in children:
        with child:
            child.kill()
