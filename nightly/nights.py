"""A night: where it lies and how it stands, its lock, its cells, what it may take, and its words."""

import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from pydantic import ValidationError

from answers.trend import words as trend_words
from answers.trend.nights import troubles
from answers.wording import markdown as as_markdown
from runners.surroundings.layout import RECORD, Layout, json_object
from warehouse.beside import (
    NIGHT_STAMP,
    Changed,
    Failure,
    NightCells,
    NightLimits,
    NightSummary,
    Regression,
    StageName,
    StrictPart,
    Verdict,
    nights_folder,
)
from warehouse.catalogue import counted, duration
from warehouse.contract import FACT_KEYS
from warehouse.errors import RunnerError
from warehouse.secrets import scrub
from warehouse.storage.cache import changed_aside
from warehouse.storage.files import write_whole

if TYPE_CHECKING:
    from analysis.matching.difference import Change
    from answers.trend.answer import Trend, TrendLine

# --- What a night may take: hours and money, all its calls together.


def left_s(limits: NightLimits, usd_per_hour: float | None, measured_s: float) -> float | None:
    """Return the seconds that the tighter limit leaves after ``measured_s``, never below 0; None: no
    limit. ``usd_per_hour``: of the node, from the study; None where it states no price.

    Raises RunnerError where money is limited and the node has no price."""
    allowed = [] if limits.hours is None else [limits.hours * 3600]
    if limits.usd is not None:
        if not usd_per_hour:
            raise RunnerError(
                "--max-usd needs the price of the node, and the study states none; add price: "
                "{usd_per_hour: …, gpus_per_instance: …} to it, or use --max-hours."
            )
        allowed.append(limits.usd / usd_per_hour * 3600)
    return max(0.0, min(allowed) - measured_s) if allowed else None


def budget(limits: NightLimits) -> str:
    """Write what a night may take: ``3 h``, ``20 USD`` or both."""
    hours = [] if limits.hours is None else [f"{limits.hours:g} h"]
    money = [] if limits.usd is None else [f"{limits.usd:g} USD"]
    return " or ".join(hours + money)


# --- Where a night lies, and what stands in its state file.
#
# ``<results>/nights/<night>/<study>/`` is what ``draftboard run`` measures into. Beside the results:
# ``.nightly.json`` (the state; hidden, because ingest reads every other .json), ``.nightly-gate.json``
# (what the gate judged), ``logs/nightly-<stage>.log`` and ``report.html``.


FOLDER = "nights"
STATE = ".nightly.json"
#: A night that begins before noon belongs to the evening before, as on Trends.
NOON = timedelta(hours=12)


class Child(StrictPart):
    """A stage at work, as far as it takes to find its process again when this one was killed."""

    pid: int
    began: float
    """When the process began, as the system states it, in seconds since the epoch. The number of
    the process alone may be another one's."""


class NightState(StrictPart):
    """All that a later call needs to go on. ``planned``: keys of the study's cells."""

    summary: NightSummary
    planned: tuple[str, ...] = ()
    usd_per_hour: float | None = None
    laid_out: str = ""
    """Hash of the study file from which ``planned`` and the price come."""
    measured_s: float = 0.0
    """Seconds of the run stage in all calls, kept while it runs: a killed one counts too."""
    child: Child | None = None


@dataclass(frozen=True)
class NightFolder:
    """The files of one night of one study; nothing is made here."""

    results: Path
    study: str
    night: str

    @property
    def root(self) -> Path:
        """The folder that ``draftboard run --results`` gets."""
        return self.results / FOLDER / self.night

    @property
    def layout(self) -> Layout:
        """Where in ``root`` the study's cells lie."""
        return Layout(self.root, self.study)

    @property
    def own(self) -> Path:
        return self.root / self.study

    @property
    def state(self) -> Path:
        """The file that keeps the night's state."""
        return self.own / STATE

    @property
    def report(self) -> Path:
        """The night's report, one HTML file."""
        return self.own / "report.html"

    @property
    def judgement(self) -> Path:
        """The file with what the gate judged in its last call."""
        return self.own / ".nightly-gate.json"

    def log(self, stage: StageName) -> Path:
        """Return the file with everything that a stage printed in all its calls."""
        return self.own / "logs" / f"nightly-{stage}.log"

    def read_state(self) -> NightState:
        """Read the state of the night. RunnerError where its file is damaged."""
        try:
            return NightState.model_validate_json(self.state.read_bytes())
        except (OSError, ValidationError):
            raise RunnerError(
                f"{self.state} cannot be read, so nobody knows what of that night is done; move it "
                "away: its results stay, and the next call begins another night."
            ) from None


