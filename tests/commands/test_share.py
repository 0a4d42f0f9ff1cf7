"""What is passed on: a bundle says the same elsewhere, holds nothing else, and is never changed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import draftboard
from tests.conftest import RECORDED
from warehouse import annotations, queries
from warehouse.annotations import annotation
from warehouse.catalogue import REQUEST_METRICS
from warehouse.errors import DraftboardError
from warehouse.filters import Filters
from warehouse.maintenance import check
from warehouse.storage.copies import bundle
from warehouse.storage.files import BUNDLE
from warehouse.store import Reader, open_writer

PROMPT, OUTPUT = "Tell nobody of project Kingfisher.", "Kingfisher is a secret."


def _draftboard(*words: str | Path, place: Path) -> subprocess.CompletedProcess[str]:
    """The command as a person gives it in a folder that holds nothing."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("DRAFT")}
    return subprocess.run(
        [str(Path(sys.executable).with_name("draftboard")), *map(str, words)],
        cwd=place, capture_output=True, text=True, check=False, timeout=120,
        env={**known, "HOME": str(place)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def recorded(first_lab: Path) -> Path:
    """A warehouse of the recorded runs."""
    return first_lab


@pytest.fixture(scope="module")
def shared(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of all of it."""
    out = tmp_path_factory.mktemp("shared") / "bundle"
    bundle(recorded, out, Filters())
    return out


def _bundled(root: Path, out: Path, *words: str) -> Path:
    """``draftboard share``, moved away from where it was made."""
    done = _draftboard("share", "--warehouse", root, "--out", out, *words, place=out.parent)
    assert done.returncode == 0, done.stderr
    elsewhere = out.parent / "elsewhere" / "bundle"
    elsewhere.parent.mkdir()
    out.rename(elsewhere)
    return elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--dataset", "code")])
def test_a_bundle_opened_from_an_empty_folder_gives_the_same_verdict(
    recorded: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    here = _draftboard("verdict", "--json", "--warehouse", recorded, *words, place=tmp_path)
    shared = _bundled(recorded, tmp_path / "shared", *words)
    empty = tmp_path / "empty"
    empty.mkdir()

    there = _draftboard("verdict", "--json", "--warehouse", shared, place=empty)

    assert json.loads(here.stdout)["decisions"]
    assert (there.stdout, there.stderr, there.returncode) == (here.stdout, "", 0)
    assert not list(empty.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("compare",), ("tune",), ("cost", "--usd-per-hour=10", "--gpus-per-instance=1")]
)
def test_other_commands_say_the_same_of_a_bundle(
    recorded: Path, shared: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    here, there = (
        _draftboard(*words, "--json", "--warehouse", root, place=tmp_path)
        for root in (recorded, shared)
    )

    assert here.returncode == 0, here.stderr
    assert there.stdout == here.stdout


def test_every_distribution_of_requests_is_in_the_bundle(recorded: Path, shared: Path) -> None:
    with Reader(recorded) as here, Reader(shared) as there:
        for cell_id in queries.cells(here, Filters()).column("cell_id").to_pylist():
            for metric in REQUEST_METRICS:
                known = queries.request_distribution(here, cell_id, metric)
                assert queries.request_distribution(there, cell_id, metric).equals(known)
                assert known.num_rows
    assert check(shared) == []


def _with_text(table: pa.Table) -> pa.Table:
    for name, text in (("prompt", PROMPT), ("output", OUTPUT), ("error", f"too long: {PROMPT}")):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), pa.array([text] * len(table)))
    return table


@pytest.fixture
def talkative(
    warehouse_path: Path, make_source: Callable[..., Any], make_cell: Callable[..., Any]
) -> Path:
    """A warehouse that keeps texts, with an excluded run, notes, and a model nobody may hear of."""
    with open_writer(warehouse_path) as writer:
        for name, facts in (
            ("open", {"model": "tiny", "study": "public"}),
            ("doubtful", {"model": "tiny", "study": "public"}),
            ("hidden", {"model": "kingfisher-70b", "study": "unannounced"}),
        ):
            source = make_source(name, path=f"/home/somebody/results/{name}/report.json")
            cells = [make_cell(source, index, facts=facts) for index in range(2)]
            writer.add(source, [replace(one, requests=_with_text(one.requests)) for one in cells])
        writer.commit()
    with Reader(warehouse_path) as reader:
        runs = queries.runs(reader, Filters()).to_pylist()
    places = {row["path"].split("/")[-2]: row for row in runs}
    for name, action in (("doubtful", "exclude"), ("open", "note"), ("hidden", "note")):
        target = annotations.AnnotationTarget(places[name]["run_id"], places[name]["source_id"])
        annotations.add(warehouse_path, annotation(action, target, f"About {name}.", "Ada"))
    for study in (None, "public", "unannounced"):
        night = annotations.AnnotationTarget(night="2026-01-01", study=study)
        annotations.add(warehouse_path, annotation("note", night, f"Night of {study}.", "Ada"))
    other = annotations.AnnotationTarget(night="2025-12-24")
    annotations.add(warehouse_path, annotation("note", other, "Another night.", "Ada"))
    return warehouse_path


def _texts(root: Path) -> set[Any]:
    columns = ["prompt", "output", "error"]
    files = [pq.read_table(path, columns=columns) for path in (root / "requests").glob("*.parquet")]
    return {value for table in files for column in table.columns for value in column.to_pylist()}


def test_texts_stay_at_home_unless_they_are_asked_for(talkative: Path, tmp_path: Path) -> None:
    bundle(talkative, tmp_path / "plain", Filters())
    bundle(talkative, tmp_path / "talkative", Filters(), with_texts=True)

    assert _texts(tmp_path / "plain") == {None}
    assert {PROMPT, OUTPUT} < _texts(tmp_path / "talkative")
    settings = [json.loads((tmp_path / name / BUNDLE).read_text()) for name in
                ("plain", "talkative")]  # fmt: skip
    assert [said["texts"] for said in settings] == [False, True]


def test_what_the_filters_leave_out_is_nowhere_in_the_bundle(
    talkative: Path, tmp_path: Path
) -> None:
    out = tmp_path / "shared"
    bundle(talkative, out, Filters(study=("public",)))

    for word in (b"kingfisher", b"unannounced", b"somebody", b"Another night"):
        assert any(word in path.read_bytes() for path in talkative.rglob("*") if path.is_file())
        assert not [path for path in out.rglob("*") if path.is_file() and word in path.read_bytes()]
    with Reader(out, everything=True) as reader:
        assert set(queries.cells(reader, Filters()).column("model").to_pylist()) == {"tiny"}
        paths = set(queries.sources(reader).column("path").to_pylist())
    assert paths == {"open/report.json", "doubtful/report.json"}


def test_notes_and_exclusions_of_what_is_shared_go_along(talkative: Path, tmp_path: Path) -> None:
    out = tmp_path / "shared"
    made = bundle(talkative, out, Filters(study=("public",)))

    texts = [event.text for event in annotations.read(out)]
    assert texts == ["About doubtful.", "About open.", "Night of None.", "Night of public."]
    assert made.annotations == 4
    with Reader(out) as kept, Reader(out, everything=True) as all_of_it:
        assert queries.cells(kept, Filters()).num_rows == 2
        assert queries.cells(all_of_it, Filters()).num_rows == 4


def test_nothing_is_added_to_a_bundle(shared: Path) -> None:
    words = ["note", "GPU throttled", "--night", "2026-11-21", "--warehouse", str(shared)]
    for given in (["ingest", str(RECORDED), "--warehouse", str(shared)], words):
        with pytest.raises(
            (DraftboardError, click.ClickException), match="is a shared bundle and is never changed"
        ):
            draftboard.cli.main(given, standalone_mode=False)


def test_a_bundle_is_written_whole_or_not_at_all(talkative: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(DraftboardError, match="No cell matches"):
        bundle(talkative, place / "shared", Filters(model=("nobody's",)))
    next((talkative / "requests").glob("*.parquet")).unlink()
    with pytest.raises(DraftboardError, match="nothing was written"):
        bundle(talkative, place / "shared", Filters())
    assert not list(place.iterdir())

    (place / "shared").mkdir()
    with pytest.raises(DraftboardError, match="there already"):
        bundle(talkative, place / "shared", Filters())
    assert not list((place / "shared").iterdir())


def test_share_writes_the_report_where_the_name_ends_in_html(
    recorded: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report.html"

    done = _draftboard("share", "--warehouse", recorded, "--out", out, place=tmp_path)
    texts = _draftboard("share", "--warehouse", recorded, "--out", tmp_path / "other.html",
                        "--with-texts", place=tmp_path)  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert texts.returncode == 1
    assert "never holds prompts" in texts.stderr


def test_share_says_how_a_bundle_is_opened(
    talkative: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "shared"
    with pytest.raises(SystemExit) as end:
        draftboard.main(["share", "--warehouse", str(talkative), "--out", str(out)])

    assert not end.value.code
    said = capsys.readouterr().out
    assert "6 cells of 3 sources, 120 requests without their texts" in said
    assert f"draftboard dashboard --warehouse {out}" in said


def test_a_report_of_one_arm_says_so_by_its_exit_status(
    warehouse_path: Path, make_source: Callable[..., Any], make_cell: Callable[..., Any],
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with open_writer(warehouse_path) as writer:
        source = make_source("alone")
        writer.add(source, [make_cell(source, 0, 1.0, {"spec_method": "none"})])
        writer.commit()

    with pytest.raises(SystemExit) as ended:
        draftboard.main(
            ["report", "--warehouse", str(warehouse_path), "--out", str(tmp_path / "r.html")]
        )

    assert ended.value.code == 3
    assert "no verdict to report" in capsys.readouterr().err
