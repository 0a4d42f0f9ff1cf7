"""The decision as pages show it, cached by warehouse generation."""

from dataclasses import dataclass, replace
from pathlib import Path

from answers.decide.accepted import Accepted, accepted
from answers.decide.answer import decide
from answers.decide.changes import changes
from answers.decide.outputs import Outputs, outputs
from answers.decide.overview import Overview, overviews
from answers.decide.values import Decision, Decisions, Question
from dashboard import data
from dashboard.answers import Drawing
from dashboard.answers import decide as drawn
from dashboard.cells import BEHIND, linked
from dashboard.components import Shown
from dashboard.shelf import Shelf, cached, reader
from warehouse import decisions
from warehouse.filters import UNKNOWN, Filters


@dataclass(frozen=True)
class Place:
    """One decision: the name of its overview and what it is called there."""

    subject: str
    traffic: str


@cached(16, Question)
def found(shelf: Shelf, question: Question) -> Decisions:
    """All decisions that are asked for."""
    return decide(reader(shelf), question)


@cached(16, Question)
def subjects(shelf: Shelf, question: Question) -> dict[str, Overview]:
    """Name -> what is decided on one model and hardware."""
    return {one.name: one for one in overviews(found(shelf, question).decisions)}


def traffics(overview: Overview) -> dict[str, Decision]:
    """Name -> decision, the first of those that lead first."""
    order = dict.fromkeys([*overview.leads, *overview.decisions])
    sizes = {one.subject.tensor_parallel_size for one in order}
    return {overview.place(one) if len(sizes) > 1 else one.traffic.name: one for one in order}


def decision(shelf: Shelf, question: Question, place: Place) -> Decision:
    """One of them."""
    return traffics(subjects(shelf, question)[place.subject])[place.traffic]


def kept(overview: Overview) -> dict[str, str]:
    """The filters that keep every page to a subject -> their value."""
    about = overview.decisions[0].subject
    told = {"model": about.model, "gpu": about.gpu, "engine_version": about.engine_version}
    return {name: UNKNOWN if value is None else value for name, value in told.items()}


def narrowed(overview: Overview, chosen: Filters) -> Filters:
    """The chosen filters, kept to a subject; arms keep the baseline beside them."""
    arm = tuple(sorted({*chosen.arm, "baseline"})) if chosen.arm else ()
    told = kept(overview)
    study = overview.decisions[0].subject.study
    return replace(
        chosen, arm=arm, model=(told["model"],), gpu=(told["gpu"],),
        engine_version=(told["engine_version"],), study=(UNKNOWN if study is None else study,),
    )  # fmt: skip


def changed(shelf: Shelf, question: Question) -> tuple[str, ...]:
    """What is decided otherwise than when it was last recorded: read anew each time."""
    return changes(found(shelf, question).decisions, decisions.last(Path(shelf.root)))


@cached(32, Question, Place)
def same(shelf: Shelf, question: Question, place: Place) -> Outputs | None:
    """Whether the arm that is taken answers as the baseline does."""
    return outputs(reader(shelf), decision(shelf, question, place))


@cached(16)
def drafts(shelf: Shelf, filters: Filters) -> tuple[Accepted, ...]:
    """The acceptance of every arm."""
    return accepted(reader(shelf), filters)


@cached(32, Question, Place)
def heat_map(shelf: Shelf, question: Question, place: Place) -> Drawing:
    """Loads across, arms down: what each is expected to bring, and which is taken."""
    return drawn.heat_map(decision(shelf, question, place))


@cached(32, Question, Place)
def cells_behind(shelf: Shelf, question: Question, place: Place, square: str) -> Shown:
    """The cells behind a field of the heat map, each with a link to its place on the Data page."""
    ids = drawn.squares(decision(shelf, question, place))[square]
    cells = data.cells(shelf, Filters())
    chosen = cells.loc[cells["cell_id"].isin(ids), [*BEHIND, "cell_id"]]
    return linked(chosen.rename(columns=BEHIND))
