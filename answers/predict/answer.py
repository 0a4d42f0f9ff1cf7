"""From measured points to a forecast that every face shows."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil, floor
from statistics import median

from analysis.money.cost import usd_per_million
from analysis.money.paying import Hardware, Paying, Refusal, basis_of
from analysis.prediction.reach import FAR, Question, Range
from analysis.prediction.trials import COMPARED, Withheld
from analysis.prediction.usual import PREDICTED
from analysis.prediction.whatif import Forecast, Model, build, forecast
from answers.predict import words
from answers.predict.read import Subject, subjects
from answers.predict.values import (
    Answer,
    Asked,
    Check,
    Cost,
    Figure,
    Known,
    Lines,
    Measured,
    Offer,
    Place,
    Refused,
    Span,
    Step,
)
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.store import Reader


def predict(
    reader: Reader, filters: Filters, asked: Asked, paying: Paying
) -> Iterator[Answer | Refused]:
    """Yield the answer of every family and dataset that the filters keep, or why there is none;
    with its cost where ``paying`` names a price."""
    for subject in subjects(reader, filters):
        try:
            found = known(subject, lengths=asked.prompt is not None)
            yield answer(found, asked, paying)
        except InvalidInput as error:
            yield Refused(subject.place, str(error))


def known(subject: Subject, lengths: bool = False) -> Known:
    """Fit a model to what was measured of a subject. ``lengths``: fit to all its datasets, which
    together tell what a prompt token costs. Raises InvalidInput where nothing can be forecast."""
    model = build(subject.points, subject.positions, subject.place.dataset, lengths)
    return Known(subject.place, _offer(model), _measured(model), model.withheld, model)


def answer(found: Known, asked: Asked, paying: Paying | None = None) -> Answer:
    """Return the answer to one question.

    Raises InvalidInput where the question is too far from what was measured.
    """
    model, question = found.model, _question(asked)
    one = forecast(model, question)
    figures = _figures(found, asked, one)
    step = model.step_time
    fit, checks = (step.residual, step.worst), tuple(_checks(found.withheld))
    return Answer(
        found.place, asked, words.headline(asked, figures[0]), figures, one.prediction.mean_length,
        one.break_even_length, one.prediction.warnings,
        tuple(words.trust(checks, step.choices, fit, model.why_no_band(question))),
        step.choices, *fit, checks, found.withheld, _cost(found.place, figures[0], paying),
    )  # fmt: skip


def _cost(place: Place, throughput: Figure, paying: Paying | None) -> Cost | Refusal | None:
    if paying is None or (paying.usd_per_hour is None and paying.price is None):
        return None
    basis = basis_of(paying, Hardware(place.gpu, place.gpu_count, place.tensor_parallel_size))
    if isinstance(basis, Refusal):
        return basis
    before = throughput.baseline
    return Cost(
        basis,
        usd_per_million(throughput.predicted, basis),
        None if before is None else usd_per_million(before, basis),
    )


def lines(found: Known, asked: Asked) -> Lines:
    """Return predictions around one question, none beside its baseline. Raises InvalidInput as
    ``answer`` does."""
    offer = found.offer
    plain = Asked(0, 0, prompt=asked.prompt, output=asked.output)
    return Lines(
        _steps(found, [replace(asked, load=load) for load in offer.loads]),
        _steps(found, [replace(plain, load=load) for load in offer.loads if 0 in offer.ks]),
        _steps(found, [replace(asked, k=k) for k in offer.ks]),
    )


def _steps(found: Known, asked: list[Asked]) -> tuple[Step, ...]:
    questions = [_question(one) for one in asked]
    told = zip(asked, questions, found.model.predict_all(questions), strict=True)
    reach = found.model.reach
    return tuple(
        Step(one.k, one.load, _figures(found, one, Forecast(what, None)), bool(reach.beyond(where)))
        for one, where, what in told
    )


def _question(asked: Asked) -> Question:
    """Return the question behind what was asked; for a rate, its mean length is 1 + K x rate.
    Raises InvalidInput for a rate outside 0-1."""
    if asked.rate is not None and not 0 <= asked.rate <= 1:
        raise InvalidInput(f"An acceptance rate is a share between 0 and 1, not {asked.rate:g}.")
    length = asked.length if asked.rate is None else 1 + asked.k * asked.rate
    return Question(asked.k, asked.load, length if asked.k else None, asked.prompt, asked.output)


def _figures(found: Known, asked: Asked, one: Forecast) -> tuple[Figure, ...]:
    return tuple(_figure(metric, found, asked, one) for metric in PREDICTED)


def _figure(metric: str, found: Known, asked: Asked, one: Forecast) -> Figure:
    band = one.prediction.bands.get(metric)
    here = (p for p in found.points if (p.k, p.load) == (asked.k, asked.load))
    return Figure(
        metric,
        getattr(one.prediction, metric),
        None if band is None else band.low,
        None if band is None else band.high,
        getattr(next(here, None), metric, None),
        None if one.baseline is None else getattr(one.baseline, metric),
        one.improvement(metric),
        metric in COMPARED,
    )


def _measured(model: Model) -> tuple[Measured, ...]:
    p = model.usual.points
    named = (p.k, p.concurrency, p.repeats, p.output_throughput, p.itl, p.ttft)
    rows = zip(*(values.tolist() for values in named), strict=True)
    return tuple(Measured(int(k), int(c), int(n), *values) for k, c, n, *values in rows)


def _checks(withheld: Iterable[Withheld]) -> Iterator[Check]:
    groups: dict[tuple[str, str], list[Withheld]] = {}
    for one in withheld:
        groups.setdefault((one.left_out, one.metric), []).append(one)
    for mine in groups.values():
        errors = [abs(one.error) for one in mine]
        inner = [abs(one.error) for one in mine if one.inside]
        yield Check(
            mine[0].left_out, mine[0].metric, len(mine), median(errors), max(errors),
            median(inner) if inner else None, max(inner, default=None), sum(o.held for o in mine),
        )  # fmt: skip


def _offer(model: Model) -> Offer:
    reach, usual = model.reach, model.usual
    drafted = range(ceil(reach.k.low / FAR), floor(reach.k.high * FAR) + 1)
    return Offer(
        (*(k for k in (0,) if k in reach.ks), *(k for k in drafted if k > 0)),
        _loads(reach.loads),
        _span(reach.prompt_tokens, usual.prompt_tokens),
        _span(reach.output_tokens, usual.output_tokens),
        _start(_measured(model), reach.loads),
        model.step_time.knows_prompts,
        usual.decay is not None,
        (int(reach.k.low), int(reach.k.high)),
        (reach.loads[0], reach.loads[-1]),
    )


def _loads(measured: tuple[int, ...]) -> tuple[int, ...]:
    """Return the measured loads and the powers of two among and around them."""
    low, high = measured[0], measured[-1]
    powers = {2**n for n in range(ceil(high * FAR).bit_length())}
    every = powers | set(measured) | {floor(high * FAR)}
    return tuple(sorted(load for load in every if low / FAR <= load <= high * FAR))


def _span(known: Range, usual: float) -> Span:
    lowest = max(ceil(known.low / FAR), 1)
    return Span(lowest, max(floor(known.high * FAR), lowest + 1), max(round(usual), lowest))


def _start(points: tuple[Measured, ...], loads: tuple[int, ...]) -> tuple[int, int]:
    """Return the K of the fastest draft at the middle load (at any load where none was measured
    there), and that load."""
    load = loads[len(loads) // 2]
    drafted = [point for point in points if point.k > 0]
    here = [point for point in drafted if point.load == load] or drafted
    return max(here, key=lambda point: point.output_throughput).k, load
