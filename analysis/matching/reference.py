"""Any arm as the one that the others are compared with."""

import pandas as pd

BASELINE = "baseline"
#: The method of the plain server where another arm takes the baseline's place.
_PLAIN = "plain"


def against(cells: pd.DataFrame, arm: str) -> pd.DataFrame:
    """Return the cells with the arm labelled ``arm`` as their baseline, and the plain server as an
    arm.

    ``cells`` as the query of that name returns them: spec_method, arm_label. What is paired with
    what stays the same: everything but the speculation is equal.
    """
    if arm == BASELINE:
        return cells
    method = cells["spec_method"].astype(object)
    method = method.mask(method == "none", _PLAIN).mask(cells["arm_label"] == arm, "none")
    return cells.assign(spec_method=method)
