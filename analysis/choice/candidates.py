"""The arms of each setting that may be taken, each under a name of its own."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.choice.field import Candidate
from analysis.frames import records
from analysis.matching.arms import choosers, config_of, families
from analysis.matching.comparison import Comparison
from warehouse.arms import table_of

_TOLD = ("cell_id", "arm_label", "spec_method", "num_speculative_tokens", "speculative_config")


def candidates(
    found: Comparison, cells: pd.DataFrame, arms: frozenset[str]
) -> dict[int, list[Candidate]]:
    """Return setting -> its arms with one of the labels ``arms``; empty: all. ``cells`` as the
    query of that name returns them. Arms are ordered by what they are: their numbers depend on what
    else was read."""
    once = found.pairs.drop_duplicates(["setting", "arm_id"])[
        ["setting", "arm_id", "speculative_id"]
    ]
    told = cells.reindex(columns=list(_TOLD))
    told = told.assign(family=families(cells), chooser=choosers(cells))
    rows = once.astype({"speculative_id": object}).merge(
        told, left_on="speculative_id", right_on="cell_id"
    )
    made: dict[int, list[Candidate]] = {}
    order = ["setting", "family", "num_speculative_tokens", "arm_label", "arm_id"]
    for row in records(rows.sort_values(order)):
        if not arms or row["arm_label"] in arms:
            made.setdefault(int(row["setting"]), []).append(_candidate(row))
    return {setting: _told_apart(arms_there) for setting, arms_there in made.items()}


def _candidate(row: dict[str, Any]) -> Candidate:
    k, chosen = row["num_speculative_tokens"], row["chooser"]
    return Candidate(
        arm_id=int(row["arm_id"]),
        label=str(row["arm_label"]),
        family=str(row["family"]),
        k=None if pd.isna(k) or chosen is not None else int(k),
        chooser=chosen,
        table=table_of(config_of(row["speculative_config"])),
    )


def _told_apart(alike: list[Candidate]) -> list[Candidate]:
    """Add what they draft with to the labels of arms that are alike: ``eagle3 K=3 (small)``."""
    labels = Counter(one.label for one in alike)
    return [
        replace(one, label=one.label + _drafted_with(one.family)) if labels[one.label] > 1 else one
        for one in alike
    ]


def _drafted_with(family: str) -> str:
    """Return what follows the method: `` (small)`` of ``eagle3 (small)``; empty where nothing does."""
    return "".join(family.partition(" (")[1:])
