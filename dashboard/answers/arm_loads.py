"""Each arm in its setting under an SLO: the load it carries, and what it costs there."""

from dataclasses import dataclass

import pandas as pd

from analysis.frames import records
from analysis.matching.arm_levels import ArmLevels
from analysis.money.cost import usd_per_million
from analysis.service.largest_load import Load, largest_loads
from analysis.service.operating_point import Point, Rule, operating_points
from analysis.service.slo import Slo
from dashboard.paying import Paying, basis_of

BASELINE = "baseline"


@dataclass(frozen=True)
class ArmLoad:
    """One arm in its setting: its largest load and the point where it is costed (None: nowhere).

    ``usd``: per million output tokens there; ``unpriced`` says why that is None.
    """

    key: tuple[int, int]
    panel: str
    arm: str
    badge: str
    load: Load
    point: Point | None
    usd: float | None
    unpriced: str


def arm_loads(levels: ArmLevels, named: pd.DataFrame, slo: Slo, paying: Paying) -> list[ArmLoad]:
    """Judge every arm, settings in the order of their names, the baseline first."""
    loads = largest_loads(levels.values, slo)
    points = operating_points(levels.values, Rule(slo=slo), loads)
    keys = dict(zip(levels.keys.index, records(levels.keys), strict=True))
    places = dict(zip(named.index, records(named), strict=True))
    found = []
    for key, load in loads.items():
        place, point = places[key], points.get(key)
        basis = basis_of(paying, keys[key])
        told = basis if isinstance(basis, str) else ""
        usd = (
            None
            if point is None or isinstance(basis, str)
            else usd_per_million(point.output, basis)
        )
        found.append(
            ArmLoad(
                key, place["panel"], place["arm"], place["badge"], load,
                point, usd, told,
            )
        )  # fmt: skip
    return sorted(found, key=lambda arm: (arm.panel, arm.arm != BASELINE, arm.arm))
