"""What if: throughput and latencies of a K, load, acceptance or length that was not measured.

Steps and first tokens are fitted (``analysis.prediction.step_time``), the tokens of a step come
from the acceptance by position and its decay and what a user sees follows from both
(``analysis.prediction.usual``). How wide its band is, every measured K and load tells that was predicted
from all the others. Outside the measured range a prediction says so; far outside there is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from analysis.matching.comparison import improvement
from analysis.prediction.reach import Question, Reach, range_of
from analysis.prediction.rows import Floats, Mask, Numbers, Points, Positions, Rows
from analysis.prediction.step_time import EDGE, FIRST_TOKEN_LENGTHS, PREFILL, Bands, Fit, fit_times
from analysis.prediction.usual import (
    PREDICTED,
    Asked,
    Times,
    Timing,
    Usual,
    around,
    asked_of,
    deviations,
    doubted,
    timing,
    widened,
    widths_of,
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
#: What a time of a request comes from, whatever is accepted: ``Points.pace``.
PACE = "pace"
#: Of a measurement's noise (variance) that is left where many of these launches are averaged: launches
#: differ. So much, and the bands of what pays hold what they should (tests/truth/break_even.py).
_LEFT = 0.25
_CANNOT = "Cannot say from which acceptance on it pays:"
#: So often the time of a step is told anew for the tokens that it must yield.
_REFINED = 8
#: So many K of one draft tell what its steps cost.
ARMS = 3
#: The errors that were found are averaged with so many imagined groups that just met their bands.
TRUSTED = 10.0


@dataclass(frozen=True, eq=False)
class Group:
    """All points of one K, or of one load, on all datasets."""

    left_out: LeftOut
    value: float
    chosen: Mask


def groups_of(points: Points) -> tuple[Group, ...]:
    """Return every K above 0 and every load, where there are several and without it a speculative
    point is left."""
    groups = []
    names: tuple[LeftOut, ...] = ("k", "concurrency")
    for name in names:
        values: Floats = getattr(points, name)
        levels = np.unique(values[values > 0])
        for value in levels if len(levels) > 1 else ():
            if ((points.k > 0) & (values != value)).any():
                groups.append(Group(name, float(value), values == value))
    return tuple(groups)


@dataclass(frozen=True, eq=False)
class Trial:
    """Withheld points of all datasets, one a row, with their predictions; ``group``: each one's
    place in ``groups``; ``near``: whether it could have been asked for; ``inside``: whether the
    rest of its dataset surrounds it; ``pace``: predicted, that of no metric."""

    groups: tuple[Group, ...]
    group: Numbers
    points: Points
    near: Mask
    inside: Mask
    predicted: Timing
    pace: Bands

    def widths(self) -> dict[str, float]:
        """Return by metric how many times as wide its band must be to suit the errors that were
        found, moderated (Smyth 2004, doi:10.2202/1544-6115.1027) and never below 1: that the noise
        was less at a few points is luck. None where nothing was withheld
        that could have been asked for."""
        if not self.near.any():
            return {}
        widths = {"mean_length": 1.0}  # Counted, not timed: it has no noise of its own.
        _, group = np.unique(self.group, return_inverse=True)
        for metric in [name for name in (*COMPARED, PACE) if name not in widths]:
            band: Bands = self.pace if metric == PACE else getattr(self.predicted, metric)
            squares = deviations(band, getattr(self.points, COMPARED.get(metric, PACE))) ** 2
            means = np.bincount(group, squares) / np.bincount(group)
            width = np.sqrt((TRUSTED + means.sum()) / (TRUSTED + len(means)))
            widths[metric] = max(float(width), 1.0)
        return widths


@dataclass(frozen=True, eq=False)
class Scale:
    """How long the times of a dataset are relative to a fit of all: ``factor`` and the deviation
    of its logarithm."""

    factor: Floats
    deviation: Floats

    def of(self, band: Bands) -> Bands:
        """Return the dataset's band from that of the fit."""
        return doubted(band.times(self.factor), EDGE * self.deviation)


def scale_of(missed: Floats, own: Floats, every: Floats, noise: float) -> Scale:
    """Return a dataset's scale. ``missed``: the sum of its errors (logarithm); ``own`` and
    ``every``: how many points it has, and all datasets.

    A step costs the same whatever the text, so 1 is expected, as one more measurement would say it
    (Kass and Wasserman 1995, doi:10.1080/01621459.1995.10476592).
    """
    doubt = 1 / own - 1 / every
    return Scale(np.exp(missed / own / (1 + doubt)), noise * np.sqrt(doubt / (1 + doubt)))


