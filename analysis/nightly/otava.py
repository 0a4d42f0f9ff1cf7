"""Series over nights as Apache Otava reads them: a CSV file a setting, and one configuration.

For those who want its E-divisive with a t test over years of nights; its 87 dependencies stay out
of this project. Format: https://otava.apache.org (CSV importer).
"""

import json
import re
from collections import defaultdict

import numpy as np
import pandas as pd

from analysis.nightly.nights import Series
from warehouse.catalogue import METRICS


def files(series: list[Series]) -> dict[str, str]:
    """Return file name -> text: ``otava.yaml`` and a CSV file for each setting, a row a night.

    Columns: time (UTC), version, then each metric in its unit. Configuration is JSON, which is
    YAML; ``OTAVA_CONFIG=otava.yaml otava analyze NAME`` in that folder reads both (0.8.0).
    """
    by_setting = _by_setting(series)
    tests = {name: _test(name, lines) for name, lines in by_setting.items()}
    return {
        "otava.yaml": json.dumps({"tests": tests}, indent=2) + "\n",
        **{f"{name}.csv": _csv(lines) for name, lines in by_setting.items()},
    }


def _by_setting(series: list[Series]) -> dict[str, list[Series]]:
    """Group the series by setting, under a name that can be a file's; settings with one name are
    numbered."""
    settings: dict[str, list[Series]] = defaultdict(list)
    for one in series:
        settings[repr(one.about)].append(one)
    named: dict[str, list[Series]] = {}
    for lines in settings.values():
        name = _slug(lines[0])
        same = sum(known == name or known.startswith(f"{name}--") for known in named)
        named[f"{name}--{same + 1}" if same else name] = lines
    return named


def _slug(one: Series) -> str:
    return re.sub(r"[^a-z0-9]+", "-", one.name.lower()).strip("-")


def _column(one: Series) -> str:
    return f"{one.metric}_{one.statistic}"


def _test(name: str, lines: list[Series]) -> dict[str, object]:
    metrics = {
        _column(one): {
            "column": _column(one),
            "direction": 1 if METRICS[one.metric].better == "higher" else -1,
            "scale": 1.0,
        }
        for one in lines
    }
    return {
        "type": "csv",
        "file": f"{name}.csv",
        "time_column": "time",
        "attributes": ["version"],
        "metrics": metrics,
    }


def _csv(lines: list[Series]) -> str:
    rows: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for one in lines:
        sign = 1 if METRICS[one.metric].better == "higher" else -1
        for night in one.nights:
            version = str(night.cell.get("engine_version") or "unknown")
            key = (f"{night.at:%Y-%m-%d %H:%M:%S +0000}", version)
            rows[key][_column(one)] = f"{np.exp(sign * night.mean):.6g}"
    table = [{"time": at, "version": version, **rows[at, version]} for at, version in sorted(rows)]
    columns = ["time", "version", *map(_column, lines)]
    return pd.DataFrame(table, columns=columns).to_csv(index=False, lineterminator="\n")
