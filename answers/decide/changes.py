"""What is decided otherwise than when it was last recorded."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from answers.decide.tables import arm_taken
from answers.decide.values import Decision
from answers.decide.words import change, k_by_batch
from answers.wording import known, percent
from warehouse.decisions import About, Recorded

#: A gain that moved by less than this (ratio) is not worth a line.
_MOVED = 0.02


def recorded(found: Iterable[Decision], at: datetime) -> tuple[Recorded, ...]:
    """Return the decisions as they are recorded, at a moment (UTC)."""
    return tuple(_recorded(one, at) for one in found)


def _recorded(one: Decision, at: datetime) -> Recorded:
    operating = one.operating
    return Recorded(
        at, _about(one), one.subject.engine_version, one.answer, one.arm, one.table,
        tuple((level.load.text, level.difference.word) for level in one.levels),
        None if operating is None else operating.load.text,
        None if operating is None else operating.difference.improvement,
    )  # fmt: skip


def _about(one: Decision) -> About:
    known_of = one.subject
    return About(
        known_of.study, known_of.model, known_of.gpu, known_of.engine,
        known_of.tensor_parallel_size, known_of.evidence, one.traffic.name, one.objective,
        known_of.configuration,
    )  # fmt: skip


def changes(found: Iterable[Decision], last: Iterable[Recorded]) -> tuple[str, ...]:
    """Return a sentence for each decision that differs from the last recorded one; none where none
    was recorded."""
    told = []
    known_of = {before.about: before for before in last}
    for one in found:
        before = known_of.get(_about(one))
        parts = [] if before is None else list(_changed(one, before))
        if before is not None and parts:
            told.append(f"{_where(one)}, since {before.at:%Y-%m-%d}: {'; '.join(parts)}.")
    return tuple(told)


def _where(one: Decision) -> str:
    about = one.subject
    told = f"{known(about.model)} on {one.traffic.name}, TP {known(about.tensor_parallel_size)}"
    return told if about.configuration is None else f"{told}, {about.configuration}"


def _changed(one: Decision, before: Recorded) -> Iterator[str]:
    # At another operating load the arm and the answer may differ although nothing is new.
    same = before.operating_load == (one.operating_load.text if one.operating_load else None)
    if same and one.answer != before.answer:
        yield f"{one.answer}, was {before.answer}"
    if same and one.arm != before.arm:
        yield f"{arm_taken(one)}, was {before.arm}"
    if one.table != before.table:
        yield f"K by load is {_table(one.table)}, was {_table(before.table)}"
    words = dict(before.loads)
    for level in one.levels:
        was = words.get(level.load.text)
        if was != level.difference.word:
            yield f"at {level.load.text} {level.difference.word}, was {was or 'not measured'}"
    yield from _moved(one, before)
    if one.subject.engine_version != before.engine_version:
        version = known(before.engine_version)
        yield f"with {one.subject.engine} {known(one.subject.engine_version)}, was {version}"


def _table(entries: tuple[tuple[int, int, int], ...] | None) -> str:
    return "one K for all" if entries is None else k_by_batch(entries)


def _moved(one: Decision, before: Recorded) -> Iterator[str]:
    """Say how the gain at the operating load moved, where the load is the same and the move can be
    seen."""
    if one.operating is None or one.operating.load.text != before.operating_load:
        return
    now, was = one.operating.difference.improvement, before.gain
    if now is not None and was is not None and abs(now - was) > _MOVED:
        yield f"{change(one.operating.difference)} at {before.operating_load}, was {percent(was)}"