def trial(
    points: Points, positions: Positions, groups: tuple[Group, ...], fits: Sequence[Fit]
) -> Trial | None:
    """Predict what was withheld (None where nothing was), with the times of ``fits`` (as ``Times`` has them) and with what
    the remaining points of the same dataset say of acceptance, lengths, ramp, and how long its
    times are relative to the fits."""
    asked, withheld, near, inside = [], [], [], []
    for number, each in enumerate(groups):
        values: Floats = getattr(points, each.left_out)
        for dataset in dict.fromkeys(points.dataset[each.chosen].tolist()):
            here = points.dataset == dataset
            rest, at = here & ~each.chosen, np.flatnonzero(here & each.chosen)
            if not (points.k[rest] > 0).any():
                continue
            others = getattr(positions, each.left_out) != each.value
            counted = positions.where(others & (positions.dataset == dataset))
            usual = Usual(points.where(rest), counted)
            asked.append(asked_of(usual, points.k[at], points.concurrency[at]))
            reach = range_of(values[rest & (points.k > 0)])
            near += [reach.near(each.value)] * len(at)
            inside += [reach.low < each.value < reach.high] * len(at)
            withheld += [(number, row) for row in at]
    if not asked:
        return None
    columns = zip(*(vars(each).values() for each in asked), strict=True)
    every = Asked(*(np.concatenate(column) for column in columns))
    group, row = np.array(withheld).T
    names, dataset = np.unique(points.dataset.astype(str), return_inverse=True)
    left, at = np.nonzero([~each.chosen for each in groups])
    rest, place = points.where(at), left * len(names) + dataset[at]
    own, many = group * len(names) + dataset[row], np.bincount(left)[group]
    scaled = []
    for fit, times in zip(fits, (rest.step, rest.ttft, rest.pace), strict=True):
        missed = np.bincount(place, np.log(times / fit.without(rest, left).mean()))
        scale = scale_of(missed[own], np.bincount(place)[own], many, fit.residual)
        scaled.append(scale.of(fit.without(every, group).spread()))
    predicted = Times(*scaled)
    return Trial(
        groups, group, points.where(row), np.array(near), np.array(inside),
        timing(predicted, every, every), predicted.pace,
    )  # fmt: skip


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
        return self.predicted / self.measured - 1

    @property
    def held(self) -> bool:
        """Whether what was measured lies within the band."""
        return self.low <= self.measured <= self.high


def withheld(trial: Trial, dataset: str, widths: dict[str, float]) -> tuple[Withheld, ...]:
    """Return a row per metric and withheld point of one dataset; none for a point too far from the
    rest to be asked for. ``widths``: as ``Trial.widths`` says."""
    points, rows = trial.points, []
    askable = trial.near & (points.dataset == dataset)
    for metric, measure in COMPARED.items() if widths else ():
        band = widened(getattr(trial.predicted, metric), widths[metric])
        # A baseline yields one token a step by definition: it would flatter the average.
        counted = askable & ((points.k > 0) | (metric != "mean_length"))
        for row in np.flatnonzero(counted):
            rows.append(Withheld(
                trial.groups[trial.group[row]].left_out,
                int(points.k[row]), int(points.concurrency[row]), bool(trial.inside[row]), metric,
                float(getattr(points, measure)[row]),
                *(float(values[row]) for values in (band.middle, band.low, band.high)),
            ))  # fmt: skip
    return tuple(rows)


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
    """One system, family and dataset. ``usual``: what was measured of the dataset; ``pace`` and
    others: the fits of ``Times``; ``scales``: what its times are relative to the fits; ``widths``: by
    metric, how many times as wide its bands are as the fits say; ``withheld``: every point of the
    dataset that was predicted from others."""

    usual: Usual
    step_time: Fit
    first_token: Fit
    pace: Fit
    scales: tuple[Scale, ...]
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
        measured, asked = self._asked(questions)
        found = timing(self._times(measured), measured, asked)
        # The latency of a request is not compared; its errors are those of the throughput.
        usual = self.widths.get("output_throughput", 1.0)
        bands = {
            metric: widened(getattr(found, metric), self.widths.get(metric, usual))
            for metric in PREDICTED
        }
        predictions = []
        for at, question in enumerate(questions):
            middles = {name: float(band.middle[at]) for name, band in vars(found).items()}
            known = bands if self.why_no_band(question) is None else {}
            ends = {name: Band(float(b.low[at]), float(b.high[at])) for name, b in known.items()}
            predictions.append(Prediction(question, **middles, bands=ends, warnings=warnings[at]))
        return predictions

    def _times(self, rows: Rows, noise: float = 1.0) -> Times:
        fits = zip(self.scales, (self.step_time, self.first_token, self.pace), strict=True)
        return Times(*(scale.of(fit.at(rows, noise).spread()) for scale, fit in fits))

    def break_even(self, questions: Sequence[Question]) -> Bands:
        """Return the tokens of a step at which each question's K just matches the baseline's throughput, with
        what the times of both arms' requests leave open; NaN where no number would do.

        With R for the time of a request and ₀ for the baseline, L* = T·(O - 1) / (R₀ - TTFT): the
        first token waits however much is accepted. The doubt about R is all of it one about the
        share of R that L shortens. A step takes in more prompts the more it yields, so T is that of
        steps that yield L*. Raises InvalidInput where it cannot be said."""
        both = [*questions, *(replace(question, k=0) for question in questions)]
        for question in reversed(both):
            why = (*self.reach.warnings(question), self.why_no_band(question))[0]
            if why is not None:
                raise InvalidInput(f"{_CANNOT} {why}")
        if self.reach.k.values < ARMS:
            raise InvalidInput(
                f"{_CANNOT} {ARMS} draft lengths K of one draft tell what its steps cost, and "
                f"{self.reach.k.values} {'was' if self.reach.k.values == 1 else 'were'} measured; measure more "
                "of them, with acceptance set by hand (synthetic_acceptance_rates) or as it is."
            )
        stated = [replace(question, mean_length=1.0) for question in both]
        (rows, asked), many = self._asked(stated), len(questions)
        most = rows.k + 1
        for _ in range(_REFINED):
            times = self._times(rows, _LEFT)
            found = timing(times, rows, asked)
            drafted, plain = found.request_latency.middle.reshape(2, many)
            first = found.ttft.middle[:many] / 1000
            room = np.where(plain > first, plain - first, np.nan)
            length = (drafted - first) / room
            yields = np.append(length, np.ones(many))
            rows = replace(rows, length=np.where(np.isnan(yields), most, yields.clip(1, most)))
        (down, under), (up, over) = (
            each.reshape(2, many) * plain / room
            for each in widths_of(widened(times.pace, self.widths[PACE]))
        )
        return around(length, np.hypot(down, over), np.hypot(up, under))

    def why_no_band(self, question: Question) -> str | None:
        """Return why nothing is known of the error of such a prediction; None where something
        is."""
        reach = self.reach
        if not self.widths:
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

    def _asked(self, questions: Sequence[Question]) -> tuple[Asked, Asked]:
        """Return the questions with the outputs that were measured, and as asked. A step takes in more
        prompts the more it yields, so both have the acceptance that is asked for."""
        k = np.array([question.k for question in questions], dtype=np.float64)
        usual = asked_of(self.usual, k, np.array([float(q.concurrency) for q in questions]))
        lengths = [self._length(question) for question in questions]
        measured = replace(
            usual,
            prompt_tokens=_or_else([q.prompt_tokens for q in questions], usual.prompt_tokens),
            length=_or_else(lengths, usual.length),
            doubt=np.where([length is None for length in lengths], usual.doubt, 0.0),
        )
        outputs = _or_else([q.output_tokens for q in questions], usual.output_tokens)
        return measured, replace(measured, output_tokens=outputs)

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


