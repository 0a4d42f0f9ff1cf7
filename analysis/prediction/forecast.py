"""A prediction beside that of the baseline at the same load and lengths."""

from dataclasses import dataclass, replace

from analysis.matching.comparison import improvement
from analysis.prediction.reach import Question
from analysis.prediction.whatif import Model, Prediction
from warehouse.catalogue import METRICS


@dataclass(frozen=True)
class Forecast:
    """A prediction with that of the baseline. ``baseline``: the same question with K = 0, None
    where no baseline was measured."""

    prediction: Prediction
    baseline: Prediction | None

    def improvement(self, metric: str) -> float | None:
        """Return how much better the prediction is in a metric (ratio, positive is better); None
        without a baseline."""
        if self.baseline is None:
            return None
        before, now = getattr(self.baseline, metric), getattr(self.prediction, metric)
        return improvement(before, now, METRICS[metric].better)

    @property
    def break_even_length(self) -> float | None:
        """The mean acceptance length at which this K would just match the baseline's throughput.

        Steps and first tokens take the time that they are predicted to take, whatever is accepted:
        T / L* = ITL₀ + (TTFT₀ - TTFT) / (O - 1), with ₀ for the baseline. None without a baseline,
        for K = 0, and where no length would do.
        """
        if self.baseline is None or self.prediction.question.k == 0:
            return None
        gaps = (self.prediction.request_latency * 1000 - self.prediction.ttft) / self.prediction.itl
        room = self.baseline.itl + (self.baseline.ttft - self.prediction.ttft) / max(gaps, 1.0)
        return self.prediction.step / room if room > 0 else None


def forecast(model: Model, question: Question) -> Forecast:
    """Answer ``question``. Raises InvalidInput where there is no answer."""
    found = model.predict(question)
    if 0 not in model.reach.ks:
        return Forecast(found, None)
    return Forecast(found, model.predict(replace(question, k=0, mean_length=None)))
