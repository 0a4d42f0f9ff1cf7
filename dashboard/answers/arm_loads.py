"""Each arm in its setting under an SLO: the load it carries, and what it costs there."""

from dataclasses import dataclass

import pandas as pd

from analysis.frames import records
from analysis.matching.arm_levels import ArmLevels, means
from analysis.money.cost import usd_per_million
from analysis.money.paying import Paying, Refusal, basis_of, hardware_of
from analysis.service.largest_load import Reach, largest_loads
from analysis.service.slo import Slo
from warehouse.loads import Load

BASELINE = "baseline"


@dataclass(frozen=True)
class ArmLoad:
    """One arm in its setting: how far it goes, and at its largest load its output throughput and
    USD per million output tokens (None: no load, or unknown; ``unpriced`` says why)."""

    key: tuple[int, int]
    panel: str
    arm: str
    badge: str
    load: Reach
    output: float | None
    usd: float | None
    unpriced: str


def arm_loads(levels: ArmLevels, named: pd.DataFrame, slo: Slo, paying: Paying) -> list[ArmLoad]:
    """Judge every arm, settings in the order of their names, the baseline first."""
    loads, rates = largest_loads(levels, slo), _rates(levels)
    keys = dict(zip(levels.keys.index, records(levels.keys), strict=True))
    places = dict(zip(named.index, records(named), strict=True))
    found = []
    for key, load in loads.items():
        place = places[key]
        output = None if load.largest is None else rates.get((*key, load.largest))
        basis = basis_of(paying, hardware_of(keys[key]))
        told = basis.sentence if isinstance(basis, Refusal) else ""
        usd = (
            None if output is None or isinstance(basis, Refusal) else usd_per_million(output, basis)
        )
        found.append(
            ArmLoad(
                key, place["panel"], place["arm"], place["badge"], load,
                output, usd, told,
            )
        )  # fmt: skip
    return sorted(found, key=lambda arm: (arm.panel, arm.arm != BASELINE, arm.arm))


def _rates(levels: ArmLevels) -> dict[tuple[int, int, Load], float]:
    """Mean output tokens per second of each arm at each load."""
    rows = levels.values
    rows = rows[(rows["metric"] == "output_throughput") & (rows["statistic"] == "mean")]
    table = means(rows[rows["value"] > 0])
    names = ("setting", "arm_id", "load", "value")
    return {
        (int(setting), int(arm), levels.loads[int(place)]): float(value)
        for setting, arm, place, value in zip(
            *(table[name].tolist() for name in names), strict=True
        )
    }