def date_of(moment: datetime) -> str:
    """Return the night to which a moment belongs, e.g. ``2026-11-21`` until noon of the 22nd,
    UTC."""
    return (moment.astimezone(UTC) - NOON).date().isoformat()


def night_folders(results: Path, study: str) -> list[NightFolder]:
    """Return the nights of a study that have a state file, by name."""
    files = sorted((results / FOLDER).glob(f"*/{study}/{STATE}"))
    return [NightFolder(results, study, file.parents[1].name) for file in files]


# --- One night at a time in a results folder: a lock that the system lets go of when its holder dies.


class AnotherNight(RunnerError):
    """Another process holds the lock."""


@contextmanager
def night_lock(results: Path, study: str) -> Iterator[None]:
    """Hold the lock of ``results``; raises AnotherNight, which names the holder.

    Two studies measured at once would disturb one another, so they share it. The name of the holder
    is for people: only the system's lock counts, and a dead process holds none.
    """
    folder = results / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(
        folder / ".lock", fallback_to_soft=False, preserve_lock_file=True, thread_local=False
    )
    holder = folder / ".lock.holder"
    try:
        lock.acquire(timeout=0)
    except Timeout:
        try:
            words = "process {pid} on {host} has been at {study} since {since}"
            who = words.format(**(json_object(holder) or {}))
        except KeyError:
            who = "a process that has not said its name yet"
        raise AnotherNight(
            f"Another night is running in {results}: {who}. Nothing was started."
        ) from None
    try:
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        me = {"pid": os.getpid(), "host": platform.node(), "study": study, "since": since}
        write_whole(holder, json.dumps(me))
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


# --- What a night has of its cells: how many are good, why others failed, what is set otherwise.


#: Failures and changes that a summary tells; the rest is in the results.
MOST = 20
#: What of a record's environment is set by somebody; clocks, ports and placement vary by themselves.
_ENVIRONMENT = (
    "versions", "packages", "driver", "cuda_driver", "cpu", "system", "python", "container",
    "git", "variables",
)  # fmt: skip
_TEXT = 300


def cells_of(folder: NightFolder, planned: Sequence[str]) -> tuple[NightCells, tuple[Failure, ...]]:
    """Count the planned cells: each is good, failed or missing. Return also why they failed, as the
    runner diagnosed their last attempt, at most MOST."""
    layout, failures, good = folder.layout, [], 0
    for key in planned:
        if _good_record(folder, key):
            good += 1
        elif attempt := layout.attempts(key):
            record = json_object(layout.failed(key, attempt) / RECORD) or {}
            why = str(record.get("failure") or "its record gives no diagnosis")
            failures.append(Failure(cell=key, said=" ".join(why.split())[:_TEXT]))
    missing = len(planned) - good - len(failures)
    cells = NightCells(planned=len(planned), good=good, failed=len(failures), missing=missing)
    return cells, tuple(failures[:MOST])


def changed(
    folder: NightFolder, earlier: NightFolder | None, planned: Sequence[str]
) -> tuple[Changed, ...]:
    """Return what is set otherwise than in an earlier night: one good cell of each server is
    compared with its own of that night, since all cells of a server were set alike.

    At most MOST; nothing without an earlier night.
    """
    if earlier is None:
        return ()
    from analysis.matching.difference import differences

    records = {key: record for key in planned if (record := _good_record(folder, key))}
    first_of_server = {tuple(key.split("/")[:2]): key for key in reversed(records)}
    changes = {
        (change.field, str(change.before), str(change.after)): change
        for key in first_of_server.values()
        if (before := _good_record(earlier, key))
        for change in differences(_settings(before), _settings(records[key]))
    }
    return tuple(_changed(change) for _, change in sorted(changes.items()))[:MOST]


