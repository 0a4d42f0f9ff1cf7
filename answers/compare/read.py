"""What a comparison stands on, cut to what is shown: whole studies are read and judged first."""

from dataclasses import dataclass

import pandas as pd

from analysis.matching.arms import ATTAINED, THROUGHPUTS, kept_up
from analysis.matching.comparison import STUDY_TABLE
from answers.compare.values import Line, Question
from answers.ground import Asked, Ground, ground
from warehouse.store_read import Reader

_BY = ["setting", "arm_id", "load", "metric", "statistic"]
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
    ends = pairs.groupby(_BY, sort=False).agg(**_ENDS).reset_index()
    told = known.sure.levels[[*_BY, *_TOLD]]
    rows = levels.merge(ends, on=_BY, how="left").merge(told, on=_BY, how="left")
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
