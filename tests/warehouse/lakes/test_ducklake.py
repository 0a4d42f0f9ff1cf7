"""What is published as DuckLake, in a file and in Postgres: the same rows, whole or not at all, once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.warehouse.lakes.conftest import ROOT, assert_refused
from warehouse import annotations, lakes
from warehouse.maintenance import compact
from warehouse.store import open_writer

pytestmark = pytest.mark.slow

Publish = Callable[..., Result]
PYTHON = ROOT / ".lab" / "ducklake" / "bin" / "python"
SCRIPT = ROOT / "warehouse" / "lakes" / "ducklake_script.py"
#: A reader of its own: catalogue and questions in, rows out.
READ = f"""
import json, runpy, sys, tempfile, pathlib, duckdb
made = runpy.run_path({str(SCRIPT)!r})
asked = json.loads(sys.stdin.readline())
with tempfile.TemporaryDirectory() as place:
    connection = made["_connection"](duckdb, pathlib.Path(place))
    made["_bucket"](connection)
    connection.execute(f"attach 'ducklake:{{asked['catalogue']}}' as lake (read_only)")
    found = [connection.execute(text).fetchall() for text in asked["questions"]]
print(json.dumps(found, default=str))
"""


class Place:
    """A catalogue, and where its data go."""

    def __init__(self, target: str, location: Path) -> None:
        self.target, self.location = target, location
        self.words = ("--ducklake", target, "--location", location)

    def ask(self, *questions: str) -> list[list[list[Any]]]:
        """Ask a reader in a process of its own."""
        catalogue = f"postgres:{self.target}" if "://" in self.target else self.target
        done = subprocess.run(
            [str(PYTHON), "-c", READ],
            input=json.dumps({"catalogue": catalogue, "questions": questions}),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: list[list[list[Any]]] = json.loads(done.stdout)
        return found

    def one(self, question: str) -> Any:
        """Ask for one number."""
        return self.ask(question)[0][0][0]

    def files(self) -> set[Path]:
        return {path for path in self.location.rglob("*") if path.is_file()}


@pytest.fixture(params=["file", "postgres"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "file":
        return Place(str(tmp_path / "all.ducklake"), tmp_path / "lake")
    return Place(request.getfixturevalue("postgres")(), tmp_path / "lake")


@pytest.fixture
def in_file(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "all.ducklake"), tmp_path / "lake")


def counts(place: Place) -> list[Any]:
    """How many cells, requests and request files there are, and of which generation."""
    (found,) = place.ask(
        "select (select count(*) from lake.draftboard.cells), count(*), count(distinct file), "
        "(select generation from lake.draftboard.publication) from lake.draftboard.requests"
    )
    return found[0]


def test_what_is_published_is_what_an_export_holds(
    publish: Publish, lake: Place, exported: Callable[[], dict[str, list[Any]]]
) -> None:
    done = publish(*lake.words)
    assert done.output == f"Published generation 1 to {lake.target}, schema draftboard.\n"
    wanted = exported()
    found = lake.ask(*(f"describe lake.draftboard.{name}" for name in wanted))
    questions = [selected(name, columns) for name, columns in zip(wanted, found, strict=True)]
    read = dict(zip(wanted, lake.ask(*questions), strict=True))
    for name, rows in wanted.items():
        assert sorted(map(plain, read[name])) == sorted(map(plain, rows)), name
    assert counts(lake) == [6, 120, 2, 1]


def selected(name: str, columns: list[Any]) -> str:
    """Ask for a table without the file of a request, moments as microseconds."""
    kinds = {column[0]: column[1] for column in columns if column[0] != "file"}
    texts = (
        f'epoch_us("{one}")' if "TIME ZONE" in kinds[one] else f'"{one}"' for one in sorted(kinds)
    )
    return f"select {', '.join(texts)} from lake.draftboard.{name}"


def plain(row: Any) -> str:
    """A row as JSON, moments as microseconds."""
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    moments = [
        (v - zero) // timedelta(microseconds=1) if isinstance(v, datetime) else v for v in row
    ]
    return json.dumps(moments)


def test_the_same_generation_again_adds_nothing_and_says_so(publish: Publish, lake: Place) -> None:
    publish(*lake.words)
    before, snapshots = lake.files(), lake.one("select count(*) from lake.snapshots()")
    again = publish("--ducklake", lake.target)
    assert "holds generation 1 already: nothing was added." in again.output
    assert again.exit_code == 0
    assert lake.files() == before
    assert lake.one("select count(*) from lake.snapshots()") == snapshots


def test_new_results_are_one_more_snapshot_that_says_its_generation(
    publish: Publish, lake: Place, grow: Callable[[str], None]
) -> None:
    publish(*lake.words)
    before = lake.files()
    grow("third")
    assert publish("--ducklake", lake.target).exit_code == 0
    assert counts(lake) == [9, 180, 3, 2]
    (said, older) = lake.ask(
        "select commit_message, commit_extra_info from lake.snapshots() "
        "where author = 'draftboard' order by snapshot_id",
        "select count(*) from lake.draftboard.cells at (version => 1)",
    )
    assert [row[0] for row in said] == ["generation 1", "generation 2"]
    assert json.loads(said[1][1])["generation"] == 2
    assert older == [[6]]
    written = [path for path in lake.files() - before if path.parent.name == "requests"]
    assert len(written) == 1


def test_requests_of_files_that_were_merged_are_there_once(
    publish: Publish, in_file: Place, filled: Path
) -> None:
    publish(*in_file.words)
    with open_writer(filled):
        assert compact(filled)
    assert "Published generation 2" in publish("--ducklake", in_file.target).output
    assert counts(in_file) == [6, 120, 1, 2]


def test_an_exclusion_is_published_and_leaves_nothing_out(
    publish: Publish, in_file: Place, filled: Path
) -> None:
    publish(*in_file.words)
    ((run, source),) = in_file.ask("select run_id, source_id from lake.draftboard.cells limit 1")[0]
    target = annotations.AnnotationTarget(run, source)
    annotations.add(filled, annotations.annotation("exclude", target, "GPU throttled", "Ann"))
    done = publish("--ducklake", in_file.target)
    assert "Published generation 1" in done.output
    assert "1 run is excluded by name and in it all the same" in done.output
    assert in_file.one("select reason from lake.draftboard.excluded_runs") == "GPU throttled"
    assert counts(in_file) == [6, 120, 2, 1]


def test_killed_halfway_it_shows_the_old_generation_and_can_be_run_again(
    publish: Publish, lake: Place, grow: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(*lake.words)
    grow("third")
    started = lakes.Lake._started

    def dying(self: Any, question: Any) -> Any:
        """Kill the process once it has written most tables."""
        process = started(self, question)
        if "tables" in json.loads(Path(f"/proc/self/fd/{question.fileno()}").read_text()):
            for _ in range(10):
                process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
        return process

    monkeypatch.setattr(lakes.Lake, "_started", dying)
    died = publish("--ducklake", lake.target)
    assert died.exit_code == 1
    assert "ended before it was done" in died.output
    assert counts(lake) == [6, 120, 2, 1]
    monkeypatch.undo()
    monkeypatch.chdir(ROOT)
    assert "Published generation 2" in publish("--ducklake", lake.target).output
    assert counts(lake) == [9, 180, 3, 2]


def test_who_loses_a_race_publishes_nothing_and_says_so(
    publish: Publish,
    lake: Place,
    grow: Callable[[str], None],
    filled: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publish(*lake.words)
    grow("third")
    tables = lakes._tables

    def late(*given: Any) -> dict[str, str]:
        grow("fourth")
        words = ["warehouse", "publish", "--warehouse", filled, "--ducklake", lake.target]
        subprocess.run([sys.executable, "-m", "draftboard", *map(str, words)], check=True)
        return tables(*given)

    monkeypatch.setattr(lakes, "_tables", late)
    lost = publish("--ducklake", lake.target)
    assert lost.exit_code == 1
    assert "Somebody else wrote into" in lost.output
    assert counts(lake) == [12, 240, 4, 3]


def test_an_older_generation_is_published_over_a_newer_one_only_when_told(
    publish: Publish, in_file: Place, grow: Callable[[str], None], filled_once: Path
) -> None:
    grow("third")
    publish(*in_file.words)
    older = ("--warehouse", filled_once, "--ducklake", in_file.target)
    refused = publish(*older)
    assert refused.exit_code == 1
    assert "holds generation 2, and this warehouse is at 1" in refused.output
    assert publish(*older, "--replace").exit_code == 0
    assert counts(in_file) == [6, 120, 2, 1]


def test_tables_of_somebody_else_are_left_alone(publish: Publish, in_file: Place) -> None:
    publish(*in_file.words, "--schema", "other")
    make = READ.replace(" (read_only)", "")
    asked = {
        "catalogue": in_file.target,
        "questions": [
            "create schema lake.draftboard",
            "create table lake.draftboard.cells as select 1",
        ],
    }
    subprocess.run([str(PYTHON), "-c", make], input=json.dumps(asked), text=True, check=True)
    refused = publish(*in_file.words)
    assert refused.exit_code == 1
    assert (
        "has tables in the schema draftboard that Draftboard did not write (cells)"
        in refused.output
    )
    assert in_file.one("select count(*) from lake.draftboard.cells") == 1


def test_a_column_that_is_new_comes_with_the_next_generation(
    publish: Publish, in_file: Place, grow: Callable[[str], None]
) -> None:
    publish(*in_file.words)
    asked = {
        "catalogue": in_file.target,
        "questions": [
            "alter table lake.draftboard.cells drop column duration",
            "alter table lake.draftboard.requests drop column ttft",
        ],
    }
    older = READ.replace(" (read_only)", "")
    subprocess.run([str(PYTHON), "-c", older], input=json.dumps(asked), text=True, check=True)
    grow("third")
    assert publish("--ducklake", in_file.target).exit_code == 0
    assert in_file.one("select count(duration) from lake.draftboard.cells") == 9
    assert in_file.one("select count(ttft) from lake.draftboard.requests") == 60


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ducklake", "/nowhere/at-all/x.ducklake"), "No such file or directory"),
        (("--ducklake", ROOT / "README.md"), "not a valid DuckDB database"),
        (("--ducklake", "mysql://u:hunter2@h/x"), "h/x is no catalogue that can be written"),
        (("--ducklake", "postgres:dbname=x"), "is no catalogue that can be written"),
        (("--ducklake", "postgresql://u:hunter2@127.0.0.1:1/x"), "Connection refused"),
        (("--ducklake", "x.ducklake", "--with-python", "nowhere"), "there is none at nowhere"),
        (("--ducklake", "x.ducklake", "--with-python", "/etc/hostname"), "cannot be started"),
        (("--ducklake", "x.ducklake", "--with-python", "/bin/cat"), "ended before it was done"),
        (("--ducklake", "x.ducklake", "--with-python", "/bin/true"), "ended before it was done"),
        (
            ("--ducklake", "x.ducklake", "--with-python", ROOT / ".venv/bin/python"),
            "has no duckdb_ext",
        ),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    publish: Publish, words: tuple[Any, ...], said: str
) -> None:
    assert_refused(publish(*words), said)
    assert not (ROOT / "x.ducklake").exists()


def test_a_catalogue_that_somebody_has_open_is_not_waited_for(
    publish: Publish, in_file: Place
) -> None:
    publish(*in_file.words)
    holding = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"
    with subprocess.Popen(
        [str(PYTHON), "-c", holding, in_file.target], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        failed = publish("--ducklake", in_file.target)
        other.kill()
    assert failed.exit_code == 1
    assert "Could not set lock" in failed.output
    assert "which nobody else has open" in failed.output


def test_a_catalogue_in_postgres_needs_a_location_and_keeps_no_password(
    publish: Publish, postgres: Callable[[], str], tmp_path: Path
) -> None:
    lake = Place(postgres(), tmp_path / "lake")
    secret = lake.target.replace("postgres@", "postgres:hunter-2-secret@")
    failed = publish("--ducklake", secret)
    assert failed.exit_code == 1
    assert "say it with --location" in failed.output
    done = publish("--ducklake", secret, "--location", lake.location)
    assert done.output == f"Published generation 1 to {lake.target}, schema draftboard.\n"
    elsewhere = publish("--ducklake", secret, "--location", tmp_path / "elsewhere")
    assert "keeps its files elsewhere" in elsewhere.output
    assert "hunter-2" not in failed.output + elsewhere.output
    assert not [path for path in lake.files() if b"hunter-2-secret" in path.read_bytes()]


def test_who_may_only_read_a_catalogue_is_told_so(
    publish: Publish, postgres: Callable[[str], str], tmp_path: Path
) -> None:
    failed = publish("--ducklake", postgres("reader"), "--location", tmp_path / "lake")
    assert failed.exit_code == 1
    assert "permission denied" in failed.output
    assert failed.output.count("\n") == 1


def test_its_files_can_lie_in_a_bucket(publish: Publish, in_file: Place, bucket: Any) -> None:
    place = bucket.url.replace("/results", "/lake")
    done = publish("--ducklake", in_file.target, "--location", place)
    assert done.exit_code == 0, done.output
    assert counts(in_file) == [6, 120, 2, 1]
    assert "nothing was added" in publish("--ducklake", in_file.target).output
