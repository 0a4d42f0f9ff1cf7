"""What is read of one pair of cells; of its requests only when somebody asks for them."""

from dataclasses import dataclass

import pandas as pd

from analysis.evidence.output_check import COLUMNS as COMPARED
from analysis.evidence.output_check import check_outputs
from dashboard import data
from dashboard.answers import Drawing
from dashboard.answers import pair as answers_pair
from dashboard.answers.pair import Pair
from dashboard.components import Shown
from dashboard.data import compare as data_compare
from dashboard.data.compare import Question
from dashboard.depth import DISTRIBUTIONS
from dashboard.shelf import Shelf, cached, frame, reader
from warehouse import queries
from warehouse.filters import Filters

_REQUESTS = ("status", "prompt_tokens", "ttft")


@dataclass(frozen=True)
class Requests:
    """``distributions``: a chart per metric; ``first_tokens``: a chart per arm; ``outputs``:
    sentences."""

    distributions: list[Drawing]
    first_tokens: list[Drawing]
    outputs: tuple[str, ...]


@cached(64, Question)
def pairs(shelf: Shelf, question: Question, setting: str) -> dict[str, Pair]:
    """Name -> pair of one setting."""
    return answers_pair.pairs(data_compare.comparison(shelf, question), setting)


@cached(64, Pair)
def configuration(shelf: Shelf, pair: Pair) -> Shown:
    """In which settings the two cells differ. A filter may hide one of them: both are looked up."""
    known = data.cells(shelf, Filters())
    return answers_pair.configuration(pair, known, data.runs(shelf, Filters()))


@cached(32, Pair)
def requests(shelf: Shelf, pair: Pair) -> Requests:
    """The requests of both cells: how they fared, and whether their outputs are alike."""
    shares = {
        (cell, metric): frame(queries.request_distribution(reader(shelf), cell, metric))
        for cell in pair.arms
        for metric in DISTRIBUTIONS
    }
    columns = list(dict.fromkeys((*_REQUESTS, *COMPARED)))
    rows: dict[str, pd.DataFrame] = {
        cell: frame(queries.requests(reader(shelf), cell, columns)) for cell in pair.arms
    }
    greedy = answers_pair.greedy(pair, data.cells(shelf, Filters()))
    check = check_outputs(rows[pair.baseline_id], rows[pair.speculative_id], greedy)
    return Requests(
        answers_pair.distributions(pair, shares), answers_pair.first_tokens(pair, rows),
        check.sentences,
    )  # fmt: skip
