"""Commands as a whole, beside what they cannot do without; and one report into a large warehouse."""

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import browser
from benchmarks.large import QUICK, Size, large_warehouse
from benchmarks.result import Result, progress, seconds
from benchmarks.synth import write_report

TIMES = 5
IMPORTS = "import duckdb, pandas, pyarrow"
IMPORTING = "importing pandas, duckdb and pyarrow"
#: The numbers that the decisions of a warehouse are made of, read and nothing else.
READING = """
import sys
from analysis.matching.comparison import STUDY_TABLE
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader
metrics, statistics = ([*dict.fromkeys(words)] for words in zip(*STUDY_TABLE))
with Reader(sys.argv[1]) as reader:
    queries.measurements(reader, Filters(), metrics, statistics).to_pandas()
"""
REPORT_BYTES = 700_000


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Commands on the examples and on the large warehouse, and an ingest into the latter."""
    examples, one, small = folder / "examples", folder / "one", folder / "small.json"
    if not examples.exists():
        _draftboard("ingest", str(browser.ROOT / "examples"), "--warehouse", str(examples))
    write_report(small, 60_000, levels=1)

    def ingest() -> None:
        shutil.rmtree(one, ignore_errors=True)
        _draftboard("ingest", str(small), "--warehouse", str(one))

    imports = (IMPORTS, IMPORTING)
    yield _ratio("ingest of one small file", ingest, examples, 1.4, *imports)
    for name, most in (("runs", 1.3), ("verdict", 2.5)):
        yield _ratio(f"{name} of the examples", _command(name, examples), examples, most, *imports)
    root = large_warehouse(folder / ("small" if quick else "large"), QUICK if quick else Size())
    kept = _as_ingest_leaves_it(folder, root)
    yield _ratio("verdict of 30,000 cells", _command("verdict", kept), kept, 5, READING,
                 "the bare reading of its measurements")  # fmt: skip
    report = _command("report", kept, "--out", str(folder / "report.html"))
    yield _ratio("report of 30,000 cells", report, kept, 6, *imports)
    yield from _one_report(folder, kept)
    shutil.rmtree(kept)


def _command(name: str, root: Path, *more: str) -> Callable[[], None]:
    return lambda: _draftboard(name, "--warehouse", str(root), *more)


def _as_ingest_leaves_it(folder: Path, root: Path) -> Path:
    """A copy of a warehouse into which a report was taken: what its studies say is derived then."""
    progress("a first report into the large warehouse")
    kept, report = folder / "copy", folder / "first.json"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(root, kept)
    write_report(report, REPORT_BYTES)
    _draftboard("ingest", str(report), "--warehouse", str(kept))
    return kept


def _ratio(
    name: str, command: Callable[[], None], root: Path, most: float, beside: str, words: str
) -> Result:
    """Wall time of a command, a process each time, against another process, by turns: at most ``most``
    times as long as the code ``beside`` with ``root`` as its argument; ``words``: what that is."""
    progress(name)
    ours, theirs = [], []
    for _ in range(TIMES):
        theirs.append(seconds(lambda: _python("-c", beside, str(root))))
        ours.append(seconds(command))
    took, bare = statistics.median(ours), statistics.median(theirs)
    told = f"{took / bare:.2f} x ({took:.2f} s against {bare:.2f} s)"
    return Result(name, f"<= {most:g} x {words}", told, took <= most * bare)


def _one_report(folder: Path, root: Path) -> Iterator[Result]:
    """One small report more into the large warehouse: seconds and bytes."""
    progress("one report into the large warehouse")
    report = folder / "one.json"
    # Longer by a request or more: the same content would be known already.
    write_report(report, REPORT_BYTES + 15_000)
    before = _files(root)
    took = seconds(lambda: _draftboard("ingest", str(report), "--warehouse", str(root)))
    new = {name: size for name, size in _files(root).items() if before.get(name) != size}
    yield Result("one report into 30,000 cells", "<= 1.5 s", f"{took:.2f} s", took <= 1.5)
    written = sum(new.values()) / 1e6
    yield Result("bytes that it writes", "-", f"{written:.1f} MB in {len(new)} files", None)


def _files(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}


def _draftboard(*words: str) -> None:
    _python("-m", "draftboard", *words)


def _python(*words: str) -> None:
    subprocess.run(
        [sys.executable, *words], check=True, cwd=browser.ROOT, env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
    )  # fmt: skip
