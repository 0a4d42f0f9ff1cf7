"""Where arms stand that are looked at each on its own: the names that Compare gives them too."""

import pandas as pd

from analysis.matching.arm_levels import ArmLevels
from analysis.matching.comparison import Comparison
from analysis.service.pareto import GROUP
from dashboard import panels

SYNTHETIC = "synthetic acceptance"


def places(levels: ArmLevels, cells: pd.DataFrame) -> pd.DataFrame:
    """Index (setting, arm_id) -> panel (dataset, TP and what else differs), badge, arm.

    ``cells`` as the query of that name returns them: they know where acceptance was set by hand.
    """
    index = levels.keys.index.to_frame(index=False)
    nothing = pd.DataFrame()
    named = panels.places(Comparison(nothing, nothing, index, nothing, levels.keys))
    set_by_hand = synthetic(levels.values, cells)
    badges = [
        joined_badge(badge, key in set_by_hand)
        for key, badge in zip(named.index, named["badge"], strict=True)
    ]
    return named.assign(badge=badges)


def synthetic(rows: pd.DataFrame, cells: pd.DataFrame) -> set[tuple[int, int]]:
    """The (setting, arm_id) with a cell of synthetic acceptance. ``rows``: those and cell_id."""
    known = cells["synthetic_acceptance"].fillna(False).astype(bool)
    ids = set(cells.loc[known, "cell_id"])
    chosen = rows.loc[rows["cell_id"].isin(ids), ["setting", "arm_id"]].drop_duplicates()
    return set(chosen.itertuples(index=False, name=None))


def badges(badge: str, set_by_hand: bool) -> tuple[str, ...]:
    """The badge of the evidence, and that of an acceptance which nobody measured; often none."""
    return tuple(part for part in (badge, SYNTHETIC if set_by_hand else "") if part)


def joined_badge(badge: str, set_by_hand: bool) -> str:
    """``badges`` as one text."""
    return ", ".join(badges(badge, set_by_hand))


def path_names(levels: ArmLevels, named: pd.DataFrame) -> pd.Series:
    """Index (setting, arm_id) -> a name that no other arm has which competes with it."""
    keys = levels.keys.join(named[["panel", "arm"]])
    twice = keys.duplicated([*GROUP, "arm", "tensor_parallel_size"], keep=False)
    return keys["arm"].where(~twice, keys["arm"] + " (" + keys["panel"] + ")")
