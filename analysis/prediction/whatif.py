"""What if: throughput and latencies of a K, load, acceptance or length that was not measured.

    ITL = T(B, K) / L          latency = TTFT + (O - 1)·ITL          throughput = e·c·O / latency

T and TTFT are fitted (``analysis.prediction.step_time``), L comes from the acceptance by position and its
decay (``analysis.prediction.decay``), c sequences are asked for, B of them are in flight, O tokens each; e is
what ramp and drain left of Little's law where it was measured. Outside the measured range a
prediction says so; far outside there is none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from analysis.prediction.decay import Decay, from_lengths, from_positions
from analysis.prediction.step_time import Fit, fit_first_token, fit_step_time
from analysis.significance.improvement import geometric_mean
from warehouse.errors import InvalidInput

#: Beyond this many times the largest measured value, or below its inverse of the smallest, there is
#: no prediction.
FAR = 2.0
_ASKED = {
    "k": "K",
    "concurrency": "Concurrency",
    "prompt_tokens": "A prompt length in tokens",
    "output_tokens": "An output length in tokens",
}


@dataclass(frozen=True)
class Question:
    """``mean_length`` (tokens per step), ``prompt_tokens`` and ``output_tokens`` per request: None
    for what was measured on the dataset."""

    k: int
    concurrency: int
    mean_length: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None


@dataclass(frozen=True)
class Prediction:
    """``itl``, ``ttft`` (ms), ``request_latency`` (s), ``output_throughput`` (tok/s), and
    ``warnings``: a sentence for each way in which the question leaves what was measured."""

    question: Question
    mean_length: float
    step: float
    itl: float
    ttft: float
    request_latency: float
    output_throughput: float
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Model:
    """One system, family and dataset. ``points``: the measured rows of the dataset; ``scales``:
    what this dataset's steps and first tokens take relative to the fits."""

    points: pd.DataFrame
    step_time: Fit
    first_token: Fit
    decay: Decay | None
    scales: tuple[float, float]
    ranges: Mapping[str, tuple[float, float]]

    def predict(self, question: Question) -> Prediction:
        """Raises InvalidInput where the question is far outside what was measured."""
        warnings = self._outside(question)
        length = self._length(question)
        at = self._row(question, length)
        step = float(self.step_time.at(at)) * self.scales[0]
        first = float(self.first_token.at(at)) * self.scales[1]
        itl, tokens = step / length, at["output_tokens"]
        latency = (first + (tokens - 1) * itl) / 1000
        rate = self._kept(question.concurrency) * question.concurrency * tokens / latency
        return Prediction(question, length, step, itl, first, latency, rate, tuple(warnings))

    def _row(self, question: Question, length: float) -> dict[str, float]:
        chosen = {
            "batch": question.concurrency * self._share(question.concurrency),
            "k": question.k,
            "length": length,
        }
        for name, usual in self._usual.items():
            asked = getattr(question, name)
            chosen[name] = usual if asked is None else asked
        return chosen

    def _length(self, question: Question) -> float:
        if question.k == 0:
            return 1.0
        if question.mean_length is None:
            if self.decay is None:
                raise InvalidInput(
                    "No acceptance was measured for this arm; state one with "
                    "--mean-acceptance-length."
                )
            return self.decay.mean_length(question.k)
        if not 1 <= question.mean_length <= question.k + 1:
            raise InvalidInput(
                f"With K = {question.k} the mean acceptance length lies between 1 and "
                f"{question.k + 1}, not at {question.mean_length:g}."
            )
        return question.mean_length

    @cached_property
    def _usual(self) -> dict[str, float]:
        """The tokens of a request as they were measured."""
        names = ("prompt_tokens", "output_tokens")
        return {name: float(self.points[name].mean()) for name in names}

    @cached_property
    def _share(self) -> "Curve":
        """Sequences in flight of those asked for, at the measured levels and in between."""
        return self._at_level(self.points["batch"] / self.points["concurrency"])

    @cached_property
    def _kept(self) -> "Curve":
        """Throughput / (c·O / latency) at the measured levels, carried to the one asked for."""
        p = self.points
        latency = (p["ttft"] + (p["output_tokens"] - 1) * p["itl"]) / 1000
        ideal = p["concurrency"] * p["output_tokens"] / latency
        return self._at_level(p["output_throughput"] / ideal)

    def _at_level(self, values: "pd.Series") -> "Curve":
        means = values.groupby(self.points["concurrency"]).agg(lambda v: geometric_mean(v) or 1.0)
        return Curve(tuple(map(float, means.index)), tuple(means))

    def _outside(self, question: Question) -> list[str]:
        """A sentence for each value outside its range; raises InvalidInput far outside."""
        if question.k == 0 and not (self.points["k"] == 0).any():
            raise InvalidInput(
                "No baseline was measured, and speculative arms do not tell what one would do; "
                "measure it."
            )
        asked = {name: getattr(question, name) for name in _ASKED}
        if question.k == 0:
            del asked["k"]
        return [
            sentence
            for name, value in asked.items()
            if value is not None and (sentence := _outside(name, value, self.ranges[name]))
        ]


