"""What ``verdict`` prints to be pasted: the server that was measured, in its own engine's words."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.commands.asking import run, told
from tests.conftest import ROOT
from warehouse.rows import Measurement
from warehouse.store import open_writer

CASE = ROOT / "tests" / "fixtures" / "cases" / "19-vllm-command-for-an-sglang-server"
SERVED = ["/opt/vllm", "serve", "/models/tiny", "--port", "9", "--no-enable-prefix-caching"]


def test_an_sglang_server_is_pasted_in_sglangs_words(tmp_path: Path) -> None:
    place = ("--warehouse", str(tmp_path / "warehouse"))
    assert run("ingest", str(CASE), "--set", "gpu=H100", *place).exit_code == 0
    # One launch settles nothing: who names the arm has asked for its line.
    asked = ("--arm", "eagle3 K=3", *place)
    assert "sglang.launch_server" not in run("verdict", "--all", *place).stdout
    for printed in (run("verdict", "--all", *asked).stdout, run("tune", *asked).stdout):
        assert "vllm" not in printed
        assert "speculative-config" not in printed
        assert "python -m sglang.launch_server --model-path acme/chat-120b --tp-size 4" in printed
        assert (
            " --speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 1 "
            "--speculative-num-draft-tokens 4 --speculative-draft-model-path acme/chat-120b-eagle3"
            "\n" in printed
        )


@pytest.fixture
def measured(
    tmp_path: Path, make_source: Callable[..., Any], make_cell: Callable[..., Any]
) -> Callable[[int], tuple[str, str]]:
    """``measured(launches)``: a baseline and, after all its launches, an arm that gains 25 %, each
    at two loads on a server whose record keeps its command."""

    def fill(launches: int) -> tuple[str, str]:
        start = datetime(2026, 1, 2, tzinfo=UTC)
        source = make_source(
            "record", format="drop", commands={"vllm": SERVED},
            environment={"asked": {"environment": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}},
        )  # fmt: skip
        with open_writer(tmp_path) as writer:
            cells = []
            for at in range(launches * 4):
                arm, launch, load = at // (launches * 2), at // 2, (1, 8)[at % 2]
                speed = 100.0 * load * (1.25, 1.0)[arm == 0] * (1, 1.002, 0.999)[launch % 3]
                facts = {
                    "concurrency": load, "launch": f"{arm} {launch}", "repeat": launch % launches,
                    "spec_method": ("none", "eagle3")[arm], "draft_model": (None, "a/draft")[arm],
                    "num_speculative_tokens": (None, 3)[arm],
                }  # fmt: skip
                values = (Measurement("canonical", "output_throughput", "mean", speed),)
                cells.append(
                    make_cell(source, at, facts=facts, measurements=values, flags=(),
                              started_at=start + timedelta(minutes=at))
                )  # fmt: skip
            writer.add(source, iter(cells))
            writer.commit()
        return "--warehouse", str(tmp_path)

    return fill


def test_the_line_is_the_command_that_the_record_keeps(
    measured: Callable[[int], tuple[str, str]],
) -> None:
    (one,) = told("verdict", *measured(3))["decisions"]
    assert one["serve"] == (
        "VLLM_USE_V2_MODEL_RUNNER=0 vllm serve /models/tiny --no-enable-prefix-caching "
        f"--speculative-config '{one['speculative_config']}'"
    )


@pytest.mark.parametrize(("launches", "said"), [(1, False), (2, True)])
def test_arms_of_one_launch_cannot_be_interleaved(
    measured: Callable[[int], tuple[str, str]], launches: int, said: bool
) -> None:
    printed = " ".join(run("verdict", "--all", *measured(launches)).stdout.split())
    assert ("were not interleaved" in printed) is said
