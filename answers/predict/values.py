"""A forecast as values and as JSON, and two textbook models beside it. None is unknown."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis.money.cost import Basis
from analysis.money.paying import Refusal
from analysis.prediction.reach import Question, Textbook
from analysis.prediction.step_time import LEVEL, Fit, LawShare
from analysis.prediction.whatif import COMPARED, LeftOut, Model, Withheld
from answers.wording import TextRows, between, known, percent, rounded
from warehouse.catalogue import METRICS


@dataclass(frozen=True)
class ForecastPlace:
    """One arm family, whatever its K, on one dataset of one system (``analysis.matching.arms``)."""

    system: int
    family: str
    dataset: str
    model: str | None
    gpu: str | None
    gpu_count: int | None
    tensor_parallel_size: int | None
    evidence: str | None
    synthetic_acceptance: bool | None


@dataclass(frozen=True)
class AskableSpan:
    """What may be asked: from ``low`` to ``high``; ``usual``: the mean of what was measured."""

    low: int
    high: int
    usual: int


@dataclass(frozen=True)
class AskableQuestions:
    """What may be asked of a place, and the K and load to begin with. ``prompts_count``: whether
    the results tell what a prompt token costs; ``accepts``: whether acceptance was measured;
    ``k_range`` and ``load_range``: the lowest and the highest that was measured."""

    ks: tuple[int, ...]
    loads: tuple[int, ...]
    prompt: AskableSpan
    output: AskableSpan
    start: tuple[int, int]
    prompts_count: bool
    accepts: bool
    k_range: tuple[int, int]
    load_range: tuple[int, int]


@dataclass(frozen=True)
class MeasuredPoint:
    """What was measured at one K (0: the baseline) and load: means over ``repeats``."""

    k: int
    load: int
    repeats: int
    output_throughput: float
    itl: float
    ttft: float


@dataclass(frozen=True, eq=False)
class FittedPlace:
    """What forecasts of one place are computed from."""

    place: ForecastPlace
    offer: AskableQuestions
    points: tuple[MeasuredPoint, ...]
    model: Model


@dataclass(frozen=True)
class ForecastFigure:
    """One metric in the catalogue's unit. ``low`` and ``high``: the band, None where nothing is
    known of the error; ``baseline``: predicted without drafts; ``improvement``: ratio, positive is
    better."""

    metric: str
    predicted: float
    low: float | None
    high: float | None
    measured: float | None
    baseline: float | None
    improvement: float | None


@dataclass(frozen=True)
class ForecastCost:
    """USD per million output tokens, with its basis."""

    basis: Basis
    predicted: float
    baseline: float | None

    @property
    def sentence(self) -> str:
        return self.basis.sentence


@dataclass(frozen=True)
class Check:
    """How far predictions of withheld points were off (ratios), one metric. ``worst_inside``: of
    those that the rest surrounds; ``held``: how many lay within their bands."""

    left_out: LeftOut
    metric: str
    points: int
    typical: float
    worst: float
    typical_inside: float | None
    worst_inside: float | None
    held: int


@dataclass(frozen=True)
class ForecastAnswer:
    """One forecast with what a reader must know of it. ``warnings``: how the question leaves what
    was measured; ``trust``: how far to believe it; ``fit``: of the time of a step; ``cost``: None where no
    price was given."""

    place: ForecastPlace
    asked: Question
    headline: str
    figures: tuple[ForecastFigure, ...]
    mean_length: float
    break_even_length: float | None
    warnings: tuple[str, ...]
    trust: tuple[str, ...]
    fit: Fit
    checks: tuple[Check, ...]
    withheld: tuple[Withheld, ...]
    cost: ForecastCost | Refusal | None = None


@dataclass(frozen=True)
class RefusedForecast:
    """A place for which there is no forecast, and why."""

    place: ForecastPlace
    reason: str


@dataclass(frozen=True)
class ForecastStep:
    """One point of a line: a K, a load, what is predicted there. ``beyond``: whether anything of
    the question lies beyond what was measured."""

    k: int
    load: int
    figures: tuple[ForecastFigure, ...]
    beyond: bool

    def of(self, metric: str) -> ForecastFigure:
        return next(figure for figure in self.figures if figure.metric == metric)


@dataclass(frozen=True)
class ForecastLines:
    """Predictions over the load at the asked K and without drafts (none without a baseline), and
    over K at the asked load."""

    over_load: tuple[ForecastStep, ...]
    baseline: tuple[ForecastStep, ...]
    over_k: tuple[ForecastStep, ...]


# --- Forecasts as JSON. Unknown is null.


def forecasts_json(answers: Sequence[ForecastAnswer | RefusedForecast]) -> dict[str, Any]:
    """Return ``forecasts``, and ``refused`` with the reason of each, as a dict for JSON."""
    return {
        "forecasts": [_answer(answer) for answer in answers if isinstance(answer, ForecastAnswer)],
        "refused": [
            {**place_json(answer.place), "reason": answer.reason}
            for answer in answers
            if isinstance(answer, RefusedForecast)
        ],
    }


def place_json(place: ForecastPlace) -> dict[str, Any]:
    """Return the facts of a place."""
    facts = asdict(place)
    del facts["system"]  # A number of this one answer.
    return facts


def _answer(answer: ForecastAnswer) -> dict[str, Any]:
    now = {figure.metric: figure.predicted for figure in answer.figures}
    before = {figure.metric: figure.baseline for figure in answer.figures}
    cost = answer.cost if isinstance(answer.cost, ForecastCost) else None
    return {
        **place_json(answer.place),
        "headline": answer.headline,
        "prediction": {
            "k": answer.asked.k, "concurrency": answer.asked.concurrency, **now,
            "mean_length": answer.mean_length, "warnings": list(answer.warnings),
        },
        "bands": {"level": LEVEL} | {
            figure.metric: None if figure.low is None else [figure.low, figure.high]
            for figure in answer.figures
        },
        "baseline": None if before["output_throughput"] is None else before,
        "improvements": {figure.metric: figure.improvement for figure in answer.figures},
        "break_even_length": answer.break_even_length,
        "fit": {
            "residual": answer.fit.residual, "worst_residual": answer.fit.worst,
            "laws": [asdict(law) for law in answer.fit.choices],
        },
        "leave_one_out": [asdict(check) for check in answer.checks],
        "withheld": [
            asdict(point) | {"error": point.error, "held": point.held} for point in answer.withheld
        ],
        "trust": list(answer.trust),
        "cost": None if cost is None else {
            "basis": cost.basis.as_json(),
            "usd_per_million_output_tokens": {
                "predicted": cost.predicted, "baseline": cost.baseline,
            },
        },
        "no_cost": answer.cost.sentence if isinstance(answer.cost, Refusal) else None,
    }  # fmt: skip


# --- What two textbook models say where nothing is measured.


NOT_MEASURED = "Textbook models: no measurement stands behind these figures."
END_TO_END, ONE_STREAM = "end to end", "one stream"


def headline(textbook: Textbook) -> str:
    """Say in a sentence which speedup both models give."""
    return (
        f"At an acceptance rate of {textbook.acceptance_rate:.0%} textbook models say: "
        f"{textbook.end_to_end_gain:.2f} times as fast {END_TO_END}, "
        f"{textbook.single_stream_speedup:.2f} times as fast {ONE_STREAM}."
    )


def table(textbook: Textbook) -> TextRows:
    """Return a row per model: its speedup and its parameters."""
    drafts = f"K = {textbook.k}, draft cost {textbook.draft_cost:g}"
    shares = f"decode share {textbook.decode_share:g}, cap {textbook.model.cap:g}"
    return ["textbook model", "speedup", "parameters"], [
        [f"{END_TO_END}, decoding alone faster", f"{textbook.end_to_end_gain:.2f}",
         f"{drafts}, {shares}"],
        [f"{ONE_STREAM}, (1 + μ) / ((1 + μ)c + 1)", f"{textbook.single_stream_speedup:.2f}", drafts],
    ]  # fmt: skip


# --- A forecast in sentences and rows of text.


#: A law with a smaller share of the prediction is not worth mentioning.
_COUNTS = 0.2
#: From here on a throughput is told in whole tokens per second.
_WHOLE = 10.0
_WITHHELD: dict[LeftOut, str] = {"k": "K", "concurrency": "load"}
BAND = f"{LEVEL * 100:.0f} % band"


def title(place: ForecastPlace) -> str:
    """Return a forecast's title: ``eagle3 (draft) on code, model, TP 1, H200``."""
    size = place.tensor_parallel_size
    parts = (
        f"{place.family} on {place.dataset}", place.model or "unknown model",
        *([] if size is None else [f"TP {size}"]), place.gpu or "unknown GPU",
    )  # fmt: skip
    marked = "" if place.evidence == "gpu" else f" [{place.evidence or 'evidence unknown'}]"
    marked += " [synthetic acceptance]" if place.synthetic_acceptance else ""
    return f"{', '.join(parts)}{marked}"


