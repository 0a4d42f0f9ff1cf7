"""The tables of the Compare page, as frames ready to be shown."""

from collections.abc import Hashable
from typing import Any

import pandas as pd
from streamlit import column_config as col

from analysis.comparison import STUDY_TABLE, Comparison
from dashboard import panels
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
    lines = pd.MultiIndex.from_tuples(STUDY_TABLE)
    means = found.geomean
    means = means[pd.MultiIndex.from_frame(means[["metric", "statistic"]]).isin(lines)]
    compared = found.keys.loc[
        list(dict.fromkeys(zip(means["setting"], means["arm_id"], strict=False)))
    ]
    named = panels.settings(
        compared.assign(cell_id=compared.index, concurrency=None).reset_index(drop=True)
    )
    rows = [_geomean_row(row, named) for row in means.to_dict("records")]
    return pd.DataFrame(rows)


def _geomean_row(row: dict[Hashable, Any], named: pd.DataFrame) -> dict[str, Any]:
    cell = named.loc[[(row["setting"], row["arm_id"])]].iloc[0]
    return {
        "setting": cell["panel"],
        "arm": cell["arm"],
        "metric": metric_name(row["metric"], row["statistic"]),
        "baseline": row["baseline"],
        "speculative": row["speculative"],
        "change": _change(row["improvement"]),
        "at concurrency": ", ".join(map(str, row["concurrencies"])),
    }


def _change(improvement: float) -> str:
    if pd.isna(improvement):
        return "unknown"
    if round(improvement, 3) == 0:
        return "the same"
    return f"{abs(improvement):.1%} " + ("better" if improvement >= 0 else "worse")


def metric_name(metric: str, statistic: str) -> str:
    """A metric with its unit and statistic, as a row of a table calls it."""
    known = METRICS[metric]
    name = f"{known.label}, {known.unit}"
    return f"{name}, {percentile_label(statistic)}" if known.distribution else name


def unmatched_rows(found: Comparison, cells: pd.DataFrame) -> pd.DataFrame:
    """What each cell without a partner is, and why it has none."""
    names = ["dataset", "arm_label", "concurrency", "gpu", "model"]
    told = found.unmatched.join(cells.set_index("cell_id")[names], on="cell_id")
    shown: pd.DataFrame = told[[*names, "reason", "cell_id"]].rename(columns={"arm_label": "arm"})
    return shown


def pair_rows_csv(rows: pd.DataFrame) -> str:
    """The pair rows as CSV, values unrounded."""
    return rows[list(_CSV)].to_csv(index=False)
