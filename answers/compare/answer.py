"""What a comparison stands on, and what is shown of it: the only place where it is put together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.frames import among, plain, records, records_by
from analysis.matching.arms import ATTAINED, THROUGHPUTS, kept_up
from analysis.matching.comparison import STUDY_TABLE
from analysis.matching.fields import loads_of
from analysis.matching.names import arm_names, setting_names
from answers.compare.values import (
    Arm,
    Change,
    Comparison,
    Doubt,
    Line,
    Mean,
    Pair,
    PairLine,
    Question,
    Setting,
    Span,
    Unmatched,
)
from answers.compare.words import why_none
from answers.decide.values import Subject
from answers.ground import Asked, Ground, ground
from answers.wording import badges
from warehouse.loads import Load
from warehouse.store import Reader

# --- What a comparison stands on, cut to what is shown: whole studies are read and judged first.


_KEYS = ["setting", "arm_id", "load", "metric", "statistic"]
_ENDS = {
    "baseline_low": ("baseline", "min"), "baseline_high": ("baseline", "max"),
    "speculative_low": ("speculative", "min"), "speculative_high": ("speculative", "max"),
    "baseline_cell": ("baseline_id", "first"), "speculative_cell": ("speculative_id", "first"),
}  # fmt: skip
_TOLD = ["launches", "low", "high", "adjusted_low", "adjusted_high", "word", "independent"]


@dataclass(frozen=True)
class Seen:
    """What the filters show of the comparison of whole studies. ``pairs``, ``means`` as in the
    comparison; ``levels``: a row per setting, arm, load and line with the values of both arms,
    their ends and cells, the interval and word, ``compared`` and ``line`` (its place)."""

    known: Ground
    pairs: pd.DataFrame
    levels: pd.DataFrame
    means: pd.DataFrame


def asked(question: Question) -> Asked:
    """Return what has to be read to answer a question."""
    return Asked(question.filters, question.allow, question.also, question.reference)


def seen(reader: Reader, question: Question) -> Seen:
    """Compare whole studies and keep what the filters show. Raises UnknownKey as ``ground``
    does."""
    return cut(ground(reader, asked(question)), question)


def lines_shown(question: Question) -> tuple[Line, ...]:
    """Return the study's table, then what was asked for beside it."""
    return tuple(dict.fromkeys((*STUDY_TABLE, ATTAINED, *question.also)))


def cut(known: Ground, question: Question) -> Seen:
    """Keep what the filters show: arms with a cell that they keep, in the lines that are shown."""
    lines = {line: place for place, line in enumerate(lines_shown(question))}
    pairs = known.found.pairs
    there = pairs[pairs["speculative_id"].astype(object).isin(known.shown)]
    arms = pd.MultiIndex.from_frame(there[["setting", "arm_id"]].drop_duplicates())
    pairs = _placed(_of_arms(pairs, arms), lines)
    levels = _placed(_of_arms(known.found.levels, arms), lines)
    return Seen(
        known, pairs, _levels(levels, pairs, known), _means(_of_arms(known.found.geomean, arms), known, lines)
    )  # fmt: skip


def _of_arms(rows: pd.DataFrame, arms: pd.MultiIndex) -> pd.DataFrame:
    chosen: pd.DataFrame = rows[pd.MultiIndex.from_frame(rows[["setting", "arm_id"]]).isin(arms)]
    return chosen


def _placed(rows: pd.DataFrame, lines: dict[Line, int]) -> pd.DataFrame:
    """Return the rows of the given lines, with each line's place and with names as text."""
    named = rows.assign(**{n: rows[n].astype(object) for n in ("metric", "statistic")})
    places = [lines.get(x, -1) for x in zip(named["metric"], named["statistic"], strict=True)]
    placed = named.assign(line=places)
    return placed[placed["line"] >= 0]


def _levels(levels: pd.DataFrame, pairs: pd.DataFrame, known: Ground) -> pd.DataFrame:
    ends = pairs.groupby(_KEYS, sort=False).agg(**_ENDS).reset_index()
    told = known.sure.levels[[*_KEYS, *_TOLD]]
    rows = levels.merge(ends, on=_KEYS, how="left").merge(told, on=_KEYS, how="left")
    rows = rows.assign(compared=_compared(rows, known))
    return rows.sort_values(["setting", "arm_id", "load", "line"], ignore_index=True)


def _compared(rows: pd.DataFrame, known: Ground) -> list[bool]:
    """Return for each row whether it is compared: not throughput where every arm keeps up with a
    fixed rate."""
    kept = kept_up(known.found)
    places = zip(rows["metric"], rows["setting"].tolist(), rows["load"].tolist(), strict=True)
    return [metric not in THROUGHPUTS or (setting, load) not in kept
            for metric, setting, load in places]  # fmt: skip


