"""A call of the nightly: which night it is for, its stages one after the other, how it ends."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nightly import stages
from nightly.messages import Settings, flush
from nightly.nights import EXIT, NightFolder, NightState, date_of, night_folders, outcome_of
from warehouse.beside import STAGES, NightSummary, Stage, StageName
from warehouse.errors import RunnerError
from warehouse.secrets import scrub_text

#: A night that is not whole is taken up again by a call so soon after its start; a timer's next
#: call, a day later, begins a new one.
TAKEN_UP = timedelta(hours=20)
_WHOLE = ("fine", "regression", "not enough evidence")


def conduct(settings: Settings, study: str) -> NightSummary:
    """Do what is due. Return the night that this call worked at, or found done. Raises
    RunnerError.

    Nights that were killed are closed: what they measured is taken in, and what they lack is said.
    """
    now = datetime.now(UTC)
    folders, nights = night_folders(settings.results, study), []
    for folder in folders:
        try:
            nights.append(stages.NightRun(folder, folder.read_state(), settings))
        except RunnerError as error:
            # A damaged state file must not keep tonight from being measured.
            settings.echo(f"nightly: {error}\n")
    nights.sort(key=lambda night: night.summary.started)
    last = nights[-1] if nights and not settings.again else None
    is_whole = last is not None and last.summary.outcome in _WHOLE
    if last is not None and is_whole and last.folder.night[:10] == date_of(now):
        last.settings.echo(
            f"The night of {last.folder.night} is done ({last.summary.outcome}); nothing is "
            "due. --again begins another one.\n"
        )
        undelivered = flush(last.settings, study)
        if undelivered != last.summary.undelivered:
            last.tell(undelivered=undelivered)
        return last.summary
    if last is not None and not is_whole and now - last.summary.started < TAKEN_UP:
        tonight = nights.pop()
    else:
        taken, day = {folder.night for folder in folders}, date_of(now)
        # A second night of one evening.
        names = [day, *(f"{day}.{number}" for number in range(2, len(taken) + 3))]
        summary = NightSummary(
            study=study, night=next(name for name in names if name not in taken), started=now
        )
        folder = NightFolder(settings.results, study, summary.night)
        tonight = stages.NightRun(folder, NightState(summary=summary), settings)
    for night in nights:
        if night.summary.outcome == "unfinished":
            night.measure = False
            _through(night)
    return _through(tonight)


def _through(night: stages.NightRun) -> NightSummary:
    """Go through all stages that are not done; those behind one that was done again are done again
    too.
    """
    if night.state.child is not None:
        stages.end_left_over(night.state.child)
        night.keep(child=None)
    night.tell(
        calls=night.summary.calls + 1, limits=night.settings.limits, outcome="unfinished",
        exit_status=None,
    )  # fmt: skip
    for name in STAGES:
        changed = night.measure and night.state.laid_out != stages.hash_of(night.settings.study)
        done = night.summary.stage(name).status == "done"
        if not done or (name == "plan" and changed):
            # This stage, and all stages after it, are still to be done.
            later = STAGES[STAGES.index(name) :]
            pending: dict[StageName, dict[str, object]] = {
                stage: {"status": "pending", "said": ""} for stage in later
            }
            changes: dict[str, object] = {"stages": _with(night.summary, pending)}
            if "gate" in later:
                changes |= {"verdict": None, "regressions": (), "drifts": ()}
                # Of an earlier call; nobody may go by it.
                night.folder.judgement.unlink(missing_ok=True)
            night.tell(**changes)
            _stage(night, name)
    if night.summary.stage("report").status == "failed":
        stages.tell(night)  # Whoever was told that all is well should know.
    outcome = outcome_of(night.summary)
    status = EXIT[outcome] if EXIT[outcome] != 2 else night.settings.open_exit
    night.tell(outcome=outcome, exit_status=status, ended=datetime.now(UTC))
    return night.summary


def _stage(night: stages.NightRun, name: StageName) -> None:
    night.settings.echo(f"nightly: {name}\n")
    began = time.monotonic()
    try:
        came = _needs(night, name) or stages.WORK[name](night)
        came = replace(came, said=scrub_text(came.said))
    finally:
        # Also where it is interrupted: the time was spent.
        seconds = night.summary.stage(name).seconds + time.monotonic() - began
        spent = _with(night.summary, {name: {"seconds": seconds}})
        night.keep(summary=night.summary.model_copy(update={"stages": spent}))
    ended = _with(night.summary, {name: {"status": came.status, "said": came.said}})
    night.tell(stages=ended, **stages.figures(night))
    if came.said:
        night.settings.echo(f"nightly: {name} {came.status}: {came.said}\n")


def _needs(night: stages.NightRun, name: StageName) -> stages.StageEnd | None:
    """Say why a stage has nothing to work with; None where it has."""
    if name in ("plan", "notify"):
        return None
    if night.summary.stage("plan").status != "done":
        return stages.StageEnd("skipped", "the study could not be laid out")
    if name in ("gate", "report") and night.summary.stage("ingest").status == "skipped":
        return stages.StageEnd("skipped", "nothing was taken in")
    return None


def _with(summary: NightSummary, changes: dict[StageName, dict[str, object]]) -> tuple[Stage, ...]:
    return tuple(stage.model_copy(update=changes.get(stage.name, {})) for stage in summary.stages)
