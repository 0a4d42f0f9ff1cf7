"""What tuning reads of the warehouse, in one visit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from warehouse.filters import Filters


@dataclass(frozen=True)
class Measured:
    """Frames as the queries cells, measurements, acceptance and acceptance_by_position give them."""

    cells: "pd.DataFrame"
    measurements: "pd.DataFrame"
    acceptance: "pd.DataFrame"
    positions: "pd.DataFrame"


def read_measured(
    warehouse: Path | None, filters: "Filters", metrics: Sequence[str], statistics: Sequence[str]
) -> Measured:
    """Everything that the filters keep. Raises WarehouseMissing where there is no warehouse."""
    from warehouse import queries
    from warehouse.store import Reader, warehouse_path

    with Reader(warehouse_path(warehouse)) as reader:
        return Measured(
            queries.cells(reader, filters).to_pandas(),
            queries.measurements(reader, filters, metrics, statistics).to_pandas(),
            queries.acceptance(reader, filters).to_pandas(),
            queries.acceptance_by_position(reader, filters).to_pandas(),
        )
