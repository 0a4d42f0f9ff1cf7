"""What may be asked: the measured range, a little beyond it with a warning, far beyond it nothing."""

from dataclasses import dataclass

from analysis.prediction.rows import Floats, Points
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
# A mean over repeats of one length may miss it by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Question:
    """What is asked of a forecast. ``mean_length`` (tokens per step), ``prompt_tokens`` and
    ``output_tokens`` per request: None for what was measured on the dataset."""

    k: int
    concurrency: int
    mean_length: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None


@dataclass(frozen=True)
class Range:
    """The lowest and the highest that was measured, and how many different values."""

    low: float
    high: float
    values: int

    def holds(self, value: float) -> bool:
        """Return whether a value lies among what was measured."""
        return self.low * (1 - _ROUNDING) <= value <= self.high * (1 + _ROUNDING)

    def near(self, value: float) -> bool:
        """Return whether a value lies near enough to what was measured to be asked for."""
        return self.low * (1 - _ROUNDING) / FAR <= value <= self.high * (1 + _ROUNDING) * FAR

    def __str__(self) -> str:
        return f"{self.low:,.4g}" + (f" to {self.high:,.4g}" if self.low < self.high else "")


def range_of(values: Floats) -> Range:
    """Return the range of measured values, of which there is at least one."""
    return Range(float(values.min()), float(values.max()), len(set(values.tolist())))


@dataclass(frozen=True)
class Reach:
    """What was measured of one dataset; ``k`` without the baseline; ``loads`` and ``ks``: each of
    them, 0 for the baseline."""

    k: Range
    concurrency: Range
    prompt_tokens: Range
    output_tokens: Range
    loads: tuple[int, ...]
    ks: tuple[int, ...]

    def warnings(self, asked: Question) -> tuple[str, ...]:
        """Return a sentence for each value beyond what was measured; raises InvalidInput far
        beyond."""
        if asked.k == 0 and 0 not in self.ks:
            raise InvalidInput(
                "No baseline was measured, and speculative arms do not tell what one would do; "
                "measure it."
            )
        told = (self._warning(name, value) for name, value in self._given(asked).items())
        return tuple(sentence for sentence in told if sentence)

    def beyond(self, asked: Question) -> frozenset[str]:
        """Return the names of the question's fields that lie beyond what was measured."""
        given = self._given(asked).items()
        return frozenset(name for name, value in given if not getattr(self, name).holds(value))

    def _given(self, asked: Question) -> dict[str, float]:
        values = {name: getattr(asked, name) for name in _ASKED}
        if asked.k == 0:
            del values["k"]
        return {name: float(value) for name, value in values.items() if value is not None}

    def _warning(self, name: str, value: float) -> str | None:
        known: Range = getattr(self, name)
        told = f"{_ASKED[name]} of {value:,.4g} is {{}} what was measured ({known})"
        if not known.near(value):
            raise InvalidInput(f"{told.format('too far from')} to be predicted; measure it.")
        return None if known.holds(value) else f"{told.format('outside')}."


def reach_of(mine: Points, fitted: Points, knows_prompts: bool) -> Reach:
    """Return what may be asked of a dataset; prompts as far as all fitted datasets together
    tell."""
    return Reach(
        range_of(mine.k[mine.k > 0]),
        range_of(mine.concurrency),
        range_of((fitted if knows_prompts else mine).prompt_tokens),
        range_of(mine.output_tokens),
        tuple(sorted({int(load) for load in mine.concurrency})),
        tuple(sorted({int(k) for k in mine.k})),
    )
