"""Published improvements beside our own measurements of the same thing, where there are any."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.evidence.effects import Effects
from analysis.frames import objects, plain, records
from analysis.matching.arms import THROUGHPUTS, about, kept_up
from analysis.matching.comparison import Comparison
from analysis.metric_words import NamedMetric, read_metric
from analysis.published.printed import Finding
from warehouse.loads import Load

#: Field of a claims row -> field of a setting or arm.
_KEYS = {
    "dataset": "dataset", "tp": "tensor_parallel_size", "tensor_parallel_size":
    "tensor_parallel_size", "gpu": "gpu", "model": "model", "precision": "precision",
}  # fmt: skip


def lines(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Yield the metric and statistic of each figure that has them."""
    for finding in findings:
        named = read_metric(finding.metric)
        if named is not None:
            yield named.metric, named.statistic


def beside(
    findings: Sequence[Finding], comparison: Comparison, sure: Effects, model: str | None = None
) -> tuple[Finding, ...]:
    """Return ``findings``, each with ``measured``: a mapping per matching setting and arm (arm,
    model, gpu, evidence, loads; improvement, low and high in ``%``, the plain 95 % interval; word).

    Rows are matched by the fields they state; ``model`` is what the claims are about, so that a
    laptop's numbers never stand beside those of another model. A claim at one concurrency takes
    that load, one about a peak none, any other the mean over the loads, which has no word.
    """
    idle = {setting for setting, _ in kept_up(comparison)}
    keys = dict(zip(comparison.keys.index, records(comparison.keys), strict=True))
    # Our means of a line are looked up once for all figures that are about it.
    lines: dict[tuple[NamedMetric, str | None], list[dict[str, Any]]] = {}
    judged = []
    for finding in findings:
        named = read_metric(finding.metric)
        other = {"arm", "arms"} & set(finding.about)
        if finding.better is None or named is None or named.peak or other:
            judged.append(finding)
            continue
        wanted = {_KEYS[name]: text for name, text in finding.about.items() if name in _KEYS}
        if model is not None:
            wanted.setdefault("model", model)
        line = (named, finding.about.get("concurrency"))
        if line not in lines:
            lines[line] = records(_means(comparison, sure, idle, *line))
        measured = []
        for row in lines[line]:
            facts = keys[row["setting"], row["arm_id"]]
            if all(_text(facts.get(x)) == y.strip().casefold() for x, y in wanted.items()):
                measured.append(_mean_of(facts, row))
        judged.append(replace(finding, measured=tuple(measured)))
    return tuple(judged)


def _mean_of(facts: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    ends = {
        name: None if pd.isna(row[name]) else 100 * float(row[name]) for name in ("low", "high")
    }
    word = plain(row["word"])
    return {
        "arm": str(facts.get("arm_label")),
        **about(facts, ("model", "gpu", "evidence")),
        "loads": list(row["loads"]), "improvement": 100 * float(row["improvement"]), **ends,
        "word": None if word is None else str(word),
    }  # fmt: skip


def _means(
    comparison: Comparison,
    sure: Effects,
    idle: set[int],
    named: NamedMetric,
    concurrency: str | None,
) -> pd.DataFrame:
    """Return our means of a line with their intervals, over the loads or at one concurrency; no
    throughput of the settings ``idle``, whose rates are kept up with."""
    by = ["setting", "arm_id", "metric", "statistic"]
    table, known = comparison.geomean, sure.means[[*by, "low", "high"]].assign(word=None)
    if concurrency is not None and concurrency.isdigit():
        load = Load("concurrency", float(int(concurrency)))
        place = comparison.loads.index(load) if load in comparison.loads else -2
        table = comparison.levels[comparison.levels["load"] == place]
        table = table.assign(loads=objects([(load.short,)] * len(table), table.index))
        by = [*by, "load"]
        known = sure.levels[[*by, "low", "high", "word"]]
    table = table.astype({"metric": object, "statistic": object})
    chosen = (table["metric"] == named.metric) & (table["statistic"] == named.statistic)
    if named.metric in THROUGHPUTS:
        chosen &= ~table["setting"].isin(idle)
    return table[chosen & table["improvement"].notna()].merge(known, on=by, how="left")


def _text(value: Any) -> str | None:
    if value is None or pd.isna(value):
        return None
    return f"{value:g}" if isinstance(value, float) else str(value).strip().casefold()
