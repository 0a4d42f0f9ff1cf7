"""What a decision stands on: whole studies, and what an SLO bounds."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

from analysis.service.slo import Slo
from answers.decide.values import Question
from answers.ground import Asked
from answers.ground import Ground as Ground
from answers.ground import Rows as Rows
from answers.ground import ground as read
from answers.ground import ground_of as ground_of
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader


def ground(reader: Reader, question: Question, slo: Slo | None) -> Ground:
    """Compare all cells of every study that the filters touch.

    Raises UnknownKey for a field in ``question.allow`` that pairs need not share anyway.
    """
    bounds = () if slo is None else slo.bounds
    also = tuple((bound.metric, bound.statistic) for bound in bounds)
    found = read(reader, Asked(question.filters, question.allow, also))
    return replace(found, server_of=partial(_server_of, reader))


def _server_of(reader: Reader, cell_id: str) -> dict[str, Any]:
    """Return what a record or a report tells of a cell's server beyond facts: ``commands`` by
    engine, ``environment`` and ``model_path``."""
    told: dict[str, Any] = queries.server_of_cell(reader, cell_id).to_pylist()[0]
    parsed = {name: json.loads(told[name] or "{}") for name in ("commands", "environment")}
    return told | parsed


def measured(reader: Reader, filters: Filters) -> int:
    """Return how many cells the filters keep."""
    return int(queries.cells(reader, filters).num_rows)
