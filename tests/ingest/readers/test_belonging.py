"""Results of several files: whenever the others come, each is one result."""

import hashlib
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.discovery import find_units, of_first, run_of, with_companions
from ingest.formats import aiperf
from ingest.model import Context, ReadingLimits, Unit, open_content
from ingest.watch import Memory, Sighting
from tests.ingest.readers import test_aiperf, test_inference_perf, test_llmperf
from tests.ingest.readers.reading import FIXTURES, written
from tests.ingest.test_watch_parts import seen as look
from warehouse import queries
from warehouse.rows import Source
from warehouse.store import Reader, open_writer

#: The files of a run by their names, the result first.
Files = dict[str, Callable[[Path], object]]


def _inference_perf() -> Files:
    source = FIXTURES / "inference-perf" / "concurrent"
    names = ("stage_0_lifecycle_metrics.json", "stage_1_lifecycle_metrics.json",
             "per_request_lifecycle_metrics.json", "config.yaml")  # fmt: skip
    return {name: lambda path: shutil.copyfile(source / path.name, path) for name in names}


RUNS: dict[str, tuple[Files, int]] = {
    "aiperf": (
        {
            test_aiperf.SUMMARY: lambda path: written(path, test_aiperf.said()),
            test_aiperf.REQUESTS: lambda path: written(path, *test_aiperf.rows(), lines=True),
        },
        1,
    ),
    "llmperf": (
        {
            "x_summary.json": lambda path: written(path, test_llmperf.summary()),
            "x_individual_responses.json": lambda path: written(path, test_llmperf.RESPONSES),
        },
        1,
    ),
    "inference-perf": (_inference_perf(), 2),
}


def _orders() -> Iterator[tuple[str, tuple[str, ...]]]:
    for kind, (files, _) in RUNS.items():
        orders = list(itertools.permutations(files))
        # Of 24 orders those that begin with each file.
        yield from ((kind, one) for one in (orders if len(orders) < 6 else orders[::5]))


@pytest.mark.parametrize(("kind", "order"), list(_orders()))
def test_in_whatever_order_its_files_come_a_run_is_there_once(
    run: Any, tmp_path: Path, kind: str, order: tuple[str, ...]
) -> None:
    files, count = RUNS[kind]
    for name in order:
        path = tmp_path / "run" / name
        path.parent.mkdir(exist_ok=True)
        files[name](path)
        run(path.parent)
    cells = run.cells()
    assert len(cells) == count
    assert all(one["requests_complete"] for one in cells)
    done = run(tmp_path / "run", "--json")
    assert (done.json["accepted"], done.json["known"]) == (0, count)


def put(folder: Path, kind: str, *left_out: str) -> Path:
    """The files of a run; the result of it."""
    files, _ = RUNS[kind]
    folder.mkdir(exist_ok=True)
    for name, write in files.items():
        if name not in left_out:
            write(folder / name)
    return folder / next(iter(files))


def test_requests_that_grow_are_one_result_until_their_summary_comes(
    run: Any, tmp_path: Path
) -> None:
    rows, path = test_aiperf.rows(), tmp_path / "run" / test_aiperf.REQUESTS
    for count in (2, 5, len(rows)):
        written(path, *rows[:count], lines=True)
        path.write_text(path.read_text() + "\n")
        assert run(path.parent).status == 0
        assert [one["completed"] for one in run.cells()] == [count]
    whole = written(path.with_name(test_aiperf.SUMMARY), test_aiperf.said())
    assert run(path.parent).status == 0
    assert [one["path"] for one in run.cells()] == [str(whole)]


def test_the_summary_of_stages_that_come_later_gives_way_to_them(run: Any, tmp_path: Path) -> None:
    stages = test_inference_perf.STAGES
    summary = test_inference_perf.stage(stages[0] + stages[1])
    whole = written(tmp_path / "run" / "summary_lifecycle_metrics.json", summary)
    requests = whole.with_name("per_request_lifecycle_metrics.json")
    for write in (lambda: None, lambda: written(requests, stages[0] + stages[1])):
        write()
        assert run(whole.parent).status == 0
        assert [one["path"] for one in run.cells()] == [str(whole)]
    for number, one in enumerate(stages):
        written(
            whole.with_name(f"stage_{number}_lifecycle_metrics.json"),
            test_inference_perf.stage(one, concurrency=number + 1),
        )
    assert run(whole.parent).status == 0
    assert sorted(one["concurrency"] for one in run.cells()) == [1, 2]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_copy_without_its_requests_is_no_second_result(
    run: Any, tmp_path: Path, names: tuple[str, str]
) -> None:
    whole, bare = (tmp_path / name for name in names)
    put(whole, "aiperf")
    put(bare, "aiperf", test_aiperf.REQUESTS)
    assert run(tmp_path / "a", tmp_path / "b").status == 0
    assert [one["requests_complete"] for one in run.cells()] == [True]


@pytest.fixture
def before(run: Any, tmp_path: Path) -> str:
    """A warehouse of before a run was known by its main file: a run stands in it twice, alone and
    as the hash of all its files."""
    path = put(tmp_path / "run", "aiperf", test_aiperf.REQUESTS)
    assert run(path).status == 0
    whole = with_companions(open_content(put(path.parent, "aiperf")))
    source_id = of_first(whole, 1)
    cells = aiperf.parse(whole, Context(lambda: source_id)).cells
    with open_writer(run.root) as store:
        assert store.add(Source(source_id, str(path), "aiperf", 1), cells) == 1
        store.commit()
    assert len(run.cells()) == 2
    return str(path)


