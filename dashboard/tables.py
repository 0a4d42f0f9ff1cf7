"""The tables of the Compare page, as frames ready to be shown."""

from typing import Any

import pandas as pd
from streamlit import column_config as col

from analysis.frames import records
from analysis.significance.comparison import Comparison, in_study_order
from analysis.significance.confidence import SERIES, Confidence
from analysis.significance.evidence_tables import TOLD, interval_text, verdict_text
from analysis.tables import UNKNOWN, metric_name, number, percent
from dashboard import panels
from warehouse.catalogue import METRICS

TOTAL_COLUMNS = {
    name: col.TextColumn(name, alignment="right")
    for name in ("baseline", "speculative", "improvement", "95 % interval")
}
_CSV = (
    "panel", "badge", "arm", "concurrency", "repeat", "metric", "statistic", "baseline", "speculative",
    "improvement", "allowed", "flags", "baseline_id", "speculative_id",
)  # fmt: skip


def geomean_rows(found: Comparison, sure: Confidence) -> pd.DataFrame:
    """One row per setting, arm and line of the study's table, in the order of the study."""
    known = in_study_order(found.geomean).join(panels.places(found), on=["setting", "arm_id"])
    known = known.sort_values(["panel", "arm", "line"])
    known = known.merge(sure.geomean[[*SERIES, *TOLD]], on=list(SERIES), how="left")
    return pd.DataFrame(
        {
            "setting": known["panel"],
            "arm": known["arm"],
            **_line_columns(known),
            "at concurrency": [", ".join(map(str, levels)) for levels in known["concurrencies"]],
        }
    )


def level_rows(found: Comparison, sure: Confidence, panel: str) -> pd.DataFrame:
    """One row per arm, concurrency and line of the study's table of one panel."""
    places = panels.places(found)
    here = places[places["panel"] == panel]
    rows = in_study_order(found.levels)
    rows = rows.join(here, on=["setting", "arm_id"], how="inner")
    on = [*SERIES, "concurrency"]
    known = rows.merge(sure.levels[[*on, *TOLD]], on=on, how="left")
    known = known.sort_values(["arm", "concurrency", "line"])
    return pd.DataFrame(
        {
            "arm": known["arm"],
            "concurrency": known["concurrency"],
            **_line_columns(known),
            "repeats": known["pairs"],
        }
    )


def _line_columns(known: pd.DataFrame) -> dict[str, Any]:
    """What a table says of each line: both values, the improvement and how sure it is."""
    rows = records(known)
    sampled = ["\u2009*" if row["covers"] == "sampling" else "" for row in rows]
    intervals = [interval_text(row["low"], row["high"]) or "none" for row in rows]
    return {
        "metric": [metric_name(row["metric"], row["statistic"]) for row in rows],
        "baseline": _numbers(known, "baseline"),
        "speculative": _numbers(known, "speculative"),
        "improvement": known["improvement"].map(percent),
        "95 % interval": [text + star for text, star in zip(intervals, sampled, strict=True)],
        "verdict": [verdict_text(row) or UNKNOWN for row in rows],
    }


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


def pair_rows(
    found: Comparison, statistic: str, metrics: tuple[str, ...] = panels.CHARTED
) -> pd.DataFrame:
    """One row per pair and charted metric, values unrounded, ``allowed`` and ``flags`` as text."""
    rows = panels.charted(found.pairs, statistic, metrics)
    rows = rows.join(panels.places(found), on=["setting", "arm_id"])
    rows = rows.assign(
        allowed=[", ".join(names) for names in rows["allowed"]],
        flags=[", ".join(flag.name for flag in flags) for flags in rows["flags"]],
    )
    return rows[list(_CSV)].reset_index(drop=True)
