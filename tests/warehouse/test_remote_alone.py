"""A bucket that cannot be reached: the copy answers and says since when, nothing is written."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest

import draftboard
from dashboard.doors.api import application
from dashboard.doors.metrics import metrics
from draftboard import cli
from tests.api_server import api_served
from warehouse import annotations
from warehouse.errors import DraftboardError, WarehouseUnreachable
from warehouse.rows import Rejection
from warehouse.storage.cache import read_at
from warehouse.storage.current import current_generation, current_name, not_fresh, reach
from warehouse.storage.lists import load
from warehouse.store import Reader, open_writer

SAID = (
    r"Shown is what was read by \d{4}-\d\d-\d\d \d\d:\d\d UTC, nothing newer: "
    r"s3://\w+/results cannot be used: there is no such bucket \(or it is gone\): make it, or .*\."
)


@pytest.fixture
def alone(bucket: Any, make_source: Any, make_cell: Any) -> Path:
    """The copy of a machine that has read a generation, and whose bucket is gone since."""
    source = make_source("one")
    with open_writer(bucket.at("writer")) as writer:
        writer.add(source, [make_cell(source, 0)])
        writer.commit()
    root: Path = bucket.at("reader")
    reach(root)
    body = b"<Error><Code>NoSuchBucket</Code><Message>NoSuchBucket</Message></Error>"
    bucket.front.fail("", lambda *_: (404, {"Content-Type": "application/xml"}, body))
    # Looks at its store again, as a process that starts now does.
    with pytest.raises(WarehouseUnreachable):
        reach(root)
    return root


def _call(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def test_a_command_shows_what_the_copy_holds_and_says_since_when(bucket: Any, alone: Path) -> None:
    done = _call("runs", "--warehouse", bucket.url)
    assert done.exit_code == 0, done.output
    assert "one.json" in done.stdout
    assert re.fullmatch(SAID, done.stderr.strip())
    assert current_generation(alone) == 1


def test_what_was_answered_from_a_bucket_in_reach_is_called_fresh(bucket: Any, alone: Path) -> None:
    bucket.front.heal()
    reach(alone)
    assert not_fresh(alone) is None
    assert _call("runs", "--warehouse", bucket.url).stderr == ""


@pytest.mark.slow
def test_a_page_shows_what_the_copy_holds_and_says_since_when(
    bucket: Any, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", bucket.url)
    frame = Path(__file__).parents[2] / "dashboard" / "frame.py"
    page = AppTest.from_file(str(frame), default_timeout=60).run()
    assert not page.exception, page.exception
    assert not page.error
    (said,) = [one.value.replace("\\", "") for one in page.warning if "nothing newer" in one.value]
    assert re.fullmatch(SAID, said)


DOORS = TestClient(Starlette(routes=[Mount("/api", app=application()), Route("/metrics", metrics)]))


def test_a_program_is_told_that_the_copy_answers_and_since_when(
    bucket: Any, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", bucket.url)
    old = DOORS.get("/api/v1/runs")
    told = old.json()
    assert (told["generation"], told["page"]["total"]) == (1, 1)
    assert re.fullmatch(SAID, told["not_fresh"])

    assert unquote(old.headers["Draftboard-Not-Fresh"]) == told["not_fresh"]
    arrow = DOORS.get("/api/v1/runs", headers={"Accept": "application/vnd.apache.arrow.stream"})
    about = pa.ipc.open_stream(arrow.content).schema.metadata
    assert (about[b"generation"], about[b"not_fresh"].decode()) == (b"1", told["not_fresh"])
    csv = DOORS.get("/api/v1/runs", headers={"Accept": "text/csv"})
    assert unquote(csv.headers["Draftboard-Not-Fresh"]) == told["not_fresh"]

    bucket.front.heal()
    reach(alone)
    new = DOORS.get("/api/v1/runs", headers={"If-None-Match": old.headers["ETag"]})
    assert new.status_code == 200
    assert new.json() == told | {"not_fresh": None}
    assert "Draftboard-Not-Fresh" not in new.headers


def test_python_is_told_that_the_copy_answers_and_since_when(
    bucket: Any, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", bucket.url)

    with api_served() as address:
        for place in (draftboard.open(address), draftboard.open(bucket.url)):
            with pytest.warns(UserWarning, match="nothing newer"):
                told = place.runs()
            assert re.fullmatch(SAID, str(told.not_fresh))
        bucket.front.heal()
        reach(alone)
        for place in (draftboard.open(address), draftboard.open(bucket.url)):
            assert place.runs().not_fresh is None


def _gauges() -> dict[str, float]:
    text = DOORS.get("/metrics").text
    return {one.name: one.samples[0].value for one in text_string_to_metric_families(text)
            if one.name.startswith("draftboard_bucket")}  # fmt: skip


def test_prometheus_is_told_whether_the_bucket_is_in_reach(
    bucket: Any, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", bucket.url)
    read = read_at(alone).timestamp()
    up, when = "draftboard_bucket_up", "draftboard_bucket_read_timestamp_seconds"
    assert _gauges() == {up: 0.0, when: pytest.approx(read)}
    bucket.front.heal()
    reach(alone)
    assert _gauges()[up] == 1.0


def test_a_machine_that_has_read_nothing_is_told_why(bucket: Any, alone: Path) -> None:
    with pytest.raises(WarehouseUnreachable, match=f"{bucket.url} cannot be used"):
        Reader(bucket.at("new"))


def _reject(root: Path) -> None:
    with open_writer(root) as writer:
        writer.reject(Rejection("broken.json", "cut off"))
        writer.commit()


def _note(root: Path) -> None:
    event = annotations.annotation(
        "note", annotations.AnnotationTarget(night="2026-11-21"), "text", "Ann"
    )
    annotations.add(root, event)


@pytest.mark.parametrize("write", [_reject, _note])
def test_who_writes_is_refused_and_nothing_is_changed(
    bucket: Any, alone: Path, write: Callable[[Path], None]
) -> None:
    before = {path: path.read_bytes() for path in alone.rglob("*.json*")}
    with pytest.raises(
        WarehouseUnreachable, match=f"{bucket.url} cannot be used: there is no such"
    ):
        write(alone)
    assert {path: path.read_bytes() for path in alone.rglob("*.json*")} == before
    bucket.front.heal()
    reach(bucket.at("other"))
    assert current_generation(bucket.at("other")) == 1


def test_a_command_that_writes_says_one_sentence(bucket: Any, alone: Path) -> None:
    words = ("--night", "2026-11-21", "--author", "Ann", "--warehouse", bucket.url)
    done = _call("runs", "note", "warm", *words)
    assert isinstance(done.exception, WarehouseUnreachable)
    assert done.stderr == ""


def _lose_a_table(root: Path) -> None:
    (root / "tables" / load(root / str(current_name(root))).files()[0].file).unlink()


def _spoil_the_list(root: Path) -> None:
    (root / str(current_name(root))).write_text("nonsense")


def _spoil_the_pointer(root: Path) -> None:
    (root / "CURRENT").write_text("nonsense")


@pytest.mark.parametrize("spoil", [_lose_a_table, _spoil_the_list, _spoil_the_pointer])
def test_what_is_wrong_with_a_bucket_names_its_address_and_not_the_copy(
    bucket: Any, alone: Path, spoil: Callable[[Path], None]
) -> None:
    bucket.front.heal()
    reach(alone)
    spoil(alone)
    with pytest.raises(DraftboardError) as caught:
        Reader(alone)
    assert bucket.url in str(caught.value)
    assert str(alone) not in str(caught.value)


def test_a_bucket_with_nothing_in_it_yet_is_named(bucket: Any) -> None:
    done = _call("runs", "--warehouse", bucket.url)
    assert done.exit_code == 1
    assert f"There is no warehouse at {bucket.url} yet" in str(done.exception)
