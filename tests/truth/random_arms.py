"""Arms with known laws: what each truly gains at any load, and how many tokens a step of it yields."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.truth.studies import Floats
from warehouse.contract import TABLE, Entry, arm_label

Random = np.random.Generator
#: Requests in flight -> log gains over the baseline, and mean acceptance lengths (NaN: the engine
#: sets K, and no one length is told).
Law = Callable[[Floats], tuple[Floats, Floats]]

METHODS = ("draft_model", "dspark", "eagle3", "mtp", "ngram")
KS = (1, 2, 3, 4, 5, 7)


@dataclass(frozen=True)
class Arm:
    """``k``: draft tokens, at most; ``table``: K by batch size; ``adaptive``: the engine sets K."""

    method: str
    k: int
    table: tuple[Entry, ...] = ()
    adaptive: bool = False

    @property
    def config(self) -> dict[str, Any]:
        """The speculative config with which its server started."""
        stated: dict[str, Any] = {"method": self.method, "num_speculative_tokens": self.k}
        if self.table:
            stated[TABLE] = [list(entry) for entry in self.table]
        return stated | ({"enable_adaptive_verification": True} if self.adaptive else {})

    @property
    def label(self) -> str:
        return arm_label(self.method, self.k, self.config)

    @property
    def facts(self) -> dict[str, Any]:
        """What the record of a cell says of it."""
        return {
            "spec_method": self.method, "num_speculative_tokens": float(self.k),
            "speculative_config": json.dumps(self.config), "arm_label": self.label,
        }  # fmt: skip


@dataclass(frozen=True)
class Drafting:
    """A method on one server. A step without drafts costs 1 until ``bend`` tokens are in flight, and
    then in proportion, ``sharp`` saying how sharply; each drafted token adds ``cost``, drafting at all
    ``overhead``; at 128 at once it gains ``decay`` less than all this makes it (logarithm).
    ``accepted``: of each dataset, the chance that a drafted token is accepted after those before."""

    bend: float
    sharp: float
    cost: float
    overhead: float
    decay: float
    accepted: tuple[float, ...]

    def law(self, arm: Arm, dataset: int, loses: float) -> Law:
        """The law of an arm on a dataset; ``loses``: what a K that changes costs (logarithm)."""
        p = self.accepted[dataset]
        if arm.adaptive:
            return lambda load: (self._best(p, arm.k, load) - loses, np.full(load.shape, np.nan))
        if arm.table:
            return lambda load: self._by_table(p, arm.table, load, loses)
        return lambda load: (self._gain(p, arm.k, load), np.full(load.shape, length(p, arm.k)))

    def _gain(self, p: float, k: int, load: Floats) -> Floats:
        if k == 0:
            return np.zeros(load.shape)
        step = self._step(load * (k + 1)) + self.cost * k + self.overhead
        gain = np.log(length(p, k) * self._step(load) / step)
        return np.asarray(gain - self.decay * np.log2(np.maximum(load, 1)) / 7)

    def _step(self, tokens: Floats) -> Floats:
        return np.asarray((1 + (tokens / self.bend) ** self.sharp) ** (1 / self.sharp))

    def _best(self, p: float, most: int, load: Floats) -> Floats:
        return np.asarray(np.max([self._gain(p, k, load) for k in range(1, most + 1)], axis=0))

    def _by_table(
        self, p: float, table: tuple[Entry, ...], load: Floats, loses: float
    ) -> tuple[Floats, Floats]:
        ks = [k_at(table, float(one)) for one in load]
        each = [self._gain(p, k, load[at : at + 1])[0] for at, k in enumerate(ks)]
        return np.array(each) - loses, np.array([length(p, k) for k in ks])


def length(p: float, k: int) -> float:
    """The mean number of tokens that a step yields."""
    return float((1 - p ** (k + 1)) / (1 - p))


def k_at(table: Sequence[Entry], batch: float) -> int:
    """The K that a table gives to a batch size."""
    return [k for start, _, k in table if start <= max(batch, 1)][-1]


def drafting(random: Random, server: tuple[float, float], datasets: int) -> Drafting:
    """A method at random: half of them draft well and lose much of it as requests become many."""
    heavy = random.uniform() < 0.5
    accepted = random.uniform(0.7, 0.9) if heavy else random.uniform(0.35, 0.75)
    decay = random.uniform(0.4, 1.1) if heavy else random.uniform(0, 0.1)
    each = np.clip(accepted + 0.08 * random.standard_normal(datasets), 0.35, 0.9)
    return Drafting(
        *server, random.uniform(0.01, 0.10), random.uniform(0, 0.10), decay,
        tuple(map(float, each)),
    )  # fmt: skip


def some_arms(random: Random, method: str, count: int) -> list[Arm]:
    """So many arms of one method: K of each its own; one in five is a table of K by batch size, one in
    eight adapts."""
    ks = [int(k) for k in random.choice(KS, count, replace=False)]
    return list(dict.fromkeys(_arm(random, method, k) for k in ks))


def _arm(random: Random, method: str, k: int) -> Arm:
    kind = random.uniform()
    if kind < 0.2 and k > 1:
        first, second = (int(2 ** random.integers(1, 4)), int(2 ** random.integers(4, 7)))
        last = int(random.integers(0, 2))
        middle = int(random.integers(1, k))
        if middle == last:
            return Arm(method, k, ((1, first, k), (first + 1, 2 * first, last)))
        return Arm(method, k, ((1, first, k), (first + 1, second, middle), (second + 1, 128, last)))
    return Arm(method, k, adaptive=kind > 0.875)


def crossing(random: Random, loads: Floats) -> tuple[Law, Law]:
    """Two methods: one gains much at the lowest load and loses at the highest, the other gains
    modestly at all of them."""
    ends = np.log(loads.min()), np.log(loads.max())
    high = (random.uniform(0.3, 1.6), -random.uniform(0.02, 0.35))
    modest = (min(random.uniform(0.15, 0.45), 0.9 * high[0]), random.uniform(0.03, 0.3))
    bends = random.uniform(0.25, 1.0, 2)
    return _line(ends, high, bends[0], 4.0), _line(ends, modest, bends[1], 1.8)


def _line(ends: tuple[float, float], gains: tuple[float, float], bend: float, tokens: float) -> Law:
    first, last = np.log1p(np.array(gains))

    def law(load: Floats) -> tuple[Floats, Floats]:
        way = (np.log(load) - ends[0]) / (ends[1] - ends[0])
        return first + (last - first) * way**bend, np.full(load.shape, tokens)

    return law
