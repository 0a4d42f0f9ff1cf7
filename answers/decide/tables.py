"""A decision as rows of text, as tiles and as fields of its map, beside its outputs and what was decided before."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import pandas as pd

from analysis.evidence.output_check import COLUMNS, check_outputs
from answers.decide.values import ArmAtLoad, ArmDifference, Decision, DecisionSubject, MapLevel
from answers.decide.words import MORE_LAUNCHES, change, k_by_batch, loads_short, settle
from answers.wording import UNKNOWN, TextRows, interval, known, percent
from warehouse import queries
from warehouse.annotations import RecordedDecision, RecordedSubject
from warehouse.catalogue import METRICS, percentile_label
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.store import Reader

#: What stands where an arm has no gain to tell: at this load nothing is drafted, or the arm was not
#: measured.
NO_DRAFTS, NOT_MEASURED = "no drafts", "not measured"
_NONE = "–"


def summary(decisions: Sequence[Decision]) -> TextRows:
    """Return a line per traffic and tensor parallel size: what to do, at which loads, and for
    what."""
    loads = {one.operating.load.short for one in decisions}
    where = f" at {loads.pop()}" if len(loads) == 1 else ""
    header = ["traffic", "TP", "answer", "take", "loads", f"gain{where}", "95 %", "costs", "stake"]
    lines = []
    for one in decisions:
        gain = one.operating.difference
        load = "" if where else f" at {one.operating.load.short}"
        lines.append([
            traffic_short(one), known(one.subject.tensor_parallel_size), one.answer, arm_taken(one),
            words_by_load(one.levels),
            f"{percent(gain.improvement)}{load}", interval(gain.low, gain.high) or "no interval",
            UNKNOWN if one.saving is None else percent(-one.saving.per_output_token), at_stake(one),
        ])  # fmt: skip
    return header, lines


def traffic_short(decision: Decision) -> str:
    """Return the traffic in a word: ``code``; a mix as ``mix of 3``."""
    return f"mix of {len(decision.traffic.mix)}" if decision.traffic.mix else decision.traffic.name


def arm_taken(decision: Decision) -> str:
    """Return the arm to take: ``draft_model K=5``; ``draft_model K=5/3/2`` where K follows the
    load; ``none`` with the best arm, or the one that breaks answers, where nothing is to be drafted."""
    if not decision.operating.drafts:
        broken = any(cell.broken for cell in decision.arms if cell.arm == decision.arm)
        return f"none ({decision.arm} breaks answers)" if broken else f"none (best: {decision.arm})"
    if decision.table is None or decision.k_kind != "table":
        return decision.arm
    ks = dict.fromkeys(k for _, _, k in decision.table)
    return f"{decision.method} K={'/'.join(map(str, ks))}"


def arm_at(decision: Decision) -> str:
    """Return the arm that is served at the operating load; ``none`` where nothing is drafted."""
    return decision.operating.arm if decision.operating.drafts else "none"


def words_by_load(levels: Sequence[MapLevel]) -> str:
    """Return what the decision's server does at the loads, ``likely gain 1, 4; open 16``, and where
    another arm is better what that does, ``dspark K=7: gain 1, 8``: neighbouring loads of one word
    together."""
    grouped = groupby(levels, _word)
    return "; ".join(f"{word} {loads_short([x.load for x in part])}" for word, part in grouped)


def _word(level: MapLevel) -> str:
    if level.served is not None:
        return f"{level.arm}: {level.difference.word}"
    own = level.own
    return (NOT_MEASURED if level.drafts else NO_DRAFTS) if own is None else own.word


def at_stake(decision: Decision) -> str:
    """Write what is at stake: ``13.9 %``; unknown where nothing repeats."""
    return percent(decision.at_stake, sign=False)


def size(difference: ArmDifference) -> str:
    """Write an improvement with its interval: ``+11.6 % (+1.6 to +39.6 %)``."""
    ends = interval(difference.low, difference.high)
    return percent(difference.improvement) + (f" ({ends})" if ends else "")


def by_load(decision: Decision) -> TextRows:
    """Return the load map: what the decision's server drafts at each load and what that brings; the
    best arm where nothing is drafted, and arms that are better than the server."""
    header = ["load", "K", "gain", "certainty", "launches", "in"]
    lines = []
    for level in decision.levels:
        own, served = level.own, level if level.served is None else level.served
        k = served.num_speculative_tokens
        if level.drafts:
            figures = [NOT_MEASURED, _NONE] if own is None else [size(own), own.word]
        elif level.served is not None:
            figures = ["as the baseline", _NONE]
        else:
            figures = [f"left on, {level.arm}: {size(level.difference)}", level.difference.word]
        unfixed = UNKNOWN if served.k_kind == "unknown" else "engine"
        drafted = unfixed if k is None else str(k) if k else NO_DRAFTS
        launches = str(served.launches or _NONE)
        lines.append([level.load.text, drafted, *figures, launches, line_name(level.difference)])
    if all(level.served is None for level in decision.levels):
        return header, lines
    better = [_better(level) if level.served is not None else _NONE for level in decision.levels]
    return [*header, "better there"], [[*a, b] for a, b in zip(lines, better, strict=True)]


def _better(level: MapLevel) -> str:
    return f"{level.arm} {percent(level.difference.improvement)}, {level.difference.word}"


def taken(level: MapLevel) -> str:
    """Return what the decision's server does at a load: ``draft_model K=5 (+11.8 %)``; ``no drafts``,
    and which arm is better there."""
    mine, served = NO_DRAFTS, level.served
    if level.drafts:
        arm = level.arm if served is None else served.arm
        mine = f"{arm} ({percent(level.own.improvement) if level.own else NOT_MEASURED})"
    return mine if served is None else f"{mine}; better there: {_better(level)}"


def line_name(difference: ArmDifference) -> str:
    """Return the name of the metric behind a difference: ``Output throughput``, ``TTFT P95``."""
    metric = METRICS[difference.metric]
    statistic = f" {percentile_label(difference.statistic)}" if metric.distribution else ""
    return f"{metric.label}{statistic}"


def by_arm(decision: Decision) -> TextRows:
    """Return every arm at every load; ``take`` marks what the decision takes."""
    lines = []
    for cell in sorted(decision.arms, key=lambda x: x.load.order):
        mark = "take" if cell.taken else "breaks answers" if cell.broken else ""
        gain = cell.difference
        lines.append([cell.load.text, cell.arm, size(gain), gain.word, str(cell.launches), mark])
    return ["load", "arm", "gain", "certainty", "launches", ""], lines


def doubts(decision: Decision) -> Iterator[str]:
    """Yield what to keep in mind, what would settle it and what was left out, a sentence each."""
    return iter((*decision.doubts, *settle(decision.settle)))


def table_notes(decision: Decision) -> tuple[str, ...]:
    """Say what a reader has to know before pasting the table of K."""
    if decision.table is None:
        return ()
    idle = "K = 0 was measured on a server without a draft; here the draft stays in memory."
    return (
        f"Measured at {', '.join(x.load.short for x in decision.levels)}: vLLM goes on with the last K above.",
        "vLLM ignores the table where data parallelism is used.",
        *([idle] if any(k == 0 for _, _, k in decision.table) else []),
    )


def left_out(decision: Decision) -> Iterator[str]:
    """Return the cells that decide nothing, and why."""
    return (f"{cell.cell}: {cell.why}" for cell in decision.excluded)


def entries(decision: Decision) -> str | None:
    """Return the table of K by batch size as vLLM takes it."""
    if decision.table is None:
        return None
    return (
        f"num_speculative_tokens_per_batch_size: [{', '.join(map(str, map(list, decision.table)))}]"
    )


def nothing_to_paste(decision: Decision) -> str:
    """Say why there are no flags to paste; empty where there are."""
    if decision.config is not None:
        return ""
    if decision.answer == "no":
        return "Nothing to paste: serve without speculation."
    if not decision.operating.drafts:
        return "Nothing to paste: no arm is shown to beat the baseline."
    if decision.answer == "open":
        once = "" if decision.at_stake is not None else f" {MORE_LAUNCHES}"
        return f"Nothing to paste while nothing is settled; --arm {decision.arm!r} gives its line.{once}"
    return "What to paste is not known: the results do not say which method drafted how much."


def to_measure(decision: Decision) -> tuple[str, str]:
    """Return the command that measures the launches which are missing where each arm was started
    once, and what to change before; two empty texts where nothing is missing or the study has no
    name."""
    study = decision.subject.study
    if study is None or not decision.started_once:
        return "", ""
    file = shlex.quote(f"{study}.yaml")
    return (
        f"draftboard run {file} --results results",
        f"With repeats: 3 in {study}.yaml this measures the two launches of each arm that are missing.",
    )


# --- What the choice is worth at the operating load, in figures.


@dataclass(frozen=True)
class Tile:
    """A figure with its name, and what it must be read with."""

    label: str
    value: str
    note: str


def tiles(decision: Decision) -> tuple[Tile, ...]:
    """Return three figures: the gain and the saving, each with its word and interval, and what is
    at stake."""
    load, gain, saving = (
        decision.operating.load.text,
        decision.operating.difference,
        decision.saving,
    )
    if not decision.operating.drafts:
        saved = ("as the baseline", "nothing is drafted there")
    elif saving is None:
        saved = (UNKNOWN, "known only where throughput decides")
    else:
        low, high = (None if end is None else -end for end in (saving.high, saving.low))
        sure = f"{saving.word}, same hardware; {_sure(low, high)}"
        saved = (percent(-saving.per_output_token), sure)
    word = f"{gain.word}; {_sure(gain.low, gain.high)}"
    return (
        Tile(f"{line_name(gain)} at {load}", percent(gain.improvement), word),
        Tile(f"Cost of an output token at {load}", *saved),
        Tile(
            "At stake in the choice", at_stake(decision), "what another K or method may still bring"
        ),
    )


def _sure(low: float | None, high: float | None) -> str:
    ends = interval(low, high)
    return f"95 %: {ends}" if ends else "one launch: no interval"


# --- The map of loads and arms field by field, and the cells behind a field.


@dataclass(frozen=True)
class MapField:
    """One arm at one load, or the choice to draft nothing there (then ``difference`` is None).
    ``taken``: the decision takes it; ``cells``: ids of the cells behind it."""

    load: Load
    arm: str
    taken: bool
    difference: ArmDifference | None
    launches: int
    cells: tuple[str, ...]

    @property
    def name(self) -> str:
        """What a reader calls the field: ``ngram K=3 at 16 at once``."""
        return f"{self.arm} at {self.load.text}"


@dataclass(frozen=True)
class DecidingCell:
    """A cell behind a field. ``cell``: its id."""

    cell: str
    arm: str
    repeat: int | None
    completed: int | None
    errored: int | None
    flags: int
    run: str


def fields(decision: Decision) -> tuple[MapField, ...]:
    """Return every field: the choice to draft nothing at each load first, taken where the decision
    takes no arm, then the arms by method and K."""
    idle = {level.load for level in decision.levels if not level.drafts}
    baselines: dict[Load, dict[str, None]] = {}
    for cell in decision.arms:
        baselines.setdefault(cell.load, {}).update((old, None) for old, _ in cell.pairs)
    order = sorted(decision.arms, key=lambda c: (c.method, c.num_speculative_tokens or 0, c.arm))
    return (
        *(MapField(load, NO_DRAFTS, load in idle, None, 0, tuple(cells))
          for load, cells in baselines.items()),
        *(MapField(x.load, x.arm, x.taken, x.difference, x.launches, tuple(new for _, new in x.pairs))
          for x in order),
    )  # fmt: skip


def behind(reader: Reader, cells: tuple[str, ...]) -> tuple[DecidingCell, ...]:
    """Return the cells of these ids."""
    rows = queries.cells(reader, Filters()).select(
        ["cell_id", "arm_label", "repeat", "completed", "errored", "flags", "run_id"]
    )
    return tuple(DecidingCell(*row.values()) for row in rows.to_pylist() if row["cell_id"] in cells)


# --- Whether the arm that is taken answered the same as the baseline, at the operating load alone.


#: Pairs of cells whose requests are read: more say nothing new and take long.
MOST_PAIRS = 6


@dataclass(frozen=True)
class ComparedOutputs:
    """How the outputs of ``arm`` and the baseline compare at one load. ``sentences`` say it for a
    person."""

    arm: str
    load: str
    pairs: int
    sentences: tuple[str, ...]


def outputs(reader: Reader, decision: Decision) -> ComparedOutputs | None:
    """Compare the outputs behind a decision; None where nothing is taken at the operating load."""
    cell = operating_cell(decision)
    return None if cell is None else outputs_of(reader, cell)


def operating_cell(decision: Decision) -> ArmAtLoad | None:
    """Return the field of the map at the operating load whose arm is told there."""
    level = decision.operating
    place = (level.stands_for or level.load, level.arm)
    return next((cell for cell in decision.arms if (cell.load, cell.arm) == place), None)


def outputs_of(reader: Reader, cell: ArmAtLoad) -> ComparedOutputs | None:
    """Compare the outputs of the cells behind a field of the map; None where no pair is known."""
    if not cell.pairs:
        return None
    pairs = cell.pairs[:MOST_PAIRS]
    old, new = (
        pd.concat([
            queries.requests(reader, pair[side], COLUMNS).to_pandas().assign(pair=place)
            for place, pair in enumerate(pairs)
        ])
        for side in (0, 1)
    )  # fmt: skip
    found = check_outputs(old, new, greedy(reader, [one for pair in pairs for one in pair]))
    return ComparedOutputs(cell.arm, cell.load.text, len(pairs), found.sentences)


def greedy(reader: Reader, ids: Iterable[str]) -> bool | None:
    """Return whether every cell ran at temperature 0; None where one does not say."""
    cells = queries.cells(reader, Filters()).to_pandas()
    temperatures = cells.loc[cells["cell_id"].isin(set(ids)), "temperature"]
    return None if temperatures.isna().any() else bool((temperatures == 0).all())


# --- What is decided otherwise than when it was last recorded.


#: A gain that moved by less than this (ratio) is not worth a line.
_MOVED = 0.02


def recorded(decisions: Iterable[Decision], at: datetime) -> tuple[RecordedDecision, ...]:
    """Return the decisions as they are recorded, at a moment (UTC)."""
    return tuple(
        RecordedDecision(
            at, recorded_about(one.subject, one.traffic.name, one.objective),
            one.subject.engine_version, one.answer, one.arm, one.table,
            tuple((level.load.text, level.difference.word) for level in one.levels),
            one.operating.load.text, one.operating.difference.improvement,
        )
        for one in decisions
    )  # fmt: skip


def recorded_about(about: DecisionSubject, traffic: str, objective: str) -> RecordedSubject:
    """Return what a decision is about, as it is recorded."""
    return RecordedSubject(
        about.study, about.model, about.gpu, about.engine, about.tensor_parallel_size,
        about.evidence, traffic, objective, about.configuration,
    )  # fmt: skip


def changes(decisions: Iterable[Decision], last: Iterable[RecordedDecision]) -> tuple[str, ...]:
    """Return a sentence for each decision that differs from the last recorded one; none where none
    was recorded."""
    sentences = []
    last_of = {before.about: before for before in last}
    for one in decisions:
        about = one.subject
        before = last_of.get(recorded_about(about, one.traffic.name, one.objective))
        parts = [] if before is None else _changed(one, before)
        if before is not None and parts:
            which = f", {about.configuration}" if about.configuration is not None else ""
            name = f"{known(about.model)} on {one.traffic.name}, TP {known(about.tensor_parallel_size)}"
            sentences.append(f"{name}{which}, since {before.at:%Y-%m-%d}: {'; '.join(parts)}.")
    return tuple(sentences)


def _changed(decision: Decision, before: RecordedDecision) -> list[str]:
    # At another operating load the arm and the answer may differ although nothing is new.
    same, gain = (
        before.operating_load == decision.operating.load.text,
        decision.operating.difference,
    )
    now, was = (
        "one K for all" if table is None else k_by_batch(table)
        for table in (decision.table, before.table)
    )
    new, old, words = gain.improvement, before.gain, dict(before.loads)
    # A move that cannot be seen is none.
    moved = same and new is not None and old is not None and abs(new - old) > _MOVED
    version, last = decision.subject.engine_version, before.engine_version
    told = (
        same and decision.answer != before.answer and f"{decision.answer}, was {before.answer}",
        same and decision.arm != before.arm and f"{arm_taken(decision)}, was {before.arm}",
        decision.table != before.table and f"K by load is {now}, was {was}",
        *(
            f"at {x.load.text} {x.difference.word}, was {words.get(x.load.text) or 'not measured'}"
            for x in decision.levels
            if words.get(x.load.text) != x.difference.word
        ),
        moved and f"{change(gain)} at {before.operating_load}, was {percent(old)}",
        version != last and f"with {decision.subject.engine} {known(version)}, was {known(last)}",
    )
    return [text for text in told if text]
