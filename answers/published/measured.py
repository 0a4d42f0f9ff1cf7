"""What was measured here of a published line: the same model, dataset and tensor parallel size."""

from collections.abc import Iterator
from dataclasses import dataclass

from answers.compare.answer import compare
from answers.compare.values import Arm, Question, Setting
from answers.published.values import MEAN, Line, Measured
from warehouse.catalogue import METRICS
from warehouse.filters import Filters
from warehouse.store import Reader

_MS_IN_S = 1000.0


@dataclass(frozen=True)
class Ours:
    """The settings that were measured here with the model of a published study."""

    settings: tuple[Setting, ...] = ()

    def beside(
        self, place: tuple[str, str], line: Line, arms: tuple[str, str]
    ) -> tuple[Measured, ...]:
        """Return every arm of ours in the line's setting; none where the line compares two numbers
        of draft tokens, or tells a peak."""
        if arms[0] != "baseline":
            return ()
        found = [one for one in self.settings if _place(one) == tuple(p.casefold() for p in place)]
        return tuple(m for one in found for arm in one.arms for m in _measured(arm, line))


def measured_here(reader: Reader, model: str | None) -> Ours:
    """Return what the warehouse holds of a model."""
    if model is None:
        return Ours()
    return Ours(compare(reader, Question(Filters(model=(model,)))).settings)


def _place(one: Setting) -> tuple[str, str]:
    return (one.dataset or "").casefold(), str(one.subject.tensor_parallel_size or "").casefold()


def _measured(arm: Arm, line: Line) -> Iterator[Measured]:
    factor = _factor(line)
    if line.of == MEAN:
        for mean in arm.means:
            if (mean.metric, mean.statistic) == (line.metric, line.statistic):
                values = (_scaled(mean.reference, factor), _scaled(mean.arm, factor))
                yield Measured(
                    arm.name, arm.badges, MEAN, *values, mean.improvement, None, None, None
                )
    for change in arm.changes:
        if (change.line, _at_once(line.of)) == (
            (line.metric, line.statistic),
            change.load.text if change.load else None,
        ):
            values = (_scaled(change.reference.mean, factor), _scaled(change.arm.mean, factor))
            yield Measured(
                arm.name, arm.badges, line.of, *values, change.improvement, change.low,
                change.high, change.word,
            )  # fmt: skip


def _at_once(of: str) -> str | None:
    return of if of.endswith(" at once") else None


def _factor(line: Line) -> float:
    """Return the factor from our unit to the printed one."""
    ours = METRICS[line.metric].unit
    if (ours, line.unit) == ("ms", "s"):
        return 1 / _MS_IN_S
    return _MS_IN_S if (ours, line.unit) == ("s", "ms") else 1.0


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
