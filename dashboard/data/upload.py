"""The cells of the warehouse that uploaded reports can be compared with."""

import dataclasses

import pandas as pd

from dashboard import data
from dashboard.answers import upload as answers_upload
from dashboard.answers.upload import Known, Told
from dashboard.shelf import Shelf, frame, reader
from dashboard.upload import Uploaded
from warehouse import queries
from warehouse.catalogue import METRICS, PERCENTILES
from warehouse.filters import Filters


def told(shelf: Shelf, filters: Filters | None, mine: Uploaded) -> Told:
    """What the reports say beside their partners among the filtered cells (None: on their own).

    Never in the shared cache: what somebody drops here is theirs alone.
    """
    if filters is None or mine.cells.empty:
        return answers_upload.told(mine, None)
    cells = data.cells(shelf, dataclasses.replace(filters, arm=()))
    ids = answers_upload.partners(mine.cells, cells) if len(cells) else []
    return answers_upload.told(mine, _known(shelf, cells, ids))


def _known(shelf: Shelf, cells: pd.DataFrame, ids: list[str]) -> Known | None:
    if not ids:
        return None
    chosen = cells[cells["cell_id"].isin(ids)]
    narrow = Filters(dataset=tuple(sorted(chosen["dataset"].fillna("unknown").unique())))
    statistics = ["mean", *PERCENTILES]
    measured = frame(queries.measurements(reader(shelf), narrow, list(METRICS), statistics))
    flags = frame(queries.flags(reader(shelf), ids))
    return Known(chosen, measured[measured["cell_id"].isin(ids)], flags)
