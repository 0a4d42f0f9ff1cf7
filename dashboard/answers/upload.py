"""What a reader's own reports say, beside each other and beside the warehouse: words and tables."""

from collections.abc import Collection
from dataclasses import dataclass

import pandas as pd

from analysis.matching.pairing import match
from analysis.significance.comparison import compare
from analysis.significance.confidence import intervals
from dashboard import answers
from dashboard.answers import Answer, Compared, Drawing
from dashboard.components import Shown, shown
from dashboard.upload import Uploaded

#: The line that the charts show.
METRIC, STATISTIC = "output_throughput", "p50"
_COLUMNS = {
    "model": "model", "gpu": "GPU", "dataset": "dataset", "tensor_parallel_size": "TP",
    "arm_label": "arm", "concurrency": "concurrency", "completed": "completed",
    "errored": "errored", "flags": "flags",
}  # fmt: skip


@dataclass(frozen=True)
class Known:
    """Cells with their measurements and flags, as the queries of these names return them."""

    cells: pd.DataFrame
    measurements: pd.DataFrame
    flags: pd.DataFrame


@dataclass(frozen=True)
class Told:
    """All that the page shows of uploaded reports; ``answer`` is None where there is no cell."""

    cells: Shown
    flags: Shown
    answer: Answer | None
    drawings: tuple[Drawing, ...]


def partners(mine: pd.DataFrame, others: pd.DataFrame, allow: Collection[str] = ()) -> list[str]:
    """The cells of the warehouse (``others``) that make a pair with an uploaded one: cell_id."""
    own = set(mine["cell_id"])
    likely = others[others["model"].isin(mine["model"]) & ~others["cell_id"].isin(own)]
    if likely.empty:
        return []
    pairs = match(_joined([mine, likely]), allow).pairs
    met = pairs[pairs["baseline_id"].isin(own) | pairs["speculative_id"].isin(own)]
    return sorted({*met["baseline_id"], *met["speculative_id"]} - own)


def told(mine: Uploaded, others: Known | None, allow: Collection[str] = ()) -> Told:
    """What the uploaded reports say. ``others``: their partners in the warehouse, if wanted."""
    if mine.cells.empty:
        return Told(shown(mine.cells), shown(mine.flags), None, ())
    parts = [Known(mine.cells, mine.measurements, mine.flags), *([others] if others else [])]
    cells = _joined([part.cells for part in parts])
    flags = _joined([part.flags for part in parts])
    found = compare(cells, _joined([part.measurements for part in parts]), allow, flags)
    compared = Compared(found, intervals(found.pairs), cells)
    answer = answers.answer(compared, STATISTIC)
    drawings: list[Drawing] = []
    if answer.titles:
        ends = answers.ends_of_gains(compared, METRIC, "mean")
        drawings = answers.improvement_drawings(answer, ends, METRIC)
    return Told(
        shown(mine.cells[list(_COLUMNS)].rename(columns=_COLUMNS)),
        shown(mine.flags.drop(columns="cell_id")),
        answer,
        tuple(drawings),
    )


def _joined(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """One frame of those that have rows."""
    filled = [part for part in parts if not part.empty]
    return pd.concat(filled, ignore_index=True) if filled else parts[0]
