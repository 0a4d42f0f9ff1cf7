"""Deriving the facts of the studies that changed, after an ingest or an exclusion."""

from pathlib import Path

from analysis.matching.comparison import compare
from analysis.matching.reference import BASELINE, against
from answers import facts
from answers.facts_code import code_hash
from answers.ground import deciding_cells, judged_pairs, only_studies, rows_of
from warehouse import queries
from warehouse.beside import drop_other_derived, is_derived, note_derived_upto
from warehouse.filters import Filters
from warehouse.store import Reader
from warehouse.store_files import WriterLock


def derive(root: Path) -> int:
    """Derive the facts that are not kept yet, and return how many studies they are of.

    Raises WarehouseBusy where somebody writes: what is not derived is computed when it is asked
    for.
    """
    with Reader(root) as reader:
        cells = queries.cells(reader, Filters()).to_pandas()
        deciding = against(deciding_cells(reader, cells), BASELINE)
        basis = facts.bases(deciding)
        missing = [one for one in basis.unique() if not is_derived(root, one)]
        with WriterLock(root).held(wait=False, on_wait=None):
            if missing:
                changed = deciding[basis.isin(missing).to_numpy()].reset_index(drop=True)
                rows = rows_of(reader, changed, only_studies(Filters(), changed))
                found = compare(changed, rows.measurements, (), rows.flags)
                facts.keep(root, judged_pairs(found), changed)
            drop_other_derived(root, set(basis))
            if len(cells):
                newest = cells["ingested_at"].max().to_pydatetime()
                note_derived_upto(root, code_hash(), newest)
    return len(missing)
