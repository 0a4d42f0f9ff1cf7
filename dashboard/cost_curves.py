"""What a million tokens costs at each load, as the rows that the Cost page's charts draw."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import records
from analysis.money.cost import Basis, usd_per_million
from analysis.money.worth import Worth
from analysis.service.largest_load import largest_load
from analysis.service.operating_point import Rule
from analysis.significance.comparison import Comparison
from dashboard.charts import Scales
from dashboard.ends import panel_of

#: Room above and below the curves, as a factor.
_ROOM = 1.25
#: Below this, USD are written with two digits that say something.
_CENT = 0.1
_ARMS = ("baseline", "speculative")
_OF_ARM = ["setting", "arm_id", "concurrency"]


def curve_rows(
    found: Comparison, rows: Sequence[Worth], rule: Rule, places: Mapping[Any, Mapping[str, Any]]
) -> pd.DataFrame:
    """A row per panel, arm (the baseline once) and concurrency, as ``charts_cost`` wants them."""
    rates = found.pairs[
        (found.pairs["metric"] == "output_throughput") & (found.pairs["statistic"] == "mean")
    ].dropna(subset=["concurrency"])
    spread = rates.groupby(_OF_ARM)[list(_ARMS)].agg(["min", "max", "size"])
    spread.columns = pd.Index(["_".join(map(str, column)) for column in spread.columns])
    means = found.levels[
        (found.levels["metric"] == "output_throughput") & (found.levels["statistic"] == "mean")
    ]
    levels = {key: records(own) for key, own in means.join(spread, on=_OF_ARM)
              .groupby(["setting", "arm_id"])}  # fmt: skip
    marks = [
        mark
        for row in rows
        for arm in _ARMS
        for mark in _marks(
            row, arm, levels[row.setting, row.arm_id], _largest(found, row, arm, rule)
        )
    ]
    drawn = pd.DataFrame(marks)
    if drawn.empty:
        return drawn
    named = drawn.assign(
        panel=[places[key]["panel"] for key in drawn["key"]],
        badge=[places[key]["badge"] for key in drawn["key"]],
        arm=[
            "baseline" if arm == "baseline" else places[key]["arm"]
            for key, arm in zip(drawn["key"], drawn["side"], strict=True)
        ],
    )
    # Arms of one setting share a baseline: it is drawn once, with most of its repeats.
    named = named.sort_values("repeats", ascending=False, kind="stable")
    named = named.drop_duplicates(["panel", "arm", "concurrency"])
    return _labelled(named.sort_values(["panel", "arm", "concurrency"], ignore_index=True))


def _marks(
    row: Worth, arm: str, levels: Sequence[Mapping[str, Any]], largest: int | None
) -> list[dict[str, Any]]:
    side = row.baseline if arm == "baseline" else row.speculative
    found = []
    for level in levels:
        if not level[arm] > 0:
            continue
        allowed = largest is None or level["concurrency"] <= largest
        repeats = int(level[f"{arm}_size"])
        found.append(
            {
                "key": (row.setting, row.arm_id), "side": arm,
                "concurrency": int(level["concurrency"]),
                "usd": usd_per_million(level[arm], row.basis),
                "low": _usd(level[f"{arm}_max"], row.basis),
                "high": _usd(level[f"{arm}_min"], row.basis),
                "repeats": repeats, "solid": int(repeats > 1),
                "allowed": int(allowed), "told": "may be chosen" if allowed else "misses the SLO",
                "runs": int(side is not None and side.point.concurrency == level["concurrency"]),
            }
        )  # fmt: skip
    return found


def _usd(rate: float, basis: Basis) -> float | None:
    return usd_per_million(float(rate), basis) if rate > 0 else None


def _largest(found: Comparison, row: Worth, arm: str, rule: Rule) -> int | None:
    """The largest load within the SLO, 0 for none; None where the rule has no SLO."""
    if rule.slo is None:
        return None
    pairs = found.pairs
    mine = pairs[(pairs["setting"] == row.setting) & (pairs["arm_id"] == row.arm_id)]
    values = mine.rename(columns={f"{arm}_id": "cell_id", arm: "value"})
    columns = ["concurrency", "cell_id", "metric", "statistic", "value"]
    values = values[columns].dropna(subset=["concurrency"])
    values = values.drop_duplicates(["cell_id", "metric", "statistic"])
    return largest_load(values.astype({"concurrency": "int64"}), rule.slo).largest or 0


def _labelled(rows: pd.DataFrame) -> pd.DataFrame:
    """The name and the cost where the arm is costed, at the end of its line."""
    last = rows.groupby(["panel", "arm"])["concurrency"].transform("max") == rows["concurrency"]
    texts = [
        f"{row['arm']} {_short(row['usd'])}" if end else ""
        for row, end in zip(records(rows), last, strict=True)
    ]
    return rows.assign(end_label=texts, value=np.log(rows["usd"]))


def _short(usd: float) -> str:
    return f"{usd:,.2f}" if usd >= _CENT else f"{usd:.2g}"


def cost_scales(rows: pd.DataFrame) -> Scales:
    """One scale for all panels, USD per million output tokens."""
    low, high = rows[["usd", "low"]].min().min(), rows[["usd", "high"]].max().max()
    levels = tuple(int(level) for level in sorted(rows["concurrency"].unique()))
    return Scales(levels, float(low) / _ROOM, float(high) * _ROOM)


def cost_panel(rows: pd.DataFrame, name: str, scales: Scales) -> pd.DataFrame:
    """The marks of one panel, the names of its lines apart on the logarithmic axis."""
    logs = Scales(scales.levels, float(np.log(scales.low)), float(np.log(scales.high)))
    chosen = panel_of(rows, name, logs).drop(columns=["key", "side", "value"])
    return chosen.assign(end_usd=np.exp(chosen.pop("end_y").astype("float64")))
