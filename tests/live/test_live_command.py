"""``draftboard live`` on servers that show recorded counters: what it says, keeps, and refuses."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from tests.commands.asking import run
from tests.conftest import ROOT
from tests.live.replayed import showing, texts
from warehouse import annotations

DECIDED = (
    "--study", "laptop-lab", "--dataset", "structured", "--load", "1", "--for", "1s",
)  # fmt: skip
SAME, MOVED = "lab-target-structured-1", "lab-target-prose-1"


@pytest.fixture(scope="module")
def copied(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copytree(examples, tmp_path_factory.mktemp("live") / "warehouse")


@pytest.fixture
def warehouse(copied: Path) -> Path:
    """One that may be written to, without any record."""
    (copied / annotations.STANDINGS_FILE).unlink(missing_ok=True)
    return copied


def live(url: str, warehouse: Path, *more: str) -> tuple[int, str, str]:
    done = run("live", url, "--warehouse", str(warehouse), *DECIDED, *more)
    return done.exit_code, done.stdout, done.stderr


def test_it_holds_with_status_0_and_sends_no_prompt(warehouse: Path) -> None:
    asked: list[str] = []
    with showing(texts(SAME), asked=asked) as url:
        status, out, _ = live(url, warehouse)
    assert status == 0
    assert "Holds: at 1 at once draft_model K=5 is what the decision takes" in out
    assert len(asked) > 30
    assert set(asked) == {"GET /metrics"}


def test_where_traffic_moved_it_says_why_and_what_instead_with_status_1(warehouse: Path) -> None:
    with showing(texts(MOVED)) as url:
        status, out, _ = live(url, warehouse)
    told = " ".join(out.split())
    assert status == 1
    assert "No longer holds: a step yields 2.5" in told
    assert "where 5.06 were measured on structured" in told
    assert "Acceptance is that of prose, where the decision takes ngram K=3" in told


@pytest.mark.slow
def test_replicas_are_summed_and_a_restart_is_told(warehouse: Path) -> None:
    restarts = [*texts(SAME)[100:130], *texts(SAME)[:100]]
    with showing(texts(SAME, 50)) as one, showing(restarts) as other:
        answer = json.loads(live(one, warehouse, other, "--json")[1])
        alone = json.loads(live(one, warehouse, "--json")[1])
    assert (answer["load"]["replicas"], answer["watched"]["restarts"], answer["standing"]) == (
        2,
        1,
        "holds",
    )
    assert answer["acceptance"]["drafts"] > 1.2 * alone["acceptance"]["drafts"]
    assert answer["load"]["in_flight"] == pytest.approx(1)  # of one replica


def test_an_address_given_twice_is_one_replica(warehouse: Path) -> None:
    with showing(texts(SAME)) as url:
        answer = json.loads(live(url, warehouse, f"{url}/v1", "--json")[1])
    assert answer["load"]["replicas"] == 1


@pytest.mark.slow
def test_the_json_has_the_answer_and_the_exit_status(warehouse: Path) -> None:
    with showing(texts(MOVED)) as url:
        answer = json.loads(live(url, warehouse, "--json")[1])
    assert (answer["schema_version"], answer["standing"], answer["exit"]) == (
        1,
        "no longer holds",
        1,
    )
    assert answer["running"] == "draft_model K=5"
    assert answer["takes"] == "ngram K=3"
    assert answer["acceptance"]["like"] == "prose"
    assert answer["acceptance"]["change"]["high"] < 0.6
    assert answer["told"] > 0.8 > 0.2 > answer["now"]
    assert answer["sentence"].startswith("No longer holds: ")


@pytest.mark.slow
def test_what_is_recorded_can_be_read_again_and_names_no_address(warehouse: Path) -> None:
    for name in (SAME, MOVED):
        with showing(texts(name)) as url:
            live(url, warehouse, "--record")
    first, last = annotations.standings(warehouse)
    assert (first.standing, last.standing) == ("holds", "no longer holds")
    assert last.about.traffic == "structured"
    assert "127.0.0.1" not in (warehouse / annotations.STANDINGS_FILE).read_text()


def test_a_server_without_drafts_is_told_whether_to_turn_them_on(warehouse: Path) -> None:
    plain = [
        "\n".join(x for x in one.splitlines() if "spec_decode" not in x) for one in texts(SAME)
    ]
    with showing(plain) as url:
        status, out, err = live(url, warehouse, "--record")
    assert status == 1
    assert "at 1 at once draft_model K=5 is better than drafting nothing" in " ".join(out.split())
    assert '--speculative-config \'{"method": "draft_model"' in out
    assert "Nothing is recorded" in err
    assert annotations.standings(warehouse) == ()


def test_servers_of_which_one_drafts_nothing_are_no_replicas(warehouse: Path) -> None:
    plain = [
        "\n".join(x for x in one.splitlines() if "spec_decode" not in x) for one in texts(SAME)
    ]
    with showing(texts(SAME)) as one, showing(plain) as other:
        status, out, err = live(one, warehouse, other)
    assert (status, out) == (2, "")
    assert "These servers do not all draft as many tokens, so they are no replicas of one" in err


def test_of_a_server_of_two_engines_the_load_is_that_of_one(warehouse: Path) -> None:
    both = [one + one.replace('engine="0"', 'engine="1"') for one in texts(SAME)]
    assert both[0].count('engine="1"') == both[0].count('engine="0"') > 10
    with showing(both) as url:
        answer = json.loads(live(url, warehouse, "--json")[1])
    assert (answer["load"]["in_flight"], answer["standing"]) == (pytest.approx(1), "holds")


def test_servers_of_two_models_are_no_replicas(warehouse: Path) -> None:
    other = [
        one.replace('model_name="lab-target"', 'model_name="elsewhere"') for one in texts(SAME)
    ]
    with showing(texts(SAME)) as one, showing(other) as two:
        status, out, err = live(one, warehouse, two)
    assert (status, out) == (2, "")
    assert "These servers serve elsewhere and lab-target, so they are no replicas of one" in err
    with showing(texts(SAME)) as one, showing(other) as two:
        assert live(one, warehouse, two, "--model", "lab-target")[0] == 0


@pytest.mark.parametrize(
    "given", [("--mix", "code=abc"), ("--mix", "code=0.5,code=0.5"), ("--nowhere-worse", "little")]
)
def test_what_cannot_be_read_never_ends_as_an_answer_does(given: tuple[str, str]) -> None:
    for more in ((), ("--every", "1s")):
        done = run("live", "http://127.0.0.1:9", "--for", "1s", *given, *more)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(f"draftboard: {given[0]}: ")


@pytest.mark.slow
def test_too_few_drafts_cannot_be_told(warehouse: Path) -> None:
    with showing([texts(SAME)[0]] * 70) as idle:
        status, out, _ = live(idle, warehouse)
    assert (status, "Cannot say: nothing was generated" in out) == (2, True)
    first = texts(SAME)[0]
    with showing([first, first, texts(SAME)[2]]) as few:
        status, out, _ = live(few, warehouse)
    assert (status, "too few to tell the tokens of a step" in " ".join(out.split())) == (2, True)


SERVED = "lab-target"


def broken(text: str) -> str:
    name = "vllm:spec_decode_num_drafts_total"
    return "\n".join(f"{name} NaN" if x.startswith(name) else x for x in text.splitlines())


def without(text: str, name: str) -> str:
    return "\n".join(x for x in text.splitlines() if not x.startswith(f"vllm:{name}"))


HTML = "<html><body>Sign in</body></html>"
SGLANG = 'sglang:num_running_reqs{model_name="x"} 1.0\n'


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (401, "asks for a login (status 401); name the variable that holds its key: --api-key-env"),
        (403, "asks for a login (status 403)"),
        (404, "has no /metrics (status 404); give the address of the engine itself."),
        (HTML, "is no metrics of an engine; draftboard live reads vLLM's"),
        ("", "is no metrics of an engine"),
        (SGLANG, "is those of sglang; draftboard live reads vLLM's"),
        (texts(SAME)[0].replace(SERVED, "another"), "serves another, and nothing was measured of it"),
        (broken(texts(SAME)[0]), "has no number; look at its /metrics."),
        (without(texts(SAME)[0], "spec_decode_num_drafts"), "has no number; look at its /metrics."),
        (without(texts(SAME)[0], "generation_tokens"), "is no metrics of an engine"),
    ],
)  # fmt: skip
def test_what_says_nothing_of_use_is_refused_in_a_sentence_and_nothing_is_kept(
    answer: str | int, sentence: str, warehouse: Path
) -> None:
    with showing([answer]) as url:
        status, out, err = live(url, warehouse, "--record")
    assert (status, out) == (2, "")
    assert sentence in err
    assert err.startswith("draftboard: ")
    assert err.count("\n") == 1
    assert not (warehouse / annotations.STANDINGS_FILE).exists()


def test_a_server_that_is_not_there_is_told_without_the_password_in_its_address(
    warehouse: Path,
) -> None:
    status, _, err = live("http://me:secret@127.0.0.1:9", warehouse)
    assert status == 2
    assert "http://127.0.0.1:9 cannot be reached" in err
    assert "secret" not in err
    assert live("server:8000", warehouse)[0] == 2


@pytest.mark.slow
def test_a_key_is_taken_from_a_variable_and_stands_nowhere(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVER_KEY", "k-7hG2vQ9w")
    with showing(texts(SAME), key="k-7hG2vQ9w") as url:
        status, out, err = live(url, warehouse, "--record", "--api-key-env", "SERVER_KEY")
    with showing(texts(SAME), key="another") as url:
        denied, _, sentence = live(url, warehouse, "--api-key-env", "SERVER_KEY")
    assert (status, denied) == (0, 2)
    assert "asks for a login (status 401)" in sentence
    assert "k-7hG2vQ9w" not in out + err + sentence
    assert "k-7hG2vQ9w" not in (warehouse / annotations.STANDINGS_FILE).read_text()


@pytest.mark.parametrize("given", ["soon", "0s", "-5m", "1w"])
def test_a_time_that_is_none_is_wrong_usage(given: str) -> None:
    done = run("live", "http://127.0.0.1:9", "--for", given)
    assert done.exit_code == 2
    assert "write 60s, 10m or 1h" in done.stderr


@pytest.mark.slow
def test_every_looks_again_until_it_is_stopped_and_goes_on_after_an_error(warehouse: Path) -> None:
    first = texts(SAME)
    with showing([404, *first]) as url:
        arguments = [
            "live",
            url,
            "--warehouse",
            str(warehouse),
            *DECIDED,
            "--every",
            "2s",
            "--json",
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", "draftboard", *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ,
        )  # fmt: skip
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert [line["standing"] for line in lines] == ["holds", "holds"]
    assert process.returncode == 143
    assert "has no /metrics (status 404)" in err
    assert err.endswith("stopped\n")
