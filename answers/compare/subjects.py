"""What was compared, by subject: one model on one hardware with one engine, its settings, and a pair of cells in depth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from analysis.evidence.output_check import COLUMNS, check_outputs
from analysis.frames import records
from analysis.matching.difference import differences
from answers.compare.values import (
    ArmComparison,
    ComparedSetting,
    CompareQuestion,
    load_name,
    metric_name,
)
from answers.decide.overview import (
    NamedSubject,
    SubjectsQuestion,
    System,
    names_apart,
    subjects,
    system,
)
from answers.decide.tables import greedy
from answers.decide.values import Decision
from answers.wording import percent
from warehouse import queries
from warehouse.filters import Filters
from warehouse.rows import COMPLETED
from warehouse.store import Reader

#: The line by which arms are ranked where nothing is decided.
_SPEED = ("output_throughput", "mean")
#: Losses that are told above the charts.
_LISTED = 3


@dataclass(frozen=True)
class ComparedSubject:
    """One subject: its name with badges, and its settings, those with most loads first."""

    name: str
    settings: tuple[ComparedSetting, ...]

    def setting(self, label: str) -> ComparedSetting:
        return next(one for one in self.settings if one.name == label)


@dataclass(frozen=True)
class SettingAnswer:
    """What a setting says: ``arm`` is the one that its decision takes, else the fastest on average;
    ``against``: what became worse with it."""

    headline: str
    arm: str
    against: tuple[str, ...]


def offered(reader: Reader, question: CompareQuestion) -> tuple[NamedSubject, ...]:
    """Return every subject that the filters show, by the names and in the order that all subjects
    have without filters: those whose cells may have partners first."""
    found = _ranked(reader, question)
    unfiltered = replace(question, filters=Filters())
    every = found if question == unfiltered else _ranked(reader, unfiltered)
    # Settings of all configurations stand side by side.
    first = {_system(one): one for one in reversed(found)}
    names = names_apart(replace(one.about, configuration=None) for one in (*every, *found))
    return tuple(replace(first[at], name=name) for at, name in names.items() if at in first)


def _ranked(reader: Reader, question: CompareQuestion) -> list[NamedSubject]:
    asked = SubjectsQuestion(question.filters, question.allow, question.reference, lonely=True)
    return sorted(subjects(reader, asked), key=lambda one: one.lonely)


def _system(subject: NamedSubject) -> System:
    return system(replace(subject.about, configuration=None))


def compared(comparison: ArmComparison, about: NamedSubject) -> ComparedSubject | None:
    """Return what was compared of a subject; None where nothing was."""
    mine = [one for one in comparison.settings if system(one.subject) == _system(about)]
    return _subject(about.name, mine) if mine else None


def compared_subjects(comparison: ArmComparison) -> tuple[ComparedSubject, ...]:
    """Return every subject of a comparison, two of one name told apart by their study."""
    return tuple(
        _subject(name, [one for one in comparison.settings if system(one.subject) == at])
        for at, name in names_apart(one.subject for one in comparison.settings).items()
    )


def _subject(name: str, settings: Sequence[ComparedSetting]) -> ComparedSubject:
    ordered = sorted(settings, key=lambda one: -sum(len(arm.changes) for arm in one.arms))
    return ComparedSubject(name, tuple(ordered))


def answer(
    setting: ComparedSetting, decisions: Sequence[Decision], reference: str
) -> SettingAnswer:
    """Return the decision on a setting, as every page tells it; without one, what the means say."""
    gains = {
        arm.name: (mean.improvement, mean.loads)
        for arm in setting.arms
        for mean in arm.means
        if (mean.metric, mean.statistic) == _SPEED and mean.improvement is not None
    }
    fastest = max(setting.arms, key=lambda arm: gains.get(arm.name, (-inf, ()))[0]).name
    for one in decisions:
        same = (one.subject, one.traffic.dataset) == (setting.subject, setting.dataset)
        if same and not one.traffic.mix:
            names = {arm.label: arm.name for arm in setting.arms}
            against = tuple(loss.sentence for loss in one.against[:_LISTED])
            return SettingAnswer(one.headline, names.get(one.arm, fastest), against)
    headline = f"{fastest} beside {reference}: nothing is decided."
    if fastest in gains:
        gain, loads = gains[fastest]
        headline = (
            f"{fastest} against {reference}: {metric_name(*_SPEED).lower()} {percent(gain)} on average "
            f"over the loads {', '.join(loads)}; nothing is decided."
        )
    return SettingAnswer(headline, fastest, ())


# --- One pair of cells in depth: what differs in their configuration, and how their requests fared.


#: The metrics of single requests that are told as distributions.
DISTRIBUTIONS = ("ttft", "itl", "request_latency")
#: Requests of a cell that are told one by one; of more, every n-th one.
MOST_REQUESTS = 4000
_STARTED = ("commands", "environment", "settings")
#: x, y
XY = tuple[float, float]


@dataclass(frozen=True)
class NamedPair:
    """Two cells that met, and what their arms are called; ``badges``: of their evidence."""

    name: str
    reference_cell: str
    arm_cell: str
    reference: str
    arm: str
    badges: tuple[str, ...]

    @property
    def cells(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The name of each arm and the id of its cell."""
        return (self.reference, self.reference_cell), (self.arm, self.arm_cell)


