"""Decisions put together: one paragraph for each model on one hardware."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import pandas as pd

from analysis.evidence.effects import studies_of
from analysis.frames import among, numbered, plain, records
from analysis.matching.comparison import SETTING, settings_of
from analysis.matching.difference import flat
from analysis.matching.fields import UNKNOWN_MATCHES
from analysis.matching.reference import BASELINE, against
from answers import wording
from answers.decide import words as said
from answers.decide.tables import traffic_short
from answers.decide.values import Decision, DecisionSubject
from answers.ground import MOST_KEPT, deciding_cells, studies_key, whole_studies
from answers.wording import known
from warehouse.filters import UNKNOWN, Filters
from warehouse.store_read import Reader

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


def names_apart(subjects: Iterable[DecisionSubject]) -> dict[System, str]:
    """Return a name for each system, no two alike, in the order of the subjects."""
    first: dict[System, DecisionSubject] = {}
    studies: dict[str, set[str | None]] = {}
    for one in subjects:
        first.setdefault(system(one), one)
        studies.setdefault(name(one), set()).add(one.study)
    return {at: _apart(one, studies) for at, one in first.items()}


def system(about: DecisionSubject) -> System:
    """Return what one overview is about: its decisions differ in size and traffic alone."""
    engine = (about.engine, about.engine_version)
    return (about.study, about.model, about.gpu, *engine, about.evidence, about.configuration)


def _size(one: Decision) -> int:
    return one.subject.tensor_parallel_size or 0


def name(about: DecisionSubject) -> str:
    """Return what a subject is called: ``gpt-oss on H200, vllm 0.24.0 [CPU lab]``."""
    told = f"{known(about.model)} on {known(about.gpu)}, {known(about.engine)} {known(about.engine_version)}"
    return f"{told}{badge(about.evidence)}"


def badge(evidence: str | None) -> str:
    """Return the badge of the evidence behind a name or a title, `` [CPU lab]``; empty for a GPU
    run."""
    return wording.bracketed(wording.badge(evidence))


def _apart(about: DecisionSubject, studies: Mapping[str, set[str | None]]) -> str:
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


def narrowed(about: DecisionSubject, chosen: Filters) -> Filters:
    """Return the chosen filters, kept to a subject; arms keep the baseline beside them."""
    arm = tuple(sorted({*chosen.arm, "baseline"})) if chosen.arm else ()
    return replace(
        chosen, arm=arm, model=_only(about.model), gpu=_only(about.gpu),
        engine_version=_only(about.engine_version), study=_only(about.study),
    )  # fmt: skip


def _only(value: str | None) -> tuple[str, ...]:
    return (UNKNOWN if value is None else value,)


def subject_of(keys: dict[str, Any], configuration: str | None) -> DecisionSubject:
    """Return what a decision is about, from the facts of a setting; None for unknown."""
    count = ("gpu_count", "tensor_parallel_size")
    texts = ("study", "model", "gpu", "engine", "engine_version", "evidence")
    told = {name: _text(keys.get(name)) for name in texts}
    whole = {name: None if keys.get(name) is None else int(keys[name]) for name in count}
    return DecisionSubject(**told, **whole, configuration=configuration)  # type: ignore[arg-type]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


# --- What tells two decisions apart that are about the same model, hardware, engine and size.


#: What the name of a decision says anyway.
_SAID = (
    "study", "model", "gpu", "gpu_count", "engine", "engine_version", "tensor_parallel_size",
    "evidence",
)  # fmt: skip
#: A name holds so many facts, each no longer than this.
_MOST, _LONGEST = 3, 40


def configurations(keys: pd.DataFrame) -> dict[int, str]:
    """Return by setting ``max_num_seqs 2, prefix_caching True``: the facts in which settings of one
    dataset differ that are otherwise named alike. A setting that needs no such words is not in it.

    ``keys``: as ``Comparison.keys``, facts by (setting, arm_id).
    """
    settings = keys[~keys.index.get_level_values(0).duplicated()].droplevel(1)
    named = [name for name in _SAID if name in settings]
    found: dict[int, str] = {}
    for _, alike in settings.groupby(named, dropna=False, sort=False):
        if alike["dataset"].duplicated().any():
            found |= _words_of_alike(alike)
    return found


def _words_of_alike(alike: pd.DataFrame) -> dict[int, str]:
    """Return, for settings of one name, the words that tell each apart from the others."""
    rest = [name for name in SETTING if name in alike and name not in (*_SAID, "dataset")]
    facts = {at: flat(dict(zip(rest, row, strict=True)))
             for at, row in zip(alike.index, alike[rest].itertuples(index=False), strict=True)}  # fmt: skip
    datasets = alike["dataset"].astype(str)
    varied = sorted({
        name
        for _, of_dataset in datasets.groupby(datasets)
        for name in _varied([facts[at] for at in of_dataset.index])
    })  # fmt: skip
    return {int(at): _words(said, varied) for at, said in facts.items()} if varied else {}


def _varied(facts: list[dict[str, Any]]) -> set[str]:
    """Return the names of the facts in which some of these differ."""
    names = {name for one in facts for name in one}
    return {name for name in names if len({str(one.get(name)) for one in facts}) > 1}


def _words(said: Mapping[str, Any], varied: list[str]) -> str:
    told = [f"{_short(name)} {_value(said.get(name))}" for name in varied[:_MOST]]
    more = len(varied) - _MOST
    return ", ".join([*told, *([f"{more} more"] if more > 0 else [])])


def _short(name: str) -> str:
    """Return a server argument's name without the prefix ``server_args.``."""
    return name.removeprefix("server_args.")


