"""Published improvements beside our own measurements of the same thing, where there are any."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.evidence.effects import Effects
from analysis.frames import objects, plain, records
from analysis.matching.arms import THROUGHPUTS, kept_up
from analysis.matching.comparison import Comparison
from analysis.metric_words import Named, read_metric
from analysis.verdicts.finding import Finding
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
    findings: Sequence[Finding], found: Comparison, sure: Effects, model: str | None = None
) -> tuple[Finding, ...]:
    """Return ``findings``, each with ``measured``: a mapping per matching setting and arm (arm,
    model, gpu, evidence, loads; improvement, low and high in ``%``, the plain 95 % interval; word).

    Rows are matched by the fields they state; ``model`` is what the claims are about, so that a
    laptop's numbers never stand beside those of another model. A claim at one concurrency takes
    that load, one about a peak none, any other the mean over the loads, which has no word.
    """
    ours, told = _Ours(found, sure), []
    for finding in findings:
        named = read_metric(finding.metric)
        other = {"arm", "arms"} & set(finding.about)
        if finding.better is None or named is None or named.peak or other:
            told.append(finding)
            continue
        wanted = {_KEYS[name]: text for name, text in finding.about.items() if name in _KEYS}
        if model is not None:
            wanted.setdefault("model", model)
        measured = ours.measured(named, finding.about.get("concurrency"), wanted)
        told.append(replace(finding, measured=tuple(measured)))
    return tuple(told)


class _Ours:
    """Our own means; those of a line are looked up once for all figures that are about it."""

    def __init__(self, found: Comparison, sure: Effects) -> None:
        self._found, self._sure = found, sure
        self._idle = {setting for setting, _ in kept_up(found)}
        self._rows: dict[tuple[Named, str | None], list[dict[str, Any]]] = {}
        self._keys: dict[Any, dict[str, Any]] = dict(
            zip(found.keys.index, records(found.keys), strict=True)
        )

    def measured(
        self, named: Named, concurrency: str | None, wanted: Mapping[str, str]
    ) -> Iterator[dict[str, Any]]:
        """Yield our means of a line over the loads, or at one concurrency, of the settings and arms whose
        facts are the wanted ones."""
        if (named, concurrency) not in self._rows:
            self._rows[named, concurrency] = records(self._of(named, concurrency))
        for row in self._rows[named, concurrency]:
            keys = self._keys[row["setting"], row["arm_id"]]
            if any(_text(keys.get(x)) != y.strip().casefold() for x, y in wanted.items()):
                continue
            facts = {name: plain(keys.get(name)) for name in ("model", "gpu", "evidence")}
            facts["word"] = plain(row["word"])
            texts = {name: None if x is None else str(x) for name, x in facts.items()}
            word = texts.pop("word")
            ends = {
                name: None if pd.isna(row[name]) else 100 * float(row[name])
                for name in ("low", "high")
            }
            yield {
                "arm": str(keys.get("arm_label")), **texts, "loads": list(row["loads"]),
                "improvement": 100 * float(row["improvement"]), **ends, "word": word,
            }  # fmt: skip

    def _of(self, named: Named, concurrency: str | None) -> pd.DataFrame:
        """Return the measured means with their intervals; no throughput at rates that are kept up
        with."""
        by = ["setting", "arm_id", "metric", "statistic"]
        table = self._found.geomean
        known = self._sure.means[[*by, "low", "high"]].assign(word=None)
        if concurrency is not None and concurrency.isdigit():
            by = [*by, "load"]
            table = self._at(int(concurrency))
            known = self._sure.levels[[*by, "low", "high", "word"]]
        table = table.astype({"metric": object, "statistic": object})
        chosen = (table["metric"] == named.metric) & (table["statistic"] == named.statistic)
        if named.metric in THROUGHPUTS:
            chosen &= ~table["setting"].isin(self._idle)
        kept = table[chosen & table["improvement"].notna()]
        return kept.merge(known, on=by, how="left")

    def _at(self, concurrency: int) -> pd.DataFrame:
        load = Load("concurrency", float(concurrency))
        place = self._found.loads.index(load) if load in self._found.loads else -2
        levels = self._found.levels[self._found.levels["load"] == place]
        return levels.assign(loads=objects([(load.short,)] * len(levels), levels.index))


def _text(value: Any) -> str | None:
    if value is None or pd.isna(value):
        return None
    return f"{value:g}" if isinstance(value, float) else str(value).strip().casefold()
