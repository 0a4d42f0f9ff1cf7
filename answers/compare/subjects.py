"""What was compared, by subject: one model on one hardware with one engine, and its settings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from answers.compare import words
from answers.compare.values import Arm, Comparison, Mean, Question, Setting
from answers.decide.overview import System, names_apart, system
from answers.decide.subjects import Asked, Named
from answers.decide.subjects import subjects as named
from answers.decide.values import Decision
from answers.wording import percent
from warehouse.filters import Filters
from warehouse.store import Reader

#: The line by which arms are ranked where nothing is decided.
_SPEED = ("output_throughput", "mean")
#: Losses that are told above the charts.
_LISTED = 3


@dataclass(frozen=True)
class Compared:
    """One subject: its name with badges, and its settings, those with most loads first."""

    name: str
    settings: tuple[Setting, ...]

    def setting(self, label: str) -> Setting:
        """Return the setting with that label."""
        return next(one for one in self.settings if one.name == label)


@dataclass(frozen=True)
class Answer:
    """What a setting says: ``arm`` is the one that its decision takes, else the fastest on average;
    ``against``: what became worse with it."""

    headline: str
    arm: str
    against: tuple[str, ...]


def offered(reader: Reader, question: Question) -> tuple[Named, ...]:
    """Return every subject that the filters show, by the names and in the order that all subjects
    have without filters: those whose cells may have partners first."""
    found = _ranked(reader, question)
    unfiltered = replace(question, filters=Filters())
    every = found if question == unfiltered else _ranked(reader, unfiltered)
    # Settings of all configurations stand side by side.
    first = {_system(one): one for one in reversed(found)}
    names = names_apart(replace(one.about, configuration=None) for one in (*every, *found))
    return tuple(replace(first[at], name=name) for at, name in names.items() if at in first)


def _ranked(reader: Reader, question: Question) -> list[Named]:
    """Return the subjects of all configurations, those whose cells may have partners first."""
    asked = Asked(question.filters, question.allow, question.reference, lonely=True)
    return sorted(named(reader, asked), key=lambda one: one.lonely)


def _system(one: Named) -> System:
    return system(replace(one.about, configuration=None))


def compared(found: Comparison, about: Named) -> Compared | None:
    """Return what was compared of a subject; None where nothing was."""
    settings = tuple(one for one in found.settings if system(one.subject) == _system(about))
    return Compared(about.name, _ordered(settings)) if settings else None


def subjects(found: Comparison) -> tuple[Compared, ...]:
    """Return every subject of a comparison, two of one name told apart by their study."""
    names = names_apart(one.subject for one in found.settings)
    grouped: dict[System, list[Setting]] = {}
    for one in found.settings:
        grouped.setdefault(system(one.subject), []).append(one)
    return tuple(Compared(names[at], _ordered(settings)) for at, settings in grouped.items())


def _ordered(settings: Sequence[Setting]) -> tuple[Setting, ...]:
    return tuple(sorted(settings, key=lambda one: -_loads(one)))


def _loads(one: Setting) -> int:
    return sum(len(arm.changes) for arm in one.arms)


def answer(setting: Setting, decisions: Sequence[Decision], reference: str) -> Answer:
    """Return the decision on a setting, as every page tells it; without one, what the means say."""
    for one in decisions:
        same = (one.subject, one.traffic.dataset) == (setting.subject, setting.dataset)
        if same and not one.traffic.mix:
            against = tuple(loss.sentence for loss in one.against[:_LISTED])
            return Answer(one.headline, _taken(setting, one), against)
    arm = _fastest(setting)
    return Answer(_by_mean(arm, reference), arm.name, ())


def _taken(setting: Setting, one: Decision) -> str:
    labels = {arm.label: arm.name for arm in setting.arms}
    return labels.get(one.arm, _fastest(setting).name)


def _fastest(setting: Setting) -> Arm:
    return max(setting.arms, key=_speed)


def _speed(arm: Arm) -> float:
    mean = _mean(arm)
    return float("-inf") if mean is None or mean.improvement is None else mean.improvement


def _mean(arm: Arm) -> Mean | None:
    return next((one for one in arm.means if (one.metric, one.statistic) == _SPEED), None)


def _by_mean(arm: Arm, reference: str) -> str:
    mean = _mean(arm)
    if mean is None or mean.improvement is None:
        return f"{arm.name} beside {reference}: nothing is decided."
    speed = words.metric_name(*_SPEED).lower()
    return (
        f"{arm.name} against {reference}: {speed} {percent(mean.improvement)} on average over the "
        f"loads {', '.join(mean.loads)}; nothing is decided."
    )
