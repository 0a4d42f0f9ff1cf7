"""When speculation has paid: for its preparation, and for its own work at each load."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import records
from analysis.money.cost import MILLION
from warehouse.errors import InvalidInput

#: Which source of acceptance is believed first.
SOURCES = ("counters", "requests", "vllm_bench")


@dataclass(frozen=True)
class BreakEven:
    """Tokens to serve and hours to run until an investment is paid back; None: never."""

    investment_usd: float
    tokens: float | None
    hours: float | None

    def as_json(self) -> dict[str, float | None]:
        """Plain values."""
        return dict(vars(self))


def break_even(
    investment_usd: float, usd_saved_per_million: float, usd_saved_per_hour: float
) -> BreakEven:
    """investment / saving, in tokens and in hours.

    ``investment_usd``: what the benchmark and a draft's training cost. Raises InvalidInput for an
    investment that is below zero or not finite.
    """
    if not (isfinite(investment_usd) and investment_usd >= 0):
        raise InvalidInput(f"An investment cannot be {investment_usd:g} USD.")
    return BreakEven(
        investment_usd,
        None if not usd_saved_per_million > 0 else investment_usd / usd_saved_per_million * MILLION,
        None if not usd_saved_per_hour > 0 else investment_usd / usd_saved_per_hour,
    )


def break_even_length(length: float, baseline: float, speculative: float) -> float:
    """The mean acceptance length at which speculation would just match the baseline.

    A step costs what it costs whether its drafts are accepted or not, so at one load and K the
    throughput goes with the length: throughput = length / step time. It equals the baseline's at
    length x baseline / speculative (throughputs in tokens/s, all above zero).
    """
    return length * baseline / speculative


def acceptance_rate_at(length: float, k: int) -> float:
    """The acceptance rate that gives a mean length with K drafts a step: (length - 1) / K."""
    return (length - 1) / k


@dataclass(frozen=True)
class Pays:
    """One arm at one load: the mean acceptance length it has, the one at which it would just
    match the baseline, and the acceptance rate that goes with that (None where K is unknown)."""

    setting: int
    arm_id: int
    arm_label: str
    dataset: str | None
    tensor_parallel_size: int | None
    k: int | None
    concurrency: int
    length: float
    break_even_length: float
    break_even_rate: float | None

    @property
    def of(self) -> tuple[int, int]:
        """Setting and arm, as ``Comparison`` numbers them."""
        return self.setting, self.arm_id

    @property
    def pays(self) -> bool:
        """Whether it accepts more than it needs."""
        return self.length > self.break_even_length

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        names = ("concurrency", "k", "length", "break_even_length", "break_even_rate", "pays")
        return {name: getattr(self, name) for name in names}


def pays_at(pairs: pd.DataFrame, cells: pd.DataFrame, acceptance: pd.DataFrame) -> list[Pays]:
    """Every arm at every load, by dataset, load and K.

    ``pairs`` as ``Comparison.pairs``, ``cells`` and ``acceptance`` as the queries of those names.
    Throughputs and lengths are geometric means over the repeats; a load without a known
    acceptance length is left out.
    """
    throughput = pairs[(pairs["metric"] == "output_throughput") & (pairs["statistic"] == "mean")]
    told = ["arm_label", "dataset", "tensor_parallel_size", "num_speculative_tokens"]
    facts = cells.set_index("cell_id")[told]
    rows = throughput.join(facts, on="speculative_id").join(
        _lengths(acceptance), on="speculative_id"
    )
    by = ["setting", "arm_id", *told, "concurrency"]
    values = ["baseline", "speculative", "length"]
    logs = rows.assign(**{name: np.log(rows[name].where(rows[name] > 0)) for name in values})
    means = logs.groupby(by, dropna=False)[values].mean().dropna().apply(np.exp).reset_index()
    found = [_pays(row) for row in records(means)]
    return sorted(found, key=lambda p: (str(p.dataset), p.setting, p.arm_id, p.concurrency))


def ks_that_pay(found: Sequence[Pays], setting: int) -> dict[int, tuple[int, ...]]:
    """concurrency -> the measured K that pay there, of one setting."""
    rows = [p for p in found if p.setting == setting and p.k is not None]
    return {
        level: tuple(
            sorted({p.k for p in rows if p.concurrency == level and p.pays and p.k is not None})
        )
        for level in sorted({p.concurrency for p in rows})
    }


def _pays(row: Mapping[str, Any]) -> Pays:
    needed = break_even_length(row["length"], row["baseline"], row["speculative"])
    k = None if pd.isna(row["num_speculative_tokens"]) else int(row["num_speculative_tokens"])
    tp = None if pd.isna(row["tensor_parallel_size"]) else int(row["tensor_parallel_size"])
    return Pays(
        int(row["setting"]),
        int(row["arm_id"]),
        str(row["arm_label"]),
        None if pd.isna(row["dataset"]) else str(row["dataset"]),
        tp,
        k,
        int(row["concurrency"]),
        float(row["length"]),
        needed,
        None if k is None else acceptance_rate_at(needed, k),
    )


def _lengths(acceptance: pd.DataFrame) -> pd.Series:
    """Index cell_id: the mean acceptance length by the most trusted source that has one."""
    known = acceptance.dropna(subset=["mean_length"])
    order = known["source"].map({name: place for place, name in enumerate(SOURCES)})
    best = known.assign(order=order).sort_values("order").drop_duplicates("cell_id")
    return best.set_index("cell_id")["mean_length"].astype("float64").rename("length")
