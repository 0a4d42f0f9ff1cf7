"""Advice as rows of text and as plain values."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from analysis.drafts.best_k import Choice
from analysis.drafts.tuning import Advice
from analysis.frames import records
from analysis.tables import Table, metric_name, number, percent
from analysis.verdicts.duels import Duel
from analysis.verdicts.methods import Ranking
from warehouse.catalogue import METRICS


def by_load(found: Advice) -> Table:
    """A row per load: what each K gave, the K to take, its gain over the baseline, and why."""
    best = found.best
    ks = sorted({k for choice in best.choices for k in choice.values})
    decimals = METRICS[best.metric].decimals
    header = ["concurrency", *(f"K={k}" if k else "baseline" for k in ks), "take",
              "gain over baseline", "because"]  # fmt: skip
    rows = [
        [
            str(choice.concurrency),
            *(number(choice.values.get(k), decimals) for k in ks),
            _taken(choice),
            "" if choice.gain is None else interval(choice.gain),
            _because(choice),
        ]
        for choice in best.choices
    ]
    return header, rows


def measured(found: Advice) -> str:
    """``Output throughput (tok/s)``: what the table of loads holds."""
    return metric_name(found.best.metric, found.best.statistic)


def acceptance(found: Advice) -> Table:
    """A row per K and load: rate, mean length, and by position what of all and of those that got so
    far was accepted."""
    by_position = dict(list(found.positions.groupby(["k", "concurrency"])))
    rows = []
    for row in records(found.acceptance):
        at = by_position.get((row["k"], row["concurrency"]))
        rows.append(
            [
                f"K={row['k']}", str(row["concurrency"]), number(row["rate"], 3),
                number(row["mean_length"], 2), _list(at, "rate"), _list(at, "conditional"),
            ]
        )  # fmt: skip
    header = ["arm", "concurrency", "acceptance rate", "mean length", "by position", "conditional"]
    return header, rows


def rules(found: Advice) -> Table:
    """A row per rule of thumb and arm: what it says of it, and at which loads it is right."""
    grouped: dict[tuple[str, int, str], list[tuple[int, bool | None]]] = {}
    for judged in found.rules:
        key = (judged.opinion.rule, judged.k, judged.opinion.says)
        grouped.setdefault(key, []).append((judged.concurrency, judged.opinion.agrees))
    rows = [
        [f"K={k}", says, *(_loads(at, verdict) for verdict in (True, False, None)), rule]
        for (rule, k, says), at in sorted(grouped.items(), key=lambda item: item[0][1])
    ]
    return ["arm", "says", "right at", "wrong at", "not measured at", "rule of thumb"], rows


def ranking(found: Ranking, metric: str) -> Table:
    """A row per arm: its rank, its mean over the shared loads, and its gain over the baseline."""
    decimals = METRICS[metric].decimals
    rows = [
        [
            "" if arm.rank is None else str(arm.rank), f"{arm.family} K={arm.k}",
            number(arm.baseline, decimals), number(arm.value, decimals), interval(arm.gain),
            ", ".join(map(str, arm.concurrencies)),
        ]
        for arm in found.arms
    ]  # fmt: skip
    return ["rank", "arm", "baseline", "geometric mean", "gain", "over concurrency"], rows


def interval(found: Duel) -> str:
    """``+20.7 % (+18.2 to +23.3)``; without repeats there is no interval."""
    if pd.isna(found.low):
        return percent(found.improvement)
    low, high = (f"{value * 100:+.1f}" for value in (found.low, found.high))
    return f"{percent(found.improvement)} ({low} to {high})"


def as_json(found: Advice) -> dict[str, Any]:
    """Plain values of everything that the tables show."""
    best = found.best
    entries = None if found.table is None else [list(entry) for entry in found.table.entries]
    return {
        **found.about,
        "metric": best.metric,
        "statistic": best.statistic,
        "choices": [_choice(choice) for choice in best.choices],
        "num_speculative_tokens_per_batch_size": entries,
        "speculative_config": found.config,
        "serve": found.serve,
        "notes": list(found.notes),
        "acceptance": _rows(found.acceptance),
        "acceptance_by_position": _rows(found.positions),
        "rules": [{"k": j.k, "concurrency": j.concurrency, **vars(j.opinion)} for j in found.rules],
    }


def ranking_json(found: Ranking) -> dict[str, Any]:
    """Plain values of a ranking."""
    return {
        "dataset": found.dataset,
        "arms": [vars(arm) | {"gain": _duel(arm.gain)} for arm in found.arms],
    }


def _choice(choice: Choice) -> dict[str, Any]:
    gain = None if choice.gain is None else _duel(choice.gain)
    return vars(choice) | {"gain": gain, "evidence": choice.evidence}


def _duel(found: Duel) -> dict[str, Any]:
    return {name: _known(value) for name, value in vars(found).items()}


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    plain = table.drop(columns=["setting", "system", "dataset", "family"])
    return [{name: _known(value) for name, value in row.items()} for row in records(plain)]


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and pd.isna(value) else value


def _taken(choice: Choice) -> str:
    if choice.k is None:
        return "none"
    return f"K={choice.k}" if choice.k else "no drafts"


def _because(choice: Choice) -> str:
    if choice.k is None or choice.leader is None:
        return choice.evidence
    if choice.k == choice.leader:
        return f"ahead ({choice.evidence})"
    return f"no worse than K={choice.leader} ({choice.evidence})"


def _loads(at: Iterable[tuple[int, bool | None]], verdict: bool | None) -> str:
    return ", ".join(str(load) for load, agrees in at if agrees is verdict)


def _list(rows: pd.DataFrame | None, name: str) -> str:
    return "unknown" if rows is None else " ".join(f"{value:.2f}" for value in rows[name])
