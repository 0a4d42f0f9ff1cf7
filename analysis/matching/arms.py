"""Cells that differ only in K, only in the arm or only in the dataset, and what each arm measured at each load.

A *setting* is what a comparison holds fixed (``analysis.matching.comparison.SETTING``), a *system* the same
over all datasets and output limits, a *family* one method with one draft, whatever its K. Any arm can
take the place of the baseline (``against``).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import declared, listed, numbered, plain
from analysis.matching.comparison import SETTING, Comparison
from analysis.matching.fields import ARM, numbered_loads
from warehouse.contract import EQUAL_ENGINE, EQUAL_LABEL, Chooser, chooser
from warehouse.loads import Load

# --- Every arm on its own: what each measured at each load, repeat by repeat.
#
# For questions that need no partner: the largest load within an SLO, the Pareto front. Improvements
# come from ``comparison``, which pairs.


#: What tells one setting from another here, where nothing is paired.
_APART = (*SETTING, "comparable_as", "load_kind")


@dataclass(frozen=True)
class ArmLevels:
    """What every arm measured at every load. ``values``: setting, arm_id, load, cell_id, metric,
    statistic, value: a row for each repeat; ``load`` is a place in ``loads``, the larger load of a
    kind has the larger place. ``keys``: index (setting, arm_id), the fields behind the numbers,
    ``spec_method`` and ``load_kind``."""

    values: pd.DataFrame
    keys: pd.DataFrame
    loads: tuple[Load, ...] = ()


def arm_levels(cells: pd.DataFrame, measurements: pd.DataFrame) -> ArmLevels:
    """Place the measurements of every good cell with a known load in its setting and arm.

    ``cells`` and ``measurements`` as the queries of those names return them. Settings and arms
    are those of ``comparison``: cells that differ in more than prompts, seed and load are apart.
    So are loads of different kinds: requests at once and requests a second are no one ladder.
    """
    loads, load = numbered_loads(cells)
    kept = cells.assign(load=load)[(cells["status"] == "good") & (load >= 0)]
    kept = kept.sort_values("cell_id", ignore_index=True)
    kept = kept.assign(load_kind=[loads[place].kind for place in kept["load"]])
    setting = numbered(kept, _APART)
    placed = kept.assign(setting=setting, arm_id=numbered(kept, (*ARM, "spec_method")))
    names = ["setting", "arm_id", "load"]
    values = measurements.merge(placed[["cell_id", *names]], on="cell_id")
    known = [name for name in (*_APART, *ARM, "spec_method") if name in placed]
    keys = placed.drop_duplicates(["setting", "arm_id"]).set_index(["setting", "arm_id"])[known]
    columns = [*names, "cell_id", "metric", "statistic", "value"]
    # Names that stand in many rows are kept as numbers, in the order of their letters.
    values = values[columns].astype(dict.fromkeys(("cell_id", "metric", "statistic"), "category"))
    values = declared("values of arms", values.sort_values(columns, ignore_index=True))
    return ArmLevels(values, keys.sort_index(), loads)


def means(values: pd.DataFrame) -> pd.DataFrame:
    """Return one row per setting, arm, load, metric and statistic: ``value`` over the repeats.

    Geometric where every repeat is above zero, as in a comparison; else arithmetic (an error rate
    of 0 is a value too). ``repeats`` counts them.
    """
    by = ["setting", "arm_id", "load", "metric", "statistic"]
    table = values.groupby(by, sort=True)["value"].agg(["mean", "min", "size"]).reset_index()
    logs = values.assign(log=np.log(values["value"].where(values["value"] > 0)))
    geometric = np.exp(logs.groupby(by, sort=True)["log"].mean().to_numpy(dtype=np.float64))
    table["value"] = np.where(table["min"] > 0, geometric, table["mean"])
    table = table.rename(columns={"size": "repeats"}).drop(columns=["mean", "min"])
    return declared("means of arms", table)


# --- Groups of cells that differ only in K, only in the arm or only in the dataset. Tuning compares within them.


#: What may differ between the datasets of one system.
_OF_THE_DATASET = ("dataset", "max_tokens", "ignore_eos")
#: What tells one system from another: all of a setting but that.
SYSTEM: tuple[str, ...] = tuple(name for name in SETTING if name not in _OF_THE_DATASET)
#: Keys of a speculative config that a cell states in columns of its own; K makes no family.
_IN_COLUMNS = ("num_speculative_tokens", "method", "model", "revision")
#: Nor does how much is accepted whatever is drafted: a step costs the same.
_RATES = ("synthetic_acceptance_rates", "synthetic_acceptance_length")
#: What a family is called for whose acceptance tells of no draft.
BY_HAND = "acceptance set by hand"
#: Choosers that change K from step to step, so that a cell's largest K is not that of its steps.
ENGINE_CHOOSES: tuple[Chooser, ...] = ("table", "adaptive")
#: The family of every baseline.
BASELINE = "baseline"


def place_arms(cells: pd.DataFrame) -> pd.DataFrame:
    """Return by cell_id: setting, system, dataset, family, k (0: baseline, else at most so many),
    chooser (who sets k; None: it is fixed), concurrency, repeat, prompts.

    ``setting``, ``system`` and ``prompts`` (equal where prompt set and seed are) are numbers. Cells
    that failed, or whose method or K is unknown, are left out.
    """
    k = pd.to_numeric(_column(cells, "num_speculative_tokens")).astype("float64")
    placed = pd.DataFrame(
        {
            "setting": numbered(cells, SETTING),
            "system": numbered(cells, SYSTEM),
            "dataset": _column(cells, "dataset").fillna("unknown"),
            "family": families(cells),
            "k": k.mask((cells["spec_method"] == "none").fillna(False), 0.0),
            "chooser": choosers(cells),
            "concurrency": pd.to_numeric(cells["concurrency"]),
            "repeat": pd.to_numeric(_column(cells, "repeat")).fillna(-1),
            "prompts": numbered(cells, ["prompt_set_hash", "seed"]),
        }
    ).set_index(pd.Index(cells["cell_id"], name="cell_id"))
    good = (cells["status"] == "good").to_numpy() if "status" in cells else True
    known = placed[["family", "k", "concurrency"]].notna().all(axis=1)
    placed = placed[known & good].astype({"k": "int64", "concurrency": "int64"})
    return declared("placed arms", placed)


#: What an answer says of the cells behind it, besides family and dataset.
TOLD: tuple[str, ...] = (
    "model", "gpu", "gpu_count", "tensor_parallel_size", "evidence", "synthetic_acceptance",
)  # fmt: skip


def about(cell: Mapping[str, Any], names: tuple[str, ...] = TOLD) -> dict[str, Any]:
    """Return the named facts of one cell as plain values; None for unknown."""
    facts = {}
    for name in names:
        value = plain(cell.get(name))
        whole = isinstance(value, float) and value.is_integer()
        facts[name] = int(value) if whole else value
    return facts


def families(cells: pd.DataFrame) -> pd.Series:
    """Return the family of each cell's arm, which is the arm without its K: ``baseline``, ``eagle3
    (draft model)``, …; None for an unknown method."""
    names = ("spec_method", "draft_model", "draft_revision", "speculative_config")
    rows = listed(cells.reindex(columns=[*names]), *names)
    return pd.Series([_family(*row) for row in rows], index=cells.index, dtype=object)


def choosers(cells: pd.DataFrame) -> pd.Series:
    """Return who sets the draft tokens of each cell's arm, as ``warehouse.contract.chooser``; None:
    fixed."""
    names = ("spec_method", "speculative_config")
    rows = listed(cells.reindex(columns=[*names]), *names)
    return pd.Series([_chooser(*row) for row in rows], index=cells.index, dtype=object)


# Thousands of cells have the same few arms.
@lru_cache(1024)
def _chooser(method: Any, config: Any) -> Chooser | None:
    return chooser(None if pd.isna(method) else str(method), config_of(config))


def config_of(text: Any) -> dict[str, Any]:
    """Return a cell's speculative config as it was stated; empty where none is known."""
    known: Any = json.loads(text) if isinstance(text, str) and text else {}
    return known if isinstance(known, dict) else {}


