"""What ``draftboard ingest`` promises: idempotent, one writer, its exit statuses, its answers."""

import gzip
import json
import subprocess
import sys
from typing import Any

import zstandard

from warehouse import queries
from warehouse.store import Reader, open_writer


def test_the_second_time_changes_nothing(run: Any, write: Any, bench: Any) -> None:
    folder = write("in/a.json", bench(True)).parent
    write("in/b.json", bench(duration=3.0))
    write("in/cut.json", "{")
    first = run(folder, "--json").json
    stored = run.stored_bytes()
    second = run(folder, "--json").json
    assert (first["accepted"], second["accepted"], second["known"]) == (2, 0, 2)
    assert first["generation"] == second["generation"]
    assert run.stored_bytes() == stored


def test_compressed_the_same_content_is_known(run: Any, write: Any, bench: Any) -> None:
    content = json.dumps(bench(True)).encode()
    assert run(write("a.json", content)).status == 0
    for name, packed in (
        ("a.json.gz", gzip.compress(content)),
        ("a.json.zst", zstandard.compress(content)),
    ):
        assert run(write(name, packed), "--json").json["known"] == 1


def test_files_that_are_no_results_are_passed_over_unless_named(
    run: Any, write: Any, bench: Any
) -> None:
    folder = write("in/a.json", bench()).parent
    notes = write("in/README.md", "notes")
    write("in/.hidden.json", "{")
    assert run(folder).status == 0
    assert run(notes, "--json").json["rejected"][0]["path"] == str(notes)


def test_the_exit_status_says_what_happened(
    run: Any, write: Any, bench: Any, tmp_path: Any
) -> None:
    assert run(write("a.json", bench())).status == 0
    assert run(write("cut.json", "{")).status == 1
    assert run(tmp_path / "nothing-there").status == 2
    assert run().status == 2
    assert run(tmp_path, "--no-such-option").status == 2


def test_the_table_names_what_was_rejected_and_why(run: Any, write: Any, bench: Any) -> None:
    folder = write("in/a.json", bench()).parent
    cut = write("in/cut.json", "{")
    out = run(folder).out
    assert "accepted" in out
    assert "already known" in out
    assert str(cut) in out


def test_a_rejection_is_remembered_until_the_file_is_accepted(
    run: Any, write: Any, bench: Any
) -> None:
    path = write("a.json", "{")
    run(path)
    with Reader(run.root) as reader:
        assert queries.rejections(reader).num_rows == 1
    write("a.json", bench())
    run(path)
    with Reader(run.root) as reader:
        assert queries.rejections(reader).num_rows == 0


def test_a_rejection_is_forgotten_where_known_content_replaces_the_bad(
    run: Any, write: Any, bench: Any
) -> None:
    run(write("first.json", bench()))
    path = write("a.json", "{")
    run(path)
    write("a.json", bench())
    assert "already known" in run(path).out
    with Reader(run.root) as reader:
        assert queries.rejections(reader).num_rows == 0


def test_replace_takes_a_known_result_in_again(run: Any, write: Any, bench: Any) -> None:
    path = write("a.json", bench(True))
    assert run(path, "--set", "gpu=A100").status == 0
    assert run(path, "--set", "gpu=H200", "--json").json["known"] == 1
    assert run(path, "--set", "gpu=H200", "--replace", "--json").json["accepted"] == 1
    assert [cell["gpu"] for cell in run.cells()] == ["H200"]


def test_rebuild_starts_from_these_results_alone(run: Any, write: Any, bench: Any) -> None:
    assert run(write("a.json", bench())).status == 0
    assert run(write("b.json", bench(duration=3.0)), "--rebuild").status == 0
    assert [cell["duration"] for cell in run.cells()] == [3.0]


def test_a_second_writer_is_refused_with_no_wait(run: Any, write: Any, bench: Any) -> None:
    path = write("a.json", bench())
    with open_writer(run.root):
        done = run(path, "--no-wait")
    assert done.status == 1
    assert "writing" in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_second_writer_waits_and_says_so(run: Any, write: Any, bench: Any) -> None:
    path = write("a.json", bench())
    words = [sys.executable, "-m", "draftboard", "ingest", str(path), "--warehouse", str(run.root)]
    with open_writer(run.root):
        waiting = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        assert waiting.stderr is not None
        said = waiting.stderr.readline()
        assert waiting.poll() is None
    with waiting:
        assert waiting.wait(timeout=300) == 0
    assert "waiting" in said
    assert len(run.cells()) == 1


def test_help_shows_an_example(run: Any) -> None:
    assert "--set dataset=" in run("--help").out