def _means(means: pd.DataFrame, known: Ground, lines: dict[Line, int]) -> pd.DataFrame:
    """Return the means of the lines in the study's table, without those of throughput where the
    servers keep up with a fixed rate."""
    table = {line: place for line, place in lines.items() if line in STUDY_TABLE}
    rows = _placed(means, table)
    rates = {setting for setting, _ in kept_up(known.found)}
    idle = rows["metric"].isin(THROUGHPUTS) & rows["setting"].isin(rates)
    return rows[~idle].sort_values(["setting", "arm_id", "line"], ignore_index=True)


# --- From a comparison of whole studies to what is shown of it: the only place where it is put together.


_BY = ("setting", "arm_id")
_SEVERITIES = ("error", "warning", "info")
_SUBJECT = (
    "study", "model", "gpu", "gpu_count", "engine", "engine_version", "tensor_parallel_size",
    "evidence",
)  # fmt: skip


def compare(reader: Reader, question: Question) -> Comparison:
    """Compare the arms that the filters show, each standing on its whole study.

    Raises UnknownKey for a field in ``question.allow`` that pairs need not share anyway.
    """
    return _told(seen(reader, question), question)


def compare_on(known: Ground, question: Question) -> Comparison:
    """Compare as ``compare`` does, on what was read before."""
    return _told(cut(known, question), question)


def pair_lines(reader: Reader, question: Question) -> tuple[PairLine, ...]:
    """Return every pair behind ``compare`` in every line that is shown, unrounded."""
    known = seen(reader, question)
    names = _Names(known)
    rows = known.pairs.sort_values(["setting", "arm_id", "load", "line"])
    return tuple(_pair_line(row, names) for row in records(rows))


def _pair_line(row: dict[str, Any], names: "_Names") -> PairLine:
    return PairLine(
        names.settings[row["setting"]], names.arms[row["arm_id"]], names.pair(row), row["metric"],
        row["statistic"], row["baseline"], row["speculative"], plain(row["improvement"]),
        tuple(row["allowed"]),
    )  # fmt: skip


class _Names:
    """The names by which a view calls its settings, arms and loads."""

    def __init__(self, known: Seen) -> None:
        keys = known.known.found.keys
        shown = known.levels[list(_BY)].drop_duplicates()
        keys = keys[keys.index.isin(pd.MultiIndex.from_frame(shown))]
        arms = keys[~keys.index.get_level_values("arm_id").duplicated()].droplevel(0)
        settings = keys[~keys.index.get_level_values("setting").duplicated()].droplevel(1)
        self.facts = dict(zip(settings.index.tolist(), records(settings), strict=True))
        self.settings = _by_number(setting_names(settings)) if len(settings) else {}
        self.arms = _by_number(arm_names(arms)) if len(arms) else {}
        self.labels = _by_number(arms["arm_label"]) if len(arms) else {}
        self._loads = known.known.found.loads

    def load(self, place: int) -> Load | None:
        """Return the load at a place; None for -1."""
        return self._loads[place] if place >= 0 else None

    def short(self, place: int) -> str:
        """Return the short name of the load at a place; ``unknown`` for -1."""
        return self._loads[place].short if place >= 0 else "unknown"

    def pair(self, row: dict[str, Any]) -> Pair:
        """Return the two cells of a row of pairs."""
        repeat = plain(row["repeat"])
        return Pair(
            self.load(row["load"]), None if repeat is None else int(repeat),
            str(row["baseline_id"]), str(row["speculative_id"]),
            tuple(dict.fromkeys(flag.name for flag in row["flags"])),
        )  # fmt: skip


def _by_number(names: pd.Series) -> dict[int, str]:
    return dict(zip(names.index.tolist(), names.tolist(), strict=True))


def _told(known: Seen, question: Question) -> Comparison:
    settings = tuple(_settings(known))
    ground = known.known
    unmatched = tuple(_unmatched(ground))
    shown = among(ground.cells["cell_id"], ground.shown & set(ground.excluded))
    excluded = tuple(ground.excluded[cell] for cell in ground.cells.loc[shown, "cell_id"])
    why = None if settings else why_none(not ground.shown, unmatched)
    return Comparison(settings, unmatched, excluded, question.reference, why)


def _settings(known: Seen) -> Iterator[Setting]:
    names = _Names(known)
    parts = _Parts(known, names)
    by_setting: dict[int, list[Arm]] = {}
    for setting, arm in known.levels[list(_BY)].drop_duplicates().itertuples(index=False):
        by_setting.setdefault(int(setting), []).append(parts.arm(int(setting), int(arm)))
    order = sorted(by_setting, key=lambda place: names.settings[place])
    for setting in order:
        facts = names.facts[setting]
        arms = sorted(by_setting[setting], key=lambda one: one.name)
        yield Setting(
            names.settings[setting], _subject(facts), plain(facts["dataset"]), tuple(arms)
        )


