"""The tables of the Cost page, as frames ready to be shown."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.money.demand import Demand
from analysis.money.worth import Costed, Worth
from analysis.money.worth_steps import steps
from analysis.tables import UNKNOWN, number, percent
from dashboard.components import Shown, shown

#: (setting, arm_id) -> panel, arm, badge.
Places = Mapping[tuple[int, int], Mapping[str, Any]]


def cost_rows(rows: Sequence[Worth], places: Places) -> pd.DataFrame:
    """A row per setting and arm: where each arm runs, what its tokens cost, what is saved."""
    return pd.DataFrame(
        [
            {
                **_who(row, places),
                "baseline at": _at(row.baseline),
                "baseline, USD per million": usd(row.baseline),
                "speculative at": _at(row.speculative),
                "speculative, USD per million": usd(row.speculative),
                "saved": percent(row.saving),
                "95 % interval": interval(row),
                "throughput is": _verdict(row),
                "basis": row.basis.name,
                "evidence": places[row.setting, row.arm_id]["badge"] or "GPU",
            }
            for row in rows
        ]
    )


def demand_rows(rows: Sequence[Worth], places: Places) -> pd.DataFrame:
    """A row per setting and arm: GPUs and money for the demand, baseline → speculative."""
    return pd.DataFrame(
        [
            {
                **_who(row, places),
                "GPUs": _change(row, "gpus"),
                "USD a day": _change(row, "usd_per_day"),
                "USD a month": _change(row, "usd_per_month"),
                "USD a year": _change(row, "usd_per_year"),
                "saved a year, USD": number(row.usd_saved_per_year, 0),
                "USD a day, billed by token": _change(row, "usd_per_day_if_billed_by_token"),
            }
            for row in rows
        ]
    )


def step_rows(row: Worth, demand: Demand | None) -> Shown:
    """The arithmetic of one row."""
    return shown(pd.DataFrame([vars(step) for step in steps(row, demand)]).rename(
        columns={"what": "step", "formula": "how", "speculative": "with speculation"}
    ))  # fmt: skip


def usd(arm: Costed | None) -> str:
    """USD per million output tokens, digits enough for small sums."""
    if arm is None:
        return UNKNOWN
    return number(arm.usd_per_million, 3 if arm.usd_per_million < 100 else 0)


def interval(row: Worth) -> str:
    """The interval of a saving."""
    if row.saving_low is None or row.saving_high is None:
        return UNKNOWN
    return f"{row.saving_low * 100:+.1f} to {row.saving_high * 100:+.1f} %"


def _who(row: Worth, places: Places) -> dict[str, str]:
    place = places[row.setting, row.arm_id]
    return {"setting": str(place["panel"]), "arm": str(place["arm"])}


def _at(arm: Costed | None) -> str:
    return "no load" if arm is None else str(arm.point.concurrency)


def _verdict(row: Worth) -> str:
    old, new = row.baseline, row.speculative
    if old is not None and new is not None and old.point.concurrency != new.point.concurrency:
        return "at another load"
    return row.verdict or UNKNOWN


def _change(row: Worth, name: str) -> str:
    values = [
        UNKNOWN if side is None or side.fleet is None else number(getattr(side.fleet, name), 0)
        for side in (row.baseline, row.speculative)
    ]
    return " → ".join(values)
