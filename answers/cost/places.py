"""Arms that are looked at each on its own: their setting, their name, their hardware."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from analysis.frames import plain, records
from analysis.matching.arms import ArmLevels
from analysis.matching.names import arm_names, setting_names
from analysis.money.paying import Hardware, hardware_of
from analysis.service.largest_load import Keys
from answers.decide.overview import narrowed
from answers.decide.values import Decision
from answers.wording import badges
from warehouse.filters import UNKNOWN, Filters


def kept_to(one: Decision, chosen: Filters) -> Filters:
    """Return the chosen filters, kept to a decision's subject and datasets; arms keep the
    baseline."""
    names = tuple(name for name, _ in one.traffic.mix)
    return replace(
        narrowed(one.subject, chosen),
        dataset=names or _only(one.traffic.dataset),
        tensor_parallel_size=_only(one.subject.tensor_parallel_size),
    )


def _only(value: str | int | None) -> tuple[str, ...]:
    return (UNKNOWN if value is None else str(value),)


@dataclass(frozen=True)
class Place:
    """One arm in one setting. ``setting`` and ``arm`` are names that no other one has here,
    ``label`` is the arm's own; ``badges`` say where its numbers come from; only numbers that are
    ``comparable_as`` the same compete. None: unknown."""

    setting: str
    arm: str
    label: str
    badges: tuple[str, ...]
    model: str | None
    dataset: str | None
    evidence: str | None
    on: Hardware
    precision: str | None = None
    comparable_as: str | None = None

    @property
    def origin(self) -> str:
        """The badges as one text; ``GPU`` where there is no badge."""
        return ", ".join(self.badges) or "GPU"


def places(levels: ArmLevels, cells: pd.DataFrame) -> Mapping[Keys, Place]:
    """Return the place of each (setting, arm_id). ``cells`` as the query of that name returns
    them."""
    keys, by_hand = levels.keys, _set_by_hand(levels, cells)
    setting, arm = (keys.index.get_level_values(name) for name in ("setting", "arm_id"))
    settings = setting_names(keys[~setting.duplicated()].droplevel("arm_id"))
    arms = arm_names(keys[~arm.duplicated()].droplevel("setting"))
    return {
        key: Place(
            str(settings[key[0]]), str(arms[key[1]]), str(row["arm_label"]),
            badges(_text(row.get("evidence")), key in by_hand), _text(row.get("model")),
            _text(row.get("dataset")), _text(row.get("evidence")), hardware_of(row),
            _text(row.get("precision")), _text(row.get("comparable_as")),
        )
        for key, row in zip(keys.index, records(keys), strict=True)
    }  # fmt: skip


def _text(value: object) -> str | None:
    found = plain(value)
    return None if found is None else str(found)


def _set_by_hand(levels: ArmLevels, cells: pd.DataFrame) -> set[Keys]:
    """Return the arms with a cell whose acceptance nobody measured."""
    marked = cells.loc[cells["synthetic_acceptance"].fillna(False).astype(bool), "cell_id"]
    mine = levels.values["cell_id"].isin(set(marked))
    rows = levels.values.loc[mine, ["setting", "arm_id"]].drop_duplicates()
    return set(rows.itertuples(index=False, name=None))
