"""What a comparison stands on, cut to what is shown: whole studies are read and judged first."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.frames import among, listed, plain, records, records_by
from analysis.matching.arms import ATTAINED, BASELINE, THROUGHPUTS, about, kept_up
from analysis.matching.comparison import STUDY_TABLE
from analysis.matching.fields import loads_of
from analysis.matching.names import arm_names, setting_names
from analysis.matching.pairing import match
from answers.compare.values import (
    ArmChange,
    ArmComparison,
    CellPair,
    ComparedArm,
    ComparedSetting,
    CompareQuestion,
    GeometricMean,
    MetricLine,
    PairDoubt,
    PairLine,
    RepeatSpan,
    UnmatchedCell,
    why_none,
)
from answers.decide.answer import decide_on
from answers.decide.overview import subject_of
from answers.decide.values import DecideQuestion, Decisions
from answers.ground import Ground, WarehouseRows, ground, ground_of, rows_of
from answers.wording import badges
from warehouse import queries
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.rows import Flag
from warehouse.store import Reader


def compare(reader: Reader, question: CompareQuestion) -> ArmComparison:
    """Compare the arms that the filters show, each standing on its whole study.

    Raises UnknownKey for a field in ``question.allow`` that pairs need not share anyway.
    """
    return compare_on(_ground(reader, question), question)


def compare_on(known: Ground, question: CompareQuestion) -> ArmComparison:
    """Compare as ``compare`` does, on what was read before."""
    settings = tuple(_settings(_cut(known, question)))
    unmatched = tuple(_unmatched(known))
    shown = among(known.cells["cell_id"], known.shown & set(known.excluded))
    excluded = tuple(known.excluded[cell] for cell in known.cells.loc[shown, "cell_id"])
    why = None if settings else why_none(not known.shown, unmatched)
    return ArmComparison(settings, unmatched, excluded, question.reference, why)


def pair_lines(reader: Reader, question: CompareQuestion) -> tuple[PairLine, ...]:
    """Return every pair behind ``compare`` in every line that is shown, unrounded."""
    known = _cut(_ground(reader, question), question)
    names = _Names(known)
    return tuple(
        PairLine(
            names.settings[row["setting"]], names.arms[row["arm_id"]], names.pair(row),
            row["metric"], row["statistic"], row["baseline"], row["speculative"],
            plain(row["improvement"]), tuple(row["allowed"]),
        )
        for row in records(known.pairs.sort_values(["setting", "arm_id", "load", "line"]))
    )  # fmt: skip


def _ground(reader: Reader, question: CompareQuestion) -> Ground:
    return ground(reader, question.filters, question.allow, question.also, question.reference)


# --- Whole studies cut to what is shown.


_ARM = ["setting", "arm_id"]
_KEYS = [*_ARM, "load", "metric", "statistic"]
_ENDS = {
    "baseline_low": ("baseline", "min"), "baseline_high": ("baseline", "max"),
    "speculative_low": ("speculative", "min"), "speculative_high": ("speculative", "max"),
    "baseline_cell": ("baseline_id", "first"), "speculative_cell": ("speculative_id", "first"),
}  # fmt: skip
_JUDGED = ["low", "high", "adjusted_low", "adjusted_high", "word"]


@dataclass(frozen=True)
class _CutComparison:
    """What the filters show of the comparison of whole studies. ``pairs``, ``means`` as in the
    comparison; ``levels``: a row per setting, arm, load and line with the values of both arms,
    their ends and cells, the interval and word, ``compared`` and ``line`` (its place)."""

    known: Ground
    pairs: pd.DataFrame
    levels: pd.DataFrame
    means: pd.DataFrame


def _cut(known: Ground, question: CompareQuestion) -> _CutComparison:
    """Keep what the filters show: arms with a cell that they keep, in the lines that are shown: the
    study's table, then what was asked for beside it."""
    names = dict.fromkeys((*STUDY_TABLE, ATTAINED, *question.also))
    lines = {line: place for place, line in enumerate(names)}
    table = {line: place for line, place in lines.items() if line in STUDY_TABLE}
    found = known.found
    pairs, levels = (_placed(known, rows, lines) for rows in (found.pairs, found.levels))
    means = _placed(known, found.geomean, table)
    ends = pairs.groupby(_KEYS, sort=False).agg(**_ENDS).reset_index()
    judged = known.sure.levels[[*_KEYS, "launches", *_JUDGED, "independent"]]
    rows = levels.merge(ends, on=_KEYS, how="left").merge(judged, on=_KEYS, how="left")
    # Throughput is not compared where every arm keeps up with a fixed rate.
    kept = kept_up(found)
    places = zip(rows["metric"], rows["setting"].tolist(), rows["load"].tolist(), strict=True)
    rows = rows.assign(
        compared=[name not in THROUGHPUTS or (at, load) not in kept for name, at, load in places]
    )
    idle = means["metric"].isin(THROUGHPUTS) & means["setting"].isin({at for at, _ in kept})
    return _CutComparison(
        known, pairs, rows.sort_values([*_ARM, "load", "line"], ignore_index=True),
        means[~idle].sort_values([*_ARM, "line"], ignore_index=True),
    )  # fmt: skip


