"""The decision as Compare still asks for it."""

from answers.decide.answer import decide
from answers.decide.overview import Overview, overviews
from answers.decide.values import Decisions, Question
from dashboard.shelf import Shelf, ask


def found(shelf: Shelf, question: Question) -> Decisions:
    """All decisions that are asked for."""
    return ask(shelf, decide, question)


def subjects(shelf: Shelf, question: Question) -> dict[str, Overview]:
    """Name -> what is decided on one model and hardware."""
    return {one.name: one for one in overviews(found(shelf, question).decisions)}
