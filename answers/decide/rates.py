"""How many tokens a second an arm and its baseline make at each load, of a dataset or of a mix."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.matching.comparison import Comparison
from answers.decide.values import Rates
from warehouse.loads import Load

_OUTPUT, _TOTAL = "output_throughput", "total_throughput"
#: Setting, arm_id, place of the load.
_Key = tuple[int, int, int]
#: The baseline's value, the arm's.
_Both = tuple[float, float]


@dataclass(frozen=True)
class Source:
    """An arm in a setting, and its share of the output tokens (0-1)."""

    setting: int
    arm_id: int
    share: float


@dataclass(frozen=True)
class Speeds:
    """The mean throughputs over the launches, by metric and by setting, arm and load."""

    loads: dict[Load, int]
    means: dict[str, dict[_Key, _Both]]

    def of(self, sources: Sequence[Source], load: Load) -> Rates:
        """Return the tokens per second of an arm and its baseline at a load; over several sources,
        those of the mix.

        A token of the mix takes the mean of the datasets' times, so output rates are averaged as
        times, and total tokens as tokens for each output token.
        """
        place = self.loads[load]
        keys = [(one.setting, one.arm_id, place) for one in sources]
        shares = [one.share for one in sources]
        old, new = (self._side(keys, shares, side) for side in (0, 1))
        return Rates(*old, *new)

    def _side(
        self, keys: Sequence[_Key], shares: Sequence[float], side: int
    ) -> tuple[float | None, float | None]:
        """Return output and total tokens per second of the baseline (side 0) or the arm (1)."""
        outputs = self._values(_OUTPUT, keys, side)
        totals = self._values(_TOTAL, keys, side)
        if len(keys) == 1:
            return (outputs or (None,))[0], (totals or (None,))[0]
        if outputs is None:
            return None, None
        rate = 1 / sum(share / value for share, value in zip(shares, outputs, strict=True))
        if totals is None:
            return rate, None
        each = zip(shares, totals, outputs, strict=True)
        return rate, rate * sum(share * total / output for share, total, output in each)

    def _values(self, metric: str, keys: Sequence[_Key], side: int) -> list[float] | None:
        """Return a value for each key; None where one is missing or not above zero."""
        known = self.means.get(metric, {})
        values = [known[key][side] for key in keys if key in known]
        whole = len(values) == len(keys) > 0 and all(value > 0 for value in values)
        return values if whole else None


def together(parts: Sequence[tuple[float, Rates]]) -> Rates:
    """Return the tokens per second of traffic whose output tokens are made in these shares at
    several loads: times of a token add up. None where one part is not known."""
    return Rates(*(
        _over([(share, getattr(one, out), getattr(one, name)) for share, one in parts])
        for name, out in (
            ("baseline_output", "baseline_output"), ("baseline_total", "baseline_output"),
            ("output", "output"), ("total", "output"),
        )
    ))  # fmt: skip


def _over(parts: Sequence[tuple[float, float | None, float | None]]) -> float | None:
    """Return a rate over (share of output tokens, output tokens per second, the rate) of each part."""
    if any(not output or told is None for _, output, told in parts):
        return None
    seconds = sum(share / (output or 1.0) for share, output, _ in parts)
    made = sum(share * (told or 0.0) / (output or 1.0) for share, output, told in parts)
    return made / seconds


def speeds(found: Comparison) -> Speeds:
    """Return the throughputs of a comparison."""
    return Speeds(
        {load: place for place, load in enumerate(found.loads)},
        {metric: _means(found.levels, metric) for metric in (_OUTPUT, _TOTAL)},
    )


def _means(levels: pd.DataFrame, metric: str) -> dict[_Key, _Both]:
    rows = levels[(levels["metric"] == metric) & (levels["statistic"] == "mean")]
    columns = ("setting", "arm_id", "load", "baseline", "speculative")
    return {
        (setting, arm, load): (old, new)
        for setting, arm, load, old, new in zip(
            *(rows[name].tolist() for name in columns), strict=True
        )
    }