def forecast_headline(question: Question, throughput: ForecastFigure) -> str:
    """Say the prediction and its gain in one sentence."""
    arm = f"K = {question.k}" if question.k else "no drafts"
    start = (
        f"Predicted for {arm} at concurrency {question.concurrency}: "
        f"{rounded(throughput.predicted, 0 if throughput.predicted >= _WHOLE else 2)} output tokens "
        "per second"
    )
    if question.k == 0:
        return f"{start}."
    gain = throughput.improvement
    if gain is None:
        return f"{start}; no baseline was measured to compare with."
    word = "more" if gain >= 0 else "fewer"
    return f"{start}, {percent(gain, sign=False)} {word} than without drafts."


def numbers(answer: ForecastAnswer) -> TextRows:
    """Return a row per predicted metric, then what the acceptance is and what a token costs."""
    rows, drafted = [], answer.asked.k != 0
    for figure in answer.figures:
        metric, measured = METRICS[figure.metric], "not measured"
        if figure.measured is not None and answer.asked.as_measured:
            measured = rounded(figure.measured, metric.decimals)
        mean = " mean" if metric.distribution else ""
        rows.append([
            f"{metric.label}{mean} ({metric.unit}), {metric.better} is better",
            rounded(figure.predicted, metric.decimals), band(figure),
            measured if figure.metric in COMPARED else "not compared",
            rounded(figure.baseline, metric.decimals),
            percent(figure.improvement) if drafted else "–",
        ])  # fmt: skip
    name, pays = "Mean acceptance length (tokens/step), higher is better", answer.break_even_length
    rows.append([name, rounded(answer.mean_length, 2), "–", "–", "1.00", "–"])
    if pays is not None:
        rows.append(["… from which it pays", rounded(pays, 2), "–", "–", "–", "–"])
    if isinstance(answer.cost, ForecastCost):
        before, now = answer.cost.baseline, answer.cost.predicted
        saved = percent(None if before is None else 1 - now / before)
        name = "Cost per million output tokens (USD), lower is better"
        rows.append([name, rounded(now, 3), "–", "–", rounded(before, 3), saved])
    header = ["means", "predicted", BAND, "measured", "without drafts, predicted", "improvement"]
    return header, rows


