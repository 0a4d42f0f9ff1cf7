"""What decisions say of studies whose truth is known: false ones, missed ones, right ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.evidence.words import GAIN, LIKELY_GAIN, LIKELY_LOSS, LOSS
from answers.decide.values import DecideQuestion
from tests.truth.deciding import Decided, decided
from tests.truth.figures import points_at_most
from tests.truth.row import Row, share
from tests.truth.studies import Drawn, Family, alike, drawn

#: A load loses truly where its speed falls by so much (ratio), and is then not to be passed over.
LOSES = 0.05
#: What a careful reader says: `--nowhere-worse 3%`.
NOWHERE_WORSE = 0.03
FALLS, U_SHAPED = (0.4, 0.35, 0.3, 0.2, 0.1, -0.06), (0.3, 0.1, -0.1, -0.1, 0.1, 0.3)
HARD: dict[str, Any] = {"noise": (0.10, 0.02), "launch": 0.04}

NOTHING = "nothing differs"
GAINS = "+30 % at all loads"
LOSS_OF_30 = "-30 % at one load"
TEN = "+10 % at all loads"
EQUAL = "six equal arms"


def _one(loss: float, place: int, loads: int = 6) -> tuple[float, ...]:
    """+30 %, and a loss at one of the loads."""
    return tuple(-loss if load == place else 0.3 for load in range(loads))


def families() -> Iterator[Family]:
    yield Family(f"{NOTHING}, 4 arms, R 3, 5 %", alike(0.0))
    yield Family(f"{NOTHING}, 7 arms, R 2, 10 to 2 %, launch 4 %", alike(0.0, 7, 3), 2, **HARD)
    yield Family(f"{NOTHING}, 2 arms, R 4, launch 6 %", alike(0.0, 2, 3), 4, (0.02, 0.02), 0.06)
    yield Family(f"{NOTHING}, 3 arms, R 5, drift", alike(0.0, 3, 5), 5, drift=0.005)
    yield Family(f"{GAINS}, 4 arms, R 3, 5 %", alike(0.3))
    yield Family(f"{LOSS_OF_30}, 4 arms, R 3, 5 %", alike(_one(0.3, 3)))
    yield Family(
        "-5 % at the lowest load, 3 arms, R 5, drift", alike(_one(0.0501, 0), 3), 5, drift=0.005
    )
    yield Family("falls to -6 % at the highest load, 10 to 2 %, launch 4 %", alike(FALLS), **HARD)
    yield Family("U-shaped, 2 arms, R 4, 5 %, launch 3 %", alike(U_SHAPED, 2), 4, launch=0.03)
    yield Family(f"{TEN}, 4 arms, R 3, 5 %", alike(0.1))
    yield Family("all sizes, 4 arms, R 3, 5 %, launch 3 %", alike(0.05), launch=0.03, scatter=0.1)
    yield Family(f"{EQUAL}, 6 loads, 5 %", alike(0.1, 7), methods=True)
    yield Family("Poisson rates: -30 % at one, 4 arms, R 3", alike(_one(0.3, 3, 4)), kind="poisson")
    yield Family("vllm bench files: +30 %, 2 arms, R 3", alike(0.3, 2, 3), kind="vllm bench")


@dataclass(frozen=True)
class Told:
    """A family's studies and what was decided of each."""

    trials: Drawn
    found: Sequence[Decided]

    @property
    def name(self) -> str:
        return self.trials.family.name

    def row(
        self, what: str, hits: int, at_most: float | None = None, at_least: float | None = None
    ) -> Row:
        return share(self.name, what, hits, len(self.found), at_most, at_least)


def rows(trials: int) -> list[Row]:
    """All rows of the table."""
    return [row for family in families() for row in rows_of(family, trials)]


def rows_of(family: Family, trials: int) -> list[Row]:
    studies = drawn(family, trials)
    told = Told(studies, list(decided(studies)))
    return [row for rule in _RULES for row in rule(told)]


def _never_beside_a_loss(told: Told) -> Iterator[Row]:
    hits = sum(one.says_yes and LOSS in one.served_words for one in told.found)
    yield told.row("yes beside a settled loss", hits, at_most=0.0)


