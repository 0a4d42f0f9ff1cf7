"""Everything known of one subject of a verdict, with the names that charts and sentences use."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.verdicts.overall import Overall
from dashboard import panels
from dashboard.answers import Compared, arm_badges


@dataclass(frozen=True)
class Judged:
    """Everything known of one subject; ``names``: setting -> dataset, TP and what else differs;
    ``arms``: arm_id -> name; ``badges``: arm_id -> what a reader must know of its origin."""

    known: Compared
    overalls: tuple[Overall, ...]
    names: dict[int, str]
    arms: dict[int, str]
    badges: dict[int, tuple[str, ...]]


def judged(known: Compared, overalls: Sequence[Overall]) -> Judged:
    """``overalls`` of ``known``, with the names that charts and sentences use."""
    places = panels.places(known.found)
    settings = places.index.get_level_values("setting")
    arms = places.index.get_level_values("arm_id")
    badges = arm_badges(places, known)
    return Judged(
        known,
        tuple(overalls),
        dict(zip(settings.astype(int), places["panel"], strict=True)),
        dict(zip(arms.astype(int), places["arm"], strict=True)),
        {int(arm): tuple(sorted(set(badges[arms == arm]) - {""})) for arm in arms.unique()},
    )


def of_arm(rows: pd.DataFrame, arm_id: int) -> pd.DataFrame:
    """The rows of one arm."""
    return rows[rows["arm_id"] == arm_id]