def _value(value: object) -> str:
    return "not stated" if value is None else str(value)[:_LONGEST]


# --- What there is to decide on, found from the cells alone, and the decision on one of it.


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


@dataclass(frozen=True)
class _SettingFacts:
    """What a setting with a shown speculative cell is about, whether it holds a baseline, and which
    other studies hold one that may be a partner; None: a study without a name."""

    about: DecisionSubject
    own: bool
    others: frozenset[str | None]


@dataclass(frozen=True)
class _StudyCells:
    """The speculative cells of some studies, with the number of their setting, the number of what
    partners share, and their study. ``own``: settings with a baseline; ``studies``: those with a
    baseline, by what partners share; ``about``: what each setting is about."""

    cells: pd.DataFrame
    own: frozenset[int] = frozenset()
    studies: dict[int, frozenset[tuple[str | None]]] = field(default_factory=dict)
    about: dict[int, DecisionSubject] = field(default_factory=dict)


def subjects(reader: Reader, asked: SubjectsQuestion) -> tuple[NamedSubject, ...]:
    """Return every subject of which the filters keep a cell that may have a partner, by the names and
    in the order that all subjects have without filters. Some have no decision: no two of their cells
    can be compared."""
    every = _all_settings(reader, asked)
    kept = every if asked.filters == Filters() else _kept_settings(reader, asked)
    parts: dict[System, list[_SettingFacts]] = {}
    for one in kept:
        parts.setdefault(system(one.about), []).append(one)
    return tuple(
        NamedSubject(
            name, parts[at][0].about, _kept_filters(asked, parts[at]), not any(map(_met, parts[at]))
        )
        for at, name in names_apart(one.about for one in (*every, *kept)).items()
        if at in parts
    )


def _all_settings(reader: Reader, asked: SubjectsQuestion) -> list[_SettingFacts]:
    """Return the settings that there are without filters. Every choice of filters asks for them."""
    asked = replace(asked, filters=Filters())
    every: list[_SettingFacts] = reader.kept.get(
        f"settings of {asked}", lambda one: _kept_settings(one, asked), reader
    )
    return every


def _kept_settings(reader: Reader, asked: SubjectsQuestion) -> list[_SettingFacts]:
    """Return the settings of which the filters keep a cell that may have a partner."""
    cells, shown = whole_studies(reader, asked.filters)
    found = _shown_settings(_study_cells(reader, asked, cells), shown)
    return [one for one in found if asked.lonely or asked.allow or _met(one)]


def _study_cells(reader: Reader, asked: SubjectsQuestion, cells: pd.DataFrame) -> _StudyCells:
    """Return what there is in the studies of these cells: of the filters it needs no more."""

    def made(one: Reader) -> _StudyCells:
        return _cells_with_baselines(against(deciding_cells(one, cells), asked.reference))

    if len(cells) > MOST_KEPT:
        return made(reader)
    known: _StudyCells = reader.kept.get(
        f"settings in {studies_key(asked.filters, cells)} {asked.reference}", made, reader
    )
    return known


def _met(one: _SettingFacts) -> bool:
    return one.own or bool(one.others)


def _kept_filters(asked: SubjectsQuestion, parts: list[_SettingFacts]) -> Filters:
    """Keep the chosen filters to a subject, whose settings these are."""
    if asked.allow:  # Partners may differ, so they may be anywhere.
        return asked.filters
    about = parts[0].about
    kept = narrowed(about, asked.filters)
    others = {study or UNKNOWN for one in parts for study in one.others}
    if not others:
        return kept
    # Of a partner's engine less may be known.
    studies = tuple(sorted({*kept.study, *others}))
    return replace(kept, study=studies, engine_version=asked.filters.engine_version)


def _cells_with_baselines(cells: pd.DataFrame) -> _StudyCells:
    if cells.empty:
        return _StudyCells(cells)
    setting, keys = settings_of(cells)
    plain_server = (cells["spec_method"] == "none").to_numpy()
    places = pd.DataFrame({
        "cell_id": cells["cell_id"].to_numpy(), "setting": setting.to_numpy(),
        "shared": numbered(cells, _shared(cells)), "study": studies_of(cells),
    })  # fmt: skip
    baselines = places[plain_server].groupby("shared")["study"].agg(frozenset)
    studies = {int(str(shared)): found for shared, found in baselines.items()}
    words = configurations(keys)
    first = keys[~keys.index.get_level_values(0).duplicated()].droplevel(1)
    told = zip(map(int, map(str, first.index)), records(first), strict=True)
    facts = {at: {name: plain(value) for name, value in row.items()} for at, row in told}
    about = {at: subject_of(row, words.get(at)) for at, row in facts.items()}
    own = frozenset(places["setting"][plain_server])
    return _StudyCells(places[~plain_server], own, studies, about)


def _shown_settings(there: _StudyCells, shown: frozenset[str]) -> Iterator[_SettingFacts]:
    """Yield the settings that have one of the cells that are shown."""
    if there.cells.empty:
        return
    asked = there.cells[among(there.cells["cell_id"], shown).to_numpy()]
    once = asked.drop_duplicates("setting").sort_values("setting").drop(columns="cell_id")
    for one, shared, study in once.itertuples(index=False, name=None):
        others = frozenset(each[0] for each in there.studies.get(shared, frozenset()) - {study})
        yield _SettingFacts(there.about[one], one in there.own, others)


def _shared(cells: pd.DataFrame) -> list[str]:
    """Return what two cells must share to be partners; what is unknown of some may be equal."""
    doubtful = {name for name in UNKNOWN_MATCHES if name in cells and cells[name].isna().any()}
    return [name for name in SETTING if name != "study" and name not in doubtful]
