"""From measured points to a forecast that every face shows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor
from statistics import median
from typing import Any

import pandas as pd

from analysis.drafts.acceptance_tables import position_counts
from analysis.flags.validity import DECIDES_NOTHING
from analysis.frames import among, listed, records
from analysis.matching.arms import (
    BASELINE,
    METRICS_READ,
    SYSTEM,
    about,
    load_points,
    of_family,
    place_arms,
)
from analysis.matching.difference import flat
from analysis.matching.names import short, telling
from analysis.money.cost import usd_per_million
from analysis.money.paying import Hardware, Paying, Refusal, basis_of
from analysis.prediction.reach import FAR, Question, Range
from analysis.prediction.rows import Points, Positions, points_of, positions_of
from analysis.prediction.trials import COMPARED, Withheld
from analysis.prediction.usual import PREDICTED
from analysis.prediction.whatif import Forecast, Model, build, forecast
from answers.predict import words
from answers.predict.acceptance import ABOUT, DraftAcceptance
from answers.predict.values import (
    AskableQuestions,
    AskableSpan,
    Check,
    FittedPlace,
    ForecastAnswer,
    ForecastCost,
    ForecastFigure,
    ForecastLines,
    ForecastPlace,
    ForecastQuestion,
    ForecastStep,
    MeasuredPoint,
    RefusedForecast,
    TextTable,
)
from answers.wording import badges, known
from warehouse import queries
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.loads import load_of
from warehouse.store_read import Reader

# --- What forecasts stand on, read from the warehouse: each arm family of each system.


#: Flags of cells whose times or acceptance are not those of the arm. Acceptance set by hand is
#: marked in every title instead: the times of such steps are as good as any.
_UNFIT = DECIDES_NOTHING - {"synthetic_acceptance"}
_FAMILY = ["system", "family"]
_PLACE = [*_FAMILY, "dataset"]
_LOAD = ("load_profile", "concurrency", "rate", "trace")


@dataclass(frozen=True, eq=False)
class ForecastSubject:
    """One arm family on one dataset: its points and those of its baseline, on all datasets.
    ``about``: as ``answers.decide.tables.Accepted`` has it; ``facts``: what its system is."""

    place: ForecastPlace
    points: Points
    positions: Positions
    about: tuple[str | int | None, ...]
    facts: tuple[tuple[str, str | int | None], ...]


def subjects(reader: Reader, filters: Filters) -> tuple[ForecastSubject, ...]:
    """Return every family of which a draft was measured with latencies, lengths and acceptance, by
    system, family and dataset. Unfit cells, and loads that are no concurrency, are left out; a
    choice of arms keeps the baseline, without which nothing is gained."""
    if filters.arm:
        filters = replace(filters, arm=tuple(sorted({*filters.arm, BASELINE})))
    cells = queries.cells(reader, filters).to_pandas()
    if cells.empty:
        return ()
    # All cells are placed, so that systems have the same numbers wherever they are shown.
    usable = _usable(reader, cells)
    measured = queries.measurements(reader, filters, METRICS_READ, ("mean",)).to_pandas()
    accepted = queries.acceptance(reader, filters).to_pandas()
    by_position = queries.acceptance_by_position(reader, filters).to_pandas()
    points = load_points(cells, _of_cells(measured, usable))
    counted = position_counts(cells, _of_cells(accepted, usable), _of_cells(by_position, usable))
    return tuple(_subjects(cells, points, counted))


def _usable(reader: Reader, cells: pd.DataFrame) -> frozenset[str]:
    """Return the ids of the cells with a concurrency as their load that are fit to forecast
    from."""
    doubtful = list(cells.loc[cells["flags"] > 0, "cell_id"])
    flags = queries.flags(reader, doubtful).to_pandas()
    barred = set(flags.loc[flags["name"].isin(_UNFIT), "cell_id"])
    loads = {cell: load_of(*known) for cell, *known in listed(cells, "cell_id", *_LOAD)}
    return frozenset(
        cell for cell, load in loads.items() if load is not None and load.kind == "concurrency"
    ) - frozenset(barred)


def _of_cells(rows: pd.DataFrame, ids: frozenset[str]) -> pd.DataFrame:
    return rows[among(rows["cell_id"], ids)]


def _subjects(
    cells: pd.DataFrame, points: pd.DataFrame, counted: pd.DataFrame
) -> Iterator[ForecastSubject]:
    drafted = points.loc[points["k"] > 0, _PLACE].drop_duplicates()
    of_place = _first_cells(cells)
    at = counted.groupby(_FAMILY).indices
    for system, family in drafted[_FAMILY].drop_duplicates().to_numpy():
        mine = points_of(of_family(points, system, family))
        positions = positions_of(counted.iloc[at.get((system, family), [])])
        theirs = (drafted["system"] == system) & (drafted["family"] == family)
        for dataset in drafted.loc[theirs, "dataset"]:
            one = of_place[system, family, dataset]
            place = _forecast_place((system, family, dataset), about(one))
            system_facts = tuple(about(one, SYSTEM).items())
            told = tuple(about(one, ABOUT).values())
            yield ForecastSubject(place, mine, positions, told, system_facts)


def _first_cells(cells: pd.DataFrame) -> dict[tuple[int, str, str], dict[str, Any]]:
    """Map system, family and dataset to the facts of its first cell."""
    placed = place_arms(cells).drop_duplicates(_PLACE)
    facts = {row["cell_id"]: row for row in records(cells[among(cells["cell_id"], placed.index)])}
    places = placed[_PLACE].itertuples(name=None)
    return {(system, family, dataset): facts[cell] for cell, system, family, dataset in places}


def _forecast_place(where: tuple[int, str, str], facts: dict[str, Any]) -> ForecastPlace:
    system, family, dataset = where
    return ForecastPlace(int(system), str(family), str(dataset), **facts)


# --- The arm families that a reader can choose from, each with a name of its own.


@dataclass(frozen=True)
class DraftFamily:
    """One method with one draft on one system, whatever its K and dataset. ``badges``: where its
    numbers come from; ``about``: see ``ForecastSubject``."""

    name: str
    system: int
    family: str
    badges: tuple[str, ...]
    about: tuple[str | int | None, ...]
    datasets: tuple[str, ...]


def families(
    found: Sequence[ForecastSubject], every: Sequence[ForecastSubject] = ()
) -> tuple[DraftFamily, ...]:
    """Group the subjects into families, by the names and in the order that they have among
    ``every`` one there is: those with most measured points first."""
    here, everywhere = _grouped(found), _grouped(every)
    first = {at: mine[0] for at, mine in (here | everywhere).items()}
    known = dict.fromkeys((*everywhere, *here))
    ordered = sorted(known, key=lambda at: (at not in everywhere, -len(first[at].points)))
    names = dict(zip(ordered, _apart([first[at] for at in ordered]), strict=True))
    return tuple(
        DraftFamily(
            name, mine[0].place.system, mine[0].place.family, _badges(mine[0].place),
            mine[0].about, tuple(sorted(one.place.dataset for one in mine)),
        )
        for name, mine in ((names[at], here[at]) for at in ordered if at in here)
    )  # fmt: skip


def _grouped(found: Sequence[ForecastSubject]) -> dict[tuple[str, str], list[ForecastSubject]]:
    """Group subjects by their system and family. Systems are known by their facts, since their
    numbers are others under other filters."""
    groups: dict[tuple[str, str], list[ForecastSubject]] = {}
    for one in found:
        groups.setdefault((repr(one.facts), one.place.family), []).append(one)
    return groups


def _badges(place: ForecastPlace) -> tuple[str, ...]:
    return badges(place.evidence, bool(place.synthetic_acceptance))


def _apart(firsts: Sequence[ForecastSubject]) -> list[str]:
    """Return a name for each family, ``eagle3 (draft), model, TP 1, H200``; families of one name
    get what differs, or a number, so that no two are called the same."""
    groups: dict[str, list[ForecastSubject]] = {}
    for one in firsts:
        groups.setdefault(_name(one.place), []).append(one)
    more = {id(one): words for same in groups.values() for one, words in _differing(same)}
    names = [", ".join([_name(one.place), *more[id(one)]]) for one in firsts]
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _name(place: ForecastPlace) -> str:
    size = f"TP {known(place.tensor_parallel_size)}"
    return ", ".join([place.family, known(place.model), size, known(place.gpu)])


def _differing(same: Sequence[ForecastSubject]) -> Iterator[tuple[ForecastSubject, list[str]]]:
    """Name the facts of each one's system that tell it from the others of the same name; a server's
    arguments one by one. The first facts say most."""
    systems = [flat(dict(one.facts)) for one in same]
    names = list(dict.fromkeys(name for system in systems for name in system))
    stated = pd.DataFrame([{name: str(system.get(name)) for name in names} for system in systems])
    told = telling(stated, names)
    for one, system in zip(same, systems, strict=True):
        yield one, [f"{_called(name)} {short(system.get(name, 'not stated'))}" for name in told]


def _called(name: str) -> str:
    return name.replace("_", " ").replace("server args.", "")


def measured(found: Sequence[ForecastSubject]) -> TextTable:
    """Return what there is to choose from: a row per family and dataset."""
    header = ("model", "GPU", "TP", "dataset", "arm", "evidence", "K", "concurrency", "points")
    return TextTable(header, tuple(_row(one) for one in found))


def _row(one: ForecastSubject) -> tuple[str, ...]:
    place, mine = one.place, one.points.of(one.place.dataset)
    drafted = mine.where(mine.k > 0)
    return (
        known(place.model), known(place.gpu), known(place.tensor_parallel_size), place.dataset,
        place.family, ", ".join(_badges(place)) or "GPU",
        *(", ".join(f"{value:g}" for value in sorted(set(values.tolist())))
          for values in (drafted.k, drafted.concurrency)),
        str(len(drafted)),
    )  # fmt: skip


def acceptance_of_family(
    found: Sequence[DraftAcceptance], family: DraftFamily
) -> tuple[DraftAcceptance, ...]:
    """Return the acceptance of one family on all its datasets."""
    return tuple(x for x in found if (x.family, x.about) == (family.family, family.about))


# ---


def predict(
    reader: Reader, filters: Filters, asked: ForecastQuestion, paying: Paying
) -> Iterator[ForecastAnswer | RefusedForecast]:
    """Yield the forecast_answer of every family and dataset that the filters keep, or why there is none;
    with its cost where ``paying`` names a price."""
    for subject in subjects(reader, filters):
        try:
            found = fitted(subject, lengths=asked.prompt is not None)
            yield forecast_answer(found, asked, paying)
        except InvalidInput as error:
            yield RefusedForecast(subject.place, str(error))


def fitted(subject: ForecastSubject, lengths: bool = False) -> FittedPlace:
    """Fit a model to what was measured of a subject. ``lengths``: fit to all its datasets, which
    together tell what a prompt token costs. Raises InvalidInput where nothing can be forecast."""
    model = build(subject.points, subject.positions, subject.place.dataset, lengths)
    return FittedPlace(subject.place, _offer(model), _measured(model), model.withheld, model)


def forecast_answer(
    found: FittedPlace, asked: ForecastQuestion, paying: Paying | None = None
) -> ForecastAnswer:
    """Return the forecast_answer to one question.

    Raises InvalidInput where the question is too far from what was measured.
    """
    model, question = found.model, _question(asked)
    one = forecast(model, question)
    figures = _figures(found, asked, one)
    step = model.step_time
    fit, checks = (step.residual, step.worst), tuple(_checks(found.withheld))
    return ForecastAnswer(
        found.place, asked, words.headline(asked, figures[0]), figures, one.prediction.mean_length,
        one.break_even_length, one.prediction.warnings,
        tuple(words.trust(checks, step.choices, fit, model.why_no_band(question))),
        step.choices, *fit, checks, found.withheld, _forecast_cost(found.place, figures[0], paying),
    )  # fmt: skip


def _forecast_cost(
    place: ForecastPlace, throughput: ForecastFigure, paying: Paying | None
) -> ForecastCost | Refusal | None:
    if paying is None or (paying.usd_per_hour is None and paying.price is None):
        return None
    basis = basis_of(paying, Hardware(place.gpu, place.gpu_count, place.tensor_parallel_size))
    if isinstance(basis, Refusal):
        return basis
    before = throughput.baseline
    return ForecastCost(
        basis,
        usd_per_million(throughput.predicted, basis),
        None if before is None else usd_per_million(before, basis),
    )


def forecast_lines(found: FittedPlace, asked: ForecastQuestion) -> ForecastLines:
    """Return predictions around one question, none beside its baseline. Raises InvalidInput as
    ``forecast_answer`` does."""
    offer = found.offer
    plain = ForecastQuestion(0, 0, prompt=asked.prompt, output=asked.output)
    return ForecastLines(
        _steps(found, [replace(asked, load=load) for load in offer.loads]),
        _steps(found, [replace(plain, load=load) for load in offer.loads if 0 in offer.ks]),
        _steps(found, [replace(asked, k=k) for k in offer.ks]),
    )


def _steps(found: FittedPlace, asked: list[ForecastQuestion]) -> tuple[ForecastStep, ...]:
    questions = [_question(one) for one in asked]
    told = zip(asked, questions, found.model.predict_all(questions), strict=True)
    reach = found.model.reach
    return tuple(
        ForecastStep(
            one.k, one.load, _figures(found, one, Forecast(what, None)), bool(reach.beyond(where))
        )
        for one, where, what in told
    )


def _question(asked: ForecastQuestion) -> Question:
    """Return the question behind what was asked; for a rate, its mean length is 1 + K x rate.
    Raises InvalidInput for a rate outside 0-1."""
    if asked.rate is not None and not 0 <= asked.rate <= 1:
        raise InvalidInput(f"An acceptance rate is a share between 0 and 1, not {asked.rate:g}.")
    length = asked.length if asked.rate is None else 1 + asked.k * asked.rate
    return Question(asked.k, asked.load, length if asked.k else None, asked.prompt, asked.output)


def _figures(
    found: FittedPlace, asked: ForecastQuestion, one: Forecast
) -> tuple[ForecastFigure, ...]:
    return tuple(_figure(metric, found, asked, one) for metric in PREDICTED)


def _figure(
    metric: str, found: FittedPlace, asked: ForecastQuestion, one: Forecast
) -> ForecastFigure:
    band = one.prediction.bands.get(metric)
    here = (p for p in found.points if (p.k, p.load) == (asked.k, asked.load))
    return ForecastFigure(
        metric,
        getattr(one.prediction, metric),
        None if band is None else band.low,
        None if band is None else band.high,
        getattr(next(here, None), metric, None),
        None if one.baseline is None else getattr(one.baseline, metric),
        one.improvement(metric),
        metric in COMPARED,
    )


def _measured(model: Model) -> tuple[MeasuredPoint, ...]:
    p = model.usual.points
    named = (p.k, p.concurrency, p.repeats, p.output_throughput, p.itl, p.ttft)
    rows = zip(*(values.tolist() for values in named), strict=True)
    return tuple(MeasuredPoint(int(k), int(c), int(n), *values) for k, c, n, *values in rows)


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


def _offer(model: Model) -> AskableQuestions:
    reach, usual = model.reach, model.usual
    drafted = range(ceil(reach.k.low / FAR), floor(reach.k.high * FAR) + 1)
    return AskableQuestions(
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


def _span(fitted: Range, usual: float) -> AskableSpan:
    lowest = max(ceil(fitted.low / FAR), 1)
    return AskableSpan(lowest, max(floor(fitted.high * FAR), lowest + 1), max(round(usual), lowest))


def _start(points: tuple[MeasuredPoint, ...], loads: tuple[int, ...]) -> tuple[int, int]:
    """Return the K of the fastest draft at the middle load (at any load where none was measured
    there), and that load."""
    load = loads[len(loads) // 2]
    drafted = [point for point in points if point.k > 0]
    here = [point for point in drafted if point.load == load] or drafted
    return max(here, key=lambda point: point.output_throughput).k, load