def _placed(known: Ground, rows: pd.DataFrame, lines: dict[MetricLine, int]) -> pd.DataFrame:
    mine = known.of_shown_arms(rows)
    named = mine.assign(**{n: mine[n].astype(object) for n in ("metric", "statistic")})
    places = [lines.get(x, -1) for x in zip(named["metric"], named["statistic"], strict=True)]
    placed = named.assign(line=places)
    return placed[placed["line"] >= 0]


# --- From rows to values.


_SEVERITIES = ("error", "warning", "info")


class _Names:
    def __init__(self, known: _CutComparison) -> None:
        keys = known.known.found.keys
        shown = known.levels[_ARM].drop_duplicates()
        keys = keys[keys.index.isin(pd.MultiIndex.from_frame(shown))]
        arms = keys[~keys.index.get_level_values("arm_id").duplicated()].droplevel(0)
        settings = keys[~keys.index.get_level_values("setting").duplicated()].droplevel(1)
        self.facts = {
            at: {str(name): plain(value) for name, value in row.items()}
            for at, row in zip(settings.index.tolist(), records(settings), strict=True)
        }
        self.settings = setting_names(settings).to_dict() if len(settings) else {}
        self.arms = arm_names(arms).to_dict() if len(arms) else {}
        self.labels = arms["arm_label"].to_dict() if len(arms) else {}
        self._loads = known.known.found.loads

    def load(self, place: int) -> Load | None:
        return self._loads[place] if place >= 0 else None

    def pair(self, row: dict[str, Any]) -> CellPair:
        repeat = plain(row["repeat"])
        return CellPair(
            self.load(row["load"]), None if repeat is None else int(repeat),
            str(row["baseline_id"]), str(row["speculative_id"]),
            tuple(dict.fromkeys(flag.name for flag in row["flags"])),
        )  # fmt: skip


