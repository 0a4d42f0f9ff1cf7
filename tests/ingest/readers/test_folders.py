"""Which files of a folder are results, which belong to one, and what is said where none is."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from ingest.discovery import find_units
from ingest.model import Unit
from ingest.watch import sightings
from tests.ingest.readers.reading import FIXTURES, cells, written
from tests.ingest.readers.test_sglang import line
from warehouse.errors import InvalidInput

LINE = json.dumps(line()).encode()


def test_a_folder_of_lines_that_are_no_results_is_no_success(run: Any, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts"
    for name in ("a", "b", "c", "d"):
        written(prompts / f"{name}.jsonl", {"prompt": "Why?"}, lines=True)
    done = run(prompts, "--json")
    assert done.status == 1
    assert "Nothing in this folder is a result" in done.reason
    assert "a.jsonl, b.jsonl, c.jsonl and 1 more" in done.reason


def test_lines_that_are_results_go_in_and_others_beside_them_are_passed_over(
    run: Any, tmp_path: Path
) -> None:
    written(tmp_path / "r" / "sglang.jsonl", line(), line(max_concurrency=4), lines=True)
    written(tmp_path / "r" / "prompts.jsonl", {"prompt": "Why?"}, lines=True)
    (tmp_path / "r" / "values.yaml").write_text("replicas: 2\n")
    done = run(tmp_path / "r", "--json")
    assert (done.status, done.json["accepted"], done.json["cells"]) == (0, 1, 2)
    assert [one["concurrency"] for one in run.cells()] == [2, 4]


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    ("name", "write", "word"),
    [
        ("s.jsonl.gz", lambda path: path.write_bytes(gzip.compress(LINE)[:-9]), "cut off"),
        ("s.jsonl.gz", lambda path: path.write_bytes(b"\x1f\x8bno" * 99), "damaged"),
        ("s.jsonl.zst", lambda path: path.write_bytes(zstandard.compress(LINE)[:-9]), "cut off"),
        ("r.yaml.zst", lambda path: path.write_bytes(zstandard.compress(LINE)[:9]), "cut off"),
        ("r.yaml", _loop, "cannot be read"),
        ("s.jsonl", lambda path: path.symlink_to("gone.jsonl"), "cannot be read"),
    ],
)
def test_what_is_torn_or_cannot_be_read_beside_good_results_is_rejected(
    run: Any, tmp_path: Path, name: str, write: Any, word: str
) -> None:
    path = written(tmp_path / "r" / "good.jsonl", line(), lines=True).with_name(name)
    write(path)
    done = run(path.parent, "--json")
    assert (done.status, done.json["accepted"]) == (1, 1)
    assert word in done.reason
    assert path in [one.path for one in sightings([path.parent], run.root, [])]


def test_what_may_be_a_result_and_is_none_is_counted_and_named(run: Any, tmp_path: Path) -> None:
    folder = written(tmp_path / "r" / "good.jsonl", line(), lines=True).parent
    (folder / "empty.jsonl").touch()
    (folder / "utf16.jsonl").write_bytes(LINE.decode().encode("utf-16"))
    (folder / "values.yaml").write_text("replicas: 2\n")
    (folder / "run.zip").write_bytes(b"PK\3\4")
    (folder / "notes.txt").touch()
    written(folder / "good.meta.json", {"gpu": "H200"})
    done = run(folder)
    assert done.status == 0
    said = "4 files that hold no result of their own: empty.jsonl, run.zip, utf16.jsonl and 1 more"
    assert f"passed over{said[0]:>10}   {said[2:]}" in done.out
    assert said in run("--guess", folder).out
    told = run(folder, "--json").json["passed_over"]
    names = ["empty.jsonl", "run.zip", "utf16.jsonl", "values.yaml"]
    assert told == [str(folder / name) for name in names]


def test_what_belongs_to_a_result_is_not_passed_over(run: Any) -> None:
    done = run(FIXTURES / "inference-perf" / "concurrent", "--json")
    assert (done.status, done.json["passed_over"]) == (0, [])


@pytest.mark.parametrize("names", [(), ("bench.txt",), ("results.zip",), ("a.jsonl",)])
def test_a_folder_in_which_nothing_is_a_result_is_refused(
    run: Any, tmp_path: Path, names: tuple[str, ...]
) -> None:
    folder = tmp_path / "r"
    (folder / "below").mkdir(parents=True)
    for name in names:
        (folder / "below" / name).touch()
    done = run(folder, "--json")
    assert (done.status, len(done.json["rejected"])) == (1, 1)
    assert "Nothing in this folder is a result" in done.reason
    assert done.json["passed_over"] == []
    assert "No file here is a result" in run("--guess", folder).out


def test_a_folder_that_was_looked_at_already_is_no_empty_one(run: Any, tmp_path: Path) -> None:
    folder = written(tmp_path / "r" / "s.jsonl", line(), lines=True).parent
    (tmp_path / "again").symlink_to(folder)
    assert run(folder, folder / "s.jsonl", tmp_path / "again", folder).status == 0


def test_a_named_file_of_lines_says_what_it_is_not(run: Any, tmp_path: Path) -> None:
    done = run(written(tmp_path / "p.jsonl", {"prompt": "Why?"}, lines=True), "--json")
    assert done.status == 1
    for kind in ("a GuideLLM report", "SGLang's bench_serving", "an AIPerf report", "InferenceX"):
        assert kind in done.reason


def test_yaml_and_csv_of_a_report_are_not_taken_twice(tmp_path: Path, report: Any) -> None:
    written(tmp_path / "benchmarks.json", report())
    (tmp_path / "benchmarks.yaml").write_text("args: {}\nbenchmarks: []\n")
    (tmp_path / "benchmarks.csv").write_text("Run Info,Run Info\nRun ID,Run Index\n")
    (unit,) = find_units([tmp_path])
    assert isinstance(unit, Unit)
    assert unit.path.name == "benchmarks.json"


def test_a_guidellm_report_in_yaml_is_the_report(tmp_path: Path, report: Any) -> None:
    import yaml

    whole = cells(written(tmp_path / "r.json", report(levels=(2, 4))))
    path = tmp_path / "r.yaml"
    path.write_text(yaml.safe_dump(report(levels=(2, 4))))
    found = cells(path)
    assert [one.measurements for one in found] == [one.measurements for one in whole]
    assert [one.facts for one in found] == [one.facts for one in whole]


@pytest.mark.parametrize("as_written", [True, False])
@pytest.mark.parametrize(
    "end", ["\n  metrics:\n", "_latency_ms:\n", "successful:\n", "end_time:", "- "]
)
def test_a_guidellm_report_in_yaml_that_was_cut_off_is_refused(
    tmp_path: Path, report: Any, as_written: bool, end: str
) -> None:
    import yaml

    text = yaml.safe_dump(report(levels=(2, 4)), sort_keys=not as_written)
    path = tmp_path / "r.yaml"
    path.write_text(text[: text.rindex(end) + len(end)])
    with pytest.raises(InvalidInput, match="is cut off"):
        cells(path)


def test_a_guidellm_report_in_yaml_without_what_comes_after_its_levels_is_refused(
    tmp_path: Path, report: Any
) -> None:
    import yaml

    path = tmp_path / "r.yaml"
    path.write_text(yaml.safe_dump({"benchmarks": report()["benchmarks"]}))
    with pytest.raises(InvalidInput, match="is cut off"):
        cells(path)


def test_a_file_to_which_a_result_was_appended_stands_for_what_it_held(
    run: Any, tmp_path: Path, bench: Any
) -> None:
    """SGLang ends a line with its newline, vLLM begins the next one with it."""
    for name, made in (("s.jsonl", line), ("v.json", bench)):
        ended = "\n" if name.startswith("s") else ""
        path = tmp_path / name
        for count in (1, 2, 4):
            text = "\n".join(json.dumps(made(max_concurrency=n + 1)) for n in range(count)) + ended
            path.write_text(text)
            assert run(path).status == 0
    levels = sorted((one["load_generator"], one["concurrency"]) for one in run.cells())
    assert levels == [(name, n) for name in ("sglang-bench", "vllm-bench") for n in (1, 2, 3, 4)]


def test_a_real_report_in_yaml_says_what_it_says_in_json() -> None:
    (found, whole) = (
        cells(path)
        for path in (
            FIXTURES / "guidellm" / "g4-0.8.1.yaml.zst",
            FIXTURES.parent / "reports" / "g4-0.8.1.json.zst",
        )
    )
    assert [one.measurements for one in found] == [one.measurements for one in whole]
    assert [one.requests for one in found] == [one.requests for one in whole]
    assert [one.facts for one in found] == [one.facts for one in whole]


UNREAD = [
    ("b.csv", "Run Info,Run Info\nRun ID,Run Index\n", "benchmarks.json"),
    ("p.csv", "Metric,avg,min,max\n", "profile_export_aiperf.json"),
    ("raw.jsonl", json.dumps({"metadata": {"session_num": 0}, "start_perf_ns": 1, "payload": {}}),
     "profile_export_aiperf.json"),
    ("r.json", json.dumps({"experiments": [{"requests": [{"response_timestamps": [1, 2]}]}]}),
     "profile_export_genai_perf.json"),
    ("t.json", json.dumps([{"benchmark": {"name": "vLLM benchmark"}, "model": {}}]), "--save-result"),
    ("o.jsonl", json.dumps({"run_name": "x", "batch_size": 1, "prefill_latency": 0.1}), "bench_serving"),
    ("q.jsonl", json.dumps({"backend": "engine", "successful_requests": 4, "total_latency": 2.0}),
     "bench_serving"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "instead"), UNREAD, ids=[one[0] for one in UNREAD])
def test_what_holds_too_little_is_named_with_what_to_give_instead(
    tmp_path: Path, name: str, text: str, instead: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"^This is .*; give .*\.$") as refused:
        cells(path)
    assert instead in str(refused.value)
