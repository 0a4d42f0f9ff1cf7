"""What if: throughput and latencies of a K, load, acceptance or length that was not measured.

Steps and first tokens are fitted (``analysis.prediction.step_time``), the tokens of a step come
from the acceptance by position and its decay and what a user sees follows from both
(``analysis.prediction.usual``). How wide its band is, every measured K and load tells that was predicted
from all the others. Outside the measured range a prediction says so; far outside there is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from analysis.matching.comparison import improvement
from analysis.prediction.reach import Question, Reach, range_of
from analysis.prediction.rows import Floats, Mask, Numbers, Points, Positions, Rows
from analysis.prediction.step_time import FIRST_TOKEN_LENGTHS, Bands, Fit, fit_times
from analysis.prediction.usual import (
    PREDICTED,
    Asked,
    Timing,
    Usual,
    asked_of,
    deviations,
    timing,
    widened,
)
from warehouse.catalogue import METRICS
from warehouse.errors import InvalidInput

# --- Every measured K and load, predicted from all the others: what the bands of a forecast rest on.
#
# All points of one K are withheld together, and all of one load: what a question asks for has no
# neighbour of its own kind either.


LeftOut = Literal["k", "concurrency"]
#: What is compared of each point: the prediction's name and the point's.
COMPARED: dict[str, str] = {
    "mean_length": "length", "itl": "itl", "ttft": "ttft", "output_throughput": "output_throughput",
}  # fmt: skip
#: The errors that were found are averaged with so many imagined groups that just met their bands.
TRUSTED = 10.0


@dataclass(frozen=True, eq=False)
class Group:
    """All points of one K, or of one load: ``chosen`` of one dataset, ``fitted`` of all that are
    fitted together."""

    left_out: LeftOut
    value: float
    chosen: Mask
    fitted: Mask


def groups_of(mine: Points, fitted: Points) -> tuple[Group, ...]:
    """Return every K above 0 and every load of a dataset, where there are several and without it a
    speculative point is left."""
    groups = []
    names: tuple[LeftOut, ...] = ("k", "concurrency")
    for name in names:
        values: Floats = getattr(mine, name)
        levels = np.unique(values[values > 0])
        for value in levels if len(levels) > 1 else ():
            if ((mine.k > 0) & (values != value)).any():
                same = getattr(fitted, name) == value
                groups.append(Group(name, float(value), values == value, same))
    return tuple(groups)


@dataclass(frozen=True, eq=False)
class Trial:
    """Withheld points, one a row, with their predictions; ``group``: each one's place in
    ``groups``."""

    groups: tuple[Group, ...]
    group: Numbers
    points: Points
    predicted: Timing

    def widths(self) -> dict[str, float]:
        """Return by metric how many times as wide its band must be to suit the errors that were
        found, moderated (Smyth 2004, doi:10.2202/1544-6115.1027)."""
        widths = {"mean_length": 1.0}  # Counted, not timed: it has no noise of its own.
        for metric in [name for name in COMPARED if name not in widths]:
            band: Bands = getattr(self.predicted, metric)
            squares = deviations(band, getattr(self.points, COMPARED[metric])) ** 2
            means = np.bincount(self.group, squares) / np.bincount(self.group)
            widths[metric] = float(np.sqrt((TRUSTED + means.sum()) / (TRUSTED + len(means))))
        return widths


def trial(usual: Usual, groups: tuple[Group, ...], fits: tuple[Fit, Fit], alone: bool) -> Trial:
    """Predict what was withheld, with the times of a step and of a first token (``fits``) and with
    what the remaining points say of acceptance, lengths and ramp. ``alone``: the fits saw this
    dataset and no other."""
    mine, counted = usual.points, usual.positions
    asked = []
    for each in groups:
        others = getattr(counted, each.left_out) != each.value
        rest = Usual(mine.where(~each.chosen), counted.where(others))
        asked.append(asked_of(rest, mine.k[each.chosen], mine.concurrency[each.chosen]))
    columns = zip(*(vars(each).values() for each in asked), strict=True)
    every = Asked(*(np.concatenate(column) for column in columns))
    group, row = np.nonzero([each.chosen for each in groups])
    step, first = (fit.without(every, group).spread() for fit in fits)
    if not alone:
        # How long steps and first tokens of the rest take relative to the fits, which saw others.
        left, at = np.nonzero([~each.chosen for each in groups])
        rest_of = mine.where(at)
        scales = []
        for fit, times in zip(fits, (rest_of.step, rest_of.ttft), strict=True):
            missed = np.log(times / fit.without(rest_of, left).mean())
            scales.append(np.exp(np.bincount(left, missed) / np.bincount(left)))
        step, first = step.times(scales[0][group]), first.times(scales[1][group])
    return Trial(groups, group, mine.where(row), timing(step, first, every))


# --- The withheld points that a user could have asked for, with the bands that he would have got.


@dataclass(frozen=True)
class Withheld:
    """One point and metric. ``left_out``: whether all of its K or all of its load were withheld;
    ``inside``: whether the rest surrounds it (else the model had to extrapolate); ``low`` and
    ``high``: the band of the prediction."""

    left_out: LeftOut
    k: int
    concurrency: int
    inside: bool
    metric: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """The relative error: predicted / measured - 1."""
        return self.predicted / self.measured - 1

    @property
    def held(self) -> bool:
        """Whether what was measured lies within the band."""
        return self.low <= self.measured <= self.high


def withheld(trial: Trial, mine: Points, widths: dict[str, float]) -> tuple[Withheld, ...]:
    """Return a row per withheld point and metric; none for a point too far from the rest to be
    asked for.

    ``mine``: the dataset's points; ``widths``: as ``Trial.widths`` says.
    """
    near, inside = [], []
    for group in trial.groups:
        rest = range_of(getattr(mine, group.left_out)[~group.chosen & (mine.k > 0)])
        near.append(rest.near(group.value))
        inside.append(rest.low < group.value < rest.high)
    askable, surrounded = np.array(near)[trial.group], np.array(inside)[trial.group]
    points, rows = trial.points, []
    for metric, measure in COMPARED.items():
        factors = widening(widths[metric], ~surrounded)
        band = widened(getattr(trial.predicted, metric), factors)
        # A baseline yields one token a step by definition: it would flatter the average.
        counted = askable & ((points.k > 0) | (metric != "mean_length"))
        for row in np.flatnonzero(counted):
            rows.append(Withheld(
                trial.groups[trial.group[row]].left_out,
                int(points.k[row]), int(points.concurrency[row]), bool(surrounded[row]), metric,
                float(getattr(points, measure)[row]),
                *(float(values[row]) for values in (band.middle, band.low, band.high)),
            ))  # fmt: skip
    return tuple(rows)


def widening(width: float, beyond: Mask) -> Floats:
    """Return how many times as wide each band is made; beyond the measured range never narrower."""
    return np.where(beyond, max(width, 1.0), width)


# --- The model of one family on one dataset, and what it predicts.


@dataclass(frozen=True)
class Band:
    """Between ``low`` and ``high`` lie as many measurements as ``step_time.LEVEL`` says."""

    low: float
    high: float


@dataclass(frozen=True)
class Prediction:
    """What a question's K and load are predicted to give. ``itl``, ``ttft`` (ms),
    ``request_latency`` (s), ``output_throughput`` (tok/s), ``bands`` by metric (empty where nothing
    is known of the error), and ``warnings``: a sentence for each way in which the question leaves
    what was measured."""

    question: Question
    mean_length: float
    step: float
    itl: float
    ttft: float
    request_latency: float
    output_throughput: float
    bands: dict[str, Band]
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True, eq=False)
class Model:
    """One system, family and dataset. ``usual``: what was measured of the dataset; ``scales``: what
    its steps and first tokens take relative to the fits; ``widths``: by metric, how wide its bands
    are relative to what the fits say; ``withheld``: every point that was predicted from others."""

    usual: Usual
    step_time: Fit
    first_token: Fit
    scales: tuple[float, float]
    reach: Reach
    widths: dict[str, float]
    withheld: tuple[Withheld, ...]

    def predict(self, question: Question) -> Prediction:
        """Predict the answer to a question. Raises InvalidInput where it is far outside what was
        measured."""
        return self.predict_all([question])[0]

    def predict_all(self, questions: Sequence[Question]) -> list[Prediction]:
        """Predict the answers to many questions at once. Raises InvalidInput where one is far
        outside what was measured."""
        warnings = [self.reach.warnings(question) for question in questions]
        if not questions:
            return []
        asked = self._asked(questions)
        beyond = np.array([bool(self.reach.beyond(question)) for question in questions])
        found = timing(
            self.step_time.at(asked).spread().times(self.scales[0]),
            self.first_token.at(asked).spread().times(self.scales[1]),
            asked,
        )
        # The latency of a request is not compared; its errors are those of the throughput.
        usual = self.widths.get("output_throughput", 1.0)
        bands = {
            metric: widened(
                getattr(found, metric), widening(self.widths.get(metric, usual), beyond)
            )
            for metric in PREDICTED
        }
        predictions = []
        for at, question in enumerate(questions):
            middles = {name: float(band.middle[at]) for name, band in vars(found).items()}
            known = bands if self.why_no_band(question) is None else {}
            ends = {name: Band(float(b.low[at]), float(b.high[at])) for name, b in known.items()}
            predictions.append(Prediction(question, **middles, bands=ends, warnings=warnings[at]))
        return predictions

    def why_no_band(self, question: Question) -> str | None:
        """Return why nothing is known of the error of such a prediction; None where something
        is."""
        reach = self.reach
        if not self.withheld:
            return (
                "No band: too few K and loads were measured near one another to see how wrong a "
                "forecast is."
            )
        if reach.beyond(question) & {"prompt_tokens", "output_tokens"}:
            return "No band: no request was that short or that long, so the error is unknown."
        if question.k > 0 and question.k not in reach.ks and reach.k.values < 2:
            return (
                "No band: one K was measured, so how wrong a forecast of another is stays unknown."
            )
        if question.concurrency not in reach.loads and reach.concurrency.values < 2:
            return (
                "No band: one load was measured, so how wrong a forecast of another is stays "
                "unknown."
            )
        return None

    def _asked(self, questions: Sequence[Question]) -> Asked:
        k = np.array([question.k for question in questions], dtype=np.float64)
        usual = asked_of(self.usual, k, np.array([float(q.concurrency) for q in questions]))
        lengths = [self._length(question) for question in questions]
        return replace(
            usual,
            prompt_tokens=_or_else([q.prompt_tokens for q in questions], usual.prompt_tokens),
            output_tokens=_or_else([q.output_tokens for q in questions], usual.output_tokens),
            length=_or_else(lengths, usual.length),
            doubt=np.where([length is None for length in lengths], usual.doubt, 0.0),
        )

    def _length(self, question: Question) -> float | None:
        """Return the tokens of a step that the question states; None where it leaves them to the
        model."""
        length = question.mean_length
        if question.k == 0:
            return None
        if length is None and self.usual.decay is None:
            raise InvalidInput(
                "No acceptance was measured for this arm; state one with --mean-acceptance-length."
            )
        if length is not None and not 1 <= length <= question.k + 1:
            raise InvalidInput(
                f"With K = {question.k} the mean acceptance length lies between 1 and "
                f"{question.k + 1}, not at {length:g}."
            )
        return length


def _or_else(values: Sequence[float | None], usual: Floats) -> Floats:
    given = zip(values, usual, strict=True)
    return np.array([other if value is None else value for value, other in given])


def build(points: Points, positions: Positions, dataset: str, lengths: bool = False) -> Model:
    """Build the model of ``dataset``: its acceptance, and the times of its steps and first tokens.

    ``points`` and ``positions`` are of one family and its baseline. With ``lengths`` the times are
    fitted to all datasets, which together tell what a prompt token costs, and scaled to this one;
    without, to this one alone. Raises InvalidInput where the dataset has no speculative point.
    """
    mine = points.of(dataset)
    if not len(mine):
        known = ", ".join(sorted({str(name) for name in points.dataset})) or "none"
        raise InvalidInput(f"Nothing was measured on {dataset!r}; there is {known}.")
    if not (mine.k > 0).any():
        raise InvalidInput(
            f"Only the baseline was measured on {dataset!r}; measure a speculative arm as well."
        )
    usual = Usual(mine, positions.where(positions.dataset == dataset))
    fitted = points if lengths else mine
    groups = groups_of(mine, fitted)
    masks = np.array([group.fitted for group in groups]).reshape(len(groups), len(fitted))
    step = fit_times(fitted, fitted.step, masks)
    first = fit_times(fitted, fitted.ttft, masks, FIRST_TOKEN_LENGTHS)
    scales = (_scale(step, mine, mine.step), _scale(first, mine, mine.ttft))
    # Prompts may be asked for as far as all fitted datasets together tell.
    prompts = (fitted if step.knows_prompts else mine).prompt_tokens
    reach = Reach(
        range_of(mine.k[mine.k > 0]), range_of(mine.concurrency), range_of(prompts),
        range_of(mine.output_tokens), tuple(sorted({int(load) for load in mine.concurrency})),
        tuple(sorted({int(k) for k in mine.k})),
    )  # fmt: skip
    if not groups:
        return Model(usual, step, first, scales, reach, {}, ())
    tried = trial(usual, groups, (step, first), alone=not lengths)
    widths = tried.widths()
    return Model(usual, step, first, scales, reach, widths, withheld(tried, mine, widths))


def _scale(fit: Fit, rows: Rows, times: Floats) -> float:
    return float(np.exp(np.mean(np.log(times / fit.at(rows).mean()))))


# --- A prediction beside that of the baseline at the same load and lengths.


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