def band(figure: ForecastFigure) -> str:
    """Write the band of a figure: ``1,080 to 1,260``; unknown where nothing is known of the
    error."""
    digits = METRICS[figure.metric].decimals
    return between(figure.low, figure.high, lambda end: rounded(end, digits)) or known(None)


def trust(checks: Sequence[Check], fit: Fit, why: str | None) -> tuple[str, ...]:
    """Return sentences on how far to believe a forecast. ``why`` there is no band."""
    mine = [check for check in checks if check.metric == "output_throughput"]
    points = sum(check.points for check in mine)
    held = (
        f"A {BAND} is meant to hold {LEVEL * 100:.0f} of 100 new measurements; of {points} "
        f"withheld points of output throughput it held {sum(check.held for check in mine)}."
    )
    residual, worst = (percent(error, sign=False) for error in (fit.residual, fit.worst))
    checked = {check.left_out: check for check in reversed(mine)}
    return (
        *([why] if why is not None else [held] if points else []),
        _law(fit.choices),
        f"The time of a step fits its measurements within {residual} (root mean square), "
        f"{worst} at worst.",
        *(_withheld(word, checked.get(left_out)) for left_out, word in _WITHHELD.items()),
    )


def _law(laws: Sequence[LawShare]) -> str:
    best, *others = sorted(laws, key=lambda law: -law.share)
    if best.error is None:
        return "Nothing could be withheld to tell which law the time of a step follows."
    start = f"The time of a step follows the {best.law}"
    if others and others[0].share >= _COUNTS:
        start += f", and the {others[0].law} nearly as well"
    errors = [
        f"{law.law} within {percent(law.error, sign=False)}" for law in (best, *others) if law.error
    ]
    return f"{start} (withheld points, root mean square: {', '.join(errors)})."


def _withheld(word: str, check: Check | None) -> str:
    if check is None:
        return f"No {word} could be withheld to check: too few were measured near one another."
    sentence = (
        f"Each {word} withheld in turn ({check.points} points): output throughput is predicted "
        f"within {percent(check.typical, sign=False)} (median), "
        f"{percent(check.worst, sign=False)} at worst"
    )
    if check.worst_inside is None:
        return f"{sentence}, all of them beyond the rest."
    return f"{sentence}, {percent(check.worst_inside, sign=False)} between others."


def prompts_unknown(offer: AskableQuestions) -> str:
    """Say why no other prompt length may be asked for."""
    return (
        f"Prompt tokens: about {offer.prompt.usual}, as measured. All prompts are about as long, "
        "so nobody knows what another length would cost."
    )
