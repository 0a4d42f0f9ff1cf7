"""What the What-if page says of one question: what it may ask, words, tables and drawings."""

from dataclasses import dataclass
from math import ceil, floor

import pandas as pd

from analysis.prediction import forecast_tables
from analysis.prediction.forecast import COMPARED, Forecast
from analysis.prediction.whatif import FAR, Model, Question
from analysis.tables import metric_name, number, percent
from dashboard.components import Shown, shown
from warehouse.catalogue import METRICS

#: What is drawn: what a prediction says and a load point holds.
DRAWN: tuple[str, ...] = ("output_throughput", "itl", "ttft")


@dataclass(frozen=True)
class Reach:
    """What may be asked: the measured range and up to ``FAR`` times beyond it.

    ``prompt`` and ``output``: lowest, highest and measured mean, tokens per request; ``start``: K
    and load to begin with; ``prompts_count``: whether the data tell what a prompt token costs."""

    ks: tuple[int, ...]
    loads: tuple[int, ...]
    prompt: tuple[int, int, int]
    output: tuple[int, int, int]
    start: tuple[int, int]
    prompts_count: bool
    accepts: bool


def reach(model: Model) -> Reach:
    """What may be asked of a model."""
    points, ranges = model.points, model.ranges
    low, high = ranges["k"]
    ks = [
        *([0] if (points["k"] == 0).any() else []),
        *range(ceil(low / FAR), floor(high * FAR) + 1),
    ]
    measured = sorted(int(load) for load in points["concurrency"].unique())
    load = measured[len(measured) // 2]
    here = points[(points["concurrency"] == load) & (points["k"] > 0)]
    here = points[points["k"] > 0] if here.empty else here
    best = int(here.sort_values("output_throughput")["k"].iloc[-1])
    return Reach(
        tuple(k for k in ks if k >= 0), grid(model), _lengths(model, "prompt_tokens"),
        _lengths(model, "output_tokens"), (best, load), model.step_time.knows_prompts,
        model.decay is not None,
    )  # fmt: skip


def grid(model: Model) -> tuple[int, ...]:
    """The measured loads and the powers of two among and around them."""
    low, high = model.ranges["concurrency"]
    powers = {2**n for n in range(ceil(high * FAR).bit_length())}
    known = powers | {int(load) for load in model.points["concurrency"]} | {floor(high * FAR)}
    return tuple(sorted(load for load in known if low / FAR <= load <= high * FAR))


def _lengths(model: Model, name: str) -> tuple[int, int, int]:
    low, high = model.ranges[name]
    mean = round(float(model.points[name].mean()))
    lowest = max(ceil(low / FAR), 1)
    return lowest, max(floor(high * FAR), lowest + 1), max(mean, lowest)


@dataclass(frozen=True)
class Given:
    """What a reader set: ``rate`` (0-1), ``prompt`` and ``output`` (tokens), None: as measured."""

    k: int
    load: int
    rate: float | None = None
    prompt: float | None = None
    output: float | None = None

    @property
    def as_measured(self) -> bool:
        """Whether K and load alone were set."""
        return self.rate is None and self.prompt is None and self.output is None

    def question(self) -> Question:
        """The question; with a rate of its own, the mean length is 1 + K x rate."""
        length = None if self.rate is None or self.k == 0 else 1 + self.k * self.rate
        return Question(self.k, self.load, length, self.prompt, self.output)


def headline(found: Forecast) -> str:
    """The prediction and its gain in one sentence."""
    asked = found.prediction.question
    arm = f"K = {asked.k}" if asked.k else "no drafts"
    rate = number(found.prediction.output_throughput, 0)
    start = (
        f"Predicted for {arm} at concurrency {asked.concurrency}: {rate} output tokens per second"
    )
    gain = found.improvements.get("output_throughput")
    if asked.k == 0:
        return f"{start}."
    if gain is None:
        return f"{start}; no baseline was measured to compare with."
    word = "more" if gain >= 0 else "fewer"
    return f"{start}, {abs(gain) * 100:.1f} % {word} than without drafts."


def numbers(found: Forecast, model: Model, given: Given) -> Shown:
    """A row per predicted metric: what withheld points allow, what was measured, the gain."""
    rows = [_row(name, found, model, given) for name in COMPARED]
    length = found.prediction.mean_length
    rows.append(["Mean acceptance length (tokens/step), higher is better", number(length, 2),
                 "", "", "1.00", ""])  # fmt: skip
    if found.break_even_length is not None:
        rows.append(["… from which it pays", number(found.break_even_length, 2), "", "", "", ""])
    header = ["means", "predicted", "withheld points allow", "measured", "without drafts, predicted",
              "improvement"]  # fmt: skip
    return shown(pd.DataFrame([[text or "–" for text in row] for row in rows], columns=header))


def _row(name: str, found: Forecast, model: Model, given: Given) -> list[str]:
    metric, value = METRICS[name], getattr(found.prediction, name)
    band = factors(found.errors, name, outside(model, found.prediction.question))
    allowed = "unknown"
    if band is not None:
        low, high = (number(value * factor, metric.decimals) for factor in band)
        allowed = f"{low} to {high}"
    baseline = None if found.baseline is None else getattr(found.baseline, name)
    return [
        f"{metric_name(name, 'mean')}, {metric.better} is better",
        number(value, metric.decimals), allowed, _measured(name, model, given),
        number(baseline, metric.decimals), percent(found.improvements.get(name)),
    ]  # fmt: skip


def _measured(name: str, model: Model, given: Given) -> str:
    points = model.points
    here = points[(points["k"] == given.k) & (points["concurrency"] == given.load)]
    if name not in here:
        return "not compared"
    if here.empty or not given.as_measured:
        return "not measured"
    return number(float(here[name].iloc[0]), METRICS[name].decimals)


def outside(model: Model, question: Question) -> frozenset[str]:
    """What of a question lies beyond the measured range: k, concurrency, lengths."""
    names = {"k": "k", "concurrency": "concurrency", "prompt_tokens": "lengths",
             "output_tokens": "lengths"}  # fmt: skip
    asked = {name: getattr(question, name) for name in names}
    if question.k == 0:
        del asked["k"]
    return frozenset(
        names[name]
        for name, value in asked.items()
        if value is not None and not _within(value, model.ranges[name])
    )


def _within(value: float, measured: tuple[float, float]) -> bool:
    # A mean over repeats of one length may miss it by rounding.
    return measured[0] * (1 - 1e-9) <= value <= measured[1] * (1 + 1e-9)


def factors(
    errors: pd.DataFrame, metric: str, beyond: frozenset[str]
) -> tuple[float, float] | None:
    """Measured / predicted of the withheld points, lowest and highest, 1 among them.

    Within the measured range of those that the rest surrounds, where there are any. ``beyond``: as
    ``outside`` says; None where no point beyond the rest was withheld that way: an error among
    others says nothing of what lies beyond them.
    """
    rows = errors[errors["metric"] == metric]
    inside = rows["inside"].astype(bool)
    if not beyond <= set(rows.loc[~inside, "left_out"]):
        return None
    rows = rows[inside] if not beyond and inside.any() else rows
    if rows.empty:
        return None
    ratios = 1 / (1 + rows["error"].astype(float))
    return min(float(ratios.min()), 1.0), max(float(ratios.max()), 1.0)


def trust(found: Forecast) -> list[str]:
    """How far to trust it, without the warnings, which stand on top."""
    return [line for line in forecast_tables.trust(found) if not line.startswith("warning: ")]
