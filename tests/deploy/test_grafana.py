"""The Grafana dashboard asks Prometheus for what ``/metrics`` really tells."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from dashboard.doors.metrics import LABELS, metrics
from tests.deploy.files import text
from warehouse.beside import WatchHealth, write_health

BOARD: dict[str, Any] = json.loads(text("deploy/grafana/draftboard.json"))
VARIABLES = {one["name"] for one in BOARD["templating"]["list"]}
#: Told where the warehouse lies in a bucket: tests/warehouse/test_remote_alone.py reads them of one.
OF_A_BUCKET = {"draftboard_bucket_up", "draftboard_bucket_read_timestamp_seconds"}


def queries() -> Iterator[str]:
    """Every query of the dashboard."""
    for panel in BOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def selectors(node: Any) -> Iterator[promql.VectorSelector]:
    """The selectors in a query, as a parser of Prometheus' language finds them."""
    if isinstance(node, promql.VectorSelector):
        yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "vs"):
        if getattr(node, name, None) is not None:
            yield from selectors(getattr(node, name))
    for one in getattr(node, "args", None) or ():
        yield from selectors(one)


@pytest.fixture
def told(filled: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every metric of ``/metrics`` where a watcher is at work."""
    now = datetime.now(UTC)
    health = WatchHealth(
        pid=1, host="elsewhere", folders=("results",), interval_s=5, since=now, last_pass=now,
        due=now + timedelta(minutes=1), accepted=7, rejected=2,
    )  # fmt: skip
    write_health(filled, health)
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(filled))
    answer = TestClient(Starlette(routes=[Route("/metrics", metrics)])).get("/metrics")
    families = list(text_string_to_metric_families(answer.text))
    told = {f"{one.name}{'_total' if one.type == 'counter' else ''}" for one in families}
    return told | OF_A_BUCKET


def test_every_query_asks_for_metrics_and_labels_that_are_told(told: set[str]) -> None:
    asked = [one for query in queries() for one in selectors(promql.parse(query))]

    assert len(asked) >= len(BOARD["panels"])
    assert {one.name for one in asked} <= told
    # Nothing that is told is missing from the dashboard, but what the version is.
    assert told - {one.name for one in asked} == {"draftboard"}
    for one in asked:
        for matcher in one.matchers.matchers:
            assert matcher.name in LABELS
            assert matcher.value.removeprefix("$") in VARIABLES


def test_every_choice_is_a_label_of_a_metric_that_is_told(told: set[str]) -> None:
    for one in BOARD["templating"]["list"]:
        if one["type"] == "query":
            metric, label = one["definition"].removeprefix("label_values(").rstrip(")").split(", ")
            assert metric in told
            assert label == one["name"]
            assert label in LABELS


def test_panels_lie_beside_each_other_and_have_their_own_numbers() -> None:
    places = [one["gridPos"] for one in BOARD["panels"]]

    covered = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(covered)) == len(covered)
    assert max(x for x, _ in covered) < 24
    assert len({one["id"] for one in BOARD["panels"]}) == len(places)
