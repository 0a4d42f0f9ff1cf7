"""Which arm families there are to choose from, cached by warehouse generation."""

import dataclasses

import pandas as pd

from analysis.matching.arms import place_arms
from dashboard import data, families
from dashboard.components import Shown
from dashboard.families import Family
from dashboard.shelf import Shelf, cached, frame, reader
from warehouse import queries
from warehouse.filters import Filters


def with_baseline(filters: Filters) -> Filters:
    """The filters, a choice of arms widened by the baseline, without which nothing is gained."""
    if not filters.arm:
        return filters
    return dataclasses.replace(filters, arm=tuple(sorted({*filters.arm, "baseline"})))


@cached(16)
def placed(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """Every cell's setting, system, family and K; see ``place_arms``."""
    return place_arms(data.cells(shelf, filters))


@cached(16)
def names(shelf: Shelf, filters: Filters) -> dict[str, Family]:
    """Name -> family; see ``families.families``."""
    return families.families(data.cells(shelf, filters), placed(shelf, filters))


@cached(16)
def measured(shelf: Shelf, filters: Filters) -> Shown:
    """What there is to choose from."""
    return families.measured(data.cells(shelf, filters), placed(shelf, filters))


@cached(64, Family)
def cells(shelf: Shelf, filters: Filters, known: Family) -> pd.DataFrame:
    """The cells of a family and its baseline."""
    return families.of_family(data.cells(shelf, filters), placed(shelf, filters), known)


@cached(64)
def alike(shelf: Shelf, filters: Filters, cell_id: str) -> pd.DataFrame:
    """The cells of all arms in the setting of one cell."""
    return families.alike(data.cells(shelf, filters), placed(shelf, filters), cell_id)


@cached(16)
def measurements(
    shelf: Shelf, filters: Filters, metrics: tuple[str, ...], statistics: tuple[str, ...]
) -> pd.DataFrame:
    """cell_id, origin, metric, statistic, value."""
    return frame(queries.measurements(reader(shelf), filters, metrics, statistics))


@cached(16)
def acceptance(shelf: Shelf, filters: Filters) -> pd.DataFrame:
    """cell_id, source, drafts, draft_tokens, accepted_tokens, rate, mean_length."""
    return frame(queries.acceptance(reader(shelf), filters))
