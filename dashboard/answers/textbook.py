"""What the What-if page says where nothing is measured: the textbook models, in words and drawn."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from analysis.prediction import forecast_tables
from analysis.prediction.textbook import both
from dashboard.answers import Drawing, drawn
from dashboard.charts import forecast as charts_forecast
from dashboard.components import Shown, shown

_MODELS = {"end_to_end_gain": "end to end", "single_stream_speedup": "one stream"}

_RATES = tuple(step / 20 for step in range(21))


@dataclass(frozen=True)
class Textbook:
    """Parameters of the models that need no measurement; ``rate`` and ``decode_share`` are 0-1."""

    rate: float
    k: int
    text: str
    decode_share: float
    draft_cost: float

    def at(self, rate: float) -> dict[str, float]:
        """Speedup by model."""
        found = both(rate, self.k, self.text, self.decode_share, self.draft_cost)
        return {name: float(getattr(found, key)) for key, name in _MODELS.items()}


def textbook_headline(given: Textbook) -> str:
    """What both models say."""
    told = [f"{speedup:.2f} times as fast {name}" for name, speedup in given.at(given.rate).items()]
    return f"At an acceptance rate of {given.rate:.0%} textbook models say: {', '.join(told)}."


def textbook_drawing(given: Textbook) -> Drawing:
    """Both models over the acceptance rate."""
    rows = _speedups(given, _RATES)
    last = rows["rate"] == _RATES[-1]
    rows = rows.assign(end=rows["model"].where(last, ""))
    names = (
        "Textbook models, not measured: speedup",
        f"times as fast as without drafts, higher is better; K = {given.k}",
    )
    return drawn(charts_forecast.textbook(rows, _speedups(given, [given.rate]), names))


def textbook_table(given: Textbook) -> Shown:
    """Both models with their parameters."""
    found = both(given.rate, given.k, given.text, given.decode_share, given.draft_cost)
    header, rows = forecast_tables.textbook(found)
    return shown(pd.DataFrame(rows, columns=header))


def _speedups(given: Textbook, rates: Iterable[float]) -> pd.DataFrame:
    rows = [
        {"model": model, "rate": rate, "speedup": speedup}
        for rate in rates
        for model, speedup in given.at(rate).items()
    ]
    return pd.DataFrame(rows)
