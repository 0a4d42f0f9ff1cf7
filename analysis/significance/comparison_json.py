"""A comparison as one JSON object of plain values."""

import json
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import records
from analysis.significance.comparison import Comparison


def as_json(found: Comparison) -> dict[str, Any]:
    """``{"pairs": [...], "geomean": [...], "unmatched": [...]}``, plain values."""
    return {
        "pairs": _pairs_json(found),
        "geomean": [_geomean_json(found, row) for row in records(found.geomean)],
        "unmatched": [
            {"cell": row["cell_id"], "reason": row["reason"]} for row in records(found.unmatched)
        ],
    }


def _pairs_json(found: Comparison) -> list[dict[str, Any]]:
    result = []
    for _, rows in found.pairs.groupby(["baseline_id", "speculative_id"], sort=False):
        first = rows.iloc[0]
        result.append(
            {
                "keys": _plain(found.keys.loc[(first["setting"], first["arm_id"])].to_dict()),
                "concurrency": _value(first["concurrency"]),
                "baseline_cell": first["baseline_id"],
                "speculative_cell": first["speculative_id"],
                "allowed": list(first["allowed"]),
                "metrics": {f"{r['metric']}.{r['statistic']}": _numbers(r) for r in
                            records(rows)},
                "flags": [vars(flag) for flag in first["flags"]],
            }
        )  # fmt: skip
    return result


def _geomean_json(found: Comparison, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "keys": _plain(found.keys.loc[(row["setting"], row["arm_id"])].to_dict()),
        "metric": row["metric"],
        "statistic": row["statistic"],
        **_numbers(row),
        "concurrencies": list(row["concurrencies"]),
        "only_baseline": list(row["only_baseline"]),
        "only_speculative": list(row["only_speculative"]),
    }


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(row[name]) for name in ("baseline", "speculative", "improvement")}


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    return {str(name): _value(value) for name, value in record.items()}


def _value(value: Any) -> Any:
    """A plain JSON value; unknown is None, and JSON text of arguments becomes an object again."""
    if value is None or pd.isna(value):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str) and value.startswith("{"):
        return json.loads(value)
    return value
