"""What a table says of the cells behind a mark, and its link to their place on the Data page."""

import pandas as pd
from streamlit import column_config as col

from dashboard.components import TABLE_ROWS, Shown, shown
from dashboard.links import cell_link

#: What a table says of the cells behind a mark: column -> its name there.
BEHIND = {
    "arm_label": "arm", "concurrency": "concurrency", "repeat": "repeat", "completed": "completed",
    "errored": "errored", "flags": "flags", "run_id": "run",
}  # fmt: skip
#: The column that leads from a cell to its place among the runs.
LINK = "in Runs"
LINK_COLUMNS = {LINK: col.LinkColumn(LINK, display_text="open")}


def linked(cells: pd.DataFrame) -> Shown:
    """Return a table of cells, each with a link to its place. ``cells``: cell_id among others."""
    first = cells.head(TABLE_ROWS)
    links = [cell_link(cell_id) for cell_id in first["cell_id"]]
    return Shown(shown(first.drop(columns="cell_id").assign(**{LINK: links})).rows, len(cells))
