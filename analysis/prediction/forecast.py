"""A prediction with what it is worth: beside the baseline, with residuals and withheld errors."""

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.prediction.leave_one_out import leave_one_out, summary
from analysis.prediction.whatif import Model, Prediction, Question, build
from analysis.significance.improvement import improvement
from warehouse.catalogue import METRICS

#: What is compared with the baseline at the same load and lengths.
COMPARED: tuple[str, ...] = ("output_throughput", "itl", "ttft", "request_latency")


@dataclass(frozen=True)
class Forecast:
    """``baseline``: the same question with K = 0, None where no baseline was measured.
    ``improvements``: by metric, positive is better. ``residual`` and ``worst_residual``: relative
    errors of the fit of a step's time on its own data. ``errors``: every withheld point
    (``leave_one_out``)."""

    prediction: Prediction
    baseline: Prediction | None
    improvements: dict[str, float | None]
    residual: float
    worst_residual: float
    errors: pd.DataFrame

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

    def as_json(self) -> dict[str, Any]:
        """Plain values; an error that could not be measured is None."""
        return {
            "prediction": _json(self.prediction),
            "baseline": None if self.baseline is None else _json(self.baseline),
            "improvements": self.improvements,
            "break_even_length": self.break_even_length,
            "fit": {"residual": self.residual, "worst_residual": self.worst_residual},
            "leave_one_out": [_plain(row) for row in records(summary(self.errors))],
            "withheld": [_plain(row) for row in records(self.errors)],
        }


def forecast(
    points: pd.DataFrame, positions: pd.DataFrame, dataset: str, question: Question
) -> Forecast:
    """Answer ``question`` on ``dataset``; ``points`` and ``positions`` as ``whatif.build`` takes
    them. Raises InvalidInput where there is no answer."""
    lengths = question.prompt_tokens is not None
    model = build(points, positions, dataset, lengths)
    return answered(model, leave_one_out(points, positions, dataset, lengths), question)


def answered(model: Model, errors: pd.DataFrame, question: Question) -> Forecast:
    """Answer ``question`` where the model and its ``errors`` (``leave_one_out``, slow to find) are
    known already. Raises InvalidInput where there is no answer."""
    found = model.predict(question)
    baseline = None
    if (model.points["k"] == 0).any():
        baseline = model.predict(replace(question, k=0, mean_length=None))
    return Forecast(
        found,
        baseline,
        {} if baseline is None else _improvements(baseline, found),
        model.step_time.residual,
        model.step_time.worst,
        errors,
    )


def _improvements(baseline: Prediction, found: Prediction) -> dict[str, float | None]:
    return {
        name: improvement(getattr(baseline, name), getattr(found, name), METRICS[name].better)
        for name in COMPARED
    }


def _json(found: Prediction) -> dict[str, Any]:
    values = {name: value for name, value in vars(found).items() if name != "question"}
    return vars(found.question) | values | {"warnings": list(found.warnings)}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if pd.isna(value) else value for name, value in row.items()}
