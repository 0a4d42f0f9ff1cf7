"""Random studies as people run them, of which the best arm is known at every load.

*any*: one to five arms of up to three methods, with a fixed K, a table of K by batch size or a K that the
engine adapts; two to six loads, one to three datasets, one in eight at rates, one in four with cells
that nobody measured. *crossovers*: two methods whose gains cross between the lowest and the highest
load. docs/statistics.md states what is drawn from what. It was set before the rule of choice was.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tests.truth.random_arms import METHODS, Arm, Law, Random, crossing, drafting, some_arms
from tests.truth.studies import Floats
from warehouse.loads import Load

FamilyName = Literal["any", "any, rates", "crossovers"]
AT_ONCE = (1, 2, 4, 8, 16, 32, 64, 128)
RATES = (0.25, 0.5, 1, 2, 4, 8, 16, 32)
#: Requests in flight for each that comes in a second.
IN_FLIGHT = 4.0
#: Chances of one to five arms, and of at most one to three methods behind them; of studies at rates.
ARMS, MOST = (0.12, 0.2, 0.2, 0.24, 0.24), (0.2, 0.4, 0.4)
ARMS_AT_RATES, MOST_AT_RATES = (0.04, 0.14, 0.22, 0.3, 0.3), (0.1, 0.4, 0.5)
DATASETS = ("code", "prose", "summaries")
#: In a study that is asked with an SLO, the most seconds between tokens (95th percentile).
BOUND = 0.020
#: Standard deviation of the logarithm of an acceptance length: counted over thousands of drafts.
COUNTED = 0.002


@dataclass(frozen=True)
class RandomStudy:
    """``truth`` (datasets, arms with the baseline first, loads): log gains; ``between`` alike: halfway
    (on a logarithmic scale) from each load to the next; ``length`` alike: mean acceptance lengths as
    counted, NaN where none is told; ``measured`` alike. ``noise``: standard deviation of a cell's
    logarithm, ``launch``: of what a launch shares over loads and datasets. ``pace``: seconds between
    the tokens of the baseline at the largest load."""

    name: str
    arms: tuple[Arm, ...]
    loads: tuple[Load, ...]
    datasets: tuple[str, ...]
    repeats: int
    noise: float
    launch: float
    pace: float
    truth: Floats
    between: Floats
    length: Floats
    measured: NDArray[np.bool_]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the arms, the baseline's first."""
        return ("baseline", *(arm.label for arm in self.arms))

    @property
    def rates(self) -> bool:
        return self.loads[0].is_rate


def random_studies(family: FamilyName, count: int, seed: int = 0) -> Iterator[RandomStudy]:
    """So many studies of a family."""
    for number in range(count):
        random = np.random.default_rng([seed, number, *family.encode()])
        yield _study(random, family, f"{number:05d}")


def _study(random: Random, family: FamilyName, name: str) -> RandomStudy:
    loads = _loads(random, family)
    flight = np.array([load.value for load in loads]) * (IN_FLIGHT if loads[0].is_rate else 1.0)
    datasets = DATASETS[: random.integers(1, 4)]
    if family == "crossovers":
        arms, laws = _crossovers(random, flight, len(datasets))
    else:
        arms, laws = _any(random, loads[0].is_rate, len(datasets))
    known = [[law(flight) for law in each] for each in laws]
    truth, length = (np.array([[one[x] for one in each] for each in known]) for x in (0, 1))
    halfway = np.sqrt(flight[1:] * flight[:-1])
    between = np.array([[law(halfway)[0] for law in each] for each in laws])
    shape = (len(datasets), len(arms) + 1, len(loads))
    return RandomStudy(
        name, tuple(arms), loads, datasets, int(random.integers(2, 6)),
        random.uniform(0.01, 0.06), random.uniform(0, 0.04), BOUND * random.uniform(0.7, 1.6),
        _with_baseline(truth, 0.0), _with_baseline(between, 0.0),
        _with_baseline(length * np.exp(COUNTED * random.standard_normal(length.shape)), np.nan),
        _measured(random, shape),
    )  # fmt: skip


def _with_baseline(values: Floats, its: float) -> Floats:
    return np.insert(values, 0, its, axis=1)


def _loads(random: Random, family: FamilyName) -> tuple[Load, ...]:
    """Two to six; of crossovers three to six, all at once."""
    at_a_rate = family == "any, rates" or (family == "any" and random.uniform() < 1 / 8)
    count = random.integers(3 if family == "crossovers" else 2, 7)
    values = sorted(random.choice(RATES if at_a_rate else AT_ONCE, count, replace=False))
    kinds: tuple[Literal["poisson", "constant"], ...] = ("poisson", "constant")
    kind = kinds[random.integers(2)] if at_a_rate else "concurrency"
    return tuple(Load(kind, float(value)) for value in values)


def _any(random: Random, rates: bool, datasets: int) -> tuple[list[Arm], list[list[Law]]]:
    bend = float(np.exp(random.uniform(np.log(80), np.log(2500))))
    server = bend, float(random.choice([1.5, 3, 8]))
    count = int(random.choice([1, 2, 3, 4, 5], p=ARMS_AT_RATES if rates else ARMS))
    most = int(random.choice([1, 2, 3], p=MOST_AT_RATES if rates else MOST))
    methods = random.choice(METHODS, min(count, most), replace=False)
    arms: list[Arm] = []
    laws: list[list[Law]] = [[] for _ in range(datasets)]
    for place, method in enumerate(methods):
        how = drafting(random, server, datasets)
        for arm in some_arms(random, str(method), len(range(place, count, len(methods)))):
            loses = random.uniform(0, 0.03)
            arms.append(arm)
            for dataset, each in enumerate(laws):
                each.append(how.law(arm, dataset, loses))
    return arms, laws


def _crossovers(random: Random, flight: Floats, datasets: int) -> tuple[list[Arm], list[list[Law]]]:
    """One gains much at the lowest load and loses at the highest, the other is modest throughout."""
    arms = [Arm("dspark", 7), Arm("mtp", int(random.integers(1, 4)))]
    return arms, [list(crossing(random, flight)) for _ in range(datasets)]


def _measured(random: Random, shape: tuple[int, int, int]) -> NDArray[np.bool_]:
    """In one study in four an arm was not measured at some loads, the baseline as likely as any; half
    the time on all datasets, else from one of them on."""
    there = np.ones(shape, dtype=np.bool_)
    if random.uniform() < 1 / 4:
        datasets, arms, loads = shape
        lacks = random.choice(loads, random.integers(1, loads), replace=False)
        first = 0 if random.uniform() < 1 / 2 else int(random.integers(datasets))
        there[first:, random.integers(arms), lacks] = False
    return there
