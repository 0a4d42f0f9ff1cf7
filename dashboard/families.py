"""Arm families by name: one method with one draft on one system, whatever its K and dataset."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.matching.arms import BASELINE
from analysis.matching.comparison import SETTING
from analysis.tables import known_text
from answers.wording import badge
from dashboard.arm_places import badges
from dashboard.components import Shown, shown

#: What a system is; datasets and output limits are not part of it.
_SYSTEM = tuple(name for name in SETTING if name not in {"dataset", "max_tokens", "ignore_eos"})
#: A longer value, e.g. server arguments, is cut in a name.
_LONGEST = 40


@dataclass(frozen=True)
class Family:
    """``system`` and ``family`` as ``place_arms`` numbers and names them; ``badges``: what a reader
    must know about the origin of its numbers."""

    system: int
    family: str
    badges: tuple[str, ...]


def families(cells: pd.DataFrame, placed: pd.DataFrame) -> dict[str, Family]:
    """Name -> family, those with most cells first.

    ``cells`` as the query of that name; ``placed``: ``place_arms`` of them.
    """
    drafted = _drafted(cells, placed)
    if drafted.empty:
        return {}
    counts = drafted.groupby(["family", "system"], sort=False).size()
    order = counts.sort_values(ascending=False, kind="stable").index
    firsts = drafted.drop_duplicates(["family", "system"]).set_index(["family", "system"])
    firsts = firsts.loc[order]
    names = [
        ", ".join([str(family), *_told(row)])
        for (family, _), row in zip(order, records(firsts), strict=True)
    ]
    names = _apart(names, firsts)
    return {
        name: Family(int(system), str(family), badges_of(row))
        for name, (family, system), row in zip(
            distinct(names), order, records(firsts), strict=True
        )
    }  # fmt: skip


def badges_of(facts: Any) -> tuple[str, ...]:
    """The badges of one cell's facts: CPU lab, simulated, synthetic acceptance, …; often none."""
    by_hand = facts.get("synthetic_acceptance")
    return badges(badge(facts.get("evidence")), not pd.isna(by_hand) and bool(by_hand))


def of_family(cells: pd.DataFrame, placed: pd.DataFrame, known: Family) -> pd.DataFrame:
    """The cells of a family and its baseline."""
    mine = (placed["system"] == known.system) & placed["family"].isin([BASELINE, known.family])
    return _chosen(cells, placed, mine)


def alike(cells: pd.DataFrame, placed: pd.DataFrame, cell_id: str) -> pd.DataFrame:
    """The cells of all arms in the setting of one cell."""
    return _chosen(cells, placed, placed["setting"] == placed.at[cell_id, "setting"])


def _chosen(cells: pd.DataFrame, placed: pd.DataFrame, mine: pd.Series) -> pd.DataFrame:
    return cells[cells["cell_id"].isin(placed.index[mine])].reset_index(drop=True)


def measured(cells: pd.DataFrame, placed: pd.DataFrame) -> Shown:
    """What there is to choose from: one row per model, GPU, dataset and family."""
    rows = _drafted(cells, placed)
    by = ["model", "gpu", "tensor_parallel_size", "dataset", "family", "evidence"]
    grouped = rows.groupby(by, dropna=False, sort=False)
    table = grouped.agg(
        k=("k", _listed), concurrency=("concurrency", _listed), cells=("k", "size")
    ).reset_index()
    names = {"gpu": "GPU", "tensor_parallel_size": "TP", "family": "arm", "k": "K"}
    return shown(table.rename(columns=names))


def distinct(names: Sequence[str]) -> list[str]:
    """Names that are the same after all are numbered: two things are never drawn as one."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _drafted(cells: pd.DataFrame, placed: pd.DataFrame) -> pd.DataFrame:
    """The speculative cells with their place: k, family, system beside the facts."""
    drafted = placed.loc[placed["family"] != BASELINE, ["system", "family", "k"]]
    return cells.join(drafted, on="cell_id", how="inner")


def _told(row: dict[str, Any]) -> list[str]:
    size = f"TP {known_text(row['tensor_parallel_size'])}"
    return [known_text(row["model"]), size, known_text(row["gpu"])]


def _apart(names: list[str], facts: pd.DataFrame) -> list[str]:
    """Names that are the same get what differs between their systems."""
    groups = pd.Series(range(len(names))).groupby(pd.Series(names), sort=False)
    fields = [field for field in _SYSTEM if _differs(facts, field)]
    found = list(names)
    for name, places in groups:
        if len(places) == 1:
            continue
        same = facts.iloc[list(places)][fields]
        differ = [field for field in fields if _differs(same, field)]
        for place, row in zip(places, records(same), strict=True):
            more = [f"{field} {_short(known_text(row[field]))}" for field in differ]
            found[place] = ", ".join([str(name), *more])
    return found


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _differs(rows: pd.DataFrame, name: str) -> bool:
    return name in rows and rows[name].nunique(dropna=False) > 1


def _listed(values: pd.Series) -> str:
    return ", ".join(str(int(value)) for value in sorted(values.dropna().unique()))
