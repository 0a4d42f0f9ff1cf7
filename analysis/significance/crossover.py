"""The load from which on speculation no longer pays: where its gain falls through zero.

Between two measured loads the log ratio is taken as a line over the logarithm of the concurrency.
The interval comes from drawing every level's mean again within its own error.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from warehouse.catalogue import METRICS

Floats = NDArray[np.float64]
Kind = Literal["ends", "never in the measured range", "from the lowest load on", "unknown"]

ENDS: Kind = "ends"
NEVER: Kind = "never in the measured range"
ALWAYS: Kind = "from the lowest load on"
UNKNOWN: Kind = "unknown"
DRAWS = 2000
_BY = ["setting", "arm_id"]


@dataclass(frozen=True)
class Crossover:
    """Where the gain of one setting and arm ends. ``at``, ``low``, ``high``: concurrency; 0 is
    below and inf above all that was measured, None unknown. ``measured``: lowest and highest."""

    setting: int
    arm_id: int
    metric: str
    statistic: str
    kind: Kind
    at: float | None
    low: float | None
    high: float | None
    measured: tuple[float, float]

    @property
    def sentence(self) -> str:
        """For a person, with the interval where repeats give one."""
        label = METRICS[self.metric].label.lower()
        first, last = self.measured
        if self.kind == UNKNOWN:
            return f"Where the gain in {label} ends is unknown: no level has both arms."
        told = {
            ENDS: f"The gain in {label} ends at about concurrency {self.at or 0:.0f}",
            NEVER: f"The gain in {label} never ends in the measured range "
            f"(concurrency {first:.0f} to {last:.0f})",
            ALWAYS: f"There is no gain in {label} from concurrency {first:.0f} on",
        }[self.kind]
        return f"{told}{self._interval()}."

    def _interval(self) -> str:
        if self.low is None or self.high is None:
            return "; one repeat gives no interval"
        if self.low == self.high:
            return ", at 95 % confidence"
        return f" (95 % interval: {self._end(self.low)} to {self._end(self.high)})"

    def _end(self, load: float) -> str:
        first, last = self.measured
        if load == 0:
            return f"below {first:.0f}"
        return f"above {last:.0f}" if np.isinf(load) else f"{load:.0f}"


def crossovers(
    levels: pd.DataFrame, metric: str = "output_throughput", statistic: str = "mean"
) -> list[Crossover]:
    """One for each setting (dataset, TP …) and arm. ``levels``: as in ``Confidence.levels``."""
    rows = levels[(levels["metric"] == metric) & (levels["statistic"] == statistic)]
    rows = rows.sort_values([*_BY, "concurrency"])
    known = rows.dropna(subset=["concurrency", "improvement"])
    curve = _curve(known, METRICS[metric].better == "lower")
    places = {key: np.asarray(at) for key, at in known.groupby(_BY).indices.items()}
    none = np.empty(0, dtype=np.intp)
    return [
        Crossover(
            setting, arm_id, metric, statistic,
            **_of_series(curve.at(places.get((setting, arm_id), none))),
        )
        for setting, arm_id in rows[_BY].drop_duplicates().astype(int).to_numpy().tolist()
    ]  # fmt: skip


@dataclass(frozen=True)
class _Curve:
    """A number per level: ``load`` (concurrency), ``gain`` (log ratio, positive is better), its
    ``error`` and what ``dof`` stand behind it; ``sure``: whether it has a run-to-run interval."""

    load: Floats
    gain: Floats
    error: Floats
    dof: Floats
    sure: NDArray[np.bool_]

    def at(self, places: NDArray[np.intp]) -> "_Curve":
        return _Curve(**{name: values[places] for name, values in vars(self).items()})


def _curve(rows: pd.DataFrame, lower: bool) -> _Curve:
    gain, low, high = (_gain(rows, name, lower) for name in ("improvement", "low", "high"))
    load, dof = (rows[name].to_numpy(dtype=np.float64) for name in ("concurrency", "dof"))
    sure = (rows["covers"] == "runs").to_numpy(dtype=bool)
    return _Curve(load, gain, (high - low) / 2 / stdtrit(dof, 0.975), dof, sure)


def _gain(rows: pd.DataFrame, column: str, lower: bool) -> Floats:
    """The log ratio, positive is better."""
    values = rows[column].to_numpy(dtype=np.float64)
    return np.asarray(-np.log1p(-values) if lower else np.log1p(values))


def _of_series(known: _Curve) -> dict[str, Any]:
    if not known.load.size:
        return {"kind": UNKNOWN, "at": None, "low": None, "high": None, "measured": (0.0, 0.0)}
    at = float(ends_at(known.load, known.gain[None, :])[0])
    low, high = _interval(known)
    kind = {0.0: ALWAYS, np.inf: NEVER}.get(at, ENDS)
    measured = (float(known.load[0]), float(known.load[-1]))
    return {"kind": kind, "at": at, "low": low, "high": high, "measured": measured}


def ends_at(load: Floats, gain: Floats) -> Floats:
    """The load above which no gain is left, for each row of ``gain`` (draws, levels).

    inf where the highest load still gains, 0 where no load does.
    """
    positive = gain > 0
    last = gain.shape[1] - 1 - np.argmax(positive[:, ::-1], axis=1)
    after = np.minimum(last + 1, gain.shape[1] - 1)
    row = np.arange(len(gain))
    before, behind = gain[row, last], gain[row, after]
    logs = np.log(load)
    drop = np.where(before > behind, before - behind, 1.0)
    found = np.exp(logs[last] + (logs[after] - logs[last]) * before / drop)
    found = np.where(positive[:, -1], np.inf, found)
    return np.where(positive.any(axis=1), found, 0.0)


def _interval(known: _Curve) -> tuple[float | None, float | None]:
    """2.5 % and 97.5 % of the draws; None where a level has no run-to-run interval."""
    if not known.sure.all():
        return None, None
    chance = np.random.default_rng(0)
    noise = chance.standard_t(known.dof, (DRAWS, len(known.load)))
    drawn = ends_at(known.load, known.gain + known.error * noise)
    low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
    return float(low), float(high)


def as_json(found: list[Crossover]) -> list[dict[str, Any]]:
    """Plain values; what lies beyond the measured range is None: kind and sentence say on which
    side."""
    return [
        {
            "metric": one.metric,
            "statistic": one.statistic,
            "kind": one.kind,
            "at": _measured(one.at),
            "low": _measured(one.low),
            "high": _measured(one.high),
            "measured": list(one.measured),
            "sentence": one.sentence,
        }
        for one in found
    ]


def _measured(load: float | None) -> float | None:
    return None if load is None or load == 0 or np.isinf(load) else load
