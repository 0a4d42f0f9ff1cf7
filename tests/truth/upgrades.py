"""Two releases of an engine, whose difference is known: as drops, through the real ingest and the real answer.

A study has a baseline and two arms, two loads, three launches of each with either release. Logarithms of
a cell vary by 1 %, those of a launch by 1 % more, as in the other families.
"""

import tempfile
from pathlib import Path

import numpy as np

from analysis.nightly.regressions import REGRESSION
from answers.trend.upgrade import Upgrade, upgrade
from commands.keeping.ingest import take_in
from tests.truth.drops import One, write_drop
from tests.truth.frames import FACTS, FIRST, OUTPUT, SPEED, START
from tests.truth.row import Row, share
from warehouse.filters import Filters
from warehouse.store import Reader

FAMILY = "upgrades"
BEFORE, AFTER = "0.32.0", "0.33.0"
CELL = LAUNCH = 0.01
LOADS, REPEATS = (1, 16), 3
#: Arm -> its gain over the baseline.
ARMS = {"baseline": 0.0, "ngram": 0.1, "draft_model": 0.25}
#: What the newer release does to the logarithm of an arm's speed.
SLOWER = dict.fromkeys(ARMS, float(np.log(0.9)))
CASES: dict[str, dict[str, float]] = {
    "quiet": {},
    "slower by 10 %": SLOWER,
    "one arm slower by 10 %": {"draft_model": SLOWER["draft_model"]},
    "baseline faster by 12 %": {"baseline": float(np.log(1.12))},
}


def write_study(name: str, change: dict[str, float], seed: int, folder: Path) -> None:
    """A study measured with both releases, by turns."""
    draw, number = np.random.default_rng([seed, *name.encode()]), 0
    for repeat in range(REPEATS):
        for method, gain in ARMS.items():
            for version in (BEFORE, AFTER):
                launch = LAUNCH * draw.standard_normal()
                for load in LOADS:
                    speed = gain + launch + CELL * draw.standard_normal()
                    speed += change.get(method, 0.0) if version == AFTER else 0.0
                    latency, started = (
                        OUTPUT / (SPEED * np.exp(speed)),
                        START.timestamp() + 60.0 * number,
                    )
                    first = float(FIRST * np.exp(-CELL * draw.standard_normal()))
                    facts = FACTS | {
                        "study": name, "model": "org/model", "repeat": repeat, "engine_version": version,
                        "launch": f"r{repeat}-{method}-{version}", "spec_method": "none",
                    }  # fmt: skip
                    if method != "baseline":
                        facts |= {
                            "spec_method": method, "num_speculative_tokens": 3,
                            "speculative_config": {"method": method, "num_speculative_tokens": 3},
                        }  # fmt: skip
                    one = One(
                        facts, 0, load, started, float(latency), first, load * OUTPUT / latency
                    )
                    write_drop(one, folder / f"{name}-{number}")
                    number += 1


def answers(case: str, count: int) -> list[Upgrade]:
    """What is said of so many studies of a case."""
    with tempfile.TemporaryDirectory() as scratch:
        drops, root = Path(scratch, "drops"), Path(scratch, "warehouse")
        for number in range(count):
            write_study(f"{case} {number:04d}", CASES[case], number, drops)
        assert not take_in([drops], root).rejected
        with Reader(root) as reader:
            found = [
                upgrade(reader, Filters(study=(f"{case} {number:04d}",)), BEFORE, AFTER)
                for number in range(count)
            ]
    return [one for one in found if one is not None]


def red(found: list[Upgrade], of_gain: bool | None = None) -> int:
    """How many are red; with ``of_gain`` for a gain, or for a figure of an arm itself."""
    return sum(
        any(line.status == REGRESSION and of_gain in (None, line.of_gain) for line in one.lines)
        for one in found
    )


def of_a_slower_release(count: int) -> list[Row]:
    """Two environments alike, and one that is slower by 10 %."""
    quiet, slower = answers("quiet", count), answers("slower by 10 %", count)
    alike = sum(one.status != REGRESSION for one in quiet)
    return [
        share(FAMILY, "two environments alike: quiet", alike, count, at_least=0.95),
        share(FAMILY, "slower by 10 %: red", red(slower), count, at_least=0.9),
        share(FAMILY, "slower by 10 %: no gain is red", count - red(slower, True), count, at_least=0.95),
    ]  # fmt: skip


def rows(trials: int) -> list[Row]:
    """Every goal, each over as many studies as a hundredth of the trials. That one arm alone is slower, or the
    baseline alone is faster, is told by fewer launches; of that the shares are printed."""
    count = max(20, trials // 100)
    arm, faster = (answers(case, count) for case in list(CASES)[2:])
    return [
        *of_a_slower_release(count),
        share(FAMILY, "one arm slower by 10 %: red", red(arm, False), count),
        share(FAMILY, "baseline faster by 12 %: a gain is red", red(faster, True), count),
        share(FAMILY, "baseline faster by 12 %: no arm is red itself", count - red(faster, False), count,
              at_least=0.95),
    ]  # fmt: skip
