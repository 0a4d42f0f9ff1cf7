"""``/metrics`` as Prometheus reads it, and ``/llms.txt``."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from answers.doors.questions import QUESTIONS
from dashboard.doors.api import llms
from dashboard.doors.metrics import metrics
from warehouse.beside import WatchHealth, this_host, write_health

CLIENT = TestClient(Starlette(routes=[Route("/metrics", metrics), Route("/llms.txt", llms)]))


def _families() -> dict[str, list[tuple[dict[str, str], float]]]:
    answer = CLIENT.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    return {
        sample.name: [(dict(one.labels), one.value) for one in family.samples if one.name == sample.name]
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }  # fmt: skip


def test_the_newest_night_of_every_series_is_told(
    examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(examples))

    told = _families()
    values = told["draftboard_night_value"]
    assert len(values) == len({tuple(labels.items()) for labels, _ in values}) > 10
    assert {"series", "model", "arm", "metric", "unit", "evidence"} <= set(values[0][0])
    assert len(told["draftboard_night_regression"]) == len(values)
    assert told["draftboard_generation"][0][1] > 0
    assert "draftboard_watcher_up" not in told


def test_a_watcher_that_is_late_is_down(
    empty_place: Path, ingest_cells: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest_cells(empty_place, "one", "code")  # type: ignore[operator]
    now = datetime.now(UTC)
    health = WatchHealth(
        pid=1, host="elsewhere", folders=("results",), interval_s=5, since=now - timedelta(hours=1),
        last_pass=now, due=now + timedelta(minutes=1), accepted=7, rejected=2,
    )  # fmt: skip
    write_health(empty_place, health)

    told = _families()
    assert told["draftboard_watcher_up"] == [({}, 1.0)]
    assert ({"outcome": "accepted"}, 7.0) in told["draftboard_watcher_files_total"]
    late = {"due": now - timedelta(minutes=1), "host": f"not {this_host()}"}
    write_health(empty_place, health.model_copy(update=late))
    assert _families()["draftboard_watcher_up"] == [({}, 0.0)]


def test_without_a_warehouse_the_metrics_are_a_problem(empty_place: Path) -> None:
    answer = CLIENT.get("/metrics")

    assert answer.status_code == 503
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert str(empty_place.parent) not in answer.text


def test_an_agent_is_told_every_question() -> None:
    told = CLIENT.get("/llms.txt").text

    assert all(f"/api/v1/{name})" in told for name in QUESTIONS)
    assert told.startswith("# Draftboard\n")
