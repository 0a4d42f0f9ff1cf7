"""The API in its own process: the answers of the commands, in pages, in three forms, or a problem."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
import schemathesis
from click.testing import CliRunner
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from answers.doors.questions import QUESTIONS
from dashboard.doors.api import application
from draftboard import cli

APP = Starlette(routes=[Mount("/api", app=application())])
#: What a question needs that has no answer without it.
NEEDED = {"slo": {"slo": "ttft:p95<200ms"}, "predict": {"k": 4, "concurrency": 8}}


@pytest.fixture
def ask(warehouse: Path) -> Callable[..., httpx.Response]:
    """Asks the API of the filled warehouse; words may be a list of pairs."""
    client = TestClient(APP, raise_server_exceptions=False)
    return lambda name, words=(), **headers: client.get(
        f"/api/v1/{name}",
        params=words,
        headers={key.replace("_", "-"): value for key, value in headers.items()},
    )


def _printed(*words: str) -> Any:
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("name", "words", "command"),
    [
        ("compare", {"dataset": "code", "subject": "*"}, ["compare", "--dataset", "code"]),
        (
            "decide", {"dataset": "code", "load": 4, "subject": "*"},
            ["verdict", "--dataset", "code", "--load", "4"],
        ),
        ("cost", {"usd_per_hour": 2.5, "subject": "*"}, ["cost", "--usd-per-hour", "2.5"]),
        ("slo", NEEDED["slo"], ["slo", "ttft:p95<200ms", "--no-goodput"]),
    ],
)  # fmt: skip
def test_an_answer_is_the_object_that_the_command_prints(
    ask: Callable[..., httpx.Response], name: str, words: dict[str, Any], command: list[str]
) -> None:
    told = ask(name, words).json()

    assert told.pop("page")["next"] is None
    assert told.pop("generation") > 0
    printed = _printed(*command)
    assert {key: told[key] for key in printed if key != "changed"} == {
        key: value for key, value in printed.items() if key != "changed"
    }


def test_runs_are_told_as_the_command_lists_them(ask: Callable[..., httpx.Response]) -> None:
    assert ask("runs").json()["runs"] == _printed("runs")


@pytest.mark.slow
def test_without_a_name_one_subject_is_decided_on_as_all_of_them_are(
    ask: Callable[..., httpx.Response],
) -> None:
    every = ask("decide", {"subject": "*"}).json()
    one = ask("decide").json()

    assert (every["subject"], one["subject"]) == (
        None,
        "lab/tiny-target on H200, vllm 0.25.1  [CPU lab]",
    )
    assert one["subject"] in one["subjects"] == every["subjects"]
    assert one["decisions"] == every["decisions"]
    again = ask("decide", {"subject": one["subject"]}).json()
    assert again["decisions"] == one["decisions"]
    compared = ask("compare").json()
    assert len(compared["subjects"]) == 2
    assert ask("compare", {"subject": compared["subjects"][1]}).json()["settings"] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_answers_in_every_form_that_it_has(
    ask: Callable[..., httpx.Response], name: str
) -> None:
    words = NEEDED.get(name, {})

    told = ask(name, words)
    assert told.status_code == 200, told.text
    assert told.json()["schema_version"] == 1
    if QUESTIONS[name].listed is None:
        return
    lines = ask(name, words, Accept="text/csv").text.splitlines()
    stream = ask(name, words, Accept="application/vnd.apache.arrow.stream")
    rows = pa.ipc.open_stream(stream.content).read_all()
    asking = QUESTIONS[name]
    listed = asking.rows(told.json()) if asking.rows else told.json()[asking.listed]
    assert len(list(listed)) == rows.num_rows
    assert not rows.num_rows or lines[0].split(",")[0] == rows.column_names[0]


def test_filters_keep_what_they_name_and_one_that_names_nothing_keeps_nothing(
    ask: Callable[..., httpx.Response],
) -> None:
    several = [("dataset", "code"), ("dataset", "structured"), ("arm", "baseline")]

    told = ask("cells", several).json()
    assert {cell["arm_label"] for cell in told["cells"]} == {"baseline"}
    assert {cell["dataset"] for cell in told["cells"]} == {"code", "structured"}
    nothing = ask("cells", {"dataset": "no such"}).json()
    assert (nothing["cells"], nothing["page"]["total"]) == ([], 0)
    assert ask("decide", {"dataset": "no such"}).json()["why_none"]


def test_pages_lead_on_until_everything_was_told_once(ask: Callable[..., httpx.Response]) -> None:
    seen, client = [], TestClient(APP)
    following = "/api/v1/cells?limit=7&dataset=code"
    while following:
        told = client.get(following).json()
        seen += [cell["cell_id"] for cell in told["cells"]]
        following = told["page"]["next"]

    assert len(seen) == len(set(seen)) == told["page"]["total"] == 16


def test_what_is_known_is_not_told_again_until_the_generation_changes(
    empty_place: Path, ingest_cells: Callable[[Path, str, str], None]
) -> None:
    client = TestClient(APP)
    ingest_cells(empty_place, "one", "code")
    first = client.get("/api/v1/cells")
    known = {"If-None-Match": first.headers["ETag"]}

    again = client.get("/api/v1/cells", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    other = client.get("/api/v1/cells", headers={**known, "Accept": "text/csv"})
    assert other.status_code == 200
    ingest_cells(empty_place, "two", "chat")
    assert client.get("/api/v1/cells", headers=known).json()["page"]["total"] == 2


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("cells", {"modle": "x"}, "modle"),
        ("cells", {"limit": 0}, "limit"),
        ("cells", {"since": "0"}, "2026-11-21"),
        ("cells", {"dataset": "a\x00b"}, "dataset"),
        ("cells", [("limit", 1), ("limit", 2)], "2 times"),
        ("slo", {}, "slo"),
        ("slo", {"slo": "fast"}, "'fast' is no bound"),
        ("decide", {"mix": "code"}, "no share"),
        ("decide", {"subject": "no such"}, "lab/tiny-target on H200"),
        ("decide", {"load": "nan"}, "load"),
        ("compare", {"metrics": "speed"}, "no metric"),
        ("predict", {"k": 4}, "concurrency"),
    ],
)
def test_words_that_are_not_understood_are_a_problem_that_names_them(
    ask: Callable[..., httpx.Response], name: str, words: Any, said: str
) -> None:
    answer = ask(name, words)

    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert said in answer.json()["detail"]


def test_what_cannot_be_told_is_a_problem_without_a_path(empty_place: Path) -> None:
    client = TestClient(APP)

    missing = client.get("/api/v1/cells")
    assert missing.status_code == 503
    assert str(empty_place.parent) not in missing.text
    assert client.get("/api/v1/none").status_code == 404
    assert client.post("/api/v1/cells").status_code == 405
    assert client.get("/api/v1/cells", headers={"Accept": "image/png"}).status_code == 406
    assert {client.get(path).headers["Content-Type"] for path in ("/api/v1/none", "/api/x")} == {
        "application/problem+json"
    }


@pytest.mark.parametrize("said", ["bytes=0-1", "bytes=9999999999-", "bytes=5-1", "lies"])
def test_a_range_of_bytes_is_a_problem(ask: Callable[..., httpx.Response], said: str) -> None:
    answer = ask("runs", Range=said)

    assert (answer.status_code, answer.json()["status"]) == (416, 416)
    assert "limit and offset" in answer.json()["detail"]


def test_a_body_is_refused_before_it_is_read(ask: Callable[..., httpx.Response]) -> None:
    answer = ask("runs", Content_Length=str(1 << 30))

    assert answer.status_code == 413
    assert answer.headers["Content-Type"] == "application/problem+json"


SCHEMA = schemathesis.openapi.from_asgi("/api/v1/openapi.json", APP)


@pytest.mark.slow
@pytest.mark.usefixtures("warehouse")
@SCHEMA.parametrize()
@settings(
    max_examples=10, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
def test_no_words_at_all_break_the_server_or_its_contract(case: schemathesis.Case) -> None:
    # What a service level, a mix or a budget is, no schema says: texts that are none get 422.
    case.call_and_validate(excluded_checks=[positive_data_acceptance])
