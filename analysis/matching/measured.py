"""Measurements as arrays, a row per cell and a column per metric and statistic.

Pairs find both values by their place: joining tables on names costs many times more.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.frames import numbered

#: Where a cell has no value; below the code of a definition that is not known.
MISSING = -2


@dataclass(frozen=True)
class Grid:
    """Measurements as arrays (cells, lines): ``values``; ``means``, what their definition is in
    ``words`` (-1: not known); ``origin``, whose name is in ``origins``. ``lines``: metric and
    statistic."""

    cells: "pd.Index[Any]"
    lines: pd.DataFrame
    values: NDArray[np.float64]
    means: NDArray[np.int64]
    words: NDArray[Any]
    origin: NDArray[np.int64]
    origins: "pd.Index[Any]"


def grid(cells: pd.DataFrame, measurements: pd.DataFrame) -> Grid:
    """Arrange the measurements as arrays. A cell has at most one value of a line. ``cells`` and
    ``measurements`` as ``compare`` takes them; values of other cells are left out."""
    ids = pd.Index(cells["cell_id"])
    row = ids.get_indexer(measurements["cell_id"])
    rows = measurements[row >= 0]
    row = row[row >= 0]
    line = numbered(rows, ("metric", "statistic"))
    lines = rows[["metric", "statistic"]].assign(line=line).drop_duplicates("line")
    lines = lines.sort_values("line", ignore_index=True).drop(columns="line")
    definitions, words = pd.factorize(cells["reported_definition"])
    every = pd.Index([*words, "canonical"]).drop_duplicates()
    origin, origins = pd.factorize(rows["origin"])
    canonical = list(every).index("canonical")
    means = np.where((rows["origin"] == "canonical").to_numpy(), canonical, definitions[row])
    shape = (len(ids), len(lines))
    made = Grid(
        ids, lines, np.full(shape, np.nan), np.full(shape, MISSING),
        np.array([*every, None], dtype=object), np.zeros(shape, dtype=np.int64), origins,
    )  # fmt: skip
    made.values[row, line] = rows["value"].to_numpy(dtype=np.float64)
    made.means[row, line], made.origin[row, line] = means, origin
    return made
