"""A foreign server is asked who it is: the FAKE engine, and the words of real vLLM in fixtures."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runners.measuring.hosts import meet
from runners.planning.plan import Launch, make_plan
from runners.planning.study_file import Study
from runners.serving.agreement import (
    Resolved,
    ServedModel,
    ServerFacts,
    contradictions,
    contradicts,
    counters,
    precision_of,
    served_model,
    stated_only,
    wrong_arm,
)
from runners.serving.endpoint import read_key, scrub, use_key
from runners.surroundings.machine import public
from tests.runners.engine import fake_engine, free_port
from warehouse.errors import RunnerError

ARMS = [
    {"name": "baseline"},
    {
        "name": "draft",
        "speculative_config": {"method": "draft_model", "model": "org/draft"},
        "num_speculative_tokens": 3,
    },
]
DRAFTING = "--fake-k=3"
#: As vLLM 0.32 on a CPU printed them, shortened to the lines that tell.
REAL_BASELINE = """vllm:engine_sleep_state{engine="0",model_name="tiny",sleep_state="awake"} 1.0
vllm:num_requests_running{engine="0",model_name="tiny"} 0.0
"""
REAL_DRAFTING = (
    REAL_BASELINE
    + """vllm:spec_decode_num_drafts_total{engine="0",model_name="tiny"} 0.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="0"} 0.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="1"} 0.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="2"} 0.0
