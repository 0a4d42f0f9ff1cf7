"""What decisions are about: the subjects that there are, what tells them apart, one paragraph for each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pandas as pd

from analysis.evidence.effects import studies_of
from analysis.frames import among, numbered, records
from analysis.matching.arms import BASELINE, against
from analysis.matching.arms import about as facts_of
from analysis.matching.comparison import SETTING, settings_of
from analysis.matching.difference import flat
from analysis.matching.fields import UNKNOWN_MATCHES
from answers.decide import words as said
from answers.decide.tables import traffic_short
from answers.decide.values import Decision, DecisionSubject
from answers.ground import MOST_KEPT, deciding_cells, studies_key, whole_studies
from answers.wording import badge, bracketed, known
from warehouse.filters import UNKNOWN, Filters
from warehouse.store import Reader

#: Study, model, hardware, engine and its version, evidence, configuration.
System = tuple[str | None, ...]


@dataclass(frozen=True)
class Overview:
    """All decisions on one model, hardware and engine. ``leads``: those that the paragraph tells:
    of each tensor parallel size the mix, else every dataset. A mix that was measured whole at one load
    alone does not speak for datasets that were measured at several: these lead then."""

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
        if len(self.leads) == 1 and (self.leads[0].traffic.mix or len(self.decisions) == 1):
            return self.leads[0].headline
        return " ".join(f"{self.place(one)}: {one.headline}" for one in self.leads)

    def place(self, decision: Decision) -> str:
        """Name a lead among the leads: ``TP 2, code``."""
        return f"{self._size(decision)}{decision.traffic.name}"

    def short(self, decision: Decision) -> str:
        """Name the lead where there is little room: ``TP 2, mix of 3``."""
        return f"{self._size(decision)}{traffic_short(decision)}"

    def _size(self, decision: Decision) -> str:
        sizes = {each.subject.tensor_parallel_size for each in self.decisions}
        return f"TP {known(decision.subject.tensor_parallel_size)}, " if len(sizes) > 1 else ""

    @property
    def ordered(self) -> tuple[Decision, ...]:
        """All decisions, those that lead first."""
        # A hash of a decision walks through all of it.
        return (*self.leads, *(one for one in self.decisions if one not in self.leads))


def overviews(decisions: Sequence[Decision]) -> tuple[Overview, ...]:
    """Return one overview for each model, hardware, engine and study: those of a GPU first, else in
    the order of the decisions."""
    names = names_apart([one.subject for one in decisions])
    order = list(names)
    ranked = sorted(
        decisions,
        key=lambda one: (not on_gpu(one.subject), order.index(system(one.subject)), _size(one)),
    )
    grouped = groupby(ranked, lambda one: system(one.subject))
    return tuple(_overview(names[at], tuple(part)) for at, part in grouped)


def _overview(title: str, decisions: tuple[Decision, ...]) -> Overview:
    of_size = (list(part) for _, part in groupby(decisions, _size))
    leads = tuple(one for there in of_size for one in _leading(there))
    if len(leads) == 1:
        return Overview(title, leads[0].paragraph, leads, decisions)
    found, about = Overview(title, "", leads, decisions), decisions[0].subject
    parts = [f"{found.place(one)}: {said.brief(one)}" for one in leads]
    origin = said.EVIDENCE.get(about.evidence or "", "")
    return replace(found, paragraph=f"{known(about.model)}. {' '.join(parts)} {origin}".strip())


def _leading(decisions: list[Decision]) -> list[Decision]:
    several = [each for each in decisions if len(each.levels) > 1] or decisions
    return [each for each in several if each.traffic.mix] or several


def _size(decision: Decision) -> int:
    return decision.subject.tensor_parallel_size or 0


# --- What a decision is about, and how it is called.


#: What the name of a decision says anyway.
_SAID = (
    "study", "model", "gpu", "gpu_count", "engine", "engine_version", "tensor_parallel_size",
    "evidence",
)  # fmt: skip


def subject_of(keys: Mapping[str, Any], configuration: str | None) -> DecisionSubject:
    """Return what a decision is about, from the facts of a setting; None for unknown."""
    return DecisionSubject(**facts_of(keys, _SAID), configuration=configuration)


def system(about: DecisionSubject) -> System:
    """Return what one overview is about: its decisions differ in size and traffic alone."""
    engine = (about.engine, about.engine_version)
    return (about.study, about.model, about.gpu, *engine, about.evidence, about.configuration)


def on_gpu(about: DecisionSubject) -> bool:
    """Return whether it tells the speed of a real model on a GPU: such a subject stands first."""
    return about.evidence == "gpu"


def name(about: DecisionSubject) -> str:
    """Return what a subject is called: ``gpt-oss on H200, vllm 0.24.0 [CPU lab]``."""
    engine = f"{known(about.engine)} {known(about.engine_version)}"
    return f"{known(about.model)} on {known(about.gpu)}, {engine}{bracketed(badge(about.evidence))}"


def names_apart(subjects: Iterable[DecisionSubject]) -> dict[System, str]:
    """Return a name for each system, no two alike, in the order of the subjects: with its study where
    several studies have the name, and with its configuration."""
    first: dict[System, DecisionSubject] = {}
    studies: dict[str, set[str | None]] = {}
    for one in subjects:
        first.setdefault(system(one), one)
        studies.setdefault(name(one), set()).add(one.study)
    several = {called for called, there in studies.items() if len(there) > 1}
    return {
        at: name(one)
        + (f", study {known(one.study)}" if name(one) in several else "")
        + (f", {one.configuration}" if one.configuration else "")
        for at, one in first.items()
    }


def narrowed(about: DecisionSubject, chosen: Filters) -> Filters:
    """Return the chosen filters, kept to a subject; arms keep the baseline beside them."""
    model, gpu, version, study = (
        (known(value),) for value in (about.model, about.gpu, about.engine_version, about.study)
    )
    arm = tuple(sorted({*chosen.arm, "baseline"})) if chosen.arm else ()
    return replace(chosen, arm=arm, model=model, gpu=gpu, engine_version=version, study=study)


# --- What tells two subjects apart that have the same model, hardware, engine and size.


#: A name holds so many facts, each no longer than this.
_MOST, _LONGEST = 3, 40


def configurations(keys: pd.DataFrame) -> dict[int, str]:
    """Return by setting ``max_num_seqs 2, prefix_caching True``: the facts in which settings of one
    dataset differ that are otherwise named alike. A setting that needs no such words is not in it.

    ``keys``: as ``Comparison.keys``, facts by (setting, arm_id).
    """
    settings = keys[~keys.index.get_level_values(0).duplicated()].droplevel(1)
    named = [name for name in _SAID if name in settings]
    rest = [name for name in SETTING if name in settings and name not in (*_SAID, "dataset")]
    found: dict[int, str] = {}
    for _, alike in settings.groupby(named, dropna=False, sort=False):
        if not alike["dataset"].duplicated().any():
            continue
        facts = {at: flat(dict(zip(rest, row, strict=True)))
                 for at, row in zip(alike.index, alike[rest].itertuples(index=False), strict=True)}  # fmt: skip
        datasets, varied = alike["dataset"].astype(str), set[str]()
        for _, of_dataset in datasets.groupby(datasets):
            mine = [facts[at] for at in of_dataset.index]
            stated = {each for one in mine for each in one}
            varied |= {each for each in stated if len({str(one.get(each)) for one in mine}) > 1}
        if varied:
            found |= {int(at): _words_of(one, sorted(varied)) for at, one in facts.items()}
    return found


def _words_of(facts: dict[str, Any], varied: list[str]) -> str:
    words = []
    for each in varied[:_MOST]:
        value = facts.get(each)
        shown = "not stated" if value is None else str(value)[:_LONGEST]
        words.append(f"{each.removeprefix('server_args.')} {shown}")
    more = len(varied) - _MOST
    return ", ".join([*words, *([f"{more} more"] if more > 0 else [])])


# --- The subjects that there are, found from the cells alone.


@dataclass(frozen=True)
class SubjectsQuestion:
    """What is asked of the list of subjects. ``filters`` choose what is shown. ``allow``: fields in
    which pairs may differ; ``reference``: the arm that the others are compared with; ``lonely``:
    whether subjects count of which no cell can have a partner."""

    filters: Filters = Filters()
    allow: tuple[str, ...] = ()
    reference: str = BASELINE
    lonely: bool = False


@dataclass(frozen=True)
class NamedSubject:
    """One model on one hardware with one engine, of one study. ``filters``: the chosen ones, kept to
    it and to the studies that may hold partners of its cells, so that its answer reads no others.
    ``lonely``: no cell of it can have a partner."""

    name: str
    about: DecisionSubject
    filters: Filters
    lonely: bool = False


#: Evidence -> the other one, whose answer may differ, and what that is called.
_ELSEWHERE = {"gpu": ("cpu", "The CPU lab"), "cpu": ("gpu", "A GPU")}


def other_hardware(
    about: DecisionSubject, known: Iterable[NamedSubject]
) -> tuple[str, NamedSubject] | None:
    """Return why a CPU lab may say otherwise than a GPU, or a GPU otherwise than a CPU lab, and the first
    subject that was measured there; None where nothing was."""
    evidence, called = _ELSEWHERE.get(about.evidence or "", ("", ""))
    why = (
        f"{called} may say otherwise: what a draft costs beside a step of the model depends on hardware and "
        "engine, so measure where you serve."
    )
    return next(((why, one) for one in known if one.about.evidence == evidence), None)


@dataclass(frozen=True)
class _SettingFacts:
    """What a setting with a shown speculative cell is about, whether it holds a baseline, and which
    other studies hold one that may be a partner; None: a study without a name."""

    about: DecisionSubject
    own: bool
    others: frozenset[str | None]

    @property
    def met(self) -> bool:
        return self.own or bool(self.others)


#: The setting of each speculative cell (cell_id, setting), and what each setting is about.
_Settings = tuple[pd.DataFrame, dict[int, _SettingFacts]]


def subjects(reader: Reader, question: SubjectsQuestion) -> tuple[NamedSubject, ...]:
    """Return every subject of which the filters keep a cell that may have a partner, by the names and
    in the order that all subjects have without filters: first what was measured on a GPU. Some have
    no decision: no two of their cells can be compared."""
    # Every choice of filters asks for them.
    without = replace(question, filters=Filters())
    every: list[_SettingFacts] = reader.kept.get(
        f"settings of {without}", lambda one: _kept_settings(one, without), reader
    )
    kept = every if question.filters == Filters() else _kept_settings(reader, question)
    parts: dict[System, list[_SettingFacts]] = {}
    for one in kept:
        parts.setdefault(system(one.about), []).append(one)
    named = (
        NamedSubject(
            name, parts[at][0].about, _filters_of(question, parts[at]), not any(x.met for x in parts[at])
        )
        for at, name in names_apart(one.about for one in (*every, *kept)).items()
        if at in parts
    )  # fmt: skip
    return tuple(sorted(named, key=lambda one: not on_gpu(one.about)))


def _filters_of(question: SubjectsQuestion, parts: list[_SettingFacts]) -> Filters:
    if question.allow:  # Partners may differ, so they may be anywhere.
        return question.filters
    kept = narrowed(parts[0].about, question.filters)
    others = {study or UNKNOWN for one in parts for study in one.others}
    if not others:
        return kept
    # Of a partner's engine less may be known.
    studies = tuple(sorted({*kept.study, *others}))
    return replace(kept, study=studies, engine_version=question.filters.engine_version)


def _kept_settings(reader: Reader, question: SubjectsQuestion) -> list[_SettingFacts]:
    cells, shown = whole_studies(reader, question.filters)

    def made(one: Reader) -> _Settings:
        return _settings_of(against(deciding_cells(one, cells), question.reference))

    if len(cells) > MOST_KEPT:
        placed, facts = made(reader)
    else:
        # Of the filters it needs no more than their studies.
        studies = studies_key(question.filters, cells)
        placed, facts = reader.kept.get(f"settings in {studies} {question.reference}", made, reader)
    there = placed.loc[among(placed["cell_id"], shown), "setting"]
    found = [facts[at] for at in sorted(set(there))]
    return [one for one in found if question.lonely or question.allow or one.met]


def _settings_of(cells: pd.DataFrame) -> _Settings:
    if cells.empty:
        return cells.assign(setting=0)[["cell_id", "setting"]], {}
    setting, keys = settings_of(cells)
    plain_server = (cells["spec_method"] == "none").to_numpy()
    # What is unknown of some may be equal.
    doubtful = {each for each in UNKNOWN_MATCHES if each in cells and cells[each].isna().any()}
    shared = [each for each in SETTING if each != "study" and each not in doubtful]
    places = pd.DataFrame({
        "cell_id": cells["cell_id"].to_numpy(), "setting": setting.to_numpy(),
        "shared": numbered(cells, shared), "study": studies_of(cells),
    })  # fmt: skip
    baselines = places[plain_server].groupby("shared")["study"].agg(frozenset).to_dict()
    own, words = frozenset(places["setting"][plain_server]), configurations(keys)
    first = keys[~keys.index.get_level_values(0).duplicated()].droplevel(1)
    rows = dict(zip(first.index.tolist(), records(first), strict=True))
    drafted, facts = places[~plain_server], {}
    once = drafted.drop_duplicates("setting").drop(columns="cell_id")
    for at, alike, study in once.itertuples(index=False, name=None):
        others = frozenset(each[0] for each in baselines.get(alike, frozenset()) - {study})
        about = subject_of(rows[at], words.get(at))
        facts[at] = _SettingFacts(about, at in own, others)
    return drafted[["cell_id", "setting"]], facts
