"""A call of the nightly: which night it is for, its stages one after the other, how it ends."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from nightly import stages, words
from nightly.messages import Settings, flush
from nightly.nights import Book, Place, State, date_of, places, read_state
from nightly.stages import Came, Night, end_left_over
from nightly.words import EXIT, outcome_of
from warehouse.beside import STAGES, NightSummary, Stage, StageName
from warehouse.errors import RunnerError
from warehouse.secrets import scrub_text

#: A night that is not whole is taken up again by a call so soon after its start; a timer's next
#: call, a day later, begins a new one.
TAKEN_UP = timedelta(hours=20)
_WHOLE = ("fine", "regression", "not enough evidence")


@dataclass(frozen=True)
class Due:
    """The nights that a call of the nightly works at. ``night``: what this call works at;
    ``closing``: earlier nights that were left unfinished; ``done``: nothing is due, ``night`` is
    whole."""

    night: Book
    closing: tuple[Book, ...] = ()
    done: bool = False


def conduct(settings: Settings, study: str) -> NightSummary:
    """Do what is due. Return the night that this call worked at, or found done. Raises
    RunnerError."""
    due = _due(settings, study)
    for book in due.closing:
        _through(Night(book, settings, measure=False))
    if not due.done:
        return _through(Night(due.night, settings))
    settings.echo(
        f"The night of {due.night.place.night} is done ({due.night.summary.outcome}); nothing is "
        "due. --again begins another one.\n"
    )
    undelivered = flush(settings, study)
    if undelivered != due.night.summary.undelivered:
        due.night.tell(undelivered=undelivered)
    return due.night.summary


def _due(settings: Settings, study: str) -> Due:
    now = datetime.now(UTC)
    known = sorted(_books(settings, study), key=lambda book: book.summary.started)
    last = known[-1] if known else None
    if last is not None and not settings.again:
        if last.summary.outcome not in _WHOLE and now - last.summary.started < TAKEN_UP:
            return Due(last, _unfinished(known[:-1]))
        if last.summary.outcome in _WHOLE and last.place.night[:10] == date_of(now):
            return Due(last, done=True)
    return Due(_new(settings, study, now), _unfinished(known))


def _books(settings: Settings, study: str) -> Iterator[Book]:
    """Yield the nights so far; a damaged state file is passed over, it must not keep tonight from
    being measured."""
    for place in places(settings.results, study):
        try:
            yield _book(place, read_state(place), settings)
        except RunnerError as error:
            settings.echo(f"nightly: {error}\n")


def _unfinished(known: list[Book]) -> tuple[Book, ...]:
    """Return the nights that were killed: what they measured is taken in, and what they lack is
    said."""
    return tuple(book for book in known if book.summary.outcome == "unfinished")


def _book(place: Place, state: State, settings: Settings) -> Book:
    return Book(place, state, lambda night: _shown(settings, night))


def _shown(settings: Settings, night: NightSummary) -> None:
    words.write(settings.warehouse, night)


def _new(settings: Settings, study: str, now: datetime) -> Book:
    summary = NightSummary(study=study, night=_name(settings, study, now), started=now)
    place = Place(settings.results, study, summary.night)
    return _book(place, State(summary=summary), settings)


def _name(settings: Settings, study: str, now: datetime) -> str:
    """Return the night's name, which is the evening's date; a second night of one evening gets
    ``.2``."""
    taken = {place.night for place in places(settings.results, study)}
    day = date_of(now)
    names = [day, *(f"{day}.{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def _through(night: Night) -> NightSummary:
    """Go through all stages that are not done; those behind one that was done again are done again
    too."""
    book = night.book
    if book.state.child is not None:
        end_left_over(book.state.child)
        book.keep(child=None)
    book.tell(
        calls=book.summary.calls + 1, limits=night.settings.limits, outcome="unfinished",
        exit_status=None,
    )  # fmt: skip
    for name in STAGES:
        if not _is_done(night, name):
            _begin(book, name)
            _stage(night, name)
    if book.summary.stage("report").status == "failed":
        stages.tell(night)  # Whoever was told that all is well should know.
    outcome = outcome_of(book.summary)
    status = EXIT[outcome] if EXIT[outcome] != 2 else night.settings.open_exit
    book.tell(outcome=outcome, exit_status=status, ended=datetime.now(UTC))
    return book.summary


def _is_done(night: Night, name: StageName) -> bool:
    laid_out = night.book.state.laid_out
    changed = night.measure and laid_out != stages.hash_of(night.settings.study)
    return not (name == "plan" and changed) and night.book.summary.stage(name).status == "done"


def _begin(book: Book, name: StageName) -> None:
    """Mark a stage, and all stages after it, as still to be done."""
    place = STAGES.index(name)
    again: dict[StageName, dict[str, object]] = {
        later: {"status": "pending", "said": ""} for later in STAGES[place:]
    }
    changes: dict[str, object] = {"stages": _with(book.summary, again)}
    if place <= STAGES.index("gate"):
        changes |= {"verdict": None, "regressions": (), "drifts": ()}
    book.place.answer(name).unlink(missing_ok=True)  # Of an earlier call; nobody may go by it.
    book.tell(**changes)


def _stage(night: Night, name: StageName) -> None:
    book = night.book
    night.settings.echo(f"nightly: {name}\n")
    began = time.monotonic()
    try:
        came = _needs(night, name) or stages.WORK[name](night)
        came = replace(came, said=scrub_text(came.said))
        said: dict[str, object] = {"status": came.status, "said": came.said}
    finally:
        # Also where it is interrupted: the time was spent.
        seconds = book.summary.stage(name).seconds + time.monotonic() - began
        book.keep(summary=book.summary.model_copy(update={
            "stages": _with(book.summary, {name: {"seconds": seconds}})}))  # fmt: skip
    book.tell(stages=_with(book.summary, {name: said}), **stages.figures(night))
    if came.said:
        night.settings.echo(f"nightly: {name} {came.status}: {came.said}\n")


def _needs(night: Night, name: StageName) -> Came | None:
    """Say why a stage has nothing to work with; None where it has."""
    summary = night.book.summary
    if name in ("plan", "notify"):
        return None
    if summary.stage("plan").status != "done":
        return Came("skipped", "the study could not be laid out")
    if name in ("gate", "report") and summary.stage("ingest").status == "skipped":
        return Came("skipped", "nothing was taken in")
    return None


def _with(summary: NightSummary, changes: dict[StageName, dict[str, object]]) -> tuple[Stage, ...]:
    return tuple(stage.model_copy(update=changes.get(stage.name, {})) for stage in summary.stages)
