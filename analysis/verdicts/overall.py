"""One answer for an arm over several settings: datasets, tensor parallel sizes, whatever was measured.

Each setting is decided by itself (``analysis.verdicts.decision``); here the decisions are put together and
the gains are averaged as logarithms. Nothing says how independent the settings are (one server may
have served them all), so the interval of the average is that of settings which err together: it is
never too narrow.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.frames import records
from analysis.money.cost import saving
from analysis.significance.comparison import Comparison, in_study_order
from analysis.significance.confidence import SERIES, Confidence
from analysis.significance.crossover import ENDS
from analysis.significance.evidence import BETTER, WORSE, verdicts
from analysis.verdicts.decision import DECISIVE, Decision
from warehouse.catalogue import METRICS

Answer = Literal["yes", "yes, up to a load", "it depends", "undecided", "no"]

#: From the one that is best to hear.
ANSWERS: tuple[Answer, ...] = ("yes", "yes, up to a load", "it depends", "undecided", "no")
_PAYS = ("yes", "yes, up to a load")
_ARMS = ["baseline", "speculative"]
_VALUES = ["improvement", "low", "high"]


@dataclass(frozen=True)
class Overall:
    """One arm over its settings. ``lines``: a row per line of the study's table (metric, statistic,
    baseline, speculative: geometric means over settings; improvement, low, high: ratios, positive
    is better, NaN for unknown; verdict; settings, better, worse: how many). ``ends_at``: the lowest
    load at which the gain of a setting ends that has one, None where all that pay do so at every
    load; ``measured``: the lowest and the highest load that both arms have."""

    arm_id: int
    answer: Answer
    settings: tuple[Decision, ...]
    lines: pd.DataFrame
    ends_at: float | None
    measured: tuple[float, float]

    @property
    def gain(self) -> dict[str, Any]:
        """The line of output throughput."""
        metric, statistic = DECISIVE
        rows = self.lines
        return records(rows[(rows["metric"] == metric) & (rows["statistic"] == statistic)])[0]


def overalls(found: Comparison, sure: Confidence, made: Sequence[Decision]) -> list[Overall]:
    """One for each arm of ``made`` (the decisions on ``found`` and ``sure``), the best first.

    Best is the better answer, then more settings, then the larger gain in output throughput.
    """
    lines = dict(iter(_means(_lines(found, sure)).groupby("arm_id")))
    arms = {one.arm_id: tuple(o for o in made if o.arm_id == one.arm_id) for one in made}
    known = [_overall(arm, settings, lines[arm]) for arm, settings in arms.items()]
    return sorted(known, key=_rank)


def saved_per_token(gain: float) -> float:
    """The share of the cost per token that a gain in throughput saves; negative where it is dearer.

    The same GPUs for 1 / (1 + gain) of the time.
    """
    return saving(1.0, 1 / (1 + gain))


def _rank(one: Overall) -> tuple[int, int, float]:
    gain = one.gain["improvement"]
    return ANSWERS.index(one.answer), -len(one.settings), 0.0 if pd.isna(gain) else -gain


def _overall(arm_id: int, settings: tuple[Decision, ...], lines: pd.DataFrame) -> Overall:
    loads = [one.crossover.measured for one in settings]
    ends = [
        one.crossover.at
        for one in settings
        if one.crossover.kind == ENDS and one.crossover.at is not None
    ]
    return Overall(
        arm_id, answer_of([one.answer for one in settings]), settings,
        lines.drop(columns="arm_id").reset_index(drop=True), min(ends, default=None),
        (min(low for low, _ in loads), max(high for _, high in loads)),
    )  # fmt: skip


def answer_of(answers: Sequence[str]) -> Answer:
    """What the answers of all settings come to."""
    count = Counter(answers)
    pays = sum(count[word] for word in _PAYS)
    if pays == len(answers):
        return "yes, up to a load" if count["yes, up to a load"] else "yes"
    if pays:
        return "it depends"
    return "no" if count["no"] == len(answers) else "undecided"


def _lines(found: Comparison, sure: Confidence) -> pd.DataFrame:
    """A row per setting, arm and line of the study's table, with its interval and verdict."""
    told = sure.geomean[[*SERIES, "low", "high", "verdict"]]
    return in_study_order(found.geomean).merge(told, on=list(SERIES), how="left")


def _means(rows: pd.DataFrame) -> pd.DataFrame:
    """Over the settings of each arm: a row per arm and line, in the study's order."""
    lower = rows["metric"].map(lambda key: METRICS[key].better) == "lower"
    sign = pd.Series(np.where(lower, -1.0, 1.0), index=rows.index)
    logs = rows.assign(
        sign=sign,
        better=rows["verdict"] == BETTER,
        worse=rows["verdict"] == WORSE,
        **{name: np.log(rows[name]) for name in _ARMS},
        **{name: sign * np.log1p(sign * rows[name]) for name in _VALUES},
    )
    grouped = logs.groupby(["arm_id", "line", "metric", "statistic"], sort=True)
    # NaN as soon as one is: an average over fewer settings would not say so.
    table = grouped[[*_ARMS, *_VALUES]].mean(skipna=False)
    counts = grouped.agg(
        settings=("setting", "size"), better=("better", "sum"), worse=("worse", "sum")
    )
    signs = grouped["sign"].first()
    values = {name: signs * np.expm1(signs * table[name]) for name in _VALUES}
    means = {name: np.exp(table[name]) for name in _ARMS}
    told = table.assign(**values, **means).join(counts)
    told = told.assign(verdict=_verdicts(values["low"], values["high"]))
    whole: pd.DataFrame = told.reset_index().drop(columns="line")
    return whole


def _verdicts(low: pd.Series, high: pd.Series) -> NDArray[Any]:
    return verdicts(low.to_numpy(dtype=np.float64), high.to_numpy(dtype=np.float64))