def _false_promises(told: Told) -> Iterator[Row]:
    """What is promised of a load at which the server as it would run drafts and truly loses (every
    arm loses alike there): a yes of a reader who asks for no loss anywhere, a gain settled at every
    load, a gain of that very load. A plain yes is one at the reader's load; how often the server then
    drafts at a load that loses, and that it calls open, is printed."""
    loses = (told.trials.truth[:, 1:] <= np.log(1 - LOSES)).all(axis=1)
    if not loses.any(axis=1).all():
        return
    careful = decided(told.trials, DecideQuestion(nowhere_worse=NOWHERE_WORSE))
    hits = [
        _drafts_where(one, lost) and one.says_yes for one, lost in zip(careful, loses, strict=True)
    ]
    yield told.row(
        "yes with nowhere worse though it loses where it drafts", sum(hits), at_most=0.03
    )
    drafts = [_drafts_where(one, lost) for one, lost in zip(told.found, loses, strict=True)]
    hits = [one.says_at_every_load and at for one, at in zip(told.found, drafts, strict=True)]
    yield told.row("'at every load' though it loses where it drafts", sum(hits), at_most=0.03)
    hits = [
        any(lost and level.own is not None and level.own.word in (GAIN, LIKELY_GAIN)
            for level, lost in zip(one.decision.levels, each, strict=True))
        for one, each in zip(told.found, loses, strict=True)
    ]  # fmt: skip
    yield told.row("said to pay, or probably, at a load where it loses", sum(hits), at_most=0.03)
    hits = [one.says_yes and at for one, at in zip(told.found, drafts, strict=True)]
    yield told.row("yes at the reader's load, drafts where it loses", sum(hits))


def _drafts_where(one: Decided, lost: Any) -> bool:
    return any(level.drafts and at for level, at in zip(one.decision.levels, lost, strict=True))


def _false_findings(told: Told) -> Iterator[Row]:
    if told.name.startswith(NOTHING):
        hits = sum(one.settled > 0 or one.says_yes for one in told.found)
        yield told.row("anything settled or a yes", hits, at_most=0.05)


def _power(told: Told) -> Iterator[Row]:
    if told.name.startswith(GAINS):
        yield told.row("yes", sum(x.says_yes for x in told.found), at_least=0.9)
        careful = decided(told.trials, DecideQuestion(nowhere_worse=NOWHERE_WORSE))
        yield told.row("yes with nowhere worse", sum(x.says_yes for x in careful), at_least=0.9)
    if "-30 %" in told.name:
        lost = [x.words[3] in (LOSS, LIKELY_LOSS) for x in told.found]
        yield told.row("the loss is named", sum(lost), at_least=0.9)
    if told.name.startswith(TEN):
        settled = sum(x.mean == GAIN for x in told.found)
        yield told.row("mean settled as a gain", settled, at_least=0.9)


def _likely_ones(told: Told) -> Iterator[Row]:
    """Of the loads that are called likely, how many are what they are called."""
    if told.trials.family.scatter:
        right, said = 0, 0
        for one, truth in zip(told.found, told.trials.truth, strict=True):
            for load, (word, arm) in enumerate(zip(one.words, one.arms, strict=True)):
                said += word in (LIKELY_GAIN, LIKELY_LOSS)
                right += (word == LIKELY_GAIN and truth[arm, load] > 0) or (
                    word == LIKELY_LOSS and truth[arm, load] < 0
                )
        yield share(told.name, "'likely' is right", right, said, at_least=0.85)


def _overstated(told: Told) -> Iterator[Row]:
    """By how much the improvement that is told, over all loads, lies above the true one."""
    if told.name.startswith(EQUAL):
        true = np.expm1(told.trials.truth[0, 1, 0])
        over = [float(np.mean(one.improvements)) - true for one in told.found]
        yield points_at_most(told.name, "the best is overstated by", over, 0.005)


def _unknown_launches(told: Told) -> Iterator[Row]:
    if told.trials.family.kind == "vllm bench":
        settled = sum(one.settled > 0 or one.says_yes for one in told.found)
        yield told.row("anything settled or a yes", settled, at_most=0.0)
        likely = sum(LIKELY_GAIN in one.words for one in told.found)
        yield told.row("likely gain at a load", likely, at_least=0.9)


_RULES = (
    _never_beside_a_loss, _false_promises, _false_findings, _power, _likely_ones, _overstated,
    _unknown_launches,
)  # fmt: skip