@dataclass(frozen=True, eq=False)
class DraftedPoints:
    """One family and its baseline on all datasets, and what is fitted once for all of them, since a
    step costs the same whatever the text."""

    points: Points
    positions: Positions

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        return groups_of(self.points)

    @cached_property
    def fits(self) -> tuple[Fit, Fit, Fit]:
        """Those of ``Times``."""
        points, groups = self.points, self.groups
        masks = np.array([group.chosen for group in groups]).reshape(len(groups), len(points))
        # One text does not tell what taking in its prompts costs from what a load costs.
        prefill = PREFILL if len(set(points.dataset)) > 1 else ()
        return (
            fit_times(points, points.step, masks, usual=prefill),
            fit_times(points, points.ttft, masks, FIRST_TOKEN_LENGTHS),
            fit_times(points, points.pace, masks, usual=prefill),
        )

    @cached_property
    def tried(self) -> Trial | None:
        return trial(self.points, self.positions, self.groups, self.fits)

    def model(self, dataset: str) -> Model:
        """Return the model of one dataset: its acceptance, and the fits scaled to it. Raises
        InvalidInput where the dataset has no speculative point."""
        points, mine = self.points, self.points.of(dataset)
        if not len(mine):
            known = ", ".join(sorted({str(name) for name in points.dataset})) or "none"
            raise InvalidInput(f"Nothing was measured on {dataset!r}; there is {known}.")
        if not (mine.k > 0).any():
            raise InvalidInput(
                f"Only the baseline was measured on {dataset!r}; measure a speculative arm as well."
            )
        usual = Usual(mine, self.positions.where(self.positions.dataset == dataset))
        own, every = np.array([len(mine)]), np.array([len(points)])
        scales = tuple(
            scale_of(np.log(times / fit.at(mine).mean()).sum(), own, every, fit.residual)
            for fit, times in zip(self.fits, (mine.step, mine.ttft, mine.pace), strict=True)
        )
        # Prompts may be asked for as far as all datasets together tell.
        prompts = (points if self.fits[0].knows_prompts else mine).prompt_tokens
        reach = Reach(
            range_of(mine.k[mine.k > 0]), range_of(mine.concurrency), range_of(prompts),
            range_of(mine.output_tokens), tuple(sorted({int(load) for load in mine.concurrency})),
            tuple(sorted({int(k) for k in mine.k})),
        )  # fmt: skip
        widths = self.tried.widths() if self.tried else {}
        found = withheld(self.tried, dataset, widths) if self.tried else ()
        return Model(usual, *self.fits, scales, reach, widths, found)


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


def forecast(model: Model, question: Question) -> Forecast:
    """Answer ``question``. Raises InvalidInput where there is no answer."""
    found = model.predict(question)
    if 0 not in model.reach.ks:
        return Forecast(found, None)
    return Forecast(found, model.predict(replace(question, k=0, mean_length=None)))
