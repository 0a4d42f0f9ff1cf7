"""GuideLLM's command lines: two releases are run, the others as they were when they were run by hand."""

import json
import os
from pathlib import Path

import pytest

from runners.measuring.guidellm import (
    LoadRequest,
    command,
    key_environment,
    load_request,
    planned_command,
)
from runners.measuring.loading import Loader, judge
from runners.planning.loads import LoadLevel
from runners.planning.plan import make_plan
from runners.probes.interpreter import named_in
from tests.runners.conftest import lab_executable
from tests.runners.engine import fake_engine
from warehouse.errors import RunnerError

PROMPTS = 10


def request(**changes: object) -> LoadRequest:
    given = {
        "url": "http://127.0.0.1:1", "model": "tiny", "tokenizer": None,
        "request_format": "chat_completions", "prompts": "p.jsonl",
        "level": LoadLevel("concurrent", 4),
        "n_requests": PROMPTS, "max_seconds": 60.0, "sampling": {"temperature": 0.0},
        "max_tokens": 8, "warmup": 0.0, "cooldown": 0.0, "seed": 0, "output": "out/r.json",
    }  # fmt: skip
    return LoadRequest(**(given | changes))


@pytest.mark.slow
@pytest.mark.parametrize("route", ["chat_completions", "text_completions"])
@pytest.mark.parametrize("version", ["0.5.3", "0.8.1"])
def test_a_release_sends_each_prompt_once_with_the_studys_parameters(
    version: str, route: str, tmp_path: Path
) -> None:
    executable = lab_executable("guidellm", f"guidellm-{version}")
    texts = [f"prompt {number}" for number in range(PROMPTS)]
    prompts, report = tmp_path / "prompts, all.jsonl", tmp_path / "report.json"
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    # The key is asked for on one route, so that the other is driven without one.
    key = "a-key-of-tests" if route == "chat_completions" else None
    with fake_engine(tmp_path, *(() if key is None else ("--fake-api-key", key))) as url:
        asked = request(
            url=url, request_format=route, prompts=str(prompts), output=str(report),
            sampling={"temperature": 0.0, "seed": 7}, warmup=0.1, keyed=key is not None,
        )  # fmt: skip
        argv = command(str(executable), version, asked)
        env = {} if key is None else key_environment(version, key)
        with Loader(named_in(executable), dict(os.environ), tmp_path / "log") as loader:
            assert loader.python is not None
            assert loader.run(argv, env, 60.0, lambda: None) is None
    assert key is None or key not in loader.log.read_text() + " ".join(argv)
    assert judge(report, PROMPTS, 0.0) is None
    level = json.loads(report.read_text())["benchmarks"][0]
    made = level["scheduler_metrics"]["requests_made"]
    assert (made["successful"], made["errored"], made["incomplete"]) == (PROMPTS, 0, 0)
    assert list(level["scheduler_state"]["end_processing_constraints"]) == ["max_requests"]
    sent = [str(each["request_args"]) for each in level["requests"]["successful"]]
    assert all(sum(f"{text}'" in one or f'{text}"' in one for one in sent) == 1 for text in texts)
    assert all("seed" in one and "ignore_eos" not in one for one in sent)
    assert {each["output_metrics"]["text_tokens"] for each in level["requests"]["successful"]} == {
        8
    }
    assert not list(tmp_path.glob("*.html"))


def words_after(argv: list[str], option: str) -> list[str]:
    return [value for name, value in zip(argv, argv[1:], strict=False) if name == option]


@pytest.mark.parametrize("version", ["0.5.3", "0.5.4"])
def test_0_5_takes_the_bodys_fields_from_the_request_formatter(version: str) -> None:
    argv = command("g", version, request(warmup=0.2))

    assert argv[:3] == ["g", "benchmark", "run"]
    assert words_after(argv, "--request-type") == ["chat_completions"]
    assert json.loads(words_after(argv, "--request-formatter-kwargs")[0]) == {
        "extras": {"body": {"temperature": 0.0}},
        "max_tokens": 8,
    }
    # Its own default cuts every request off after 60 s.
    assert json.loads(words_after(argv, "--backend-kwargs")[0])["timeout"] > 3600
    assert (words_after(argv, "--output-dir"), words_after(argv, "--outputs")) == (
        ["out"],
        ["r.json"],
    )


