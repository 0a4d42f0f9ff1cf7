"""Published improvements beside our own measurements of the same thing, where there are any."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.metric_words import Named, read_metric
from analysis.significance.comparison import Comparison
from analysis.significance.confidence import Confidence, intervals
from analysis.verdicts.finding import Finding

#: Field of a claims row -> field of a setting or arm.
_KEYS = {
    "dataset": "dataset", "tp": "tensor_parallel_size", "tensor_parallel_size":
    "tensor_parallel_size", "gpu": "gpu", "model": "model", "precision": "precision",
}  # fmt: skip


def beside(
    findings: Sequence[Finding], found: Comparison, study: Mapping[str, Any]
) -> tuple[Finding, ...]:
    """``findings``, each with ``measured``: a mapping per matching setting and arm (arm, model,
    gpu, evidence, concurrencies; improvement, low and high in ``%``; verdict).

    Rows are matched by the fields they state; ``study`` (its ``target_model``) adds the model, so
    that a laptop's numbers never stand beside those of another model. A claim at one concurrency
    takes that level, one about a peak none, any other the mean over the load.
    """
    asked = [named for finding in findings if (named := read_metric(finding.metric)) is not None]
    pairs = found.pairs[
        found.pairs["metric"].isin([named.metric for named in asked])
        & found.pairs["statistic"].isin([named.statistic for named in asked])
    ]
    ours = _Ours(found, intervals(pairs))
    return tuple(_with_measurements(finding, ours, study) for finding in findings)


class _Ours:
    """Our own means; those of a line are looked up once for all figures that are about it."""

    def __init__(self, found: Comparison, sure: Confidence) -> None:
        self._found, self._sure = found, sure
        self._rows: dict[tuple[Named, str | None], list[dict[str, Any]]] = {}
        self.keys: dict[Any, dict[str, Any]] = dict(
            zip(found.keys.index, records(found.keys), strict=True)
        )

    def rows(self, named: Named, concurrency: str | None) -> list[dict[str, Any]]:
        """Over the load, or at one level of it."""
        if (named, concurrency) not in self._rows:
            rows = records(_rows(self._found, self._sure, named, concurrency))
            self._rows[named, concurrency] = rows
        return self._rows[named, concurrency]


def _with_measurements(finding: Finding, ours: _Ours, study: Mapping[str, Any]) -> Finding:
    named = read_metric(finding.metric)
    other = {"arm", "arms"} & set(finding.about)
    if finding.unit != "%" or named is None or named.peak or other:
        return finding
    wanted = {_KEYS[name]: text for name, text in finding.about.items() if name in _KEYS}
    if "target_model" in study:
        wanted.setdefault("model", str(study["target_model"]))
    told = [
        _told(row, keys)
        for row in ours.rows(named, finding.about.get("concurrency"))
        if _same(keys := ours.keys[row["setting"], row["arm_id"]], wanted)
    ]
    return replace(finding, measured=tuple(told))


def _rows(
    found: Comparison, sure: Confidence, named: Named, concurrency: str | None
) -> pd.DataFrame:
    """The measured means with their intervals: over the load, or at one level of it."""
    table, known, by = found.geomean, sure.geomean, ["setting", "arm_id", "metric", "statistic"]
    if concurrency is not None and concurrency.isdigit():
        table = found.levels[found.levels["concurrency"] == int(concurrency)]
        known, by = sure.levels, [*by, "concurrency"]
    chosen = (table["metric"] == named.metric) & (table["statistic"] == named.statistic)
    kept = table[chosen & table["improvement"].notna()]
    return kept.merge(known[[*by, "low", "high", "verdict"]], on=by, how="left")


def _same(keys: Mapping[Any, Any], wanted: Mapping[str, str]) -> bool:
    return all(_text(keys.get(name)) == text.strip().casefold() for name, text in wanted.items())


def _text(value: Any) -> str | None:
    if value is None or pd.isna(value):
        return None
    return f"{value:g}" if isinstance(value, float) else str(value).strip().casefold()


def _told(row: Mapping[str, Any], keys: Mapping[Any, Any]) -> dict[str, Any]:
    levels = row.get("concurrencies", (row.get("concurrency"),))
    return {
        "arm": str(keys.get("arm_label")),
        **{name: _plain(keys.get(name)) for name in ("model", "gpu", "evidence")},
        "concurrencies": [int(level) for level in levels],
        "improvement": 100 * float(row["improvement"]),
        **{name: _percent(row[name]) for name in ("low", "high")},
        "verdict": _plain(row["verdict"]),
    }


def _plain(value: Any) -> str | None:
    return None if value is None or pd.isna(value) else str(value)


def _percent(ratio: float) -> float | None:
    return None if pd.isna(ratio) else 100 * float(ratio)