"""
)


@pytest.fixture
def study(study_of) -> Study:
    return study_of(arms=ARMS, target={"model": "tiny", "precision": "bf16"})


def launch_of(study: Study, arm: str) -> Launch:
    return next(one for one in make_plan(study).launches if one.variant.name == arm)


@pytest.mark.parametrize(
    ("arm", "switches", "why"),
    [
        ("draft", (), "it does not speculate"),
        ("baseline", (DRAFTING,), "it is no baseline"),
        ("draft", ("--fake-k=2",), "it drafts 2 tokens at a time, and the study says 3"),
        ("draft", (DRAFTING, "--served-model-name=other"), "it serves other, and the study asks"),
    ],
)
def test_a_server_that_is_not_the_arm_is_refused(
    study: Study, tmp_path: Path, arm: str, switches: tuple[str, ...], why: str
) -> None:
    with fake_engine(tmp_path, *switches) as url, pytest.raises(RunnerError, match=why):
        meet(url, study, launch_of(study, arm))


@pytest.mark.parametrize(("arm", "switches"), [("baseline", ()), ("draft", (DRAFTING,))])
def test_a_server_that_is_the_arm_says_its_facts_and_the_rest_is_marked_as_stated(
    study: Study, tmp_path: Path, arm: str, switches: tuple[str, ...]
) -> None:
    with fake_engine(tmp_path, *switches) as url:
        foreign = meet(url, study, launch_of(study, arm))
        assert foreign.changed() is None

    facts = foreign.facts
    assert (facts.engine, facts.version, facts.prefix_caching) == ("vllm", "0.32.0", True)
    assert foreign.notes()["stated"] == ["precision", "tensor_parallel_size"]


def test_a_server_without_metrics_is_taken_at_the_studys_word(study: Study, tmp_path: Path) -> None:
    with fake_engine(tmp_path, "--fake-no-metrics") as url:
        foreign = meet(url, study, launch_of(study, "draft"))

    facts = foreign.facts
    assert (facts.engine, facts.version, facts.prefix_caching) == (None, None, None)
    assert "speculative_config" in foreign.notes()["stated"]


def test_a_server_that_becomes_another_is_noticed(study: Study, tmp_path: Path) -> None:
    now = tmp_path / "now"
    with fake_engine(tmp_path, "--fake-become", str(now)) as url:
        foreign = meet(url, study, launch_of(study, "baseline"))
        now.touch()
        changed = foreign.changed()

    assert changed is not None
    assert "tiny" in changed.sentence
    assert "another" in changed.sentence


def test_no_server_no_access_and_no_such_model_are_three_sentences(
    study: Study, tmp_path: Path
) -> None:
    launch = launch_of(study, "baseline")
    with pytest.raises(RunnerError, match="Nothing answers at"):
        meet(f"http://127.0.0.1:{free_port()}", study, launch)
    with fake_engine(tmp_path, "--fake-api-key", "right-key") as url:
        with pytest.raises(RunnerError, match="asks for an API key"):
            meet(url, study, launch)
        use_key(url, "wrong-key")
        with pytest.raises(RunnerError, match="refuses this one; give its API key with"):
            meet(url, study, launch)
        use_key(url, "right-key")
        assert meet(url, study, launch).facts.models == (ServedModel("tiny"),)


class Elsewhere(BaseHTTPRequestHandler):
    """Sends everybody to another server."""

    to = ""

    def do_GET(self) -> None:  # the name is the base class's
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(302)
        self.send_header("Location", self.to + self.path)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:  # the name is the base class's
        """Nobody reads it."""


def test_a_key_goes_to_its_own_server_only(study: Study, tmp_path: Path) -> None:
    with fake_engine(tmp_path, "--fake-api-key", "right-key") as url:
        handler = type("Bound", (Elsewhere,), {"to": url})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listener:
            threading.Thread(target=listener.serve_forever, daemon=True).start()
            first = f"http://127.0.0.1:{listener.server_address[1]}"
            use_key(first, "right-key")
            with pytest.raises(RunnerError, match="asks for an API key"):
                meet(first, study, launch_of(study, "baseline"))
            listener.shutdown()


def test_the_counters_of_real_vllm_tell_who_drafts() -> None:
    assert counters(REAL_BASELINE) == (False, None)
    assert counters(REAL_DRAFTING) == (True, 3)
    assert counters("llamacpp:requests_processing 0") == (None, None)


def test_a_cell_with_the_counters_of_another_arm_is_not_good(study: Study) -> None:
    baseline, draft = launch_of(study, "baseline"), launch_of(study, "draft")
    assert wrong_arm(REAL_BASELINE, baseline) is None
    assert wrong_arm(REAL_DRAFTING, draft) is None
    assert wrong_arm("", draft) is None
    for metrics, launch in ((REAL_BASELINE, draft), (REAL_DRAFTING, baseline)):
        found = wrong_arm(metrics, launch)
        assert found is not None
        assert found.cause == "other_server"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (ServerFacts(models=(ServedModel("tiny", max_model_len=128),)), "max-model-len is 128"),
        (
            ServerFacts(models=(ServedModel("tiny", root="org/other"),)),
            "is org/other, and the study",
        ),
        (ServerFacts(cache={"enable_prefix_caching": "True"}), "enable-prefix-caching is True"),
        (
            ServerFacts(cache={"cache_dtype": "auto"}),
            "kv-cache-dtype is auto, and the study says fp8",
        ),
        (ServerFacts(resolved=Resolved("torch.bfloat16", "fp8")), "its weights are fp8"),
        (ServerFacts(resolved=Resolved(tensor_parallel_size=2)), "tensor parallel size is 2"),
        (
            ServerFacts(resolved=Resolved(method="eagle3")),
            "method is eagle3, and the study says draft",
        ),
    ],
)
def test_each_thing_that_a_server_says_otherwise_is_named(
    study_of, said: ServerFacts, why: str
) -> None:
    given = {"no-enable-prefix-caching": True, "max-model-len": 512, "kv_cache_dtype": "fp8"}
    target = {"model": "org/tiny", "served_name": "tiny", "precision": "bf16"}
    study = study_of(arms=ARMS, target=target | {"engine_args": given})

    (clause,) = contradictions(said, study, launch_of(study, "draft"))
    assert why in clause


def test_a_server_that_confirms_all_leaves_nothing_stated(study_of) -> None:
    study = study_of(target={"model": "org/tiny", "precision": "mxfp4"})
    said = ServerFacts(
        engine="vllm", models=(ServedModel(served_model(study), "org/tiny"),), drafts=False,
        resolved=Resolved("torch.bfloat16", "gpt_oss_mxfp4", tensor_parallel_size=1),
    )  # fmt: skip
    assert contradictions(said, study, launch_of(study, "baseline")) == []
    assert stated_only(said, study) == []


@pytest.mark.parametrize(
    ("stated", "dtype", "quantization", "wrong"),
    [
        ("bf16", "torch.bfloat16", None, False),
        ("bfloat16", "torch.float16", None, True),
        ("bf16", "torch.bfloat16", "mxfp4", True),
        ("MXFP4", "torch.bfloat16", "gpt_oss_mxfp4", False),
        ("int4", "torch.float16", "awq_marlin", None),
        ("int4", "torch.float16", None, True),
    ],
)
def test_words_for_a_precision_are_told_apart(stated, dtype, quantization, wrong) -> None:
    found = precision_of(dtype, quantization)
    assert found is not None
    assert contradicts(stated, found) is wrong


def test_a_key_comes_from_a_variable_or_a_file_and_is_kept_out_of_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, report = tmp_path / "key", tmp_path / "report.json"
    file.write_text("from-a-file\n")
    monkeypatch.setenv("MINE", "from-a-variable")
    assert read_key(None, None) is None
    assert read_key(None, file) == "from-a-file"
    assert read_key("MINE", None) == "from-a-variable"
    assert public({"said": "it was from-a-file"}) == {"said": "it was [removed]"}

    report.write_text('{"api_key": "from-a-variable"}')
    scrub((report, tmp_path / "none"), "from-a-variable")
    assert report.read_text() == '{"api_key": "[removed]"}'


@pytest.mark.parametrize(
    ("variable", "text", "why"),
    [
        ("NOT_SET_ANYWHERE", None, "no API key in the variable NOT_SET_ANYWHERE"),
        (None, "", "no API key in the file"),
        (None, "two words", "is no API key"),
        ("A", "b", "Give the API key once"),
    ],
)
def test_a_key_that_cannot_be_used_is_one_sentence(tmp_path, variable, text, why) -> None:
    file = None if text is None else tmp_path / "key"
    if file is not None:
        file.write_text(text)
    with pytest.raises(RunnerError, match=why):
        read_key(variable, file)
    with pytest.raises(RunnerError, match="cannot be read"):
        read_key(None, tmp_path / "nowhere")
