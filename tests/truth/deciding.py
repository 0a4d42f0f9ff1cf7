"""Generated studies decided: all of ``decide`` but the files. ``same`` shows that these change nothing."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from analysis.evidence.words import GAIN, SETTLED, Word
from answers.decide.answer import decide_on
from answers.decide.values import DecideQuestion, Decision
from answers.ground import Ground, ground_of
from answers.ground import WarehouseRows as Rows
from tests.truth.frames import Frames, frames
from tests.truth.studies import Drawn

#: Studies in one frame: some are faster together, many slower.
TOGETHER = 200


@dataclass(frozen=True)
class Decided:
    """One study. ``settled``: how many differences of any arm and metric, of levels and means, are
    settled; ``mean``: the word for the mean throughput of its first arm over all loads."""

    decision: Decision
    settled: int
    mean: Word | None

    @property
    def words(self) -> tuple[Word, ...]:
        return tuple(level.difference.word for level in self.decision.levels)

    @property
    def arms(self) -> tuple[int, ...]:
        """The number of the arm behind each level, where it is told by its K."""
        return tuple(int(level.arm.rpartition("=")[2]) for level in self.decision.levels)

    @property
    def improvements(self) -> tuple[float, ...]:
        """What is told of each load."""
        return tuple(level.difference.improvement or 0.0 for level in self.decision.levels)

    @property
    def says_yes(self) -> bool:
        return self.decision.answer == "yes"

    @property
    def says_at_every_load(self) -> bool:
        return set(self.words) == {GAIN}

    @property
    def served_words(self) -> tuple[Word, ...]:
        """What is told of the server at the loads at which it drafts."""
        return tuple(one.own.word for one in self.decision.levels if one.own is not None)


def decided(trials: Drawn, asked: DecideQuestion | None = None) -> Iterator[Decided]:
    """The decision of each study, in order."""
    for start in range(0, len(trials.speed), TOGETHER):
        made = frames(trials.some(slice(start, start + TOGETHER)), start)
        yield from _decided(made, asked or DecideQuestion())


def _decided(made: Frames, asked: DecideQuestion) -> Iterator[Decided]:
    known = known_of(made)
    settled, means = _settled(known), _means(known)
    by_study = {one.subject.study: one for one in decide_on(known, asked).decisions}
    for name in made.cells["study"].unique():
        yield Decided(by_study[name], settled[name], means.get(name))


def known_of(made: Frames) -> Ground:
    """What is read from a warehouse that holds these cells."""
    flags = pd.DataFrame(columns=["cell_id", "name", "sentence", "severity"])
    acceptance = pd.DataFrame(columns=["cell_id", "source", "rate", "mean_length"])
    rows = Rows(made.cells, made.measurements, flags, acceptance)
    return ground_of(rows, frozenset(made.cells["cell_id"]))


def _settled(known: Ground) -> dict[str, int]:
    """Study -> how many differences, of levels and of means, are settled."""
    rows = pd.concat([known.sure.levels, known.sure.means])
    counts = rows["word"].isin(SETTLED).groupby(_studies(known, rows)).sum()
    return {str(study): int(count) for study, count in counts.items()}


def _means(known: Ground) -> dict[str, Word]:
    """Study -> the word for the mean of its first arm."""
    rows = known.sure.means
    rows = rows[rows["metric"] == "output_throughput"].drop_duplicates("setting")
    return dict(zip(_studies(known, rows).tolist(), rows["word"].tolist(), strict=True))


def _studies(known: Ground, rows: pd.DataFrame) -> pd.Series:
    keys = known.found.keys["study"]
    return rows["setting"].map(keys[~keys.index.get_level_values(0).duplicated()].droplevel(1))
