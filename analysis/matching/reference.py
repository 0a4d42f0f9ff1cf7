"""Any arm as the one that the others are compared with."""

import json

import pandas as pd

from analysis.frames import listed
from analysis.matching.arms import config_of
from warehouse.contract import EQUAL_ENGINE, EQUAL_LABEL

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
        # Without the arguments that make the engine an equal one.
        args = []
        for stated, config in listed(cells, "server_args", "speculative_config"):
            switched = config_of(config).get(EQUAL_ENGINE, ())
            rest = {name: v for name, v in config_of(stated).items() if name not in switched}
            args.append(json.dumps(rest, sort_keys=True) if switched else stated)
        cells = cells.assign(server_args=args)
    elif equal.any():
        cells = cells[~equal]
    if arm == BASELINE:
        return cells
    method = cells["spec_method"].astype(object)
    method = method.mask(method == "none", _PLAIN).mask(cells["arm_label"] == arm, "none")
    return cells.assign(spec_method=method)