@dataclass(frozen=True)
class Curve:
    """Values at loads, in between on a logarithmic scale of the load, level outside."""

    loads: tuple[float, ...]
    values: tuple[float, ...]

    def __call__(self, load: float) -> float:
        return float(np.interp(np.log(load), np.log(self.loads), self.values))


def build(
    points: pd.DataFrame, positions: pd.DataFrame, dataset: str, lengths: bool = False
) -> Model:
    """The model of ``dataset``: its acceptance, and the times of its steps and first tokens.

    ``points`` as ``load_points.of_family`` gives them; ``positions``: dataset, position, accepted,
    reached (``acceptance_tables.position_counts``) of the same family. With ``lengths`` the times
    are fitted to all datasets, which together tell what a prompt token costs, and scaled to this
    one; without, to this one alone. Raises InvalidInput where the dataset has no speculative point.
    """
    rows = points.assign(batch=points["achieved_concurrency"])
    mine = rows[rows["dataset"] == dataset].reset_index(drop=True)
    if mine.empty:
        known = ", ".join(sorted(set(points["dataset"]))) or "none"
        raise InvalidInput(f"Nothing was measured on {dataset!r}; there is {known}.")
    if not (mine["k"] > 0).any():
        raise InvalidInput(
            f"Only the baseline was measured on {dataset!r}; measure a speculative arm as well."
        )
    fitted = rows if lengths else mine
    step_time, first_token = fit_step_time(fitted), fit_first_token(fitted)
    ranges = {name: _range(mine[name]) for name in _ASKED}
    ranges["k"] = _range(mine.loc[mine["k"] > 0, "k"])
    if step_time.knows_prompts:
        ranges["prompt_tokens"] = _range(rows["prompt_tokens"])
    return Model(
        mine,
        step_time,
        first_token,
        measured_decay(mine, positions[positions["dataset"] == dataset]),
        (_scale(mine, "step", step_time), _scale(mine, "ttft", first_token)),
        ranges,
    )


def measured_decay(points: pd.DataFrame, positions: pd.DataFrame) -> Decay | None:
    """From acceptance by position, pooled over arms and loads; without it from mean lengths by K;
    None where nothing was drafted."""
    counts = positions.groupby("position")[["accepted", "reached"]].sum()
    if counts["accepted"].sum() > 0:
        return from_positions((counts["accepted"] / counts["reached"]).cumprod().tolist())
    drafted = points[(points["k"] > 0) & (points["length"] > 1)]
    lengths = drafted.groupby("k")["length"].mean()
    return from_lengths({int(str(k)): v for k, v in lengths.items()}) if len(lengths) else None


def _range(values: "pd.Series") -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _outside(name: str, value: float, measured: tuple[float, float]) -> str | None:
    # A mean over repeats of one length may miss it by rounding.
    low, high = measured[0] * (1 - 1e-9), measured[1] * (1 + 1e-9)
    known = f"{low:,.4g}" + (f" to {high:,.4g}" if measured[0] < measured[1] else "")
    told = f"{_ASKED[name]} of {value:,.4g} is {{}} what was measured ({known})"
    if not low / FAR <= value <= high * FAR:
        raise InvalidInput(f"{told.format('too far from')} to be predicted; measure it.")
    return None if low <= value <= high else f"{told.format('outside')}."


def _scale(mine: pd.DataFrame, target: str, fit: Fit) -> float:
    fitted = fit.at(mine)
    return geometric_mean((mine[target] / fitted)[fitted > 0]) or 1.0
