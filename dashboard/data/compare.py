"""What the Compare page reads, cached by warehouse generation."""

from dataclasses import dataclass

import pandas as pd

from answers.compare import answer as answers_compare
from answers.compare.values import Comparison
from answers.compare.values import Question as Asked
from answers.decide.values import Question as Decide
from dashboard.answers import Drawing
from dashboard.answers import compare as page_of
from dashboard.answers.compare import Page
from dashboard.answers.compare_marks import Line, shown_statistic
from dashboard.components import Shown
from dashboard.data import decide as data_decide
from dashboard.panels import CHARTED
from dashboard.shelf import Shelf, cached, reader
from warehouse.catalogue import METRICS
from warehouse.filters import Filters


@dataclass(frozen=True)
class Question:
    """What the Compare page is asked: which cells, which statistic of latencies, what may differ;
    which metrics are read, which arm the others are compared with."""

    filters: Filters
    statistic: str = "p50"
    allow: tuple[str, ...] = ()
    metrics: tuple[str, ...] = CHARTED
    reference: str = "baseline"

    def line(self, metric: str) -> Line:
        """The metric with the statistic that it is shown with."""
        return metric, shown_statistic(METRICS[metric], self.statistic)

    @property
    def asked(self) -> Asked:
        """What is asked of ``answers.compare``."""
        also = tuple(self.line(metric) for metric in self.metrics)
        return Asked(self.filters, self.allow, self.reference, also)


@cached(16, Question)
def comparison(shelf: Shelf, question: Question) -> Comparison:
    """How the arms compare."""
    return answers_compare.compare(reader(shelf), question.asked)


@cached(32, Question)
def page(shelf: Shelf, question: Question) -> Page:
    """What the page says, under the headline that the Verdict page has."""
    return page_of.page(
        comparison(shelf, question), data_decide.found(shelf, Decide(question.filters))
    )


@cached(64, Question)
def improvement_drawings(shelf: Shelf, question: Question, metric: str) -> list[Drawing]:
    """One chart per setting of the improvement of a metric."""
    titles = page(shelf, question).titles
    return page_of.improvement_drawings(comparison(shelf, question), titles, question.line(metric))


@cached(64, Question)
def value_drawings(shelf: Shelf, question: Question, metric: str) -> list[Drawing]:
    """One chart per setting of a metric in its own unit."""
    titles = page(shelf, question).titles
    return page_of.value_drawings(comparison(shelf, question), titles, question.line(metric))


@cached(64, Question)
def metric_drawings(shelf: Shelf, question: Question, setting: str) -> list[Drawing]:
    """One chart per charted metric of one setting."""
    told = page(shelf, question).titles[setting]
    return page_of.metric_drawings(comparison(shelf, question), setting, told, question.statistic)


@cached(64, Question)
def level_table(shelf: Shelf, question: Question, setting: str) -> Shown:
    """Every load of one setting."""
    return page_of.level_table(comparison(shelf, question), setting)


def pair_rows(shelf: Shelf, question: Question) -> pd.DataFrame:
    """Every pair, for a file: read only when somebody asks for it."""
    return page_of.pair_rows(answers_compare.pair_lines(reader(shelf), question.asked))