def test_what_stands_twice_stands_once_when_it_is_met_again(run: Any, before: str) -> None:
    assert run(before).status == 0
    assert [one["requests_complete"] for one in run.cells()] == [True]


def test_what_stands_twice_keeps_no_warehouse_from_being_read_again(run: Any, before: str) -> None:
    assert run("--rebuild").status == 0
    assert [one["requests_complete"] for one in run.cells()] == [True]


def test_what_is_changed_beside_a_result_makes_no_second_one(run: Any, tmp_path: Path) -> None:
    path = put(tmp_path / "run", "aiperf")
    assert run(path.parent).status == 0
    requests = path.with_name(test_aiperf.REQUESTS)
    requests.write_text(requests.read_text().replace('"usage_completion_tokens"', '"of_no_use"'))
    done = run(path.parent, "--json")
    assert (done.json["accepted"], len(run.cells())) == (1, 1)


def test_a_result_whose_requests_were_removed_stays_as_it_is(run: Any, tmp_path: Path) -> None:
    path = put(tmp_path / "run", "aiperf")
    assert run(path.parent).status == 0
    path.with_name(test_aiperf.REQUESTS).unlink()
    done = run(path.parent, "--json")
    assert (done.json["accepted"], done.json["known"]) == (0, 1)
    assert [one["requests_complete"] for one in run.cells()] == [True]
    assert run(path.parent, "--replace").status == 0
    assert [one["requests_complete"] for one in run.cells()] == [False]


def test_a_drop_whose_report_gets_its_requests_is_one_result(run: Any, tmp_path: Path) -> None:
    put(tmp_path / "drop", "aiperf", test_aiperf.REQUESTS)
    record = {"schema_version": 1, "report": test_aiperf.SUMMARY, "run_id": "night"}
    written(tmp_path / "drop" / "record.json", record)
    assert run(tmp_path / "drop").status == 0
    put(tmp_path / "drop", "aiperf")
    assert run(tmp_path / "drop").status == 0
    assert [one["requests_complete"] for one in run.cells()] == [True]
    with Reader(run.root) as reader:
        assert queries.sources(reader).num_rows == 1


def test_what_belongs_to_a_result_counts_in_what_reading_it_may_take(tmp_path: Path) -> None:
    path = put(tmp_path, "aiperf", test_aiperf.REQUESTS)

    def allowed() -> int:
        (unit,) = find_units([path])
        assert isinstance(unit, Unit)
        return ReadingLimits().of(unit).memory

    before = allowed()
    put(tmp_path, "aiperf")
    assert allowed() == before + 3 * (tmp_path / test_aiperf.REQUESTS).stat().st_size


def seen(folder: Path, memory: Memory) -> list[Sighting]:
    """What is ready after two looks that saw the same."""
    look(folder, memory)
    return look(folder, memory)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, (files, _) in RUNS.items() for name in list(files)[1:]]
    + [("aiperf", "meta.json"), ("llmperf", "x_summary.meta.json")],
)
def test_what_was_rejected_is_read_again_when_what_belongs_to_it_changes(
    tmp_path: Path, kind: str, name: str
) -> None:
    memory, path = Memory(), put(tmp_path, kind)
    (tmp_path / name).write_text(_half(tmp_path / name), encoding="utf-8")
    for sighting in seen(tmp_path, memory):
        memory.settle(sighting, rejected=True)
    assert seen(tmp_path, memory) == []

    with (tmp_path / name).open("a") as file:
        file.write(" ")
    assert path in [one.path for one in seen(tmp_path, memory)]


def _half(path: Path) -> str:
    whole = path.read_text(encoding="utf-8") if path.exists() else '{"gpu": "H200"'
    # So much that AIPerf's requests are still known by their first line.
    return whole[: len(whole) // 2 + 1]


def test_what_is_settled_is_read_again_when_what_belongs_to_it_comes_or_changes(
    tmp_path: Path,
) -> None:
    memory, path = Memory(), put(tmp_path, "aiperf", test_aiperf.REQUESTS)

    def settle() -> None:
        (sighting,) = seen(tmp_path, memory)
        assert sighting.path == path
        memory.settle(sighting, rejected=False)
        assert seen(tmp_path, memory) == []

    settle()
    put(tmp_path, "aiperf")
    settle()
    (tmp_path / test_aiperf.REQUESTS).write_text("")
    settle()
    (tmp_path / "meta.json").write_text("{}")
    settle()


def test_the_id_of_a_result_tells_its_run_and_all_its_files(tmp_path: Path) -> None:
    path = put(tmp_path, "aiperf", test_aiperf.REQUESTS)
    # Hashed by a thread, from the mapped file: known before it is written anew.
    bare = with_companions(open_content(path)).sha256()
    put(tmp_path, "aiperf")
    whole = with_companions(open_content(path)).sha256()
    assert bare == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(whole) == 64
    assert whole != bare
    assert run_of(whole) == run_of(bare)
