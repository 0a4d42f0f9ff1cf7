"""The measured part of ``docs/performance.md``: machine, versions, and a row for each result."""

import platform
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from benchmarks.result import Result

BEGIN, END = "<!-- measured: written by make bench -->", "<!-- end of what make bench writes -->"
WORD = {True: "yes", False: "**no**", None: ""}
_PACKAGES = ("duckdb", "pyarrow", "pandas", "streamlit", "altair")


def write(file: Path, results: Sequence[Result]) -> None:
    """Put the results between the two marks of ``file``; what people wrote around them stays."""
    before, rest = file.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    measured = "\n".join([BEGIN, "", *_lines(results), "", END])
    file.write_text(before + measured + after, encoding="utf-8")


def _lines(results: Sequence[Result]) -> Iterator[str]:
    yield f"{datetime.now(UTC):%d %B %Y}, commit {_commit()}. {_machine()}."
    yield ""
    yield "| what | to reach | measured | reached |"
    yield "|---|---|---|---|"
    for one in results:
        cells = (one.subject, one.target, one.measured, WORD[one.reached])
        yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _machine() -> str:
    """``AMD EPYC, 2 cores, 24 GiB, Linux 6.1; Python 3.11.7, duckdb 2.0.0, …``."""
    memory = round(psutil.virtual_memory().total / 2**30)
    hardware = f"{_processor()}, {psutil.cpu_count()} cores, {memory} GiB"
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    return f"{hardware}, {system}; Python {platform.python_version()}, {packages}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
