"""From measured points to a forecast that every face shows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor
from statistics import median

import pandas as pd

from analysis.drafts.acceptance_tables import position_counts
from analysis.flags.validity import DECIDES_NOTHING
from analysis.frames import among, plain, records
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
from analysis.matching.fields import loads_of
from analysis.matching.names import short, telling
from analysis.money.cost import usd_per_million
from analysis.money.paying import Hardware, Paying, Refusal, basis_of
from analysis.prediction.reach import FAR, FAR_OF, Question, Range
from analysis.prediction.rows import Positions, points_of
from analysis.prediction.usual import PREDICTED
from analysis.prediction.whatif import (
    DraftedPoints,
    LeftOut,
    Model,
    Prediction,
    Withheld,
)
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
    ForecastStep,
    MeasuredPoint,
    RefusedForecast,
    forecast_headline,
    trust,
)
from answers.wording import TextRows, badges, known
from warehouse import queries
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.store import Reader

# --- What forecasts stand on, read from the warehouse: each arm family of each system.


#: Flags of cells whose times or acceptance are not those of the arm. Acceptance set by hand is
#: marked in every title instead: the times of such steps are as good as any.
_UNFIT = DECIDES_NOTHING - {"synthetic_acceptance"}
_FAMILY = ["system", "family"]
_PLACE = [*_FAMILY, "dataset"]


@dataclass(frozen=True, eq=False)
class ForecastSubject:
    """One arm family on one dataset. ``measured``: on all datasets, with its baseline; ``about``: as
    ``DraftAcceptance`` has it; ``facts``: what its system is."""

    place: ForecastPlace
    measured: DraftedPoints
    about: tuple[str | int | None, ...]
    facts: tuple[tuple[str, str | int | None], ...]


def subjects(reader: Reader, filters: Filters) -> tuple[ForecastSubject, ...]:
    """Return every family of which a draft was measured with latencies, lengths and acceptance, by
    system, family and dataset. Unfit cells, and loads that are no concurrency, are left out; a
    choice of arms keeps the baseline, without which nothing is gained, and one of datasets what the
    others tell of a step."""
    if filters.arm:
        filters = replace(filters, arm=tuple(sorted({*filters.arm, BASELINE})))
    wanted, filters = filters.dataset, replace(filters, dataset=())
    cells = queries.cells(reader, filters).to_pandas()
    if cells.empty:
        return ()
    # All cells are placed, so that systems have the same numbers wherever they are shown.
    flags = queries.flags(reader, list(cells.loc[cells["flags"] > 0, "cell_id"])).to_pandas()
    fit = [load is not None and load.kind == "concurrency" for load in loads_of(cells)]
    unfit = flags.loc[flags["name"].isin(_UNFIT), "cell_id"]
    usable = frozenset(cells.loc[fit, "cell_id"]) - frozenset(unfit)
    measured, accepted, by_position = (
        rows[among(rows["cell_id"], usable)]
        for rows in (
            queries.measurements(reader, filters, METRICS_READ, ("mean",)).to_pandas(),
            queries.acceptance(reader, filters).to_pandas(),
            queries.acceptance_by_position(reader, filters).to_pandas(),
        )
    )
    points = load_points(cells, measured)
    found = _subjects(cells, points, position_counts(cells, accepted, by_position))
    return tuple(each for each in found if not wanted or each.place.dataset in wanted)


def _subjects(
    cells: pd.DataFrame, points: pd.DataFrame, counted: pd.DataFrame
) -> Iterator[ForecastSubject]:
    placed = place_arms(cells).drop_duplicates(_PLACE)
    facts = {row["cell_id"]: row for row in records(cells[among(cells["cell_id"], placed.index)])}
    first = {tuple(where): facts[cell] for cell, *where in placed[_PLACE].itertuples(name=None)}
    drafted = points.loc[points["k"] > 0, _PLACE].drop_duplicates()
    at = counted.groupby(_FAMILY).indices
    for system, family in drafted[_FAMILY].drop_duplicates().to_numpy():
        mine = DraftedPoints(
            points_of(of_family(points, system, family)),
            Positions.of_frame(counted.iloc[at.get((system, family), [])]),
        )
        theirs = (drafted["system"] == system) & (drafted["family"] == family)
        for dataset in drafted.loc[theirs, "dataset"]:
            one = first[system, family, dataset]
            place = ForecastPlace(int(system), str(family), str(dataset), **about(one))
            system_facts = tuple(about(one, SYSTEM).items())
            yield ForecastSubject(place, mine, tuple(about(one, ABOUT).values()), system_facts)


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
    ``every`` one there is: those of a GPU first, then those with most measured points."""
    here, everywhere = _grouped(found), _grouped(every)
    first = {at: mine[0] for at, mine in (here | everywhere).items()}
    known = dict.fromkeys((*everywhere, *here))
    ordered = sorted(known, key=lambda at: (
        at not in everywhere, first[at].place.evidence != "gpu", -len(first[at].measured.points),
    ))  # fmt: skip
    names = dict(zip(ordered, _names_apart([first[at] for at in ordered]), strict=True))
    return tuple(
        DraftFamily(
            names[at], one.place.system, one.place.family, _badges(one.place), one.about,
            tuple(sorted(each.place.dataset for each in mine)),
        )
        for at, mine, one in ((at, here[at], here[at][0]) for at in ordered if at in here)
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


def draft_of(family: str) -> str:
    """Return what a family drafts with: of a path the end, which tells most."""
    return family.rstrip(")").partition(" (")[2].rpartition("/")[2] or "not stated"


def _names_apart(firsts: Sequence[ForecastSubject]) -> list[str]:
    """Return a name for each family, ``eagle3, model, TP 1, H200``; families of one name get their
    drafts where these differ, the facts of their systems that differ (a server's arguments one by one;
    the first facts say most), or a number, so that no two are called the same."""
    names, systems = [], []
    for one in firsts:
        place, size = one.place, f"TP {known(one.place.tensor_parallel_size)}"
        method = place.family.partition(" (")[0]
        names.append(", ".join([method, known(place.model), size, known(place.gpu)]))
        systems.append({"draft": draft_of(place.family)} | flat(dict(one.facts)))
    seen: Counter[str] = Counter()
    found = []
    for name, system in zip(names, systems, strict=True):
        same = [other for at, other in zip(names, systems, strict=True) if at == name]
        facts = list(dict.fromkeys(fact for other in same for fact in other))
        stated = pd.DataFrame([{fact: str(other.get(fact)) for fact in facts} for other in same])
        for fact in telling(stated, facts):
            called = fact.replace("_", " ").replace("server args.", "")
            name += f", {called} {short(system.get(fact, 'not stated'))}"
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def acceptance_of_family(
    acceptance: Sequence[DraftAcceptance], family: DraftFamily
) -> tuple[DraftAcceptance, ...]:
    """Return the acceptance of one family on all its datasets."""
    return tuple(x for x in acceptance if (x.family, x.about) == (family.family, family.about))


def measured(found: Sequence[ForecastSubject]) -> TextRows:
    """Return what there is to choose from: a row per family and dataset."""
    header = ["model", "GPU", "TP", "dataset", "arm", "evidence", "K", "concurrency", "points"]
    rows = []
    for one in found:
        place, mine = one.place, one.measured.points.of(one.place.dataset)
        drafted = mine.where(mine.k > 0)
        values = (sorted(set(each.tolist())) for each in (drafted.k, drafted.concurrency))
        rows.append([
            known(place.model), known(place.gpu), known(place.tensor_parallel_size), place.dataset,
            place.family, ", ".join(_badges(place)) or "GPU",
            *(", ".join(f"{value:g}" for value in each) for each in values), str(len(drafted)),
        ])  # fmt: skip
    return header, rows


# --- From measured points to a forecast.


def predict(
    reader: Reader, filters: Filters, question: Question, paying: Paying
) -> Iterator[ForecastAnswer | RefusedForecast]:
    """Yield the answer of every family and dataset that the filters keep, or why there is none;
    with its cost where ``paying`` names a price."""
    for subject in subjects(reader, filters):
        try:
            yield forecast_answer(fitted(subject), question, paying)
        except InvalidInput as error:
            yield RefusedForecast(subject.place, str(error))


def fitted(subject: ForecastSubject) -> FittedPlace:
    """Fit a model to what was measured of a subject. Raises InvalidInput where nothing can be
    forecast."""
    model = subject.measured.model(subject.place.dataset)
    p = model.usual.points
    named = (p.k, p.concurrency, p.repeats, p.output_throughput, p.itl, p.ttft)
    points = tuple(
        MeasuredPoint(int(k), int(load), int(repeats), *values)
        for k, load, repeats, *values in zip(*(each.tolist() for each in named), strict=True)
    )
    return FittedPlace(subject.place, _askable(model, points), points, model)


def forecast_answer(
    fitted_place: FittedPlace, question: Question, paying: Paying | None = None
) -> ForecastAnswer:
    """Return the answer to one question.

    Raises InvalidInput where the question is too far from what was measured.
    """
    model = fitted_place.model
    prediction = model.beside_baseline(question)
    figures = _figures(fitted_place, prediction)
    checks = tuple(_checks(model.withheld))
    return ForecastAnswer(
        fitted_place.place, question, forecast_headline(question, figures[0]), figures, prediction.mean_length,
        _pays_from(model, question), prediction.warnings,
        trust(checks, model.pace, model.why_no_band(question)), model.pace, checks, model.withheld,
        _cost(fitted_place.place, figures[0], paying),
    )  # fmt: skip


def _pays_from(model: Model, question: Question) -> float | None:
    """Return the tokens of a step from which the question's K pays; None where that cannot be said."""
    try:
        return plain(model.break_even([question]).middle[0]) if question.k else None
    except InvalidInput:
        return None


def _cost(
    place: ForecastPlace, throughput: ForecastFigure, paying: Paying | None
) -> ForecastCost | Refusal | None:
    if paying is None or (paying.usd_per_hour is None and paying.price is None):
        return None
    basis = basis_of(paying, Hardware(place.gpu, place.gpu_count, place.tensor_parallel_size))
    if isinstance(basis, Refusal):
        return basis
    before, after = throughput.baseline, usd_per_million(throughput.predicted, basis)
    return ForecastCost(basis, after, None if before is None else usd_per_million(before, basis))


def forecast_lines(fitted_place: FittedPlace, question: Question) -> ForecastLines:
    """Return predictions around one question, none beside its baseline. Raises InvalidInput as
    ``forecast_answer`` does."""
    offer = fitted_place.offer
    plain = replace(question, k=0)
    loads = offer.loads if 0 in offer.ks else ()
    return ForecastLines(
        _steps(fitted_place, [replace(question, concurrency=load) for load in offer.loads]),
        _steps(fitted_place, [replace(plain, concurrency=load) for load in loads]),
        _steps(fitted_place, [replace(question, k=k) for k in offer.ks]),
    )


def _steps(fitted_place: FittedPlace, questions: list[Question]) -> tuple[ForecastStep, ...]:
    model = fitted_place.model
    return tuple(
        ForecastStep(
            prediction.question.k, prediction.question.concurrency,
            _figures(fitted_place, prediction),
            bool(model.reach.beyond(prediction.question)),
        )
        for prediction in model.predict_all(questions)
    )  # fmt: skip


def _figures(fitted_place: FittedPlace, prediction: Prediction) -> tuple[ForecastFigure, ...]:
    at = prediction.question.k, prediction.question.concurrency
    here = [point for point in fitted_place.points if (point.k, point.load) == at]
    bands = {metric: prediction.bands.get(metric, (None, None)) for metric in PREDICTED}
    return tuple(
        ForecastFigure(
            metric, getattr(prediction, metric), low, high,
            getattr(here[0], metric, None) if here else None,
            None if prediction.baseline is None else getattr(prediction.baseline, metric),
            prediction.improvement(metric),
        )
        for metric, (low, high) in bands.items()
    )  # fmt: skip


def _checks(withheld: Iterable[Withheld]) -> Iterator[Check]:
    groups: dict[tuple[LeftOut, str], list[Withheld]] = {}
    for one in withheld:
        groups.setdefault((one.left_out, one.metric), []).append(one)
    for key, mine in groups.items():
        errors = [abs(one.error) for one in mine]
        inner = [abs(one.error) for one in mine if one.inside]
        yield Check(
            *key, len(mine), median(errors), max(errors),
            median(inner) if inner else None, max(inner, default=None), sum(o.held for o in mine),
        )  # fmt: skip


def _askable(model: Model, points: tuple[MeasuredPoint, ...]) -> AskableQuestions:
    """Return what may be asked: the measured loads and the powers of two among and around them; to
    begin with, the K of the fastest draft at the middle load (at any load where none was measured
    there), and that load."""
    reach, usual = model.reach, model.usual
    low, high = reach.loads[0], reach.loads[-1]
    powers = {2**n for n in range(ceil(high * FAR).bit_length())}
    every = powers | set(reach.loads) | {floor(high * FAR)}
    drafted = [point for point in points if point.k > 0]
    middle = reach.loads[len(reach.loads) // 2]
    here = [point for point in drafted if point.load == middle] or drafted
    ks = range(ceil(reach.k.low / FAR), floor(reach.k.high * FAR) + 1)
    return AskableQuestions(
        (*(k for k in (0,) if k in reach.ks), *(k for k in ks if k > 0)),
        tuple(sorted(load for load in every if low / FAR <= load <= high * FAR)),
        _span(reach.prompt_tokens, usual.prompt_tokens, FAR_OF["prompt_tokens"]),
        _span(reach.output_tokens, usual.output_tokens, FAR),
        (max(here, key=lambda point: point.output_throughput).k, middle),
        model.step_time.knows_prompts,
        usual.decay is not None,
        (int(reach.k.low), int(reach.k.high)),
        (low, high),
    )


def _span(reach: Range, usual: float, far: float) -> AskableSpan:
    lowest = max(ceil(reach.low / far), 1)
    return AskableSpan(lowest, max(floor(reach.high * far), lowest + 1), max(round(usual), lowest))
