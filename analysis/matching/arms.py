"""Groups of cells that differ only in K, only in the arm or only in the dataset. Tuning compares within them.

A *setting* is what a comparison holds fixed (``analysis.matching.comparison.SETTING``), a *system* the same
over all datasets and output limits, a *family* one method with one draft, whatever its K.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pandas as pd

from analysis.frames import listed, numbered, plain
from analysis.matching.comparison import SETTING
from warehouse.arms import EQUAL_ENGINE, Chooser, chooser

#: What may differ between the datasets of one system.
_OF_THE_DATASET = ("dataset", "max_tokens", "ignore_eos")
#: What tells one system from another: all of a setting but that.
SYSTEM: tuple[str, ...] = tuple(name for name in SETTING if name not in _OF_THE_DATASET)
#: Keys of a speculative config that a cell states in columns of its own; K makes no family.
_IN_COLUMNS = ("num_speculative_tokens", "method", "model", "revision")
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
    placed = pd.DataFrame(
        {
            "setting": numbered(cells, SETTING),
            "system": numbered(cells, SYSTEM),
            "dataset": _column(cells, "dataset").fillna("unknown"),
            "family": families(cells),
            "k": _draft_tokens(cells),
            "chooser": choosers(cells),
            "concurrency": pd.to_numeric(cells["concurrency"]),
            "repeat": pd.to_numeric(_column(cells, "repeat")).fillna(-1),
            "prompts": numbered(cells, ["prompt_set_hash", "seed"]),
        }
    ).set_index(pd.Index(cells["cell_id"], name="cell_id"))
    good = (cells["status"] == "good").to_numpy() if "status" in cells else True
    known = placed[["family", "k", "concurrency"]].notna().all(axis=1)
    return placed[known & good].astype({"k": "int64", "concurrency": "int64"})


#: What an answer says of the cells behind it, besides family and dataset.
TOLD: tuple[str, ...] = (
    "model", "gpu", "gpu_count", "tensor_parallel_size", "evidence", "synthetic_acceptance",
)  # fmt: skip


def about(cell: Mapping[str, Any], names: tuple[str, ...] = TOLD) -> dict[str, Any]:
    """Return the named facts of one cell as plain values; None for unknown."""
    return {name: _whole(cell.get(name)) for name in names}


def _whole(value: Any) -> Any:
    value = plain(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def families(cells: pd.DataFrame) -> pd.Series:
    """Return the family of each cell's arm, which is the arm without its K: ``baseline``, ``eagle3
    (draft model)``, …; None for an unknown method."""
    names = ("spec_method", "draft_model", "draft_revision", "speculative_config")
    rows = listed(cells.reindex(columns=[*names]), *names)
    return pd.Series([_family(*row) for row in rows], index=cells.index, dtype=object)


def choosers(cells: pd.DataFrame) -> pd.Series:
    """Return who sets the draft tokens of each cell's arm, as ``warehouse.arms.chooser``; None:
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
    stated = {name: rest.pop(name, None) for name in _IN_COLUMNS}
    known = [stated["model"] if pd.isna(draft) else draft,
             stated["revision"] if pd.isna(revision) else revision,
             json.dumps(rest, sort_keys=True) if rest else None]  # fmt: skip
    told = ", ".join(str(detail) for detail in known if detail is not None)
    return f"{method} ({told})" if told else str(method)


def _draft_tokens(cells: pd.DataFrame) -> pd.Series:
    k = pd.to_numeric(_column(cells, "num_speculative_tokens")).astype("float64")
    return k.mask((cells["spec_method"] == "none").fillna(False), 0.0)


def _column(cells: pd.DataFrame, name: str) -> pd.Series:
    return cells[name] if name in cells else pd.Series(None, index=cells.index, dtype=object)
