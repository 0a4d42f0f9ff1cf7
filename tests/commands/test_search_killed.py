"""A search that is killed again and again: the FAKE engine, the real GuideLLM and the real runner."""

import contextlib
import json
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from tests.commands.test_search_study import ROOT, command, searched
from tests.runners.small_study import SmallStudy, small_study

KILLS = 10
#: A search is killed so many seconds after it was started, at the latest; none is waited for longer.
LATEST_S = 40.0


def records(study: SmallStudy) -> dict[Path, int]:
    """The good cells, of the search and of its proof, and when each was written."""
    found = study.results.glob("small*/*/tp1/numbers/c*/record.json")
    return {path: path.stat().st_mtime_ns for path in found if ".failed-" not in str(path)}


def killed(study: SmallStudy, after_s: float, whole: bool) -> bool:
    """Start the search and kill it: alone, so that its launch goes on, or with all of its children.
    Return whether it was still at work."""
    search = subprocess.Popen(
        command(study), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        search.wait(after_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if whole else os.kill)(search.pid, signal.SIGKILL)
        search.wait()
        return True
    return False


@pytest.mark.long
def test_killed_at_ten_random_moments_it_goes_on_and_measures_nothing_twice(
    tmp_path: Path,
) -> None:
    study = small_study(
        tmp_path, "--fake-delay 0.1 --fake-acceptance 0.9", repeats=4, concurrency=[1, 2]
    )
    chance = random.Random(15)
    seen: dict[Path, int] = {}
    kills = 0
    for turn in range(KILLS):
        kills += killed(study, chance.uniform(2, LATEST_S), whole=turn % 2 == 0)
        now = records(study)
        assert {path: now.get(path) for path in seen} == seen
        seen = now
    assert kills
    (told,) = json.loads(searched(study).stdout)["searches"]
    now = records(study)
    assert {path: now.get(path) for path in seen} == seen
    # Each cell lies there once, whatever software measured it, and nothing was set aside.
    cells = [str(path.parent).partition("@")[0] for path in now]
    assert len(cells) == len(set(cells))
    assert not list(study.results.glob("small*/.superseded"))
    own = [path for path in now if path.relative_to(study.results).parts[0] == "small"]
    launches = {tuple(path.parts[-5:-3]) + (path.parent.name.partition("-r")[2],) for path in own}
    assert len(told["steps"]) == len(launches)
    assert told["proof"]["kept"] in (True, False)
    assert not study.running()
