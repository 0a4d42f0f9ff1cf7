"""What may be asked: the measured range, a little beyond it with a warning, far beyond it nothing."""

from dataclasses import dataclass
from typing import Any

from analysis.prediction.rows import Floats
from analysis.prediction.step_time import LENGTHS_APART
from warehouse.errors import InvalidInput

# --- Two models that need no measurement: they explain, they do not measure.
#
# Both are read off articles, not off a server; a prediction from them is labelled as such.


@dataclass(frozen=True)
class DecodeShare:
    """An end-to-end gain in which only decoding becomes faster (Amdahl's law).

    ``decode_share`` of the time is decoding; ``draft_cost`` is the cost of drafting one token
    relative to a step of the target; ``cap`` is the most that decoding is allowed to speed up.
    The defaults are the one set of parameters that meets the published simulation (1.22, 1.41,
    1.56 and 1.67 at acceptance 0.50, 0.70, 0.85 and 0.95) within 2.5 %: it prints neither K nor
    the decode share. Its caps are 3.0 (structured output), 2.5 (code), 2.0 (natural language).
    """

    decode_share: float = 0.6
    num_speculative_tokens: int = 4
    draft_cost: float = 0.1
    cap: float = 3.0

    def gain(self, acceptance: float) -> float:
        """Return throughput relative to no speculation, where each drafted token is accepted with
        chance ``acceptance`` (0-1): 1 / (1 - f + f / s), s = min(cap, L / (1 + K·c)), L = Σ_(i≤K)
        a^i.

        Raises InvalidInput outside 0-1.
        """
        shares = {"The acceptance rate": acceptance, "The decode share": self.decode_share}
        for what, share in shares.items():
            if not 0 <= share <= 1:
                raise InvalidInput(f"{what} is a share between 0 and 1, not {share:g}.")
        k = self.num_speculative_tokens
        length = sum(acceptance**i for i in range(k + 1))
        speedup = min(self.cap, length / (1 + k * self.draft_cost))
        return 1 / (1 - self.decode_share + self.decode_share / speedup)


#: Largest speedup of the decoding stage that the published simulation allows, by kind of text.
DECODE_CAPS: dict[str, float] = {"structured": 3.0, "code": 2.5, "natural_language": 2.0}


def single_stream_speedup(accepted_per_step: float, draft_cost: float) -> float:
    """Return the speedup (1 + μ) / ((1 + μ)·c + 1) for one stream at low load.

    ``accepted_per_step``: μ, accepted draft tokens per step without the bonus token, so L = 1 + μ.
    ``draft_cost``: c, cost of drafting a token / cost of a target step. The formula charges c for
    each token kept, not for each one drafted, so it flatters a draft that is often rejected. Raises
    InvalidInput for a value below 0.
    """
    for name, value in (
        ("Accepted tokens per step", accepted_per_step),
        ("Draft cost", draft_cost),
    ):
        if not value >= 0:
            raise InvalidInput(f"{name} must be 0 or more, not {value:g}.")
    return (1 + accepted_per_step) / ((1 + accepted_per_step) * draft_cost + 1)


@dataclass(frozen=True)
class Textbook:
    """What both models are told, and what they say of it. ``acceptance_rate`` and ``decode_share`` are 0-1;
    ``text``: a key of DECODE_CAPS; ``draft_cost``: of a drafted token over a step of the target."""

    acceptance_rate: float
    k: int
    text: str
    decode_share: float
    draft_cost: float

    @property
    def model(self) -> DecodeShare:
        return DecodeShare(self.decode_share, self.k, self.draft_cost, DECODE_CAPS[self.text])

    @property
    def end_to_end_gain(self) -> float:
        """What the first model says. Raises InvalidInput for a share outside 0-1."""
        return self.model.gain(self.acceptance_rate)

    @property
    def single_stream_speedup(self) -> float:
        """What the second model says; its μ is L - 1 of the first."""
        accepted = sum(self.acceptance_rate**i for i in range(1, self.k + 1))
        return single_stream_speedup(accepted, self.draft_cost)

    def as_json(self) -> dict[str, Any]:
        """Return what both say as a dict for JSON, marked as models without measurement."""
        return {
            "acceptance_rate": self.acceptance_rate, "end_to_end_gain": self.end_to_end_gain,
            "single_stream_speedup": self.single_stream_speedup, "model": vars(self.model),
            "evidence": "textbook model",
        }  # fmt: skip


# --- What may be asked: the measured range, a little beyond it with a warning, far beyond it nothing.


#: Beyond this many times the largest measured value, or below its inverse of the smallest, there is
#: no prediction. A prompt so many times as long is another context: its own limit.
FAR = 2.0
FAR_OF = {"prompt_tokens": LENGTHS_APART}
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
    """What is asked of a forecast. ``mean_length`` (tokens per step), or ``rate``: accepted / drafted tokens
    (0-1); ``prompt_tokens`` and ``output_tokens`` per request. None: as measured on the dataset."""

    k: int
    concurrency: int
    rate: float | None = None
    mean_length: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None

    @property
    def as_measured(self) -> bool:
        """Whether the question names only K and load, and leaves the rest as measured."""
        lengths = self.mean_length, self.prompt_tokens, self.output_tokens
        return all(stated is None for stated in (self.rate, *lengths))


@dataclass(frozen=True)
class Range:
    """The lowest and the highest that was measured, and how many different values."""

    low: float
    high: float
    values: int

    def holds(self, value: float) -> bool:
        """Return whether a value lies among what was measured."""
        return self.low * (1 - _ROUNDING) <= value <= self.high * (1 + _ROUNDING)

    def near(self, value: float, far: float = FAR) -> bool:
        """Return whether a value lies near enough to what was measured to be asked for."""
        return self.low * (1 - _ROUNDING) / far <= value <= self.high * (1 + _ROUNDING) * far

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

    def warnings(self, question: Question) -> tuple[str, ...]:
        """Return a sentence for each value beyond what was measured; raises InvalidInput far
        beyond."""
        if question.k == 0 and 0 not in self.ks:
            raise InvalidInput(
                "No baseline was measured, and speculative arms do not tell what one would do; "
                "measure it."
            )
        warnings = []
        for name, value in self._given(question).items():
            measured: Range = getattr(self, name)
            stated = f"{_ASKED[name]} of {value:,.4g} is {{}} what was measured ({measured})"
            if not measured.near(value, FAR_OF.get(name, FAR)):
                raise InvalidInput(f"{stated.format('too far from')} to be predicted; measure it.")
            if not measured.holds(value):
                warnings.append(f"{stated.format('outside')}.")
        return tuple(warnings)

    def beyond(self, question: Question) -> frozenset[str]:
        """Return the names of the question's fields that lie beyond what was measured."""
        given = self._given(question).items()
        return frozenset(name for name, value in given if not getattr(self, name).holds(value))

    def _given(self, question: Question) -> dict[str, float]:
        values = {name: getattr(question, name) for name in _ASKED if name != "k" or question.k}
        return {name: float(value) for name, value in values.items() if value is not None}