def _settings(cut: _CutComparison) -> Iterator[ComparedSetting]:
    names, cells = _Names(cut), cut.known.cells
    met = cut.pairs.drop_duplicates(["baseline_id", "speculative_id"])
    met = met.sort_values([*_ARM, "load", "repeat"])
    levels, means, pairs = (
        records_by(rows, _ARM, [str(name) for name in rows])
        for rows in (cut.levels, cut.means, met)
    )
    marked = cells["synthetic_acceptance"].astype(object).eq(True)
    by_hand = frozenset(cells.loc[marked, "cell_id"])
    arms: dict[int, list[ComparedArm]] = {}
    for key, lines in levels.items():
        setting, arm_id = key
        rows = pairs.get(key, [])
        shown = tuple(names.pair(row) for row in rows)
        evidence = names.facts[setting].get("evidence")
        arm = ComparedArm(
            name=names.arms[arm_id], label=str(names.labels[arm_id]),
            badges=badges(evidence, any(pair.arm_cell in by_hand for pair in shown)),
            changes=tuple(_change(row, names) for row in lines),
            means=tuple(_mean(row) for row in means.get(key, [])),
            pairs=shown,
            allowed=tuple(sorted({str(name) for row in rows for name in row["allowed"]})),
            doubts=tuple(_doubts(rows, names)),
            launches_stated=all(plain(row["independent"]) is not False for row in lines),
        )  # fmt: skip
        arms.setdefault(setting, []).append(arm)
    for setting in sorted(arms, key=lambda place: names.settings[place]):
        facts, of_setting = names.facts[setting], sorted(arms[setting], key=lambda one: one.name)
        subject, dataset = subject_of(facts, None), facts["dataset"]
        yield ComparedSetting(names.settings[setting], subject, dataset, tuple(of_setting))


def _change(row: dict[str, Any], names: _Names) -> ArmChange:
    compared, launches = bool(row["compared"]), plain(row["launches"])
    judged = {name: plain(row[name]) if compared else None for name in ("improvement", *_JUDGED)}
    reference, arm = (
        RepeatSpan(plain(row[which]), row[f"{which}_low"], row[f"{which}_high"])
        for which in ("baseline", "speculative")
    )
    return ArmChange(
        load=names.load(row["load"]), metric=row["metric"], statistic=row["statistic"],
        compared=compared, reference=reference, arm=arm, **judged,
        launches=int(row["pairs"] if launches is None else launches), repeats=int(row["pairs"]),
        cells=(str(row["baseline_cell"]), str(row["speculative_cell"])),
    )  # fmt: skip


def _mean(row: dict[str, Any]) -> GeometricMean:
    values = (plain(row[name]) for name in ("baseline", "speculative", "improvement"))
    loads = (row[name] for name in ("loads", "only_baseline", "only_speculative"))
    return GeometricMean(row["metric"], row["statistic"], *values, *loads)


def _doubts(pairs: list[dict[str, Any]], names: _Names) -> Iterator[PairDoubt]:
    found: dict[tuple[int, str, str], set[int]] = {}
    for row in pairs:
        for flag in row["flags"]:
            key = (_SEVERITIES.index(flag.severity), flag.name, flag.sentence)
            found.setdefault(key, set()).add(row["load"])
    for (rank, name, sentence), places in sorted(found.items()):
        loads = [names.load(place) for place in sorted(places)]
        shorts = tuple("unknown" if load is None else load.short for load in loads)
        yield PairDoubt(_SEVERITIES[rank], name, sentence, shorts)


def _unmatched(known: Ground) -> Iterator[UnmatchedCell]:
    lonely = known.found.unmatched
    lonely = lonely[among(lonely["cell_id"], known.shown)]
    facts = known.cells.drop_duplicates("cell_id").set_index("cell_id").reindex(lonely["cell_id"])
    facts = facts.reset_index()
    for row, reason, load in zip(records(facts), lonely["reason"], loads_of(facts), strict=True):
        names = ("cell_id", "arm_label", "dataset", "model", "gpu", "path")
        cell, arm, dataset, model, gpu, path = (plain(row[name]) for name in names)
        place = None if load is None else load.text
        yield UnmatchedCell(str(cell), arm, dataset, place, model, gpu, path, str(reason))


# --- A reader's own reports beside each other and beside the warehouse: compared and decided alike.


#: Of a cell, in the order of the fields of ``UploadedCell`` after its load.
_READ = (
    "path", "model", "gpu", "dataset", "spec_method", "arm_label", "draft_model",
    "tensor_parallel_size", "num_speculative_tokens", "repeat", "completed", "errored",
)  # fmt: skip


