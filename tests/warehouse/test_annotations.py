"""Notes and exclusions: kept apart, written by many at once, and gone from no result for good."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from warehouse import annotations, maintenance, queries
from warehouse.annotations import Annotation, AnnotationTarget, add, annotation, excluded_runs, read
from warehouse.errors import InvalidInput, UnknownKey, WarehouseBusy, WarehouseMissing
from warehouse.filters import Filters
from warehouse.maintenance import compact
from warehouse.queries import exclusions_sentence, find_run, run_name
from warehouse.storage.question import ask
from warehouse.store import Reader, open_writer

ROOT = Path(__file__).parents[2]
METRICS = (["output_throughput", "ttft"], ["mean", "p50", "p99"])


def _runs(root: Path, everything: bool = False) -> list[dict[str, object]]:
    with Reader(root, everything=everything) as reader:
        return queries.runs(reader, Filters()).to_pylist()


def _target(root: Path, word: str) -> AnnotationTarget:
    return find_run(_runs(root, everything=True), word)


def _say(root: Path, action: str, word: str, text: str = "GPU throttled") -> None:
    add(root, annotation(action, _target(root, word), text, "Ann"))


@pytest.fixture
def spec(filled):
    """The path of the eagle3 run of ``filled``."""
    return next(row["path"] for row in _runs(filled) if row["arms"] == ["eagle3 K=3"])


def test_what_is_added_is_read_back_in_order(filled):
    _say(filled, "note", "base.json", "  driver updated  ")
    add(
        filled,
        annotation(
            "note",
            annotations.AnnotationTarget(night="2026-11-21", study="lab"),
            "GPU 3 warm",
            "Bo",
        ),
    )

    first, second = read(filled)

    assert (first.author, first.action, first.text) == ("Ann", "note", "driver updated")
    assert first.at.utcoffset().total_seconds() == 0
    assert second.target == AnnotationTarget(night="2026-11-21", study="lab")
    assert second.target.name == "night 2026-11-21 of lab"


def test_an_excluded_run_is_in_no_filtered_query_and_can_be_taken_back(filled, spec):
    def everything(reader):
        filters = Filters()
        return [
            queries.cells(reader, filters), queries.measurements(reader, filters, *METRICS),
            queries.acceptance(reader, filters), queries.acceptance_by_position(reader, filters),
            queries.runs(reader, filters),
        ]  # fmt: skip

    with Reader(filled) as reader:
        before = everything(reader)
    _say(filled, "exclude", spec)
    with Reader(filled) as reader:
        left = everything(reader)
    _say(filled, "include", spec, "it was another GPU")
    with Reader(filled) as reader:
        after = everything(reader)

    assert [table.num_rows for table in before] == [6, 18, 3, 9, 2]
    assert [table.num_rows for table in left] == [3, 9, 0, 0, 1]
    assert left[0].column("arm_label").unique().to_pylist() == ["baseline"]
    assert after == before


def test_who_asks_for_everything_sees_it_with_its_reason(filled, spec):
    _say(filled, "exclude", spec)

    rows = {row["path"]: row for row in _runs(filled, everything=True)}

    assert (rows[spec]["excluded"], rows[spec]["excluded_by"]) == ("GPU throttled", "Ann")
    assert rows[spec]["excluded_at"] == read(filled)[0].at
    assert rows["base.json"]["excluded"] is None


def test_an_open_reader_follows_when_it_is_told_to(filled, spec):
    with Reader(filled) as reader:
        assert reader.refresh() is False
        _say(filled, "exclude", spec)
        assert queries.cells(reader, Filters()).num_rows == 6
        assert reader.refresh() is True
        assert queries.cells(reader, Filters()).num_rows == 3
        assert reader.refresh() is False


def test_only_the_run_of_that_source_is_left_out(warehouse_path, make_source, make_cell):
    with open_writer(warehouse_path) as writer:
        for name in ("monday", "tuesday"):
            source = make_source(name)
            writer.add(source, [make_cell(source, run_id="study/cell#1")])
        writer.commit()

    with pytest.raises(UnknownKey, match=r"names 2 runs; name one of them: study/cell#1@\w{8} "):
        _target(warehouse_path, "study/cell#1")
    add(
        warehouse_path,
        annotation("exclude", _target(warehouse_path, "monday.json"), "throttled", "Ann"),
    )

    assert [row["path"] for row in _runs(warehouse_path)] == ["tuesday.json"]


def test_the_last_word_on_a_run_counts(filled, spec):
    for action, text in (("exclude", "one"), ("include", "no"), ("note", "x"), ("exclude", "two")):
        _say(filled, action, spec, text)

    assert [event.text for event in excluded_runs(filled).values()] == ["two"]


def test_versions_never_come_back(filled, spec):
    seen = [(annotations.version(filled), annotations.exclusions_version(filled))]
    for action in ("note", "exclude", "note", "include"):
        _say(filled, action, spec)
        seen.append((annotations.version(filled), annotations.exclusions_version(filled)))

    assert len({every for every, _ in seen}) == 5
    of_exclusions = [name for _, name in seen]
    assert of_exclusions[0] == of_exclusions[1] == ""
    assert of_exclusions[2] == of_exclusions[3]
    assert len(set(of_exclusions)) == 3


WRITE = """
import sys
from pathlib import Path
from warehouse.annotations import AnnotationTarget, add, annotation

