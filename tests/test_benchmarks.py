"""``python -m benchmarks`` measures all it can, and says what broke."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import api, bucket, page, seaweed
from benchmarks.large import QUICK, large_warehouse
from benchmarks.queries import asked, bare_connection, of_everything
from benchmarks.result import Result
from warehouse.storage.tables import sql_text
from warehouse.store import Reader

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the small warehouse of the benchmarks stands already."""
    made = tmp_path_factory.mktemp("bench")
    large_warehouse(made / "small", QUICK)
    return made


@pytest.fixture
def damaged(folder: Path, tmp_path: Path) -> Path:
    """The same without its requests: the queries end in an error when they come to these."""
    shutil.copytree(folder, tmp_path / "bench")
    shutil.rmtree(tmp_path / "bench" / "small" / "requests")
    return tmp_path / "bench"


def bench(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--folder", str(folder), *words],
        cwd=ROOT, env=os.environ | {"COLUMNS": "120"}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_what_was_measured_before_an_error_is_printed_and_the_next_benchmark_runs(
    damaged: Path,
) -> None:
    done = bench(damaged, "--only", "queries", "--only", "ingest")

    assert done.returncode == 1
    assert "query overview" in done.stdout
    assert "ingest of a report of 60 MB" in done.stdout
    assert "Traceback" not in done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("queries broke off at queries.py:")
    assert last.endswith("mend it, then run it alone: --only queries.")


def test_every_query_finds_as_many_rows_without_us(folder: Path) -> None:
    root = folder / "small"
    with (
        Reader(root) as reader,
        bare_connection(root, root.with_suffix(".duckdb")) as bare,
    ):
        for query in (*asked(reader), *of_everything()):
            text = sql_text(query.sql)
            theirs = bare.sql(text, params=query.parameters or None).to_arrow_table()
            assert theirs.num_rows == query.ours(reader).num_rows, query.name


def test_the_table_is_written_between_its_marks_and_what_people_wrote_stays(tmp_path: Path) -> None:
    file = tmp_path / "performance.md"
    file.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n", encoding="utf-8")
    rows = [Result("a | b", "<= 1", "2", False), Result("c", "-", "3", None)]

    page.write(file, rows)
    page.write(file, rows)

    text = file.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert text.count("| a / b | <= 1 | 2 | **no** |") == 1


def test_the_page_has_the_marks() -> None:
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert text.index(page.BEGIN) < text.index(page.END)


@pytest.mark.slow
def test_fifty_visitors_meet_no_error(folder: Path) -> None:
    done = bench(folder, "--only", "visitors")

    assert done.returncode == 0, done.stderr
    lines = {line.split("  ")[0].strip(): line for line in done.stdout.splitlines()}
    assert lines["errors they met"].split() == ["errors", "they", "met", "0", "0", "yes"]
    assert " 0 clicks" not in lines["click of 50 visitors beside a writer, p95"]


def rows(done: "subprocess.CompletedProcess[str]") -> list[str]:
    """What a benchmark said of each number as soon as it had it."""
    assert done.returncode == 0, done.stderr
    return [line.partition(" ")[2] for line in map(str.strip, done.stderr.splitlines())]


@pytest.mark.long
@pytest.mark.skipif(not seaweed.WEED.exists(), reason="SeaweedFS is not installed")
def test_a_bucket_that_is_far_away_loses_nothing(folder: Path) -> None:
    said = rows(bench(folder, "--only", "bucket"))

    assert "bucket: 4 writers, 12 ingests, twice: 0" in said
    assert any(line.startswith("bucket: 4 writers, 12 ingests, lost: 0 of 9 ") for line in said)
    assert any(line.startswith("bucket: fetched after one new report: 0.0") for line in said)
    assert not (folder / "bucket").exists()


@pytest.mark.long
def test_programs_that_ask_the_api_meet_no_error(folder: Path) -> None:
    said = rows(bench(folder, "--only", "api"))

    told = [line for line in said if "/s, " in line or " clicks, " in line]
    assert len(told) == 3
    assert all("0 errors" in line for line in told)


def test_the_filters_of_the_api_s_questions_are_all_different() -> None:
    assert len({*api.filters()}) == api.FILTERS == 200


def test_what_was_lost_or_is_there_twice_is_told() -> None:
    raced = [bucket.Raced([1.0, 2.0], [0.5]), bucket.Raced([1.0, 9.0], [6.0])]

    lost, twice, longest, again = bucket.judged(raced, 3.0, ["a", "b", "b"], {"a", "b", "c"})

    assert (lost.measured, lost.reached) == ("1 of 3 (3 s)", False)
    assert (twice.measured, twice.reached) == ("1", False)
    assert (longest.measured, longest.reached) == ("9.0 s (median 1.5 s)", True)
    assert again.measured.startswith("6.0 s at most, median 3.2 s, 2 lost races")
    assert again.reached is False
