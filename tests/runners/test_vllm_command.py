"""The printed vLLM commands are what vLLM itself takes: asked of its own parser."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.planning.plan import make_plan
from runners.planning.study_file import Study, read_study
from runners.serving.engines import server_command

ROOT = Path(__file__).parents[2]

#: Run by vLLM's own Python: parses `serve` command lines and gives back what the engine would get.
ASK = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
for line in sys.stdin:
    args = parser.parse_args(json.loads(line))
    validate_parsed_serve_args(args)
    print(json.dumps([args.model_tag or args.model, args.tensor_parallel_size, args.speculative_config]))
"""


def _asked(vllm: Path, commands: list[list[str]]) -> list[list[object]]:
    lines = "\n".join(json.dumps(c[2:]) for c in commands).replace("{port}", "8000")
    done = subprocess.run(
        [str(vllm.with_name("python")), "-c", ASK],
        input=lines, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [line for line in done.stdout.splitlines() if line.startswith("[")]
    return [json.loads(line) for line in answers]


@pytest.mark.slow
def test_vllm_takes_every_command_of_our_studies(vllm: Path) -> None:
    studies = [read_study(path) for path in sorted((ROOT / "studies").glob("*.yaml"))]
    studies = [study for study in studies if study.engine == "vllm"]
    launches = [(study, x) for study in studies for x in make_plan(study).launches if not x.repeat]
    commands = [
        server_command(study, x.variant, x.tensor_parallel_size, per_request_metrics=True)
        for study, x in launches
    ]
    assert _asked(vllm, commands) == [
        [
            study.located(study.target.model),
            x.tensor_parallel_size,
            study.drafting(x.variant),
        ]
        for study, x in launches
    ]


@pytest.mark.slow
def test_vllm_refuses_what_it_does_not_know(vllm: Path, study_of: Callable[..., Study]) -> None:
    wrong = study_of(target={"model": "org/target", "engine_args": {"no-such-thing": 1}})
    with pytest.raises(AssertionError, match="no-such-thing"):
        _asked(vllm, [server_command(wrong, wrong.variants[0], 1)])


def test_engine_arguments_become_words(study_of: Callable[..., Study]) -> None:
    target = {
        "model": "org/t",
        "revision": "abc",
        "engine_args": {
            "max_model_len": 512,
            "enforce-eager": True,
            "enable-prefix-caching": False,
            "compilation-config": {"level": 0},
        },
    }
    study = study_of(target=target)
    words = server_command(study, study.variants[0], 2)
    assert words[1:] == [
        "serve", "org/t", "--host", "127.0.0.1", "--port", "{port}", "--tensor-parallel-size", "2",
        "--revision", "abc", "--max-model-len", "512", "--enforce-eager",
        "--no-enable-prefix-caching", "--compilation-config", '{"level": 0}',
    ]  # fmt: skip


def test_an_arm_may_change_the_engine(study_of: Callable[..., Study]) -> None:
    study = study_of(
        target={"model": "org/t", "engine_args": {"max-num-seqs": 8}},
        arms=[{"name": "baseline", "engine_args": {"max_num_seqs": 16}}],
    )
    words = server_command(study, study.variants[0], 1)
    assert words.count("--max-num-seqs") == 1
    assert words[-1] == "16"


def test_only_a_speculative_server_is_asked_for_metrics_of_requests(
    study_of: Callable[..., Study],
) -> None:
    study = study_of()
    baseline, ngram, _ = (
        server_command(study, v, 1, per_request_metrics=True) for v in study.variants
    )
    assert "--per-request-spec-decode-metrics" not in baseline
    assert "--per-request-spec-decode-metrics" in ngram
    assert json.loads(ngram[ngram.index("--speculative-config") + 1]) == {
        "method": "ngram",
        "prompt_lookup_max": 4,
        "num_speculative_tokens": 2,
    }