@dataclass(frozen=True)
class _Rows:
    levels: list[dict[str, Any]]
    means: list[dict[str, Any]]
    pairs: list[dict[str, Any]]


class _Parts:
    """The rows of levels, means and pairs by setting and arm, from which each arm is put
    together."""

    def __init__(self, known: Seen, names: _Names) -> None:
        self._names = names
        self._levels = _by(known.levels)
        self._means = _by(known.means)
        met = known.pairs.drop_duplicates(["baseline_id", "speculative_id"])
        self._pairs = _by(met.sort_values(["setting", "arm_id", "load", "repeat"]))
        cells = known.known.cells
        set_by_hand = cells["synthetic_acceptance"].astype(object).eq(True)
        self._set_by_hand = frozenset(cells.loc[set_by_hand, "cell_id"])

    def arm(self, setting: int, arm_id: int) -> Arm:
        """Put together one arm of a setting."""
        rows = _Rows(
            *(x.get((setting, arm_id), []) for x in (self._levels, self._means, self._pairs))
        )
        pairs = tuple(self._names.pair(row) for row in rows.pairs)
        by_hand = any(pair.arm_cell in self._set_by_hand for pair in pairs)
        evidence = plain(self._names.facts[setting].get("evidence"))
        return Arm(
            name=self._names.arms[arm_id], label=str(self._names.labels[arm_id]),
            badges=badges(evidence, by_hand),
            changes=tuple(_change(row, self._names) for row in rows.levels),
            means=tuple(_mean(row) for row in rows.means),
            pairs=pairs,
            allowed=tuple(sorted({str(name) for row in rows.pairs for name in row["allowed"]})),
            doubts=tuple(_doubts(rows.pairs, self._names)),
            launches_stated=all(plain(row["independent"]) is not False for row in rows.levels),
        )  # fmt: skip


def _by(rows: pd.DataFrame) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    return records_by(rows, _BY, [str(name) for name in rows])


def _change(row: dict[str, Any], names: _Names) -> Change:
    compared = bool(row["compared"])
    launches = plain(row["launches"])

    def judged(name: str) -> Any:
        return plain(row[name]) if compared else None

    return Change(
        load=names.load(row["load"]), metric=row["metric"], statistic=row["statistic"],
        compared=compared, reference=_span(row, "baseline"), arm=_span(row, "speculative"),
        improvement=judged("improvement"), low=judged("low"), high=judged("high"),
        adjusted_low=judged("adjusted_low"), adjusted_high=judged("adjusted_high"),
        word=judged("word"), launches=int(row["pairs"] if launches is None else launches),
        repeats=int(row["pairs"]), cells=(str(row["baseline_cell"]), str(row["speculative_cell"])),
    )  # fmt: skip


def _span(row: dict[str, Any], arm: str) -> Span:
    return Span(plain(row[arm]), row[f"{arm}_low"], row[f"{arm}_high"])


def _mean(row: dict[str, Any]) -> Mean:
    values = (plain(row[name]) for name in ("baseline", "speculative", "improvement"))
    loads = (row[name] for name in ("loads", "only_baseline", "only_speculative"))
    return Mean(row["metric"], row["statistic"], *values, *loads)


def _doubts(pairs: list[dict[str, Any]], names: _Names) -> Iterator[Doubt]:
    """Yield the distinct flags of pairs, most serious first."""
    found: dict[tuple[int, str, str], list[int]] = {}
    for row in pairs:
        for flag in row["flags"]:
            key = (_SEVERITIES.index(flag.severity), flag.name, flag.sentence)
            found.setdefault(key, []).append(row["load"])
    for (rank, name, sentence), places in sorted(found.items()):
        loads = tuple(names.short(place) for place in sorted(set(places)))
        yield Doubt(_SEVERITIES[rank], name, sentence, loads)


def _subject(facts: dict[str, Any]) -> Subject:
    told = {name: plain(facts.get(name)) for name in _SUBJECT}
    for name in ("gpu_count", "tensor_parallel_size"):
        told[name] = None if told[name] is None else int(told[name])
    return Subject(**told)


def _unmatched(known: Ground) -> Iterator[Unmatched]:
    """Yield the shown cells without a partner."""
    told = known.found.unmatched
    told = told[among(told["cell_id"], known.shown)]
    facts = known.cells.drop_duplicates("cell_id").set_index("cell_id").reindex(told["cell_id"])
    facts = facts.reset_index()
    for row, reason, load in zip(records(facts), told["reason"], loads_of(facts), strict=True):
        names = ("cell_id", "arm_label", "dataset", "model", "gpu", "path")
        cell, arm, dataset, model, gpu, path = (plain(row[name]) for name in names)
        place = None if load is None else load.text
        yield Unmatched(str(cell), arm, dataset, place, model, gpu, path, str(reason))