@dataclass(frozen=True)
class DifferingSetting:
    """A setting in which two cells differ, and both values; None where one does not state it."""

    setting: str
    reference: str | None
    arm: str | None


@dataclass(frozen=True)
class RequestDistribution:
    """One metric's distribution by arm: the value that a share (0-1) of the requests took at
    most."""

    metric: str
    arms: tuple[tuple[str, tuple[XY, ...]], ...]


@dataclass(frozen=True)
class FirstTokens:
    """Prompt tokens and time to first token (ms) of an arm's requests; ``total``: how many there
    are, where not all are told."""

    arm: str
    points: tuple[XY, ...]
    total: int


@dataclass(frozen=True)
class PairRequests:
    """The requests of both cells; ``outputs``: whether they answer the same, in sentences."""

    distributions: tuple[RequestDistribution, ...]
    first_tokens: tuple[FirstTokens, ...]
    outputs: tuple[str, ...]


def pairs(comparison: ArmComparison, setting: ComparedSetting) -> tuple[NamedPair, ...]:
    """Return every pair of a setting by arm, load and repeat; those of one name are numbered."""
    taken: dict[str, NamedPair] = {}
    for arm in setting.arms:
        for met in arm.pairs:
            repeat = "" if met.repeat is None else f", repeat {met.repeat}"
            name = f"{arm.name}, {load_name(met.load)}{repeat}"
            number = 1 + sum(one == name or one.startswith(f"{name} (") for one in taken)
            name = name if number == 1 else f"{name} ({number})"
            cells = (met.reference_cell, met.arm_cell)
            taken[name] = NamedPair(name, *cells, comparison.reference, arm.name, arm.badges)
    return tuple(taken.values())


def configuration(reader: Reader, pair: NamedPair) -> tuple[DifferingSetting, ...]:
    """Return all in which the two cells and their servers differ. Both cells are read even if a
    filter hides one."""
    cells = queries.cells(reader, Filters()).to_pandas()
    runs = queries.runs(reader, Filters()).to_pandas()
    sides = []
    for _, cell_id in pair.cells:
        cell = records(cells[cells["cell_id"] == cell_id])[0]
        same = (runs["source_id"] == cell["source_id"]) & (runs["run_id"] == cell["run_id"])
        # How its run was started stands in other columns.
        run = records(runs[same])[0]
        sides.append({**{name: run[name] for name in _STARTED}, **cell})
    return tuple(
        DifferingSetting(change.field, _value(change.before), _value(change.after))
        for change in differences(*sides)
    )


def _value(value: Any) -> str | None:
    # A whole number in a column that also has gaps comes as a float.
    whole = isinstance(value, float) and value.is_integer()
    return None if value is None else str(int(value) if whole else value)


def requests(reader: Reader, pair: NamedPair) -> PairRequests:
    """Return the requests of both cells. Raises WarehouseDamaged where a file of them is
    missing."""
    columns = list(dict.fromkeys(("status", "prompt_tokens", "ttft", *COLUMNS)))
    rows = {arm: queries.requests(reader, cell, columns).to_pandas() for arm, cell in pair.cells}
    reference, other = rows.values()
    check = check_outputs(reference, other, greedy(reader, [cell for _, cell in pair.cells]))
    distributions = []
    for metric in DISTRIBUTIONS:
        found = []
        for arm, cell in pair.cells:
            table = queries.request_distribution(reader, cell, metric)
            shares, values = (table.column(name).to_pylist() for name in ("share", "value"))
            found.append((arm, tuple(zip(shares, values, strict=True))))
        if any(points for _, points in found):
            distributions.append(RequestDistribution(metric, tuple(found)))
    first_tokens = []
    for arm, of_arm in rows.items():
        done = of_arm.loc[of_arm["status"] == COMPLETED, ["prompt_tokens", "ttft"]].dropna()
        some = done.astype("float64").iloc[:: len(done) // MOST_REQUESTS + 1]
        points = tuple(some.itertuples(index=False, name=None))
        first_tokens.append(FirstTokens(arm, points, len(done)))
    return PairRequests(tuple(distributions), tuple(first_tokens), check.sentences)