print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    add(Path(sys.argv[1]), annotation("note", AnnotationTarget(night="2026-11-21"), f"{number}", sys.argv[2]))
"""


def test_two_processes_that_write_at_once_lose_nothing(filled):
    count = 60
    both = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, str(filled), name, str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )
        for name in ("Ann", "Bo")
    ]  # fmt: skip
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        process.communicate()
        assert process.returncode == 0

    events = read(filled)
    for name in ("Ann", "Bo"):
        assert [e.text for e in events if e.author == name] == [str(n) for n in range(count)]
    assert annotations.unreadable(filled) == 0


def test_a_line_that_was_cut_anywhere_is_passed_over_and_the_next_one_is_whole(filled, spec):
    _say(filled, "note", spec, "first")
    _say(filled, "exclude", spec)
    file = filled / annotations.FILE
    whole = file.read_bytes()
    end_of_first = whole.index(b"\n") + 1

    for cut in range(end_of_first, len(whole) - 1, 7):
        file.write_bytes(whole[:cut])
        assert [event.text for event in read(filled)] == ["first"]
        assert excluded_runs(filled) == {}
        _say(filled, "note", spec, "third")
        assert [event.text for event in read(filled)] == ["first", "third"]
        assert annotations.unreadable(filled) == (1 if cut > end_of_first else 0)


def test_a_line_that_lacks_only_its_end_counts(filled, spec):
    _say(filled, "exclude", spec)
    file = filled / annotations.FILE
    file.write_bytes(file.read_bytes().rstrip(b"\n"))

    assert len(excluded_runs(filled)) == 1
    _say(filled, "note", spec, "more")
    assert [event.action for event in read(filled)] == ["exclude", "note"]


@pytest.mark.parametrize(
    "line",
    [
        "{}", "[]", "null", "no json", '{"at": 1}', "\x00\x01",
        '{"at":"2026-11-21T20:00:00","author":"A","action":"note","target":{"night":"2026-11-21"},'
        '"text":"without a time zone"}',
        '{"at":"2026-11-21T20:00:00Z","author":"A","action":"delete","target":'
        '{"night":"2026-11-21"},"text":"no such action"}',
        '{"at":"2026-11-21T20:00:00Z","author":"A","action":"exclude","target":{"run_id":"r"},'
        '"text":"a run of no source"}',
    ],
)  # fmt: skip
def test_lines_that_are_no_event_are_counted_and_passed_over(filled, spec, line):
    _say(filled, "exclude", spec)
    with (filled / annotations.FILE).open("a", encoding="utf-8") as file:
        file.write(line + "\n")

    assert len(read(filled)) == 1
    assert annotations.unreadable(filled) == 1


RUN = annotations.AnnotationTarget("r", "s" * 64)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (("note", RUN, "", "A"), "needs a text"),
        (("exclude", RUN, "   ", "A"), "A reason needs a text"),
        (("note", RUN, "x" * 1001, "A"), "has 1,001 characters and may have 1,000"),
        (("note", RUN, "two\nlines", "A"), "control character"),
        (("note", RUN, "bell \x07", "A"), "control character"),
        (("note", RUN, "turned \u202e round", "A"), "control character"),
        (("note", RUN, "half a pair \ud800", "A"), "control character"),
        (("note", RUN, "fine", ""), "between 1 and 80"),
        (("note", RUN, "fine", "A" * 81), "between 1 and 80"),
        (("note", RUN, "fine", "A\x1b[31m"), "author's name holds"),
        (("note", AnnotationTarget(), "fine", "A"), "about one run or about one night"),
        (("note", AnnotationTarget(run_id="r"), "fine", "A"), "about one run or about one night"),
        (
            ("note", AnnotationTarget("r", "s", "2026-11-21"), "fine", "A"),
            "about one run or about one night",
        ),
        (("note", annotations.AnnotationTarget(night="2026-13-01"), "fine", "A"), "is no night"),
        (("note", annotations.AnnotationTarget(night="2026-W47-6"), "fine", "A"), "is no night"),
        (
            ("note", annotations.AnnotationTarget(night="2026-11-21", study="a\nb"), "fine", "A"),
            "study's name",
        ),
        (
            ("exclude", annotations.AnnotationTarget(night="2026-11-21"), "fine", "A"),
            "Only a run can be excluded",
        ),
    ],
)
def test_what_may_not_be_said_is_one_sentence(filled, said, why):
    action, target, text, author = said
    with pytest.raises(InvalidInput, match=why):
        annotation(action, target, text, author)
    with pytest.raises(InvalidInput, match=why):
        add(filled, Annotation(_now(), author, action, target, text))
    assert read(filled) == ()


def _now():
    return annotation("note", RUN, "x", "A").at


def test_where_nothing_is_kept_nothing_is_written(tmp_path):
    with pytest.raises(WarehouseMissing, match="draftboard ingest"):
        add(tmp_path / "none", annotation("note", RUN, "x", "A"))
    assert not (tmp_path / "none").exists()


def test_a_lock_that_somebody_keeps_is_a_sentence(filled, monkeypatch):
    monkeypatch.setattr(annotations, "_LOCK_S", 0.05)
    with (
        FileLock(filled / annotations.LOCK),
        pytest.raises(WarehouseBusy, match="Another process has kept"),
    ):
        add(filled, annotation("note", RUN, "x", "A"))


def test_a_note_can_be_written_while_an_ingest_runs(filled, spec):
    with open_writer(filled):
        _say(filled, "note", spec)
    assert len(read(filled)) == 1


def test_compacting_collecting_and_rebuilding_keep_what_was_said(
    filled, spec, make_source, make_cell
):
    _say(filled, "exclude", spec)
    with open_writer(filled) as writer:
        assert compact(filled) == 2
    with open_writer(filled) as writer:
        maintenance.collect_garbage(filled, 2, grace=0)
    with open_writer(filled, rebuild=True) as writer:
        for name, method, k in (("base", "none", None), ("spec", "eagle3", 3)):
            source = make_source(name)
            facts = {"spec_method": method, "num_speculative_tokens": k}
            writer.add(source, [make_cell(source, 0, facts=facts)])
        writer.commit()

    assert len(read(filled)) == 1
    assert [row["arms"] for row in _runs(filled)] == [["baseline"]]
    assert len(_runs(filled, everything=True)) == 2


def test_info_counts_the_excluded_runs_that_are_there(filled, spec):
    _say(filled, "exclude", spec)
    add(filled, annotation("exclude", annotations.AnnotationTarget("gone", "f" * 64), "x", "A"))

    assert maintenance.info(filled)["excluded_runs"] == 1


def test_a_question_in_sql_leaves_them_out_and_can_name_them(filled, spec):
    _say(filled, "exclude", spec)

    views = ("cells", "measurements", "acceptance", "acceptance_by_position", "flags", "samples")
    counted = ", ".join(f"(select count(*) from {view}) as {view}" for view in views)
    counts = ask(filled, f"select {counted}").rows.to_pylist()[0]
    named = ask(filled, "select reason, author from excluded_runs").rows.to_pylist()

    assert counts == {
        "cells": 3, "measurements": 9, "acceptance": 0, "acceptance_by_position": 0, "flags": 3,
        "samples": 3,
    }  # fmt: skip
    assert named == [{"reason": "GPU throttled", "author": "Ann"}]
    for way in ("delete from excluded_runs", "delete from left_out", "drop table left_out"):
        with pytest.raises(InvalidInput, match="Ask with one select"):
            ask(filled, way)


def test_a_sentence_tells_how_many_runs_and_each_reason_once():
    def event(name: str, text: str) -> Annotation:
        return annotation("exclude", annotations.AnnotationTarget(name, "s" * 64), text, "Ann")

    assert exclusions_sentence([]) == ""
    assert exclusions_sentence([event("a", "GPU throttled.")]) == (
        "1 run is excluded by name: GPU throttled (a)."
    )
    many = [event(str(n), "GPU throttled") for n in range(5)] + [event("x", "y" * 500)]
    said = exclusions_sentence(many)
    assert said.startswith("6 runs are excluded by name: GPU throttled (0, 1, 2 and 2 more); yyy")
    assert len(said) < 300


def test_a_run_is_found_by_its_id_path_or_beginning(filled, spec):
    rows = _runs(filled)
    row = next(row for row in rows if row["path"] == spec)
    words = (
        row["run_id"], run_name(row), f"{row['run_id']} ({row['source_id'][:8]})", spec,
        row["run_id"][:-1],
    )  # fmt: skip

    assert {_target(filled, word) for word in words} == {
        annotations.AnnotationTarget(row["run_id"], row["source_id"])
    }


def test_a_run_that_is_not_there_names_the_nearest(filled, spec):
    known = next(row["run_id"] for row in _runs(filled) if row["path"] == spec)

    with pytest.raises(UnknownKey, match=f"There is no run .*; the nearest are .*{known}"):
        _target(filled, known[:-1] + "?")
    with pytest.raises(UnknownKey, match="draftboard runs --json"):
        _target(filled, "@@@@@@@@@@@@@@@@@@@@@@@@@@@@")
    with pytest.raises(UnknownKey, match="There is no run ''"):
        _target(filled, "")


def test_the_file_says_what_happened_to_whoever_reads_it(filled, spec):
    _say(filled, "exclude", spec)

    said = json.loads((filled / annotations.FILE).read_text(encoding="utf-8"))

    assert set(said) == {"at", "author", "action", "target", "text"}
    assert set(said["target"]) == {"run_id", "source_id"}


def test_an_accepted_night_is_read_back_and_excludes_nothing(filled):
    before = annotations.exclusions_version(filled)
    said = annotation(
        "accept",
        annotations.AnnotationTarget(night="2026-11-21", study="lab", series="eagle3 K=3"),
        "meant",
        "Ann",
    )
    add(
        filled,
        annotation("note", annotations.AnnotationTarget(night="2026-11-21"), "warm", "Bo"),
        said,
    )

    assert annotations.accepted(filled) == (said,)
    assert said.target.name == "night 2026-11-21 of lab (eagle3 K=3)"
    assert annotations.exclusions_version(filled) == before
    assert excluded_runs(filled) == {}


@pytest.mark.parametrize(
    ("action", "target", "why"),
    [
        ("accept", annotations.AnnotationTarget("r", "s"), "Only a night can be accepted"),
        ("accept", annotations.AnnotationTarget(night="2026-13-01"), "is no night"),
        (
            "accept",
            annotations.AnnotationTarget(night="2026-11-21", series="a\nb"),
            "This series' name holds",
        ),
        (
            "note",
            annotations.AnnotationTarget(night="2026-11-21", series="eagle3"),
            "leave the series out",
        ),
        ("exclude", annotations.AnnotationTarget(night="2026-11-21"), "Only a run can be excluded"),
    ],
)
def test_each_thing_is_said_only_of_what_it_can_be_said_of(action, target, why):
    with pytest.raises(InvalidInput, match=why):
        annotation(action, target, "text", "Ann")
