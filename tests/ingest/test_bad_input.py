"""Whatever lies in a folder: one clear sentence, and what was there before is still there."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
import yaml

from ingest.stated import sentence, why
from tests.ingest.conftest import Ingest
from warehouse.contract import Record

GIGABYTE = 1 << 30


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory, bench: Any) -> Path:
    """The warehouse that ``stocked`` is a copy of: nobody else touches it."""
    place = tmp_path_factory.mktemp("stock")
    good = place / "good.json"
    good.write_text(json.dumps(bench(True)))
    assert Ingest(place / "warehouse")(good).status == 0
    return place / "warehouse"


@pytest.fixture
def stocked(stock: Path, run: Any, write: Any, bench: Any) -> Iterator[Any]:
    """A warehouse that holds one result; afterwards it must still hold it, unharmed."""
    shutil.copytree(stock, run.root)
    before = run.cells()[0]["cell_id"]
    yield run
    assert before in [cell["cell_id"] for cell in run.cells()]
    assert run(write("good.json", bench(True)), "--json").json["known"] == 1


def refused(stocked: Any, path: Path) -> str:
    """The sentence with which the only thing at ``path`` is rejected."""
    done = stocked(path, "--json")
    assert done.status == 1
    assert done.json["accepted"] == 0
    assert len(stocked.cells()) == 1
    said: str = done.reason
    assert "\n" not in said
    assert said.endswith(".")
    assert "Traceback" not in done.out + done.err
    return said


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_a_truncated_report_is_rejected(
    stocked: Any, write: Any, report: Any, share: float
) -> None:
    text = json.dumps(report())
    assert refused(stocked, write("cut.json", text[: int(len(text) * share)]))


def test_a_truncated_bench_result_is_rejected(stocked: Any, write: Any, bench: Any) -> None:
    text = json.dumps(bench(True))
    assert "cut off" in refused(stocked, write("cut.json", text[:-40]))


@pytest.mark.parametrize("content", [b"", b"  \n\t "])
def test_an_empty_file_is_rejected(stocked: Any, write: Any, content: bytes) -> None:
    assert refused(stocked, write("empty.json", content))


@pytest.mark.parametrize("name", ["binary.json", "binary.json.gz", "binary.json.zst"])
def test_a_binary_file_is_rejected(stocked: Any, write: Any, name: str) -> None:
    assert refused(stocked, write(name, bytes(range(256)) * 100))


@pytest.mark.parametrize("magic", [b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd"])
def test_a_damaged_compressed_file_is_rejected(stocked: Any, write: Any, magic: bytes) -> None:
    assert "damaged" in refused(stocked, write("damaged.json.gz", magic + b"\x00\xff" * 50))


@pytest.mark.slow
def test_a_gigabyte_of_brackets_is_rejected_at_once(stocked: Any, tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    block = b"[" * (1 << 24)
    with path.open("wb") as file:
        for _ in range(GIGABYTE // len(block)):
            file.write(block)
    try:
        assert "nested" in refused(stocked, path)
    finally:
        path.unlink()


def test_deep_nesting_inside_a_report_is_rejected(stocked: Any, write: Any, bench: Any) -> None:
    text = json.dumps(bench())[:-1] + ', "extra": ' + "[" * 100_000 + "]" * 100_000 + "}"
    assert refused(stocked, write("deep.json", text))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
def test_a_report_in_another_encoding_is_rejected(
    stocked: Any, write: Any, bench: Any, encoding: str
) -> None:
    text = json.dumps(bench(model_id="Modèle"), ensure_ascii=False)
    assert refused(stocked, write("other.json", text.encode(encoding)))


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_bench_result_with_a_constant_that_is_no_number_is_rejected(
    stocked: Any, write: Any, bench: Any, constant: str
) -> None:
    text = json.dumps(bench()).replace('"duration": 2.0', f'"duration": {constant}')
    assert refused(stocked, write("nan.json", text))


@pytest.mark.parametrize("constant", ["NaN", "Infinity"])
def test_a_report_with_a_constant_that_is_no_number_stores_none(
    stocked: Any, write: Any, report: Any, constant: str
) -> None:
    text = json.dumps(report()).replace('"variance": 0.0', f'"variance": {constant}')
    done = stocked(write("nan.json", text), "--json")
    # Older releases write such constants where nothing was measured: taken in or refused, not torn.
    assert done.json["accepted"] + len(done.json["rejected"]) == 1
    assert all(r["reason"].endswith(".") for r in done.json["rejected"])


def test_negative_durations_are_rejected(stocked: Any, write: Any, report: Any, bench: Any) -> None:
    assert "below zero" in refused(stocked, write("b.json", bench(duration=-2.0)))
    assert "negative" in refused(stocked, write("d.json", bench(True, latencies=[-0.5] * 4)))
    data = report()
    for request in data["benchmarks"][0]["requests"]["successful"]:
        timings = request["info"]["timings"]
        timings["first_token_iteration"] = timings["request_start"] - 5
    assert "negative" in refused(stocked, write("r.json", data))


@pytest.mark.parametrize("section", ["config", "metrics", "requests", "scheduler_state"])
def test_a_report_without_a_section_is_rejected_or_says_what_is_unknown(
    stocked: Any, write: Any, report: Any, section: str
) -> None:
    data = report()
    del data["benchmarks"][0][section]
    done = stocked(write("part.json", data), "--json")
    assert done.json["accepted"] + len(done.json["rejected"]) == 1
    assert all(r["reason"].endswith(".") for r in done.json["rejected"])


def test_a_report_without_benchmarks_is_rejected(stocked: Any, write: Any, report: Any) -> None:
    assert refused(stocked, write("none.json", report() | {"benchmarks": []}))
    assert refused(stocked, write("other.json", {"name": "package", "version": "1"}))


def test_a_bench_result_without_a_section_is_rejected(stocked: Any, write: Any, bench: Any) -> None:
    data = bench()
    del data["duration"]
    assert "duration" in refused(stocked, write("part.json", data))


def test_a_bench_result_without_a_successful_request_is_rejected(
    stocked: Any, write: Any, bench: Any
) -> None:
    told = refused(stocked, write("zero.json", bench(completed=0, failed=4)))
    assert "no successful request" in told


def test_a_report_without_a_successful_request_has_no_latencies(
    stocked: Any, write: Any, report: Any
) -> None:
    data = report()
    requests = data["benchmarks"][0]["requests"]
    for request in requests["successful"]:
        request["info"] |= {"status": "errored", "error": "HTTP 500"}
        request["output_metrics"] = {"text_tokens": None, "total_tokens": None}
    requests["errored"], requests["successful"] = requests["successful"], []
    made = {"successful": 0, "errored": 20, "incomplete": 0, "total": 20}
    data["benchmarks"][0]["scheduler_metrics"]["requests_made"] = made
    data["benchmarks"][0]["metrics"]["request_totals"] = made
    done = stocked(write("zero.json", data), "--json")
    if done.json["accepted"]:
        (cell,) = [c for c in stocked.cells() if c["completed"] == 0]
        assert stocked.flags(cell["cell_id"])
    else:
        assert done.reason.endswith(".")


def test_a_sampled_report_is_marked_and_not_recomputed(
    stocked: Any, write: Any, report: Any
) -> None:
    data = report()
    requests = data["benchmarks"][0]["requests"]
    requests["successful"] = requests["successful"][:5]
    assert stocked(write("sampled.json", data)).status == 0
    (cell,) = [c for c in stocked.cells() if c["requests_made"] == 20]
    assert cell["requests_complete"] is False
    assert cell["comparable_as"].startswith("reported")
    assert stocked.flags(cell["cell_id"])


def test_a_loop_of_links_is_walked_once(stocked: Any, write: Any, tmp_path: Path) -> None:
    folder = write("tree/deep/cut.json", "{").parent.parent
    (folder / "deep" / "up").symlink_to(folder)
    (folder / "again").symlink_to(folder / "deep")
    assert refused(stocked, folder)


def test_a_link_to_itself_is_rejected(stocked: Any, tmp_path: Path) -> None:
    path = tmp_path / "self.json"
    path.symlink_to(path)
    assert "cannot be read" in refused(stocked, path)


def _dangling(path: Path) -> None:
    path.symlink_to(path.parent / "gone")


def _without_permission(path: Path) -> None:
    path.write_text("{}")
    path.chmod(0)


@pytest.mark.parametrize(
    "make",
    [
        _dangling,
        os.mkfifo,
        pytest.param(
            _without_permission,
            marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything"),
        ),
    ],
)
def test_an_unreadable_file_is_rejected_without_hanging(
    stocked: Any, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "folder" / "x.json"
    path.parent.mkdir()
    make(path)
    assert refused(stocked, path.parent)
    assert refused(stocked, path)


def test_a_drop_that_cannot_be_looked_at_costs_nothing_but_itself(
    run: Any, write: Any, bench: Any
) -> None:
    drop = write("tree/drop/record.json", {}).parent
    (drop / "link").symlink_to("x" * 300)
    write("tree/good.json", bench())
    done = run(drop.parent, "--json")
    assert (done.json["accepted"], len(done.json["rejected"])) == (1, 1)
    assert "File name too long" in done.reason


def test_a_folder_with_the_name_of_a_report_is_searched(stocked: Any, write: Any) -> None:
    folder = write("x.json/inside.json", "{").parent
    assert refused(stocked, folder)


def test_a_full_disk_leaves_what_was_published(
    write: Any, bench: Any, report: Any, tmp_path: Path, run: Any
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small disk of its own needs root")
    try:
        run.root = disk / "warehouse"
        assert run(write("good.json", bench(True))).status == 0
        (disk / "filler").write_bytes(bytes(_free(disk) - (32 << 10)))
        done = run(write("more.json", report()))
        assert done.status == 1
        assert "full" in done.err
        assert len(done.err.strip().splitlines()) == 1
        assert len(run.cells()) == 1
        (disk / "filler").unlink()
        assert run(write("more.json", report())).status == 0
        assert len(run.cells()) == 2
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _free(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def test_a_limit_on_file_sizes_leaves_what_was_published(
    stocked: Any, write: Any, report: Any
) -> None:
    path = write("more.json", report())
    words = [sys.executable, "-m", "draftboard", "ingest", str(path), "--warehouse"]
    done = subprocess.run(
        [*words, str(stocked.root)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, 8 << 10)),
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert len(stocked.cells()) == 1


def test_two_reports_with_the_same_content_are_one(stocked: Any, write: Any, bench: Any) -> None:
    folder = write("two/a.json", bench(True)).parent
    write("two/b.json", bench(True))
    done = stocked(folder, "--json")
    assert (done.status, done.json["known"], done.json["accepted"]) == (0, 2, 0)


def test_two_new_reports_with_the_same_content_are_one(run: Any, write: Any, report: Any) -> None:
    folder = write("two/a.json", report()).parent
    write("two/b.json", report())
    done = run(folder, "--json")
    assert (done.json["known"], done.json["accepted"], len(run.cells())) == (1, 1, 1)


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script><img src=x onerror=alert(1)>",
        "'; drop table cells; --",
        "a\x1b[2Jb\x00c\ud800",
        "[bold]x[/bold] ${HOME} {{7*7}}",
        "a\u2066b\u2069c\u200f\u061cd\U000e0041",
    ],
)
def test_a_model_name_is_only_text(stocked: Any, write: Any, report: Any, name: str) -> None:
    data = report()
    data["benchmarks"][0]["config"]["backend"]["model"] = name
    done = stocked(write("odd.json", data), "--json")
    assert done.json["accepted"] + len(done.json["rejected"]) == 1
    if done.json["accepted"] and name.isprintable():
        assert name in [cell["model"] for cell in stocked.cells()]
    assert "\x1b" not in done.out
    for cell in stocked.cells():
        assert not set(str(cell["model"])) & set("\x1b\x00\u2066\u2069\u200f\u061c\U000e0041")


def test_a_newline_in_a_name_forges_no_line(stocked: Any, write: Any) -> None:
    path = write("a\nrejected            0\nb.json", "{")
    for how in ([], ["--guess", "--yes"]):
        told = stocked(path, *how).out.splitlines()
        assert [line for line in told if line.startswith("rejected")] in (
            [],
            ["rejected            1"],
        )
        assert not [line for line in told if line.startswith("b.json")]


class _Typed(msgspec.Struct):
    a: int = 0
    b: list[float | str | None] = []
    c: dict[str, list[int]] = {}


class _Needs(msgspec.Struct):
    a: int


def _of(text: str, kind: Any = _Typed) -> Callable[[], Any]:
    return lambda: msgspec.json.decode(text, type=kind)


def _of_record(**said: Any) -> Callable[[], Any]:
    return lambda: Record.model_validate({"schema_version": 1} | said)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (_of('{"a": "x"}'), "a is a text where a whole number belongs"),
        (_of('{"a": 1.5}'), "a is a decimal number where a whole number belongs"),
        (_of('{"b": [1, []]}'), "b[1] is a list where a number or a text belongs"),
        (_of('{"c": {"x": [true]}}'), "c[…][0] is true or false where a whole number belongs"),
        (_of('{"1.5": 2}', dict[int, int]), "a name in it is a text where a whole number belongs"),
        (_of("[]"), "it is a list where an object belongs"),
        (_of("[{}]", list[_Needs]), "[0] lacks a"),
        (_of('{"b": [1e999]}'), "b[0] is out of range"),
        (_of('{"a": 1'), "it ends in the middle, so it was cut off or altered"),
        (_of('{"a": ?}'), "it is no JSON from byte 6 on, so it is damaged or was cut off"),
        (lambda: json.loads('{"a": no}'), "it is no JSON from character 6 on, so it is damaged or was cut off"),
        (lambda: json.loads('{"a": "no'), "it ends in the middle, so it was cut off or altered"),
        (lambda: b"abc\xf6".decode(), "it is no text in UTF-8 from byte 3 on"),
        (lambda: yaml.safe_load("a: 1\nb: [1\nc: 2"), "it is no YAML from line 3 on, so it is damaged or was cut off"),
        (lambda: yaml.safe_load("a: \x01"), "it holds characters that are none in YAML"),
        (lambda: pa.array([12.5]).cast(pa.int32()), "a number is too large, or has a fraction where a whole one belongs"),
        (_of_record(concurrency=64.5), "concurrency is 64.5 where a whole number belongs"),
        (_of_record(concurrency=1e300), "concurrency is 1e+300 where a whole number belongs"),
        (_of_record(concurrency=10**400), "concurrency is too large a number where a number of at most 2.14748e+09 belongs"),
        (_of_record(rate=0), "rate is 0 where a number of more than 0 belongs"),
        (_of_record(gpu_count="two"), "gpu_count is 'two' where a whole number belongs"),
        (_of_record(gpu_count="x" * 41), "gpu_count is a long text where a whole number belongs"),
        (_of_record(seed="hf_" + "aB3" * 9), "seed is '[removed]' where a whole number belongs"),
        (_of_record(model=""), "model is '' where a text that is not empty belongs"),
        (_of_record(status="god"), "status is 'god' where 'good' or 'failed' belongs"),
        (_of_record(commands={"vllm": [3]}), "commands.vllm[0] is 3 where a text belongs"),
        (_of_record(timeline={"load": -1}), "timeline.load is -1 where a number of at least 0 belongs"),
        (_of_record(server_args=[1]), "server_args is a list where an object belongs"),
        (_of_record(gpus=1), "it has gpus, which the contract does not know"),
        (lambda: Record.model_validate({}), "it lacks schema_version"),
        (lambda: Record.model_validate([]), "it is a list where an object belongs"),
    ],
)  # fmt: skip
def test_why_it_cannot_be_read_is_said_in_our_words(read: Callable[[], Any], words: str) -> None:
    with pytest.raises((ValueError, yaml.YAMLError)) as raised:
        read()
    assert why(raised.value) == words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_prompts": "many"}, "num_prompts is a text where a whole number belongs"),
        ({"ttfts": [0.1, 0.1, 0.1, None]}, "ttfts[3] is null where a number belongs"),
        ({"max_concurrency": -5}, "concurrency is -5 where a number of at least 1 belongs"),
    ],
)
def test_a_field_of_another_kind_is_named_with_what_to_do(
    stocked: Any, write: Any, bench: Any, change: dict[str, Any], words: str
) -> None:
    told = refused(stocked, write("b.json", bench(True, **change)))
    assert f"cannot be read: {words}; run it again, or give the file that" in told


def test_what_nobody_foresaw_is_refused_without_the_words_of_a_library() -> None:
    told = sentence(ValueError("zip() argument 2 is shorter than argument 1"))
    assert "zip" not in told
    assert "run it again" in told


@pytest.mark.parametrize("number", ["1e999", "1e308", "99999999999999999999999", "-1"])
def test_a_number_beyond_range_is_rejected(
    stocked: Any, write: Any, bench: Any, number: str
) -> None:
    text = json.dumps(bench()).replace('"num_prompts": 4', f'"num_prompts": {number}')
    assert refused(stocked, write("huge.json", text))


def test_a_level_beyond_range_in_a_report_is_rejected(
    stocked: Any, write: Any, report: Any
) -> None:
    data = report()
    data["benchmarks"][0]["config"]["strategy"] |= {"streams": 10**30, "max_concurrency": 10**30}
    done = stocked(write("huge.json", data), "--json")
    assert done.json["accepted"] + len(done.json["rejected"]) == 1
    assert all(r["reason"].endswith(".") for r in done.json["rejected"])


def test_a_report_from_the_future_is_read_by_its_structure_and_marked(
    stocked: Any, write: Any, report: Any
) -> None:
    data = report() | {"novelty": {"x": 1}}
    data["metadata"] |= {"version": 9, "guidellm_version": "3.0.0"}
    assert stocked(write("future.json", data)).status == 0
    (cell,) = [c for c in stocked.cells() if c["load_generator"] == "guidellm"]
    assert cell["schema_generation"] == "unknown"
    assert stocked.flags(cell["cell_id"])


def test_a_run_that_has_no_result_yet_is_nothing_and_no_mistake(run: Any, tmp_path: Path) -> None:
    study = tmp_path / "results" / "study"
    (study / "prompts").mkdir(parents=True)
    (study / "prompts" / "code-c1.jsonl").write_text('{"prompt": "1 + 1 ="}\n', encoding="utf-8")
    (study / "study.yaml").write_text("name: study\n", encoding="utf-8")

    done = run(tmp_path / "results", "--json")

    assert done.status == 0
    assert done.json["rejected"] == []
