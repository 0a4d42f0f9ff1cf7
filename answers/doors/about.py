"""Answers about one subject, as the pages give them, or about all where that is asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from answers.compare.answer import compare
from answers.compare.subjects import compared as of_subject
from answers.compare.subjects import offered
from answers.compare.values import Comparison
from answers.compare.values import Question as ComparisonQuestion
from answers.decide.answer import decide
from answers.decide.subjects import Asked, Named, decide_one, subjects
from answers.decide.values import Decisions, Question
from warehouse.errors import UnknownKey
from warehouse.store import Reader

Value = TypeVar("Value")
#: In the place of a name: all subjects.
ALL = "*"


@dataclass(frozen=True)
class About(Generic[Value]):
    """An answer, the name of its subject (None: all of them), and the names of all that there are."""

    value: Value
    subject: str | None
    subjects: tuple[str, ...]


def decided(reader: Reader, question: Question, subject: str | None) -> About[Decisions]:
    """Decide on the subject of that name; on the first that can be decided on where none is named.

    Raises UnknownKey for a name that no subject has, InvalidInput as ``decide`` does.
    """
    there = subjects(reader, Asked(question.filters, question.allow))
    for one in _tried(there, subject):
        found = decide_one(reader, question, one)
        mine = found.overview.decisions if found.overview else ()
        if mine or subject is not None:
            return About(Decisions(mine, found.why_none), one.name, _names(there))
    return About(decide(reader, question), None, _names(there))


def compared(
    reader: Reader, question: ComparisonQuestion, subject: str | None
) -> About[Comparison]:
    """Compare the arms of the subject of that name; of the first that has a pair where none is named.

    Raises UnknownKey for a name that no subject has, and as ``compare`` does.
    """
    there = offered(reader, question)
    for one in _tried(there, subject):
        found = compare(reader, replace(question, filters=one.filters))
        mine = of_subject(found, one)
        if mine is not None or subject is not None:
            settings = () if mine is None else mine.settings
            return About(replace(found, settings=settings), one.name, _names(there))
    return About(compare(reader, question), None, _names(there))


def _tried(there: Sequence[Named], subject: str | None) -> Iterator[Named]:
    """Yield the subjects to try, none for all of them. Raises UnknownKey."""
    if subject is None:
        yield from there
    elif subject != ALL:
        found = [one for one in there if one.name == subject]
        if not found:
            known = "; ".join(_names(there)) or "none"
            raise UnknownKey(f"There is no subject {subject!r}; those that there are: {known}.")
        yield from found


def _names(there: Sequence[Named]) -> tuple[str, ...]:
    return tuple(one.name for one in there)
