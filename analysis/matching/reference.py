"""Any arm as the one that the others are compared with."""

import json

import pandas as pd

from analysis.matching.arms import config_of
from warehouse.arms import EQUAL_ENGINE, EQUAL_LABEL

BASELINE = "baseline"
#: The method of the plain server where another arm takes the baseline's place.
_PLAIN = "plain"


def against(cells: pd.DataFrame, arm: str) -> pd.DataFrame:
    """Return the cells with the arm labelled ``arm`` as their baseline, and the plain server as an
    arm.

    ``cells`` as the query of that name returns them: spec_method, arm_label, and server_args and
    speculative_config where there is a baseline with equal engine. What is paired with what stays
    the same: everything but the speculation is equal; a baseline with equal engine stands in for
    the baseline where it is asked for and is left out elsewhere.
    """
    equal = cells["arm_label"] == EQUAL_LABEL
    if arm == EQUAL_LABEL:
        told = cells[equal]
        args = [_as_others(*one) for one in zip(told["server_args"], told["speculative_config"], strict=True)]
        cells = cells.assign(server_args=cells["server_args"].astype(object).mask(equal, pd.Series(args, told.index, dtype=object)))
    elif equal.any():
        cells = cells[~equal]
    if arm == BASELINE:
        return cells
    method = cells["spec_method"].astype(object)
    method = method.mask(method == "none", _PLAIN).mask(cells["arm_label"] == arm, "none")
    return cells.assign(spec_method=method)


def _as_others(args: str | None, config: str | None) -> str:
    """Return server arguments (JSON text) without those that make the engine an equal one."""
    switched, told = config_of(config)[EQUAL_ENGINE], config_of(args)
    return json.dumps({k: v for k, v in told.items() if k not in switched}, sort_keys=True)
