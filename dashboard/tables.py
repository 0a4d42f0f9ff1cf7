"""The tables of the Compare page, as frames ready to be shown."""

import pandas as pd
from streamlit import column_config as col

from analysis.comparison import Comparison, in_study_order
from analysis.tables import metric_name, number, percent
from dashboard import panels
from warehouse.catalogue import METRICS

TOTAL_COLUMNS = {
    name: col.TextColumn(name, alignment="right")
    for name in ("baseline", "speculative", "improvement")
}
_CSV = (
    "panel", "badge", "arm", "concurrency", "metric", "statistic", "baseline", "speculative",
    "improvement", "allowed", "flags", "baseline_id", "speculative_id",
)  # fmt: skip


def geomean_rows(found: Comparison) -> pd.DataFrame:
    """One row per setting, arm and line of the study's table, in the order of the study."""
    known = in_study_order(found.geomean).join(panels.places(found), on=["setting", "arm_id"])
    known = known.sort_values(["panel", "arm", "line"])
    return pd.DataFrame(
        {
            "setting": known["panel"],
            "arm": known["arm"],
            "metric": [
                metric_name(metric, statistic)
                for metric, statistic in zip(known["metric"], known["statistic"], strict=True)
            ],
            "baseline": _numbers(known, "baseline"),
            "speculative": _numbers(known, "speculative"),
            "improvement": known["improvement"].map(percent),
            "at concurrency": [", ".join(map(str, levels)) for levels in known["concurrencies"]],
        }
    )


def _numbers(rows: pd.DataFrame, arm: str) -> list[str]:
    return [
        number(value, METRICS[metric].decimals)
        for value, metric in zip(rows[arm], rows["metric"], strict=True)
    ]


def unmatched_rows(found: Comparison, cells: pd.DataFrame) -> pd.DataFrame:
    """What each cell without a partner is, and why it has none."""
    names = ["dataset", "arm_label", "concurrency", "gpu", "model"]
    told = found.unmatched.join(cells.set_index("cell_id")[names], on="cell_id")
    shown: pd.DataFrame = told[[*names, "reason", "cell_id"]].rename(columns={"arm_label": "arm"})
    return shown


def pair_rows(found: Comparison, statistic: str) -> pd.DataFrame:
    """One row per pair and charted metric, values unrounded, ``allowed`` and ``flags`` as text."""
    rows = panels.charted(found.pairs, statistic)
    rows = rows.join(panels.places(found), on=["setting", "arm_id"])
    rows = rows.assign(
        allowed=[", ".join(names) for names in rows["allowed"]],
        flags=[", ".join(flag.name for flag in flags) for flags in rows["flags"]],
    )
    return rows[list(_CSV)].reset_index(drop=True)
