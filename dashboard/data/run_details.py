"""What the Runs page reads beside ``data``: server metrics, and where a cell is to be found."""

from dashboard import data
from dashboard.answers import Drawing
from dashboard.answers import runs as answers_runs
from dashboard.cells import cell_names, run_names
from dashboard.shelf import Shelf, cached, frame, reader
from warehouse import queries
from warehouse.filters import Filters


@cached(32)
def server_drawings(shelf: Shelf, filters: Filters, cell_id: str) -> list[Drawing]:
    """The charts of the server's metrics during one cell."""
    known = data.cells(shelf, filters)
    cell = known[known["cell_id"] == cell_id].iloc[0]
    return answers_runs.server_drawings(frame(queries.samples(reader(shelf), cell_id)), cell)


@cached(64)
def place_of(shelf: Shelf, filters: Filters, cell_id: str) -> tuple[str, str] | None:
    """The names of a cell's run and of the cell on the Runs page; None where filters hide it."""
    known = data.cells(shelf, filters)
    found = known[known["cell_id"] == cell_id]
    if found.empty:
        return None
    head = found.iloc[0]
    runs = data.runs(shelf, filters)
    own = (runs["source_id"] == head["source_id"]) & (runs["run_id"] == head["run_id"])
    row = int(own.to_numpy().argmax())
    run = data.run(shelf, filters, row)
    cell_row = int((run.cells["cell_id"] == cell_id).to_numpy().argmax())
    return _name(run_names(runs), row), _name(cell_names(run.cells), cell_row)


def _name(names: dict[str, int], row: int) -> str:
    return next(name for name, place in names.items() if place == row)