def _changed(change: "Change") -> Changed:
    return Changed(field=change.field, before=plain(change.before), after=plain(change.after))


def plain(value: Any) -> bool | int | float | str | None:
    """Return a value as JSON keeps it."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    value = value.item() if hasattr(value, "item") else value
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _settings(path: Path) -> dict[str, Any]:
    record = json_object(path) or {}
    environment = record.get("environment") or {}
    stated = {name: environment.get(name) for name in _ENVIRONMENT}
    return {name: record.get(name) for name in FACT_KEYS} | {"environment": stated}


def _good_record(folder: NightFolder, key: str) -> Path | None:
    """Return the record of a cell that is good; None where it is not. The runner renames it into its
    place then, and only then, and adds the versions that measured it, ``<key>@<versions>``."""
    records = (cell / RECORD for cell in folder.layout.cells(key) if (cell / RECORD).is_file())
    return max(records, key=lambda path: path.stat().st_mtime, default=None)


# --- What the gate judged, as a summary keeps it and a message tells it.


#: Regressions that a summary holds; the verdict counts them all.
MOST_JUDGED = 50


class Decline(StrictPart):
    """A series that drifts downwards ``since`` a night; ``key``: what it is remembered by."""

    key: str
    line: str
    about: dict[str, Any]
    since: str
    said: str


class Judgement(StrictPart):
    """What the gate says of the nights. ``regressions``: all, the worst first."""

    verdict: Verdict
    regressions: tuple[Regression, ...] = ()
    drifts: tuple[Decline, ...] = ()


def read_judgement(path: Path) -> Judgement | None:
    """Read what the gate judged; None where it did not come to it."""
    try:
        return Judgement.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def judgement_of(trend: "Trend") -> Judgement:
    """Return what a night keeps of a trend."""
    statuses = [line.status for line in trend.lines]
    worse = [_regression(line) for line in trend.lines if line.status == "regression"]
    falling = [line for line in trend.lines if line.drift is not None and line.drift.total < 0]
    return Judgement(
        verdict=Verdict(
            status=trend.status, series=len(statuses), fine=statuses.count("fine"),
            regressions=len(worse), unsettled=statuses.count("not enough evidence"),
        ),
        regressions=tuple(sorted(worse, key=lambda regression: regression.improvement)),
        drifts=tuple(map(_decline, falling)),
    )  # fmt: skip


def _decline(line: "TrendLine") -> Decline:
    assert line.drift is not None
    about, series = _about(line), line.assessed.series
    return Decline(
        key=f"drift {_key(about, series.metric, series.statistic, line.gain)}",
        line=line.metric, about=about, since=line.drift.since,
        said=f"{line.name}: {line.metric} {line.drift_text}",
    )  # fmt: skip


def _regression(line: "TrendLine") -> Regression:
    assessed = line.assessed
    return Regression.model_validate({
        "series": line.name, "about": _about(line), "metric": assessed.series.metric,
        "statistic": assessed.series.statistic, "line": line.metric, "gain": line.gain,
        "improvement": assessed.improvement, "low": assessed.low, "high": assessed.high,
        "budget": assessed.budget, "since": line.since, "before": line.last_before,
        "changed": [*map(_changed, assessed.changed)],
    })  # fmt: skip


def _about(line: "TrendLine") -> dict[str, bool | int | float | str | None]:
    return {name: plain(value) for name, value in line.about}


def identity(regression: Regression) -> str:
    """Return what makes a series the same from night to night."""
    return _key(regression.about, regression.metric, regression.statistic, regression.gain)


def _key(about: Mapping[str, object], metric: str, statistic: str, gain: str | None) -> str:
    return json.dumps([about, metric, statistic, *(["gain"] if gain else [])], sort_keys=True)


# --- A night in words: the same in the summary, in messages and on the terminal.


#: What each outcome means, and its exit status.
EXIT = {"fine": 0, "regression": 1, "not enough evidence": 2, "incomplete": 3, "failed": 4}


def outcome_of(night: NightSummary) -> str:
    """Say what became of a night that has gone through all its stages.

    A regression comes first, since it was measured; then a stage that failed, then the budget.
    """
    if night.verdict is not None and night.verdict.status == "regression":
        return "regression"
    if any(stage.status == "failed" for stage in night.stages):
        return "failed"
    if night.stage("run").status == "stopped":
        return "incomplete"
    return "failed" if night.verdict is None else night.verdict.status


def sized(regression: Regression) -> str:
    """Write a metric with its change, ``Output throughput -62.1 % (95 %: -65.9 % to -58.0 %)``, or
    what became of a gain."""
    return regression.gain or trend_words.sized(
        regression.line, regression.improvement, regression.low, regression.high
    )


def changes(changed: Iterable[Changed]) -> str:
    """Return the changes in one line."""
    return "; ".join(change.sentence for change in changed) or "nothing that is recorded"


def cells(night: NightSummary) -> str:
    """Say what became of the cells: ``22 of 24 cells good, 1 failed, 1 not measured``."""
    count = night.cells
    parts = [f"{count.good} of {counted(count.planned, 'cell')} good"]
    parts += [f"{count.failed} failed"] if count.failed else []
    parts += [f"{count.missing} not measured"] if count.missing else []
    return ", ".join(parts)


def cost(night: NightSummary) -> str:
    """Say what the night cost: ``measured for 3.5 h, 12.30 USD``; without a price only the time."""
    spent = f"measured for {duration(night.measuring_hours * 3600)}"
    return spent if night.cost_usd is None else f"{spent}, {night.cost_usd:,.2f} USD"


def markdown(night: NightSummary) -> str:
    """Return the summary for people: what happened first, the stages last."""
    verdict, gate = night.verdict, "The gate has not judged it."
    if verdict is not None:
        gate = (
            f"Of {verdict.series:,} series: {verdict.regressions:,} worse, "
            f"{verdict.unsettled:,} not settled, {verdict.fine:,} fine."
        )
    lines = [f"# {night.study}, night {night.night}: {night.outcome}", ""]
    lines += [f"{cells(night)}; {cost(night)}. {gate}", ""]
    worse = [
        f"{regression.series}: {sized(regression)} since {regression.since}"
        + (f", against nights up to {regression.before}" if regression.before else "")
        + f"; changed: {changes(regression.changed)}"
        for regression in night.regressions
    ]
    lines += _section("Became worse", worse)
    lines += _section("Drifts", night.drifts)
    lines += _section("Changed since the night before", [c.sentence for c in night.changed])
    lines += _section("Decided otherwise than before", night.redecided)
    lines += _section("What is decided", night.decided)
    lines += _section("Failed or missing", troubles(night))
    lines += ["| stage | status | took |", "|---|---|---|"]
    lines += [f"| {s.name} | {s.status} | {duration(s.seconds)} |" for s in night.stages]
    times = f"Began {night.started:%Y-%m-%d %H:%M} UTC"
    ended = f", ended {night.ended:%Y-%m-%d %H:%M} UTC" if night.ended else ""
    calls = f", in {night.calls} calls" if night.calls > 1 else ""
    lines += ["", f"{times}{ended}{calls}."]
    if night.undelivered:
        lines.append(f"{counted(night.undelivered, 'message')} could not be delivered yet.")
    return "\n".join([*lines, ""])


def _section(title: str, lines: Sequence[str]) -> list[str]:
    listed = (f"- {as_markdown(line)}" for line in lines)
    return [f"## {title}", "", *listed, ""] if lines else []


# --- Writes the nights' history into the warehouse folder; ``warehouse/beside.py`` reads it.


def write_summary(root: Path, night: NightSummary) -> Path:
    """Put a summary in place, as JSON and as Markdown; a night that goes on replaces its own."""
    night = NightSummary.model_validate(scrub(night.model_dump()))
    name = night.started.astimezone(UTC).strftime(NIGHT_STAMP)
    path = nights_folder(root) / night.study / f"{name}.json"
    write_whole(path.with_suffix(".md"), markdown(night))
    write_whole(path, night.model_dump_json(indent=1) + "\n")
    changed_aside(root, [path.with_suffix(".md"), path])
    return path
