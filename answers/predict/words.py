"""A forecast in sentences and rows of text."""

from collections.abc import Iterator, Sequence

from analysis.frames import metric_name, number
from analysis.prediction.posterior import LEVEL
from analysis.prediction.step_time import Choice
from answers.predict.values import (
    AskableQuestions,
    Check,
    ForecastAnswer,
    ForecastCost,
    ForecastFigure,
    ForecastPlace,
    ForecastQuestion,
    TextTable,
)
from answers.wording import between, known, percent
from warehouse.catalogue import METRICS

#: A law with a smaller share of the prediction is not worth mentioning.
_COUNTS = 0.2
#: From here on a throughput is told in whole tokens per second.
_WHOLE = 10.0
_WITHHELD = {"k": "K", "concurrency": "load"}
BAND = f"{LEVEL * 100:.0f} % band"


def title(place: ForecastPlace, asked: ForecastQuestion | None = None) -> str:
    """Return a forecast's title: ``eagle3 (draft) on code, model, TP 1, H200: K = 4 at concurrency
    8``."""
    parts = [f"{place.family} on {place.dataset}", place.model or "unknown model"]
    if place.tensor_parallel_size is not None:
        parts.append(f"TP {place.tensor_parallel_size}")
    parts.append(place.gpu or "unknown GPU")
    marked = "" if place.evidence == "gpu" else f" [{place.evidence or 'evidence unknown'}]"
    marked += " [synthetic acceptance]" if place.synthetic_acceptance else ""
    told = "" if asked is None else f": K = {asked.k} at concurrency {asked.load}"
    return f"{', '.join(parts)}{marked}{told}"


def headline(asked: ForecastQuestion, throughput: ForecastFigure) -> str:
    """Say the prediction and its gain in one sentence."""
    arm = f"K = {asked.k}" if asked.k else "no drafts"
    start = (
        f"Predicted for {arm} at concurrency {asked.load}: "
        f"{number(throughput.predicted, 0 if throughput.predicted >= _WHOLE else 2)} output tokens "
        "per second"
    )
    if asked.k == 0:
        return f"{start}."
    gain = throughput.improvement
    if gain is None:
        return f"{start}; no baseline was measured to compare with."
    word = "more" if gain >= 0 else "fewer"
    return f"{start}, {percent(gain, sign=False)} {word} than without drafts."


def numbers(found: ForecastAnswer) -> TextTable:
    """Return a row per predicted metric, then what the acceptance is and what a token costs."""
    rows = [_row(figure, found.asked) for figure in found.figures]
    length = number(found.mean_length, 2)
    rows.append(("Mean acceptance length (tokens/step), higher is better", length, *_rest("1.00")))
    if found.break_even_length is not None:
        rows.append(("… from which it pays", number(found.break_even_length, 2), *_rest()))
    if isinstance(found.cost, ForecastCost):
        before, now = found.cost.baseline, found.cost.predicted
        saved = None if before is None else 1 - now / before
        cells = (number(now, 3), "–", "–", number(before, 3), percent(saved))
        rows.append(("Cost per million output tokens (USD), lower is better", *cells))
    header = ("means", "predicted", BAND, "measured", "without drafts, predicted", "improvement")
    return TextTable(header, tuple(rows))


def _rest(baseline: str = "–") -> tuple[str, ...]:
    return "–", "–", baseline, "–"


def _row(figure: ForecastFigure, asked: ForecastQuestion) -> tuple[str, ...]:
    metric = METRICS[figure.metric]
    digits = metric.decimals
    return (
        f"{metric_name(figure.metric, 'mean')}, {metric.better} is better",
        number(figure.predicted, digits), band(figure), _measured(figure, asked),
        number(figure.baseline, digits),
        "–" if asked.k == 0 else percent(figure.improvement),
    )  # fmt: skip


def band(figure: ForecastFigure) -> str:
    """Write the band of a figure: ``1,080 to 1,260``; unknown where nothing is known of the
    error."""
    digits = METRICS[figure.metric].decimals
    return between(figure.low, figure.high, lambda end: number(end, digits)) or known(None)


def _measured(figure: ForecastFigure, asked: ForecastQuestion) -> str:
    if not figure.compared:
        return "not compared"
    if figure.measured is None or not asked.as_measured:
        return "not measured"
    return number(figure.measured, METRICS[figure.metric].decimals)


def trust(
    checks: Sequence[Check], laws: Sequence[Choice], fit: tuple[float, float], why: str | None
) -> Iterator[str]:
    """Yield sentences on how far to believe a forecast. ``fit``: residual and worst; ``why`` there
    is no band."""
    if why is not None:
        yield why
    else:
        yield from _held(checks)
    yield _law(laws)
    residual, worst = (percent(error, sign=False) for error in fit)
    yield (
        f"The time of a step fits its measurements within {residual} (root mean square), "
        f"{worst} at worst."
    )
    for left_out, word in _WITHHELD.items():
        told = (c for c in checks if (c.left_out, c.metric) == (left_out, "output_throughput"))
        yield _withheld(word, next(told, None))


def _held(checks: Sequence[Check]) -> Iterator[str]:
    mine = [check for check in checks if check.metric == "output_throughput"]
    points = sum(check.points for check in mine)
    if points:
        held = sum(check.held for check in mine)
        yield (
            f"A {BAND} is meant to hold {LEVEL * 100:.0f} of 100 new measurements; of {points} "
            f"withheld points of output throughput it held {held}."
        )


def _law(laws: Sequence[Choice]) -> str:
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


def _withheld(word: str, found: Check | None) -> str:
    if found is None:
        return f"No {word} could be withheld to check: too few were measured near one another."
    sentence = (
        f"Each {word} withheld in turn ({found.points} points): output throughput is predicted "
        f"within {percent(found.typical, sign=False)} (median), "
        f"{percent(found.worst, sign=False)} at worst"
    )
    if found.worst_inside is None:
        return f"{sentence}, all of them beyond the rest."
    return f"{sentence}, {percent(found.worst_inside, sign=False)} between others."


def prompts_unknown(offer: AskableQuestions) -> str:
    """Say why no other prompt length may be asked for."""
    return (
        f"Prompt tokens: about {offer.prompt.usual}, as measured. All prompts are about as long, "
        "so nobody knows what another length would cost."
    )
