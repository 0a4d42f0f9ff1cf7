"""What Compare and Runs read, cached by warehouse generation: a new ingest shows at once.

Values come from ``cache_resource`` and are shared between sessions without copies: read only.
"""

from dataclasses import dataclass, replace
from functools import cache

import pandas as pd

from analysis.matching.reference import BASELINE, against
from analysis.significance.bootstrap import COLUMNS as SAMPLED
from analysis.significance.bootstrap import with_sampling
from analysis.significance.comparison import (
    METRICS_READ,
    STATISTICS_READ,
    Comparison,
    compare,
    in_study_order,
)
from analysis.significance.confidence import Confidence, intervals
from dashboard import answers
from dashboard.answers import MOST_INTERVALS, Answer, Compared, Drawing
from dashboard.cells import OneRun, newest_runs, one_run, run_rows, summary
from dashboard.components import Shown, shown
from dashboard.depth import DISTRIBUTIONS, acceptance, distributions, server
from dashboard.filters import option_values
from dashboard.panels import CHARTED, charted, shown_statistic
from dashboard.shelf import Shelf, cached, frame, reader
from dashboard.tables import level_rows
from warehouse import queries
from warehouse.catalogue import METRICS
from warehouse.filters import UNKNOWN, Filters


@dataclass(frozen=True)
class Question:
    """What the Compare page is asked: which cells, which statistic, what may differ; which metrics
    are read, which arm the others are compared with, and whether a single repeat gets the interval
    of its sampled requests."""

    filters: Filters
    statistic: str
    allow: tuple[str, ...]
    metrics: tuple[str, ...] = CHARTED
    reference: str = "baseline"
    sampling: bool = False


@cached(4)
def filter_options(shelf: Shelf) -> dict[str, list[str]]:
    """Filter -> the values that it can be set to."""
    return option_values(frame(queries.filter_options(reader(shelf))))


