"""Decisions put together: one paragraph for each model on one hardware."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from answers import wording
from answers.decide import words as said
from answers.decide.tables import traffic_short
from answers.decide.values import Decision, Subject
from answers.wording import known
from warehouse.filters import UNKNOWN, Filters

#: Study, model, hardware, engine and its version, evidence, configuration.
System = tuple[str | None, ...]


@dataclass(frozen=True)
class Overview:
    """All decisions on one model, hardware and engine. ``leads``: those that the paragraph tells:
    of each tensor parallel size the mix, else every dataset."""

    name: str
    paragraph: str
    leads: tuple[Decision, ...]
    decisions: tuple[Decision, ...]

    @property
    def about(self) -> System:
        """What all decisions on the subject share."""
        return system(self.decisions[0].subject)

    @property
    def headline(self) -> str:
        """One sentence, or one for each tensor parallel size or dataset."""
        if len(self.leads) == 1:
            return self.leads[0].headline
        return " ".join(f"{self.place(one)}: {one.headline}" for one in self.leads)

    def place(self, one: Decision) -> str:
        """Name a lead among the leads: ``TP 2, code``."""
        return f"{self._size(one)}{one.traffic.name}"

    def short(self, one: Decision) -> str:
        """Name the lead where there is little room: ``TP 2, mix of 3``."""
        return f"{self._size(one)}{traffic_short(one)}"

    def _size(self, one: Decision) -> str:
        sizes = {each.subject.tensor_parallel_size for each in self.decisions}
        return f"TP {known(one.subject.tensor_parallel_size)}, " if len(sizes) > 1 else ""

    @property
    def ordered(self) -> tuple[Decision, ...]:
        """All decisions, those that lead first."""
        # A hash of a decision walks through all of it.
        return (*self.leads, *(one for one in self.decisions if one not in self.leads))


def overviews(decisions: Sequence[Decision]) -> tuple[Overview, ...]:
    """Return one overview for each model, hardware, engine and study, in the order of the
    decisions."""
    names = names_apart([one.subject for one in decisions])
    order = list(names)
    ranked = sorted(decisions, key=lambda one: (order.index(system(one.subject)), _size(one)))
    grouped = groupby(ranked, lambda one: system(one.subject))
    return tuple(_overview(names[at], tuple(part)) for at, part in grouped)


def names_apart(subjects: Iterable[Subject]) -> dict[System, str]:
    """Return a name for each system, no two alike, in the order of the subjects."""
    first: dict[System, Subject] = {}
    studies: dict[str, set[str | None]] = {}
    for one in subjects:
        first.setdefault(system(one), one)
        studies.setdefault(name(one), set()).add(one.study)
    return {at: _apart(one, studies) for at, one in first.items()}


def system(about: Subject) -> System:
    """Return what one overview is about: its decisions differ in size and traffic alone."""
    engine = (about.engine, about.engine_version)
    return (about.study, about.model, about.gpu, *engine, about.evidence, about.configuration)


def _size(one: Decision) -> int:
    return one.subject.tensor_parallel_size or 0


def name(about: Subject) -> str:
    """Return what a subject is called: ``gpt-oss on H200, vllm 0.24.0 [CPU lab]``."""
    told = f"{known(about.model)} on {known(about.gpu)}, {known(about.engine)} {known(about.engine_version)}"
    return f"{told}{badge(about.evidence)}"


def badge(evidence: str | None) -> str:
    """Return the badge of the evidence behind a name or a title, `` [CPU lab]``; empty for a GPU
    run."""
    return wording.bracketed(wording.badge(evidence))


def _apart(about: Subject, studies: Mapping[str, set[str | None]]) -> str:
    """Name a subject so that no other is named alike: with its study where several studies have the
    name, and with its configuration."""
    told = name(about)
    parts = [told, f"study {known(about.study)}" if len(studies[told]) > 1 else None]
    return ", ".join(part for part in (*parts, about.configuration) if part)


def _overview(title: str, decisions: tuple[Decision, ...]) -> Overview:
    leads = tuple(_leads(decisions))
    if len(leads) == 1:
        return Overview(title, leads[0].paragraph, leads, decisions)
    found = Overview(title, "", leads, decisions)
    parts = [f"{found.place(one)}: {said.brief(one)}" for one in leads]
    paragraph = f"{known(decisions[0].subject.model)}. {' '.join(parts)} {_origin(decisions)}"
    return Overview(title, paragraph.strip(), leads, decisions)


def _leads(decisions: Sequence[Decision]) -> Iterator[Decision]:
    for _, part in groupby(decisions, _size):
        there = list(part)
        yield from [one for one in there if one.traffic.mix] or there


def _origin(decisions: Sequence[Decision]) -> str:
    return said.EVIDENCE.get(decisions[0].subject.evidence or "", "")


def narrowed(about: Subject, chosen: Filters) -> Filters:
    """Return the chosen filters, kept to a subject; arms keep the baseline beside them."""
    arm = tuple(sorted({*chosen.arm, "baseline"})) if chosen.arm else ()
    return replace(
        chosen, arm=arm, model=_only(about.model), gpu=_only(about.gpu),
        engine_version=_only(about.engine_version), study=_only(about.study),
    )  # fmt: skip


def _only(value: str | None) -> tuple[str, ...]:
    return (UNKNOWN if value is None else value,)
