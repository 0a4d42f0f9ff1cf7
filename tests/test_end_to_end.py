"""The whole path on the recorded runs: files in, pairs and tables out, twice the same."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from dashboard.welcome import _WHAT
from tests.commands.asking import told
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
FIXTURES = ROOT / "tests/fixtures/reports"
LAB, NIGHTS, H200 = (
    list(EXAMPLES.glob(f"{folder}/*/*/*/*/*/record.json")) for folder in ("lab", "nights", "h200")
)
DROPS = len(LAB) + len(NIGHTS) + len(H200)
#: Tables of a published study.
PUBLISHED = 1


def draftboard(warehouse: Path, *arguments: str) -> Any:
    """What a command prints as JSON."""
    command = [sys.executable, "-m", "draftboard", *arguments, "--warehouse", str(warehouse)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


@pytest.mark.slow
def test_everything_recorded_goes_in_and_the_second_time_changes_nothing(tmp_path: Path) -> None:
    first = draftboard(tmp_path, "ingest", str(EXAMPLES), str(FIXTURES), "--json")
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    second = draftboard(tmp_path, "ingest", str(EXAMPLES), str(FIXTURES), "--json")

    assert first["rejected"] == second["rejected"] == []
    assert first["accepted"] == second["known"] == DROPS + PUBLISHED + len(list(FIXTURES.iterdir()))
    assert second["accepted"] == 0
    assert second["generation"] == first["generation"]
    kept = {path: path.stat().st_mtime_ns for path in files if "lock" not in path.name}
    assert kept == {path: at for path, at in files.items() if "lock" not in path.name}


def test_every_recorded_cell_finds_its_partner(examples: Path) -> None:
    found = told("compare", "--warehouse", str(examples))

    arms = [(setting["dataset"], arm) for setting in found["settings"] for arm in setting["arms"]]
    pairs = Counter((d, pair["load"]["value"]) for d, arm in arms for pair in arm["pairs"])
    levels = {(d, c) for d in ("code", "structured", "prose") for c in (1, 4, 16)}
    on_gpu = {("code", 128), ("structured", 128)}
    assert set(pairs) == levels | on_gpu | {("structured", 8), ("prose", 8)}
    baselines = [path for path in (*LAB, *NIGHTS, *H200) if "baseline" in path.parts]
    assert pairs.total() == DROPS - len(baselines)
    # Dummy weights were served without drafts only.
    dummies = {
        path.parent.relative_to(EXAMPLES).as_posix() for path in H200 if "dummy" in str(path)
    }
    alone = {row["path"].split("examples/")[-1] for row in found["unmatched"]}
    assert alone == dummies
    loads = {tuple(row["loads"]) for _, arm in arms for row in arm["means"]}
    assert loads == {("1", "4", "16"), ("8",), ("1", "16", "128"), ("128",)}


def test_a_filter_keeps_only_its_pairs(examples: Path) -> None:
    found = told("compare", "--dataset", "code", "--warehouse", str(examples))

    assert {setting["dataset"] for setting in found["settings"]} == {"code"}


def reports() -> Iterator[tuple[str, Any]]:
    for path in sorted(EXAMPLES.rglob("guidellm.json.zst")):
        raw = zstandard.ZstdDecompressor().decompress(path.read_bytes())
        (benchmark,) = json.loads(raw)["benchmarks"]
        yield str(path.parent), benchmark


def plain_throughput(benchmark: Any) -> float:
    """Tokens inside the window / its length, one request at a time, as a person would do it.

    The first token counts when it arrives, the others evenly until the last.
    """
    start, end = benchmark["start_time"], benchmark["end_time"]
    inside = 0.0
    for request in benchmark["requests"]["successful"]:
        times = request["info"]["timings"]
        first, last = times["first_token_iteration"], times["last_token_iteration"]
        rest = request["output_tokens"] - 1
        inside += start <= first <= end
        if last > first:
            inside += rest * max(0.0, min(last, end) - max(first, start)) / (last - first)
    return inside / (end - start)


def test_throughput_of_every_recorded_cell_agrees_with_a_plain_recomputation(
    examples: Path,
) -> None:
    with Reader(examples) as reader:
        cells = queries.cells(reader, Filters()).to_pandas().set_index("cell_id")
        found = queries.measurements(reader, Filters(), ["output_throughput"], ["mean"]).to_pandas()
    assert set(found["origin"]) == {"canonical"}
    canonical = found.set_index("cell_id")["value"]
    by_place = canonical.rename(index=cells["path"])

    expected = {place: plain_throughput(benchmark) for place, benchmark in reports()}
    assert by_place.to_dict() == pytest.approx(expected, rel=0.005)
    assert len(expected) == DROPS


def test_runs_lists_each_file_once(examples: Path) -> None:
    found = told("runs", "--warehouse", str(examples))

    assert len(found) == DROPS
    assert {row["evidence"] for row in found} == {"cpu", "gpu", "dummy_weights"}


def test_the_example_that_a_stranger_reads_is_a_decision_of_the_examples(examples: Path) -> None:
    arguments = ("--model", "lab-target-costly", "--warehouse", str(examples))
    (mix,) = (one for one in told("verdict", *arguments)["decisions"] if "mix" in one["traffic"])
    yes = mix["headline"].partition("; it pays")[0]
    costs = f"an output token costs {100 * mix['saving']['per_output_token']:.1f} % less"
    assert f"For example: *{yes}; {costs}.*" in _WHAT