@cached(32)
def cells(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """One row per cell."""
    return frame(queries.cells(reader(shelf), filters))


@cached(32)
def arms(shelf: Shelf, filters: Filters) -> list[str]:
    """The arms that there are whatever the filter of arms says, the baseline first."""
    there = set(cells(shelf, replace(filters, arm=()))["arm_label"]) - {BASELINE, UNKNOWN}
    return [BASELINE, *(name for name in filter_options(shelf)["arm"] if name in there)]


@cached(4)
def combinations(shelf: Shelf) -> Shown:
    """Which filter values occur together, with the number of cells."""
    names = {
        "model": "model", "gpu": "GPU", "engine_version": "engine version", "dataset": "dataset",
        "tensor_parallel_size": "TP", "arm_label": "arm",
    }  # fmt: skip
    known = cells(shelf, Filters())[list(names)].astype(object)
    known = known.where(known.notna(), "unknown").astype(str).rename(columns=names)
    return shown(known.value_counts().rename("cells").reset_index())


@cached(32, Question)
def _comparison(shelf: Shelf, question: Question) -> Comparison:
    """``question``: of its statistic and sampling nothing is read."""
    filters = question.filters
    metrics = sorted({*question.metrics, *METRICS_READ})
    statistics = sorted({question.statistic, *STATISTICS_READ})
    chosen = against(cells(shelf, filters), question.reference)
    measured = frame(queries.measurements(reader(shelf), filters, metrics, statistics))
    doubtful = list(chosen.loc[chosen["flags"] > 0, "cell_id"])
    doubts = frame(queries.flags(reader(shelf), doubtful)) if doubtful else None
    return compare(chosen, measured, question.allow, doubts)


def study(shelf: Shelf, question: Question) -> Comparison:
    """The comparison with every statistic of the study's table and the one that was chosen."""
    known = question.statistic in STATISTICS_READ
    statistic = STATISTICS_READ[0] if known else question.statistic
    return _comparison(shelf, replace(question, statistic=statistic, sampling=False))


@cached(32, Question)
def confidence(shelf: Shelf, question: Question) -> Confidence:
    """The intervals of ``study``, of what is shown of it; where asked for, of single repeats those
    of their requests. None beyond MOST_INTERVALS settings and arms."""
    found = study(shelf, question)
    if len(found.pairs[["setting", "arm_id"]].drop_duplicates()) > MOST_INTERVALS:
        return intervals(found.pairs.iloc[:0])
    pairs = pd.concat(
        [charted(found.pairs, question.statistic, question.metrics), in_study_order(found.pairs)]
    )
    sure = intervals(pairs[~pairs.index.duplicated()])
    if not question.sampling:
        return sure

    @cache
    def requests_of(cell_id: str) -> pd.DataFrame:
        return frame(queries.requests(reader(shelf), cell_id, SAMPLED))

    return with_sampling(sure, found.pairs, requests_of)


def compared(shelf: Shelf, question: Question) -> Compared:
    """All that the Compare page's answer stands on."""
    return Compared(
        study(shelf, question), confidence(shelf, question), cells(shelf, question.filters),
        question.reference,
    )  # fmt: skip


@cached(32, Question)
def answer(shelf: Shelf, question: Question) -> Answer:
    """What the Compare page says; see ``answers.answer``."""
    return answers.answer(compared(shelf, question), question.statistic, question.metrics)


@cached(64, Question)
def improvement_drawings(shelf: Shelf, question: Question, metric: str) -> list[Drawing]:
    """One chart per panel; see ``answers.improvement_drawings``."""
    statistic = shown_statistic(METRICS[metric], question.statistic)
    ends = answers.ends_of_gains(compared(shelf, question), metric, statistic)
    return answers.improvement_drawings(answer(shelf, question), ends, metric)


@cached(64, Question)
def value_drawings(shelf: Shelf, question: Question, metric: str) -> list[Drawing]:
    """One chart per panel; see ``answers.value_drawings``."""
    return answers.value_drawings(answer(shelf, question), metric)


@cached(64, Question)
def level_table(shelf: Shelf, question: Question, panel: str) -> Shown:
    """Every level of one panel with its interval and verdict."""
    return shown(level_rows(study(shelf, question), confidence(shelf, question), panel))


@cached(64, Question)
def metric_drawings(shelf: Shelf, question: Question, panel: str) -> list[Drawing]:
    """One chart per metric; see ``answers.metric_drawings``."""
    return answers.metric_drawings(answer(shelf, question), panel, question.statistic)


@cached(16)
def runs(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """One row per source and run, newest first."""
    return frame(queries.runs(reader(shelf), filters))


@cached(16)
def runs_table(shelf: Shelf, filters: Filters) -> tuple[str, Shown]:
    """All runs in a sentence and the newest in a table."""
    known, rejected = runs(shelf, filters), len(rejections(shelf))
    return summary(known, rejected), shown(run_rows(known))


@cached(64)
def run_names(shelf: Shelf, filters: Filters, text: str, asked: str) -> tuple[dict[str, int], int]:
    """Name -> row of the newest runs that hold ``text`` (and of ``asked``); how many hold it."""
    return newest_runs(runs(shelf, filters), text, asked)


@cached(64)
def run(shelf: Shelf, filters: Filters, row: int) -> OneRun:
    """One run of ``runs`` with its cells and flags."""
    head = runs(shelf, filters).iloc[row]
    known = cells(shelf, filters)
    same = (known["source_id"] == head["source_id"]) & (known["run_id"] == head["run_id"])
    known = known[same].reset_index(drop=True)
    return one_run(head, known, frame(queries.flags(reader(shelf), list(known["cell_id"]))))


@cached(4)
def rejections(shelf: Shelf) -> pd.DataFrame:
    """path, reason, rejected_at."""
    return frame(queries.rejections(reader(shelf)))


@cached(64)
def cell_drawings(
    shelf: Shelf, filters: Filters, cell_id: str
) -> tuple[list[Drawing], list[Drawing]]:
    """Distributions of a cell's requests, and its acceptance by position."""
    known = cells(shelf, filters)
    cell = known[known["cell_id"] == cell_id].iloc[0]
    rows = {m: frame(queries.request_distribution(reader(shelf), cell_id, m))
            for m in DISTRIBUTIONS}  # fmt: skip
    places = positions(shelf, filters)
    return distributions(cell, rows), acceptance(cell, places[places["cell_id"] == cell_id])


@cached(16)
def positions(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """cell_id, source, position, rate."""
    return frame(queries.acceptance_by_position(reader(shelf), filters))


@cached(32)
def server_names(shelf: Shelf, cell_id: str) -> list[str]:
    """The server metrics that were sampled during a cell."""
    return sorted(_samples(shelf, cell_id)["name"].unique())


@cached(32)
def server_drawing(shelf: Shelf, cell_id: str, name: str, note: str) -> Drawing:
    """One server metric over the time of a cell."""
    return server(_samples(shelf, cell_id), name, note)


@cached(32)
def _samples(shelf: Shelf, cell_id: str) -> pd.DataFrame:
    return frame(queries.samples(reader(shelf), cell_id))


@cached(64)
def cell_measurements(shelf: Shelf, cell_id: str) -> Shown:
    """origin, metric, statistic, value."""
    return shown(frame(queries.cell_measurements(reader(shelf), cell_id)))
