"""What a trend is read from: the nights of every series, and what was accepted."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pandas as pd

from analysis.matching.comparison import STUDY_TABLE
from analysis.nightly.acceptance import Acceptance
from analysis.nightly.nights import Series, of_many_nights, series_over_nights
from analysis.nightly.regressions import LEAST_NIGHTS
from warehouse import annotations, queries
from warehouse.filters import Filters
from warehouse.store import Reader


@dataclass(frozen=True, slots=True)
class Watched:
    """The series with enough nights to be judged; ``few``: how many settings have fewer;
    ``origins``: what was stated of where their runs come from, a sentence each."""

    series: tuple[Series, ...]
    few: int
    origins: tuple[str, ...] = ()


def series(reader: Reader, filters: Filters, since: datetime | None = None) -> list[Series]:
    """Read the series of every setting and line of the study's table, from the day ``since`` on."""
    cells = queries.cells(reader, filters).to_pandas()
    if since is not None:
        cells = cells[cells["started_at"] >= pd.Timestamp(since, tz="UTC")]
    return _series(reader, filters, cells)


def watched(reader: Reader, filters: Filters) -> Watched:
    """Read the series of the settings that have enough nights to be judged; no value of the others
    is read."""
    cells, few = of_many_nights(queries.cells(reader, filters).to_pandas(), LEAST_NIGHTS)
    if cells.empty:
        return Watched((), few)
    stated = queries.provenances(reader, cells["cell_id"].tolist())
    origins = tuple(stated.column("provenance").to_pylist())
    return Watched(tuple(_series(reader, filters, cells)), few, origins)


def _series(reader: Reader, filters: Filters, cells: pd.DataFrame) -> list[Series]:
    metrics, statistics = ([*dict.fromkeys(words)] for words in zip(*STUDY_TABLE, strict=True))
    values = queries.measurements(reader, filters, metrics, statistics).to_pandas()
    lines = pd.DataFrame(list(STUDY_TABLE), columns=["metric", "statistic"])
    return series_over_nights(cells, values.merge(lines, on=["metric", "statistic"]))


def accepted(root: Path) -> tuple[Acceptance, ...]:
    """Return the nights that people accepted, in the order in which they said so."""
    return tuple(
        Acceptance(
            night=str(event.target.night), why=event.text, by=event.author, at=event.at,
            study=event.target.study, series=event.target.series,
        )
        for event in annotations.accepted(root)
    )  # fmt: skip
