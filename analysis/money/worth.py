"""What speculation is worth: both arms of a matched comparison at their own operating points."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.money.break_even import BreakEven, break_even
from analysis.money.cost import Basis, Cost, cost, saving, usd_per_million
from analysis.money.demand import Demand, Fleet, fleet
from analysis.service.operating_point import Point, Rule, operating_points
from analysis.significance.comparison import Comparison
from analysis.significance.confidence import intervals

#: What every row says of its setting and arm.
TOLD = ("arm_label", "model", "dataset", "gpu", "gpu_count", "tensor_parallel_size", "evidence")
_BY = ["setting", "arm_id"]
_ARMS = ("baseline", "speculative")


@dataclass(frozen=True)
class Costed:
    """One arm at its operating point: what its tokens cost, and the fleet that a demand takes."""

    point: Point
    usd_per_million: float
    cost: Cost
    fleet: Fleet | None


@dataclass(frozen=True)
class Worth:
    """One speculative arm against its baseline. An arm is None where the rule picks no load.

    ``saving``: the share of the baseline's cost per output token (0-1, negative: dearer), with
    the interval and the verdict of the throughputs behind it (``analysis.significance.confidence``); no
    interval where the arms run at different loads, or with a single repeat.
    """

    setting: int
    arm_id: int
    about: Mapping[str, Any]
    basis: Basis
    baseline: Costed | None
    speculative: Costed | None
    saving: float | None
    saving_low: float | None
    saving_high: float | None
    verdict: str | None
    usd_saved_per_million: float | None
    usd_saved_per_year: float | None
    break_even: BreakEven | None

    def as_json(self) -> dict[str, Any]:
        """Plain values; money per million tokens, the basis in full."""
        return {
            **self.about,
            "basis": self.basis.as_json(),
            "baseline": _costed_json(self.baseline),
            "speculative": _costed_json(self.speculative),
            "saving": self.saving,
            "saving_low": self.saving_low,
            "saving_high": self.saving_high,
            "verdict": self.verdict,
            "usd_saved_per_million_output_tokens": self.usd_saved_per_million,
            "usd_saved_per_year": self.usd_saved_per_year,
            "break_even": None if self.break_even is None else self.break_even.as_json(),
        }


@dataclass(frozen=True)
class Terms:
    """What a cost is asked for: where each arm runs, how a setting is paid, what is demanded."""

    rule: Rule
    basis_of: Callable[[Mapping[str, Any]], Basis]
    demand: Demand | None = None
    whole_instances: bool = False
    investment_usd: float | None = None


def worth(found: Comparison, terms: Terms) -> list[Worth]:
    """A row per setting and arm. Only loads that both arms have are looked at, so that neither
    is costed at a load at which the other was never measured.

    Raises what ``terms.basis_of`` raises for a setting whose price is unknown.
    """
    return list(_rows(found, terms))


def _rows(found: Comparison, terms: Terms) -> Iterator[Worth]:
    pairs = found.pairs.dropna(subset=["concurrency"])
    levels = _intervals(pairs)
    told = dict(zip(found.keys.index, records(found.keys), strict=True))
    points = [operating_points(_side(pairs, arm), terms.rule) for arm in _ARMS]
    for key in sorted(pairs[_BY].drop_duplicates().itertuples(index=False, name=None)):
        keys = told[key]
        basis = terms.basis_of(keys)
        old, new = (_costed(of_arm.get(key), basis, terms) for of_arm in points)
        about = {name: _plain(keys.get(name)) for name in TOLD}
        sure = _sure(old, new, levels.get(key, {}))
        money = _difference(old, new, terms, basis)
        yield Worth(int(key[0]), int(key[1]), about, basis, old, new, money[0], *sure, *money[1:])


def _side(pairs: pd.DataFrame, arm: str) -> pd.DataFrame:
    """One arm of the pairs, as ``operating_points`` takes it."""
    columns = {f"{arm}_id": "cell_id", arm: "value"}
    values = pairs[[*_BY, "concurrency", "metric", "statistic", *columns]].rename(columns=columns)
    # A baseline that serves several repeats of the other arm is still one measurement.
    values = values.drop_duplicates([*_BY, "cell_id", "metric", "statistic"])
    return values.astype({"concurrency": "int64"})


def _intervals(pairs: pd.DataFrame) -> dict[Any, dict[int, dict[str, Any]]]:
    """(setting, arm) -> concurrency -> the interval of the output throughput there."""
    found: dict[Any, dict[int, dict[str, Any]]] = {}
    rows = pairs[(pairs["metric"] == "output_throughput") & (pairs["statistic"] == "mean")]
    for row in records(intervals(rows).levels):
        key = (row["setting"], row["arm_id"])
        found.setdefault(key, {})[int(row["concurrency"])] = row
    return found


def _sure(
    old: Costed | None, new: Costed | None, levels: Mapping[int, Mapping[str, Any]]
) -> tuple[float | None, float | None, str | None]:
    """The interval of a saving: 1 - old / new rises with the improvement new / old - 1."""
    if old is None or new is None or old.point.concurrency != new.point.concurrency:
        return None, None, None
    row = levels.get(new.point.concurrency)
    if row is None or isnan(row["low"]):
        return None, None, None if row is None else str(row["verdict"])
    low, high = (1 - 1 / (1 + row[name]) for name in ("low", "high"))
    return low, high, str(row["verdict"])


def _costed(point: Point | None, basis: Basis, terms: Terms) -> Costed | None:
    if point is None:
        return None
    needed = None
    if terms.demand is not None:
        needed = fleet(terms.demand, point.output, basis, terms.whole_instances)
    per_million = usd_per_million(point.output, basis)
    return Costed(point, per_million, cost(point.output, point.total, basis), needed)


def _difference(
    old: Costed | None, new: Costed | None, terms: Terms, basis: Basis
) -> tuple[float | None, float | None, float | None, BreakEven | None]:
    """Saving as a share, per million output tokens, per year, and when it has paid."""
    if old is None or new is None:
        return None, None, None, None
    saved = old.usd_per_million - new.usd_per_million
    # An hour of the one arm does what takes the other new / old hours.
    per_hour = basis.usd_per_hour_charged * (new.point.output / old.point.output - 1)
    yearly, paid = None, None
    if old.fleet is not None and new.fleet is not None:
        per_hour = old.fleet.usd_per_hour - new.fleet.usd_per_hour
        yearly = old.fleet.usd_per_year - new.fleet.usd_per_year
    if terms.investment_usd is not None:
        paid = break_even(terms.investment_usd, saved, per_hour)
    return saving(old.usd_per_million, new.usd_per_million), saved, yearly, paid


def _costed_json(arm: Costed | None) -> dict[str, Any] | None:
    if arm is None:
        return None
    return {
        "concurrency": arm.point.concurrency,
        "output_throughput": arm.point.output,
        "total_throughput": arm.point.total,
        **arm.cost.as_json(),
        "fleet": None if arm.fleet is None else arm.fleet.as_json(),
    }


def _plain(value: Any) -> Any:
    if value is None or pd.isna(value):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value
