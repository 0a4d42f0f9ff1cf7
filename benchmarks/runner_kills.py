"""SIGKILLs of the runner at random moments: no good cell is measured again, nothing stays behind.

The FAKE engine stands in for vLLM (fifty real server starts would take hours); GuideLLM is real.
"""

import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result, progress
from runners.measuring.resume import look
from tests.runners.small_study import SmallStudy, small_study, wait_for

KILLS, LONGEST_S = 50, 20.0


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Kill, look, go on, until the kills are done or the study is."""
    place = folder / "runner-kills"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    kills = 5 if quick else KILLS
    study = small_study(place, "--fake-delay 0.01", concurrency=[1, 2], repeats=kills)
    chance, again, good = random.Random(1), 0, _good(study)
    for number in range(kills):
        _killed(study, chance.uniform(0.5, LONGEST_S))
        wait_for(lambda: not study.running(), "nothing is left running", 30)
        now = _good(study)
        again += sum(now.get(key) != at for key, at in good.items())
        good = now
        progress(f"kill {number + 1}: {len(good)} of {len(study.plan.cells)} cells good")
    yield Result(
        f"good cells measured again after {kills} kills (FAKE engine, {len(good)} good cells)",
        "0", str(again), again == 0,
    )  # fmt: skip


def _killed(study: SmallStudy, after_s: float) -> None:
    process = study.start()
    try:
        process.communicate(timeout=after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def _good(study: SmallStudy) -> dict[str, int]:
    """Good cells and when their records were written, ns."""
    found = look(study.plan, study.layout).good
    return {cell.key: (study.cell(cell.key) / "record.json").stat().st_mtime_ns for cell in found}
