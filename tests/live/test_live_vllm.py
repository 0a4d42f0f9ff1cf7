"""A minute of a real server each: the lab's pair on two cores, with the traffic that was decided on, and with
traffic that moved."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.texts.generators import Kind
from tests.commands.asking import run
from tests.live.traffic import MODELS, served, traffic
from tests.runners.conftest import lab_executable

pytestmark = [pytest.mark.long, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What is decided for structured text alone: K = 5."""
    log = tmp_path_factory.mktemp("server") / "log"
    vllm = lab_executable("vllm", "vllm")
    with served(vllm, MODELS / "target", "lab-target", 5, log) as url:
        yield url


@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize(
    ("kind", "at_once", "standing"),
    [("structured", 1, "holds"), ("prose", 1, "no longer holds"), ("prose", 16, "no longer holds")],
)
def test_within_a_minute_it_says_whether_traffic_moved(  # noqa: PLR0913 - a trial and what it needs
    kind: Kind, at_once: int, standing: str, turn: int, server: str, examples: Path
) -> None:
    decided = ("--study", "laptop-lab", "--dataset", "structured", "--load", "1")
    with traffic(server, "lab-target", kind, at_once, seed=100 * turn + at_once):
        done = run("live", server, *decided, "--warehouse", str(examples), "--for", "60s", "--json")
    told = json.loads(done.stdout)
    assert told["standing"] == standing, told["sentence"]
    assert told["running"] == "draft_model K=5"
    assert done.exit_code == told["exit"]
