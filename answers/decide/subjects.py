"""What there is to decide on, found from the cells alone, and the decision on one of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pandas as pd

from analysis.evidence.effects import studies_of
from analysis.frames import among, numbered, plain, records
from analysis.matching.comparison import SETTING, settings_of
from analysis.matching.fields import UNKNOWN_MATCHES
from analysis.matching.reference import BASELINE, against
from answers.decide.answer import decide, subject_of
from answers.decide.configurations import configurations
from answers.decide.overview import Overview, System, names_apart, narrowed, overviews, system
from answers.decide.values import Decisions, Question, Subject
from answers.ground import MOST_KEPT, deciding_cells, studies_key, whole_studies
from warehouse.filters import UNKNOWN, Filters
from warehouse.store import Reader


@dataclass(frozen=True)
class Asked:
    """What is asked of the list of subjects. ``filters`` choose what is shown. ``allow``: fields in
    which pairs may differ; ``reference``: the arm that the others are compared with; ``lonely``:
    whether subjects count of which no cell can have a partner."""

    filters: Filters = Filters()
    allow: tuple[str, ...] = ()
    reference: str = BASELINE
    lonely: bool = False


@dataclass(frozen=True)
class Named:
    """One model on one hardware with one engine, of one study. ``filters``: the chosen ones, kept to
    it and to the studies that may hold partners of its cells, so that its answer reads no others.
    ``lonely``: no cell of it can have a partner."""

    name: str
    about: Subject
    filters: Filters
    lonely: bool = False


@dataclass(frozen=True)
class One:
    """The decisions on one subject; without any, ``why_none`` is a sentence."""

    overview: Overview | None
    why_none: str | None = None


@dataclass(frozen=True)
class _Setting:
    """What a setting with a shown speculative cell is about, whether it holds a baseline, and which
    other studies hold one that may be a partner; None: a study without a name."""

    about: Subject
    own: bool
    others: frozenset[str | None]


@dataclass(frozen=True)
class _There:
    """The speculative cells of some studies, with the number of their setting, the number of what
    partners share, and their study. ``own``: settings with a baseline; ``studies``: those with a
    baseline, by what partners share; ``about``: what each setting is about."""

    cells: pd.DataFrame
    own: frozenset[int] = frozenset()
    studies: dict[int, frozenset[tuple[str | None]]] = field(default_factory=dict)
    about: dict[int, Subject] = field(default_factory=dict)


def subjects(reader: Reader, asked: Asked) -> tuple[Named, ...]:
    """Return every subject of which the filters keep a cell that may have a partner, by the names and
    in the order that all subjects have without filters. Some have no decision: no two of their cells
    can be compared."""
    every = _all(reader, asked)
    kept = every if asked.filters == Filters() else _kept(reader, asked)
    parts: dict[System, list[_Setting]] = {}
    for one in kept:
        parts.setdefault(system(one.about), []).append(one)
    return tuple(
        Named(name, parts[at][0].about, _filters(asked, parts[at]), not any(map(_met, parts[at])))
        for at, name in names_apart(one.about for one in (*every, *kept)).items()
        if at in parts
    )


def _all(reader: Reader, asked: Asked) -> list[_Setting]:
    """Return the settings that there are without filters. Every choice of filters asks for them."""
    asked = replace(asked, filters=Filters())
    every: list[_Setting] = reader.kept.get(
        f"settings of {asked}", lambda one: _kept(one, asked), reader
    )
    return every


def _kept(reader: Reader, asked: Asked) -> list[_Setting]:
    """Return the settings of which the filters keep a cell that may have a partner."""
    cells, shown = whole_studies(reader, asked.filters)
    found = _settings(_there(reader, asked, cells), shown)
    return [one for one in found if asked.lonely or asked.allow or _met(one)]


def _there(reader: Reader, asked: Asked, cells: pd.DataFrame) -> _There:
    """Return what there is in the studies of these cells: of the filters it needs no more."""

    def made(one: Reader) -> _There:
        return _there_of(against(deciding_cells(one, cells), asked.reference))

    if len(cells) > MOST_KEPT:
        return made(reader)
    known: _There = reader.kept.get(
        f"settings in {studies_key(asked.filters, cells)} {asked.reference}", made, reader
    )
    return known


def _met(one: _Setting) -> bool:
    return one.own or bool(one.others)


def _filters(asked: Asked, parts: list[_Setting]) -> Filters:
    """Keep the chosen filters to a subject, whose settings these are."""
    if asked.allow:  # Partners may differ, so they may be anywhere.
        return asked.filters
    about = parts[0].about
    kept = narrowed(about, asked.filters)
    others = {study or UNKNOWN for one in parts for study in one.others}
    if not others:
        return kept
    # Of a partner's engine less may be known.
    studies = tuple(sorted({*kept.study, *others}))
    return replace(kept, study=studies, engine_version=asked.filters.engine_version)


def _there_of(cells: pd.DataFrame) -> _There:
    if cells.empty:
        return _There(cells)
    setting, keys = settings_of(cells)
    plain_server = (cells["spec_method"] == "none").to_numpy()
    places = pd.DataFrame({
        "cell_id": cells["cell_id"].to_numpy(), "setting": setting.to_numpy(),
        "shared": numbered(cells, _shared(cells)), "study": studies_of(cells),
    })  # fmt: skip
    baselines = places[plain_server].groupby("shared")["study"].agg(frozenset)
    studies = {int(str(shared)): found for shared, found in baselines.items()}
    words = configurations(keys)
    first = keys[~keys.index.get_level_values(0).duplicated()].droplevel(1)
    told = zip(map(int, map(str, first.index)), records(first), strict=True)
    facts = {at: {name: plain(value) for name, value in row.items()} for at, row in told}
    about = {at: subject_of(row, words.get(at)) for at, row in facts.items()}
    own = frozenset(places["setting"][plain_server])
    return _There(places[~plain_server], own, studies, about)


def _settings(there: _There, shown: frozenset[str]) -> Iterator[_Setting]:
    """Yield the settings that have one of the cells that are shown."""
    if there.cells.empty:
        return
    asked = there.cells[among(there.cells["cell_id"], shown).to_numpy()]
    once = asked.drop_duplicates("setting").sort_values("setting").drop(columns="cell_id")
    for one, shared, study in once.itertuples(index=False, name=None):
        others = frozenset(each[0] for each in there.studies.get(shared, frozenset()) - {study})
        yield _Setting(there.about[one], one in there.own, others)


def _shared(cells: pd.DataFrame) -> list[str]:
    """Return what two cells must share to be partners; what is unknown of some may be equal."""
    doubtful = {name for name in UNKNOWN_MATCHES if name in cells and cells[name].isna().any()}
    return [name for name in SETTING if name != "study" and name not in doubtful]


def decide_one(reader: Reader, question: Question, about: Named) -> One:
    """Decide on one of ``subjects``: the same as ``decide`` on all of them says of it.

    Raises InvalidInput for an SLO, a load or a mix that does not fit the results.
    """
    found = decide(reader, replace(question, filters=about.filters))
    return One(overview_of(found, about), found.why_none)


def overview_of(found: Decisions, about: Named) -> Overview | None:
    """Return the overview of a subject, by the name that it has among all; None without one."""
    there = (one for one in overviews(found.decisions) if one.about == system(about.about))
    return next((replace(one, name=about.name) for one in there), None)
