"""The tables of the Compare page, as frames ready to be shown."""

import pandas as pd
from analysis.comparison import Comparison
from streamlit import column_config as col

from warehouse.catalogue import METRICS, percentile_label

CHANGE_COLUMNS = {
    "baseline": col.NumberColumn("baseline", format="%.2f"),
    "speculative": col.NumberColumn("speculative", format="%.2f"),
    "change": col.TextColumn("change", alignment="right"),
}
_CSV = (
    "panel", "badge", "arm", "concurrency", "metric", "statistic", "baseline", "speculative",
    "improvement", "allowed", "flags", "baseline_id", "speculative_id",
)  # fmt: skip


def geomean_rows(found: Comparison) -> pd.DataFrame:
    """One row per setting, arm and line of the study's table."""
    return found.geomean


def metric_name(metric: str, statistic: str) -> str:
    """A metric with its unit and statistic, as a row of a table calls it."""
    known = METRICS[metric]
    name = f"{known.label}, {known.unit}"
    return f"{name}, {percentile_label(statistic)}" if known.distribution else name


def unmatched_rows(found: Comparison, cells: pd.DataFrame) -> pd.DataFrame:
    """What each cell without a partner is, and why it has none."""
    names = ["dataset", "arm_label", "concurrency", "gpu", "model"]
    told = found.unmatched.join(cells.set_index("cell_id")[names], on="cell_id")
    return told[[*names, "reason", "cell_id"]].rename(columns={"arm_label": "arm"})


def pair_rows_csv(rows: pd.DataFrame) -> str:
    """The pair rows as CSV, values unrounded."""
    return rows[list(_CSV)].to_csv(index=False)
