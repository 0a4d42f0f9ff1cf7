"""The textbook models over the acceptance rate, drawn."""

from collections.abc import Iterable

import pandas as pd

from answers.predict.textbook import END_TO_END, ONE_STREAM, Parameters
from dashboard.answers import Drawing, drawn
from dashboard.charts import forecast as charts_forecast

_RATES = tuple(step / 20 for step in range(21))


def textbook_drawing(given: Parameters) -> Drawing:
    """Both models over the acceptance rate."""
    rows = _speedups(given, _RATES)
    last = rows["rate"] == _RATES[-1]
    rows = rows.assign(end=rows["model"].where(last, ""))
    names = (
        "Textbook models, not measured: speedup",
        f"times as fast as without drafts, higher is better; K = {given.k}",
    )
    return drawn(charts_forecast.textbook(rows, _speedups(given, [given.rate]), names))


def _speedups(given: Parameters, rates: Iterable[float]) -> pd.DataFrame:
    found = [given.found(rate) for rate in rates]
    rows = [(END_TO_END, one.acceptance_rate, one.end_to_end_gain) for one in found]
    rows += [(ONE_STREAM, one.acceptance_rate, one.single_stream_speedup) for one in found]
    return pd.DataFrame(rows, columns=["model", "rate", "speedup"])