@lru_cache(1024)
def _family(method: Any, draft: Any, revision: Any, config: Any) -> str | None:
    if pd.isna(method):
        return None
    rest = config_of(config)
    if method == "none":  # Equal engines are no server that anybody would run.
        return None if EQUAL_ENGINE in rest else BASELINE
    by_hand = rest.get("rejection_sample_method") == "synthetic"
    left_out = (*_IN_COLUMNS, *_RATES, *(("rejection_sample_method",) if by_hand else ()))
    stated = {name: rest.pop(name, None) for name in left_out}
    known = [stated["model"] if pd.isna(draft) else draft,
             stated["revision"] if pd.isna(revision) else revision, BY_HAND if by_hand else None,
             json.dumps(rest, sort_keys=True) if rest else None]  # fmt: skip
    told = ", ".join(str(detail) for detail in known if detail is not None)
    return f"{method} ({told})" if told else str(method)


def _column(cells: pd.DataFrame, name: str) -> pd.Series:
    return cells[name] if name in cells else pd.Series(None, index=cells.index, dtype=object)


# --- What was measured at each K and load: one row per arm and level, the input of every prediction.


#: The measurements (their means) that a load point holds.
METRICS_READ: tuple[str, ...] = (
    "output_throughput", "itl", "ttft", "prompt_tokens", "output_tokens", "achieved_concurrency",
    "mean_acceptance_length",
)  # fmt: skip
_NEEDED = ["output_throughput", "itl", "ttft", "prompt_tokens", "output_tokens"]
_POINT = ["system", "dataset", "family", "k", "concurrency"]


