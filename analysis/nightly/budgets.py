"""How much worse a metric may become before a gate stops: ``itl=3%``, ``ttft.p95=10%``, ``5%``."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from warehouse.catalogue import METRICS, STATISTICS
from warehouse.errors import UnknownKey

_BUDGET = re.compile(r"(?:(?P<key>[^=]+)=)?(?P<number>\d+(?:\.\d+)?)(?P<percent>%?)")


@dataclass(frozen=True)
class Budgets:
    """By how much a line may become worse, as ratios (0.03 is 3 %). ``of`` holds them by metric key or by
    ``key.statistic``; ``default`` holds for the other lines."""

    default: float = 0.05
    of: tuple[tuple[str, float], ...] = ()

    def allowed(self, metric: str, statistic: str) -> float:
        """Return the budget of one line; the most specific word wins."""
        known = dict(self.of)
        return known.get(f"{metric}.{statistic}", known.get(metric, self.default))


def budgets(texts: Iterable[str]) -> Budgets:
    """Read budgets as a person writes them; one without a metric is for all the others.

    Raises UnknownKey for a metric or statistic that the catalogue lacks, or for another form.
    """
    default, of = Budgets().default, []
    for text in texts:
        match = _BUDGET.fullmatch(text.replace(" ", ""))
        if match is None:
            raise UnknownKey(f"{text!r} is no budget; write itl=3%, ttft.p95=10% or 5%.")
        size = float(match["number"]) / (100 if match["percent"] else 1)
        if match["key"] is None:
            default = size
        else:
            of.append((_known(match["key"]), size))
    return Budgets(default, tuple(of))


def _known(key: str) -> str:
    metric, _, statistic = key.partition(".")
    directed = [name for name, known in METRICS.items() if known.better != "neither"]
    if metric not in directed:
        raise UnknownKey(
            f"{metric!r} is no metric with a budget; use one of {', '.join(directed)}."
        )
    if statistic and statistic not in STATISTICS:
        raise UnknownKey(f"{statistic!r} is no statistic; use one of {', '.join(STATISTICS)}.")
    return key