def test_0_6_takes_them_from_the_backend() -> None:
    argv = command("g", "0.6.1", request())

    assert argv[:3] == ["g", "benchmark", "run"]
    assert words_after(argv, "--request-format") == ["/v1/chat/completions"]
    assert json.loads(words_after(argv, "--backend-kwargs")[0]) == {
        "extras": {"body": {"temperature": 0.0}},
        "max_tokens": 8,
    }


@pytest.mark.parametrize(
    ("version", "split"), [("0.7.0", True), ("0.7.4", True), ("0.8.0", False), ("0.9.0", False)]
)
def test_0_7_must_be_told_the_split_of_a_jsonl_file(version: str, split: bool) -> None:
    argv = command("g", version, request(request_format="text_completions"))

    assert argv[:2] == ["g", "run"]
    data = json.loads(words_after(argv, "--data")[0])
    assert (data.get("load_kwargs") == {"split": "train"}) is split
    backend = json.loads(words_after(argv, "--backend")[0])
    assert (backend["request_format"], backend["max_tokens"]) == ("/v1/completions", 8)


@pytest.mark.parametrize("version", ["0.5.3", "0.6.1"])
def test_a_share_left_out_is_one_of_the_requests_not_of_the_time_limit(version: str) -> None:
    argv = command("g", version, request(warmup=0.2, cooldown=0.1))

    assert json.loads(words_after(argv, "--warmup")[0]) == {"percent": 0.2, "mode": "requests"}
    assert json.loads(words_after(argv, "--cooldown")[0]) == {"percent": 0.1, "mode": "requests"}


@pytest.mark.parametrize("version", ["0.5.3", "0.6.1", "0.7.4", "0.8.1"])
def test_no_release_is_given_a_column_of_output_tokens_or_asked_for_html(version: str) -> None:
    text = " ".join(command("g", version, request()))

    assert "output_tokens" not in text
    assert "html" not in text


def test_a_release_that_is_too_old_is_refused() -> None:
    with pytest.raises(RunnerError, match=r"0\.5\.2 is older"):
        command("g", "0.5.2", request())


def test_the_study_decides_what_is_sent(study_of) -> None:
    study = study_of(
        request={"format": "text_completions", "temperature": 0.5, "top_p": 0.9, "seed": 3,
                 "ignore_eos": True, "max_tokens": None, "extra_body": {"reasoning_effort": "low"}},
        window={"warm_up": 0.1, "cool_down": 0.2},
    )  # fmt: skip
    found = load_request(study, make_plan(study).cells[0], "http://h", "p", "r")

    assert found.sampling == {
        "temperature": 0.5, "top_p": 0.9, "seed": 3, "ignore_eos": True, "reasoning_effort": "low",
    }  # fmt: skip
    assert (found.max_tokens, found.warmup, found.cooldown) == (None, 0.1, 0.2)
    assert (found.model, found.level.at_once, found.n_requests) == ("org/target", 1, 20)


def test_a_plan_shows_the_newest_command_line_where_no_guidellm_is_found(study_of) -> None:
    study = study_of(executables={"guidellm": "no-such-guidellm"})
    argv = planned_command(study, make_plan(study).cells[0], "http://h", "p.jsonl", "r")

    assert argv[:2] == ["no-such-guidellm", "run"]
    assert all(any(told in word for word in argv) for told in ("http://h", "p.jsonl", '"r"'))


def test_a_key_is_refused_with_a_release_that_was_not_tried_with_one() -> None:
    with pytest.raises(RunnerError, match=r"With GuideLLM 0.7.4 an API key was not tried"):
        key_environment("0.7.4", "key")


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "without writing"), ("{", "cannot be read"), ('{"benchmarks": []}', "0 levels")],
)
def test_a_report_that_is_none_is_said_to_be_none(text, said: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    if text is not None:
        report.write_text(text)
    found = judge(report, PROMPTS, 0.0)

    assert found is not None
    assert said in found.sentence