def load_points(cells: pd.DataFrame, measurements: pd.DataFrame) -> pd.DataFrame:
    """Return a row per system, dataset, family, k (0: baseline) and concurrency, means over the
    repeats.

    Columns: those, ``repeats``, METRICS_READ in the catalogue's units, ``length`` (tokens per
    verification step, 1 for a baseline) and ``step`` (ms per step: itl x length, since a step
    yields ``length`` tokens). Means are geometric. ``measurements``: cell_id, metric, statistic,
    value. Cells without one of the measurements, or speculative ones without a mean acceptance
    length, are left out. Where a method drafts only in some steps (n-gram, suffix), ``length`` is
    that of the steps which drafted, as the server counts them, and ``step`` is longer to match.
    Arms whose engine chooses K in each step say nothing of any one K and are left out.
    """
    means = measurements[
        (measurements["statistic"] == "mean") & measurements["metric"].isin(METRICS_READ)
    ]
    wide = means.pivot_table(index="cell_id", columns="metric", values="value").reindex(
        columns=list(METRICS_READ)
    )
    placed = place_arms(cells)
    rows = placed[~placed["chooser"].isin(ENGINE_CHOOSES)].join(wide, how="inner")
    baseline = rows["family"] == BASELINE
    rows["length"] = rows["mean_acceptance_length"].mask(baseline, 1.0)
    rows = rows[(rows[[*_NEEDED, "length"]] > 0).all(axis=1)]
    values = [*METRICS_READ, "length"]
    grouped = rows[values].apply(np.log).join(rows[_POINT]).groupby(_POINT, sort=True)
    points: pd.DataFrame = grouped.mean().apply(np.exp).assign(repeats=grouped.size())
    points = points.reset_index()
    batch = points["achieved_concurrency"].fillna(points["concurrency"])
    points = points.assign(
        achieved_concurrency=np.minimum(batch, points["concurrency"]),
        step=points["itl"] * points["length"],
    )
    return declared("load points", points)


def of_family(points: pd.DataFrame, system: int, family: str) -> pd.DataFrame:
    """Return the points of one system's baseline and one family, all datasets."""
    mine = (points["system"] == system) & points["family"].isin([BASELINE, family])
    return points[mine].reset_index(drop=True)


# --- Open loads that the servers keep up with: there every arm serves what is offered.
#
# At such a load, a rate or a trace, latency and attainment are compared; throughput is what was offered
# and says nothing.


#: Below this share of the offered rate an arm no longer keeps up.
KEEPS_UP = 0.95
#: The metric and statistic that say which share of the offered rate was served.
ATTAINED = ("request_attainment", "mean")
#: What only says what was offered where all arms keep up.
THROUGHPUTS: tuple[str, ...] = ("output_throughput", "total_throughput", "request_throughput")


def kept_up(comparison: Comparison) -> frozenset[tuple[int, int]]:
    """Return (setting, place of the load) of each open load that no arm falls short of.

    Where nobody measured the share that was served, it counts as kept up with.
    """
    rates = {place for place, load in enumerate(comparison.loads) if load.is_open}
    rows = comparison.levels[comparison.levels["load"].isin(rates)]
    attained = rows[(rows["metric"] == ATTAINED[0]) & (rows["statistic"] == ATTAINED[1])]
    short = attained[(attained[["baseline", "speculative"]] < KEEPS_UP).any(axis=1)]
    there, fall_short = (
        set(zip(part["setting"].tolist(), part["load"].tolist(), strict=True))
        for part in (rows, short)
    )
    return frozenset(there - fall_short)


# --- Any arm as the one that the others are compared with.


#: The method of the plain server where another arm takes the baseline's place.
_PLAIN = "plain"


def against(cells: pd.DataFrame, arm: str) -> pd.DataFrame:
    """Return the cells with the arm labelled ``arm`` as their baseline, and the plain server as an
    arm.

    ``cells`` as the query of that name returns them: spec_method, arm_label, and server_args and
    speculative_config where there is a baseline with equal engine. What is paired with what stays
    the same: everything but the speculation is equal; a baseline with equal engine stands in for
    the baseline where it is asked for and is left out elsewhere.
    """
    equal = cells["arm_label"] == EQUAL_LABEL
    if arm == EQUAL_LABEL:
        # Without the arguments that make the engine an equal one.
        args = []
        for stated, config in listed(cells, "server_args", "speculative_config"):
            switched = config_of(config).get(EQUAL_ENGINE, ())
            rest = {name: v for name, v in config_of(stated).items() if name not in switched}
            args.append(json.dumps(rest, sort_keys=True) if switched else stated)
        cells = cells.assign(server_args=args)
    elif equal.any():
        cells = cells[~equal]
    if arm == BASELINE:
        return cells
    method = cells["spec_method"].astype(object)
    method = method.mask(method == "none", _PLAIN).mask(cells["arm_label"] == arm, "none")
    return cells.assign(spec_method=method)
