"""Published improvements beside our own measurements of the same thing, judged with their study."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from analysis.matching.comparison import Comparison
from analysis.published import claims_measured
from analysis.verdicts.finding import Finding
from answers.ground import Asked, Ground, ground
from warehouse.filters import Filters
from warehouse.store_read import Reader


def beside(
    reader: Reader, findings: Sequence[Finding], model: str | None, filters: Filters
) -> tuple[Finding, ...]:
    """``findings``, each with what the filters show of the same thing; ``model``: of the claims."""
    also = tuple(claims_measured.lines(findings))
    known = ground(reader, Asked(filters, also=also))
    return claims_measured.beside(findings, _shown(known), known.sure, model)


def _shown(known: Ground) -> Comparison:
    """The comparison of the arms with a cell that the filters keep."""
    pairs = known.found.pairs
    there = pairs[pairs["speculative_id"].astype(object).isin(known.shown)]
    arms = pd.MultiIndex.from_frame(there[["setting", "arm_id"]].drop_duplicates())
    cut = {}
    for name in ("levels", "geomean"):
        rows = getattr(known.found, name)
        cut[name] = rows[pd.MultiIndex.from_frame(rows[["setting", "arm_id"]]).isin(arms)]
    return replace(known.found, **cut)