@dataclass(frozen=True)
class UploadedCell:
    """What was read of one cell. ``file``: where it lay; ``method``: "none" for a baseline."""

    load: Load | None
    file: str
    model: str | None
    gpu: str | None
    dataset: str | None
    method: str | None
    arm: str | None
    draft: str | None
    tensor_parallel_size: int | None
    num_speculative_tokens: int | None
    repeat: int | None
    completed: int | None
    errored: int | None


@dataclass(frozen=True)
class UploadedResults:
    """The results read from uploaded reports: nothing but this module looks into their frames.
    ``answers``: their requests, as the query of that name returns them."""

    rows: WarehouseRows
    answers: pd.DataFrame

    @property
    def read(self) -> tuple[UploadedCell, ...]:
        """What was read of every cell."""
        cells = zip(records(self.rows.cells), loads_of(self.rows.cells), strict=True)
        return tuple(UploadedCell(load, *about(row, _READ).values()) for row, load in cells)


@dataclass(frozen=True)
class UploadAnswer:
    """What the uploaded reports say: their comparison, decisions and doubts."""

    flags: tuple[Flag, ...]
    comparison: ArmComparison
    decisions: Decisions


def hold(reader: Reader, also: Collection[MetricLine] = ()) -> UploadedResults:
    """Read everything that a warehouse of dropped reports holds, so that it may be removed."""
    cells = queries.cells(reader, Filters()).to_pandas()
    answers = queries.answers(reader, list(cells["cell_id"])).to_pandas()
    return UploadedResults(rows_of(reader, cells, Filters(), also), answers)


def answer_uploads(
    mine: UploadedResults, beside: Reader | None, question: CompareQuestion
) -> UploadAnswer:
    """Compare the reports with each other, and with their partners in the warehouse where one is
    given; ``question.filters`` then choose among its cells."""
    both = mine if beside is None else _with_partners(mine, beside, question)
    shown = frozenset(both.rows.cells["cell_id"])
    known = ground_of(both.rows, shown, question.allow, question.reference)
    if question.reference == BASELINE:
        known = known.with_answers(both.answers)
    return UploadAnswer(
        tuple(Flag(*flag) for flag in listed(mine.rows.flags, "name", "severity", "sentence")),
        compare_on(known, replace(question, filters=Filters())),
        decide_on(known, DecideQuestion(allow=question.allow)),
    )


def _with_partners(
    held: UploadedResults, beside: Reader, question: CompareQuestion
) -> UploadedResults:
    mine, filters = held.rows, replace(question.filters, arm=())
    cells, own = queries.cells(beside, filters).to_pandas(), set(mine.cells["cell_id"])
    likely = cells[cells["model"].isin(mine.cells["model"]) & ~cells["cell_id"].isin(own)]
    if likely.empty or mine.cells.empty:
        return held
    pairs = match(_joined(mine.cells, likely), question.allow).pairs
    met = pairs[pairs["baseline_id"].isin(own) | pairs["speculative_id"].isin(own)]
    ids = {*met["baseline_id"], *met["speculative_id"]} - own
    chosen = cells[cells["cell_id"].isin(ids)]
    if chosen.empty:
        return held
    theirs = rows_of(beside, chosen, filters, question.also)
    measured, acceptance = (
        rows[rows["cell_id"].isin(ids)] for rows in (theirs.measurements, theirs.acceptance)
    )
    rows = WarehouseRows(
        _joined(mine.cells, chosen), _joined(mine.measurements, measured),
        _joined(mine.flags, theirs.flags), _joined(mine.acceptance, acceptance),
    )  # fmt: skip
    answers = queries.answers(beside, list(ids)).to_pandas()
    return UploadedResults(rows, _joined(held.answers, answers))


def _joined(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    filled = [part for part in (one, other) if not part.empty]
    return pd.concat(filled, ignore_index=True) if filled else one
