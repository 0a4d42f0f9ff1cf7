"""Joules per output token of both arms of each cost, where the power of the GPUs was recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.frames import records
from analysis.money.cost import energy
from answers.cost.values import Costs, Money, Side
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store_read import Reader


def with_energy(reader: Reader, found: Costs) -> Costs:
    """Add energy to each cost, measured over the cells at the operating load; None where one has no
    power recorded before, in and after its load. A mix of datasets has no energy of its own."""
    spans = _spans(reader, {cell for row in found.rows for each in _cells(row) for cell in each})
    return replace(found, rows=tuple(_with(reader, row, spans) for row in found.rows))


@dataclass(frozen=True)
class _Span:
    """When a cell's load ran (unix s), and how many output tokens it made."""

    begin: float
    end: float
    tokens: float


def _cells(row: Money) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids of the baseline's cells and of the arm's at the operating load."""
    if row.decision.traffic.mix:
        return (), ()
    pairs = {
        pair
        for cell in row.decision.arms
        if (cell.load, cell.arm) == (row.load, row.arm)
        for pair in cell.pairs
    }
    old, new = (tuple(sorted({pair[side] for pair in pairs})) for side in (0, 1))
    return old, new if row.decision.operating.drafts else old


def _with(reader: Reader, row: Money, spans: dict[str, _Span]) -> Money:
    old, new = _cells(row)
    return replace(
        row,
        baseline=_told(reader, row.baseline, old, spans),
        speculative=_told(reader, row.speculative, new, spans),
    )


def _told(
    reader: Reader, side: Side | None, cells: Sequence[str], spans: dict[str, _Span]
) -> Side | None:
    if side is None:
        return None
    return replace(side, joules_per_output_token=_pooled(reader, cells, spans))


def _pooled(reader: Reader, cells: Sequence[str], spans: dict[str, _Span]) -> float | None:
    joules = tokens = 0.0
    for cell in cells:
        span = spans.get(cell)
        if span is None:
            return None
        samples = queries.samples(reader, cell).to_pandas()
        found = energy(samples, (span.begin, span.end), span.tokens)
        if found is None:
            return None
        joules, tokens = joules + found.joules, tokens + span.tokens
    return joules / tokens if tokens else None


def _spans(reader: Reader, wanted: set[str]) -> dict[str, _Span]:
    """Return the spans of the wanted cells whose start, length and output throughput are known."""
    if not wanted:
        return {}
    cells = queries.cells(reader, Filters()).to_pandas()
    mine = cells[cells["cell_id"].isin(wanted)]
    rates = queries.measurements(reader, Filters(), ["output_throughput"], ["mean"]).to_pandas()
    known = dict(zip(rates["cell_id"], rates["value"], strict=True))
    return {
        str(row["cell_id"]): _Span(
            row["started_at"].timestamp(),
            row["started_at"].timestamp() + float(row["duration"]),
            float(known[row["cell_id"]]) * float(row["duration"]),
        )
        for row in records(mine)
        if row["cell_id"] in known and not (pd.isna(row["started_at"]) or pd.isna(row["duration"]))
    }
