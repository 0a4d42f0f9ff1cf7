"""Engines other than vLLM: their command lines, and what they say of themselves.

SGLang's answers are a FAKE's, put together from its own sources (0.5); those of llama.cpp's server were
recorded (b11549 with the lab's models).
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ingest.counters import parse_exposition
from runners.checks.doctor import run_check
from runners.measuring.guidellm import kept_lines
from runners.measuring.record import server_args
from runners.planning.plan import make_plan
from runners.planning.study_file import Study
from runners.serving.agreement import contradictions
from runners.serving.engines import Tool, engine_of, glance
from tests.runners.test_doctor import situation
from warehouse.errors import RunnerError

DRAFT = {"name": "draft", "speculative_config": {"method": "draft_model", "model": "./draft"},
         "num_speculative_tokens": 3}  # fmt: skip
LLAMA = Path(__file__).parent.parent / "fixtures" / "llama-cpp"


def study_on(study_of, engine: str, **changes: object) -> Study:
    target = {"model": "./target", "served_name": "tiny", "engine_args": {"ctx-size": 512}}
    return study_of(**{"engine": engine, "target": target, "arms": [{"name": "baseline"}, DRAFT],
                       **changes})  # fmt: skip


@contextmanager
def fake_server(answers: dict[str, str]) -> Iterator[str]:
    """A FAKE server with these texts at these addresses, and nothing else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = answers.get(self.path)
            self.send_response(404 if text is None else 200)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *args: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def words_of(study: Study, arm: int, size: int = 1) -> list[str]:
    words = engine_of(study).command(study, study.variants[arm], size)
    return [word.replace(study.located("."), "HERE") for word in words]


def test_llama_cpp_is_started_with_its_own_words_for_a_draft(study_of) -> None:
    study = study_on(study_of, "llama.cpp")
    common = ["llama-server", "--model", "HERE/target", "--host", "127.0.0.1", "--port", "{port}",
              "--alias", "tiny", "--metrics", "--slots", "--ctx-size", "512"]  # fmt: skip
    assert words_of(study, 0) == common
    assert words_of(study, 1) == [
        *common, "--spec-type", "draft-simple", "--spec-draft-model", "HERE/draft",
        "--spec-draft-n-max", "3",
    ]  # fmt: skip


def test_sglang_verifies_one_token_more_than_it_drafts(study_of) -> None:
    words = words_of(study_on(study_of, "sglang"), 1, size=2)
    assert words[:4] == ["sglang", "serve", "--model-path", "HERE/target"]
    said = dict(zip(words[2::2], words[3::2], strict=False))
    assert said["--tp-size"] == "2"
    at = words.index("--speculative-algorithm")
    assert words[at:] == [
        "--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", "HERE/draft",
        "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
        "--speculative-num-draft-tokens", "4",
    ]  # fmt: skip
    assert "--enable-metrics" in words


@pytest.mark.parametrize(
    ("engine", "arm", "sizes", "said"),
    [
        ("llama.cpp", {"method": "suffix"}, [1], "llama.cpp has no speculative method 'suffix'"),
        ("sglang", {"method": "medusa"}, [1], "SGLang has no speculative method 'medusa'"),
        ("llama.cpp", {"method": "ngram"}, [2], "llama.cpp has no tensor parallel size (2"),
    ],
)
def test_what_an_engine_does_not_have_is_said_before_it_is_started(
    study_of, engine, arm, sizes, said
) -> None:
    arms = [{"name": "a", "speculative_config": arm}]
    study = study_on(study_of, engine, arms=arms, tensor_parallel_sizes=sizes)
    with pytest.raises(RunnerError, match="has no") as caught:
        words_of(study, 0, sizes[0])
    assert said in str(caught.value)
    found = list(run_check("engine", situation(study)))
    assert [one.status for one in found] == ["blocker", "unknown"]
    assert said in found[0].said


def test_a_study_of_vllm_is_fingerprinted_as_before_engines_were_told_apart(study_of) -> None:
    of_vllm = make_plan(study_of()).cells[0]
    assert "engine" not in of_vllm.identity
    assert make_plan(study_of(engine="sglang")).cells[0].fingerprint != of_vllm.fingerprint


SGLANG = {
    "/metrics": 'sglang:num_running_reqs{tp_rank="0"} 3.0\n'
    'sglang:generation_tokens_total{tp_rank="0"} 640.0\n'
    'sglang:spec_accept_length{tp_rank="0"} 2.5\n',
    "/v1/models": json.dumps({"data": [{"id": "tiny"}]}),
    "/server_info": json.dumps({
        "version": "0.5.23", "speculative_algorithm": "STANDALONE", "speculative_num_steps": 2,
        "disable_radix_cache": True,
    }),
}  # fmt: skip


def test_what_sglang_says_is_held_against_the_study(study_of) -> None:
    study = study_on(study_of, "sglang")
    with fake_server(SGLANG) as url:
        said = glance(url)
    assert (said.engine, said.version, said.drafts) == ("sglang", "0.5.23", True)
    assert said.prefix_caching is False
    baseline, draft = make_plan(study).launches[:2]
    assert "it is no baseline" in " ".join(contradictions(said, study, baseline))
    told = contradictions(said, study, draft)
    assert told == ["it drafts 2 tokens at a time, and the study says 3"]


def test_a_server_with_openais_routes_alone_is_known_by_its_models() -> None:
    with fake_server({"/v1/models": SGLANG["/v1/models"]}) as url:
        said = glance(url)
    assert (said.engine, said.drafts) == (None, None)
    assert [card.name for card in said.models or ()] == ["tiny"]


def test_series_of_other_engines_are_kept_under_one_name() -> None:
    found = parse_exposition(kept_lines(SGLANG["/metrics"]))
    assert found.values == {"num_requests_running": 3.0, "generation_tokens": 640.0}
    # An average over all that the server ever did says nothing of one load.
    assert found.counters is None


def test_llama_cpps_counters_tell_acceptance_as_vllms_do() -> None:
    text = (LLAMA / "metrics-draft.prom").read_text(encoding="utf-8")
    counters = parse_exposition(kept_lines(text)).counters
    assert counters is not None
    assert (counters.drafts, counters.draft_tokens, counters.accepted_tokens) == (14, 41, 16)
    assert counters.by_position == (10, 3, 3)


def test_an_engine_that_is_told_to_keep_no_prompts_caches_no_prefixes(study_of) -> None:
    target = {"model": "./target", "engine_args": {"no-cache-prompt": True}}
    launch = make_plan(study := study_on(study_of, "llama.cpp", target=target)).launches[0]
    assert server_args(study, launch) == {
        "server_args": {"no_cache_prompt": True}, "prefix_caching": False,
    }  # fmt: skip


def test_a_program_inside_a_package_has_the_version_of_the_package() -> None:
    found = Tool("llama_server", versions={"xllamacpp": "2026.10.11549"})
    assert found.version == "2026.10.11549"
