"""The lab's real draft, held against what arms with acceptance set by hand say that it must yield.

``tests/fixtures/lab-break-even``: `studies/lab-break-even.yaml` as it was measured, a row a cell and launch. What
pays is told by the baseline and the arms that were set; each of the 60 cells of the real draft is a question.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.prediction.reach import Question
from analysis.prediction.rows import Points, Positions
from analysis.prediction.whatif import DraftedPoints
from answers.predict.break_even import PaysFrom, Verdict

RECORDED = Path(__file__).parents[2] / "fixtures" / "lab-break-even" / "launches.csv"
LAUNCHES = (1, 2, 3, 4, 5, 6)
MEASURED = [
    "achieved_concurrency", "prompt_tokens", "output_tokens", "length", "itl", "ttft", "output_throughput",
]  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """One cell of the real draft: what is said of it, and by how much it gained (a ratio)."""

    where: str
    step: PaysFrom
    length: float
    gain: float

    @property
    def verdict(self) -> Verdict:
        return self.step.of(self.length)

    @property
    def right(self) -> bool:
        return self.verdict == ("pays" if self.gain > 0 else "does not pay")

    @property
    def half(self) -> float:
        """Half the width of the band, relative to its middle."""
        return ((self.step.high or 0) - (self.step.low or 0)) / (self.step.length or 1) / 2


def points_of(cells: pd.DataFrame) -> Points:
    values = {name: cells[name].to_numpy(dtype=np.float64) for name in (
        "k", "concurrency", "prompt_tokens", "output_tokens", "length", "itl", "ttft", "output_throughput",
    )}  # fmt: skip
    return Points(
        **values, dataset=cells["dataset"].to_numpy(dtype=object), repeats=np.ones(len(cells)),
        step=values["itl"] * values["length"],
        batch=np.minimum(cells["achieved_concurrency"], cells["concurrency"]).to_numpy(),
    )  # fmt: skip


def positions_of(cells: pd.DataFrame) -> Positions:
    """Counted by position: how many drafts were accepted so far, and how many had been before."""
    rows = [
        (cell.dataset, cell.concurrency, cell.k, position, accepted, before)
        for cell in cells.itertuples()
        for launch in zip(cell.drafts, cell.accepted, strict=True)
        for position, (before, accepted) in enumerate(_pairs(*launch), 1)
    ]
    dataset, *others = zip(*rows, strict=True)
    names = ("concurrency", "k", "position", "accepted", "reached")
    counted = dict(zip(names, map(np.array, others), strict=True))
    return Positions(dataset=np.array(dataset, dtype=object), **counted)


def _pairs(drafts: float, accepted: str) -> Iterator[tuple[float, float]]:
    kept = [drafts, *map(float, str(accepted).split())]
    return zip(kept, kept[1:], strict=False)


def recorded(launches: tuple[int, ...]) -> pd.DataFrame:
    """A row a cell: geometric means over the launches, and the counts of all."""
    cells = pd.read_csv(RECORDED)
    cells = cells[cells["launch"].isin(launches)]
    place = ["arm", "dataset", "k", "concurrency"]
    means = np.exp(np.log(cells.set_index(place)[MEASURED]).groupby(level=place).mean())
    return means.join(cells.groupby(place)[["drafts", "accepted"]].agg(list)).reset_index()


def asked(launches: tuple[int, ...]) -> list[Asked]:
    cells = recorded(launches)
    of_arm = {arm: cells[cells["arm"] == arm] for arm in ("baseline", "set", "real")}
    loads = sorted({int(load) for load in cells["concurrency"]})
    assert [len(each) for each in of_arm.values()] == [len(loads) * each for each in (3, 9, 12)]
    steps = points_of(pd.concat([of_arm["baseline"], of_arm["set"]]))
    counted = positions_of(of_arm["set"])
    plain = of_arm["baseline"].set_index(["dataset", "concurrency"])["output_throughput"]
    measured, found = DraftedPoints(steps, counted), []
    for (dataset, k), mine in of_arm["real"].groupby(["dataset", "k"]):
        questions = [Question(int(k), load) for load in loads]
        bands = measured.model(str(dataset)).break_even(questions)
        for load, *ends in zip(loads, bands.middle, bands.low, bands.high, strict=True):
            (cell,) = mine[mine["concurrency"] == load].itertuples()
            gain = cell.output_throughput / plain[dataset, load] - 1
            where = f"{dataset} K={k} at {load}"
            found.append(Asked(where, PaysFrom(int(k), load, *ends), cell.length, gain))
    return found


def printed(cells: list[Asked]) -> list[Asked]:
    """Those outside their bands; all are printed."""
    told, halves = [cell for cell in cells if cell.verdict != "cannot say"], [c.half for c in cells]
    lines = [
        f"{cell.where}: {cell.length:.2f}, pays from {cell.step.length:.2f} ({cell.step.low:.2f} to "
        f"{cell.step.high:.2f}): {cell.verdict}; gain {cell.gain:+.1%}"
        for cell in cells
    ]
    lines.append(
        f"{len(told)} of {len(cells)} outside their bands, {sum(c.right for c in told)} right; "
        f"half a band {np.median(halves):.1%}, at most {max(halves):.1%}, "
        f"{sum(half <= 0.2 for half in halves)} within 20 %"
    )
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    return told


def test_a_real_draft_pays_in_the_lab_where_arms_set_by_hand_say_so() -> None:
    cells = asked(LAUNCHES)
    told = printed(cells)
    assert len(cells) == 60
    assert len(told) >= 20
    assert sum(cell.right for cell in told) >= 0.9 * len(told)
    assert max(cell.half for cell in cells) <= 0.2


def test_one_launch_of_each_arm_is_mostly_right_as_well() -> None:
    """Launches of this machine differ by more than their bands expect: of one, each fifth sign is wrong."""
    told = [printed(asked((launch,))) for launch in LAUNCHES]
    right = [sum(cell.right for cell in each) for each in told]
    assert sum(map(len, told)) >= 100
    assert sum(right) >= 0.9 * sum(map(len, told))
    assert min(r / len(each) for r, each in zip(right, told, strict=True)) >= 0.8
