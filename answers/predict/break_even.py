"""From which acceptance on a draft pays: the tokens of a step at which it just matches the baseline.

The times of its steps tell it, whatever was accepted in them, so arms whose acceptance was set by hand do as
well as others. What real drafts yield is held against it; acceptance that was set is never a draft's own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from statistics import fmean
from typing import Any, Literal

from analysis.matching.arms import BY_HAND
from analysis.prediction.reach import Question
from analysis.prediction.step_time import LEVEL
from answers.predict.acceptance import DraftAcceptance, accepted
from answers.predict.answer import draft_of, fitted, subjects
from answers.predict.values import (
    BAND,
    FittedPlace,
    ForecastPlace,
    RefusedForecast,
    forecasts_json,
    place_json,
)
from answers.wording import TextRows, between, known, listed
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.store import Reader

Verdict = Literal["pays", "does not pay", "cannot say"]
_WORDS: dict[Verdict, str] = {
    "pays": "it pays", "does not pay": "it does not", "cannot say": "whether it pays cannot be said",
}  # fmt: skip
#: Evidence of acceptance that is no draft's.
_UNREAL = ("mock", "dummy_weights")
_number = "{:.2f}".format


@dataclass(frozen=True)
class PaysFrom:
    """The tokens of a step from which K pays at a load, with their band; None: no number would do."""

    k: int
    concurrency: int
    length: float | None
    low: float | None
    high: float | None

    def of(self, length: float) -> Verdict:
        """Return whether a draft that yields so many tokens pays."""
        if self.high is None or self.low is None or length < self.low:
            return "does not pay"
        return "pays" if length > self.high else "cannot say"


@dataclass(frozen=True)
class BreakEven:
    """From which acceptance on a draft pays on one dataset, by K and load. ``ks``: of the arms that
    it stands on; ``launches``: the fewest of one arm; ``real``: acceptance of real drafts of this method and
    model, wherever measured."""

    place: ForecastPlace
    ks: tuple[int, ...]
    launches: int
    steps: tuple[PaysFrom, ...]
    real: tuple[DraftAcceptance, ...]

    @property
    def stands_on(self) -> str:
        """Say which arms tell what a step costs."""
        how = BY_HAND if self.place.synthetic_acceptance else "measured acceptance"
        ks = listed([str(k) for k in self.ks], len(self.ks))
        once = "" if self.launches > 1 else (
            " Not all were launched more than once, and launches may differ by more than the band holds: repeat them."
        )  # fmt: skip
        return (
            f"It stands on the baseline and arms with {how}, K = {ks}, and on requests as measured; in "
            f"brackets the {BAND}.{once}"
        )

    def drafts(self, k: int) -> list[DraftAcceptance]:
        """Return the acceptance of real drafts with that K on this dataset, or where none was measured
        on it, on others, whose requests may pay from elsewhere."""
        every = [one for one in self.real if one.k == k]
        return [one for one in every if one.dataset == self.place.dataset] or every

    def yields(self, step: PaysFrom) -> dict[str, float]:
        """Return the tokens of a step of these drafts by where they were measured, and by draft where
        there are several: at that load, else over all loads."""
        found: dict[str, list[DraftAcceptance]] = {}
        several = len({one.family for one in self.real}) > 1
        for one in self.drafts(step.k):
            gpu = None if one.fact("gpu") == self.place.gpu else known(one.fact("gpu"))
            draft = draft_of(one.family) if several else None
            beside = ", ".join(text for text in (gpu, draft) if text is not None)
            where = f"{known(one.dataset)}{f' ({beside})' if beside else ''}"
            found.setdefault(where, []).append(one)
        return {
            where: fmean(
                one.length or 1.0
                for one in [x for x in each if x.concurrency == step.concurrency] or each
            )
            for where, each in found.items()
        }

    def sentence(self, step: PaysFrom) -> str:
        """Say from when on a draft pays with that K at that load, and whether real ones do."""
        at, draft = f"At {step.concurrency} at once", f"draft of this size pays with K = {step.k}"
        if step.length is None or step.low is None:
            return (
                f"{at} no {draft}: its first token alone takes as long as a request without drafts."
            )
        needed = f"{_number(step.length)} tokens a step ({between(step.low, step.high, _number)})"
        most = f"K = {step.k} yields {step.k + 1} at most"
        if step.low > step.k + 1:
            return f"{at} no {draft}: it would take {needed}, and {most}."
        told: dict[Verdict, list[str]] = {}
        for where, length in self.yields(step).items():
            told.setdefault(step.of(length), []).append(f"{_number(length)} on {where}")
        said = [f"{listed(names)}: {_WORDS[verdict]}" for verdict, names in told.items()]
        yours = (
            f"yours yields {'; '.join(said)}" if said else "no real draft with that K was measured"
        )
        if step.length > step.k + 1:
            return f"{at} hardly any {draft}: it takes {needed}, and {most}; {yours}."
        return f"{at} a draft of this size pays from {needed} with K = {step.k}; {yours}."


def break_evens(
    reader: Reader, filters: Filters, k: int | None = None, load: int | None = None
) -> Iterator[BreakEven | RefusedForecast]:
    """Yield from which acceptance on each draft pays on each dataset that the filters keep, or why
    that cannot be said; of every K and load that was measured unless one is asked for."""
    acceptance = real_drafts(reader)
    for subject in subjects(reader, filters):
        try:
            found = fitted(subject)
            yield break_even(
                found, acceptance, k, found.model.reach.loads if load is None else (load,)
            )
        except InvalidInput as error:
            yield RefusedForecast(subject.place, str(error))


def real_drafts(reader: Reader) -> tuple[DraftAcceptance, ...]:
    """Return what real drafts were measured to yield, wherever: nothing that was set by hand."""
    return tuple(
        one for one in accepted(reader, Filters(), own=True)
        if BY_HAND not in one.family and one.fact("evidence") not in _UNREAL and one.length is not None
    )  # fmt: skip


def break_even(
    found: FittedPlace, acceptance: Sequence[DraftAcceptance], k: int | None, loads: Sequence[int]
) -> BreakEven:
    """Return from which acceptance on a fitted draft pays at these loads, of every K that was measured
    unless one is asked for. ``acceptance``: of ``real_drafts``. Raises InvalidInput where that cannot be
    said."""
    place = found.place
    drafted = tuple(each for each in found.model.reach.ks if each)
    asked = [Question(each, at) for each in (drafted if k is None else (k,)) for at in loads]
    bands = found.model.break_even(asked)
    steps = tuple(
        PaysFrom(one.k, one.concurrency, *(None if isnan(end) else float(end) for end in ends))
        for one, *ends in zip(asked, bands.middle, bands.low, bands.high, strict=True)
    )
    method = place.family.partition(" (")[0]
    real = tuple(
        one for one in acceptance
        if (one.family.partition(" (")[0], one.fact("model")) == (method, place.model)
    )  # fmt: skip
    return BreakEven(place, drafted, min(point.repeats for point in found.points), steps, real)


# --- As rows of text and as JSON.


def table(found: BreakEven) -> TextRows:
    """Return a row per K and load: from how many tokens a step it pays, and what real drafts yield."""
    return ["K", "at once", "pays from, tokens a step", BAND, "yours"], [
        [
            str(step.k), str(step.concurrency),
            "never" if step.length is None else _number(step.length),
            between(step.low, step.high, _number) or "–",
            ", ".join(
                f"{_number(length)} on {where}: {step.of(length)}"
                for where, length in found.yields(step).items()
            ) or "not measured",
        ]
        for step in found.steps
    ]  # fmt: skip


def break_evens_json(answers: Sequence[BreakEven | RefusedForecast]) -> dict[str, Any]:
    """Return ``break_even``, and ``refused`` with the reason of each, as a dict for JSON."""
    return {
        "break_even": [
            {
                **place_json(one.place), "stands_on": list(one.ks), "launches": one.launches, "level": LEVEL,
                "pays_from": [
                    asdict(step) | {
                        "headline": one.sentence(step),
                        "measured": [
                            {"where": where, "length": length, "says": step.of(length)}
                            for where, length in one.yields(step).items()
                        ],
                    }
                    for step in one.steps
                ],
            }
            for one in answers if isinstance(one, BreakEven)
        ],
        "refused": forecasts_json([x for x in answers if isinstance(x, RefusedForecast)])["refused"],
    }  # fmt: skip
