"""What a reader calls a setting and an arm: dataset, TP and whatever else tells settings apart."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.matching.comparison import SETTING

Kinds = NDArray[np.int64]

#: What always stands in a setting's name, and what may tell settings apart besides; a study says
#: least.
_ALWAYS = ["dataset", "tensor_parallel_size"]
_TOLD = [*(n for n in SETTING if n not in (*_ALWAYS, "evidence", "study")), "study"]
#: What stands before and behind values that alone say nothing.
_BESIDE = {
    "gpu_count": ("", " GPUs"),
    "prefix_caching": ("prefix caching ", ""),
    "ignore_eos": ("ignore_eos ", ""),
}
#: A longer value, e.g. server arguments, is cut in a name.
_LONGEST = 40


def setting_names(settings: pd.DataFrame) -> pd.Series:
    """Return a name for each setting, ``code · TP 1``, no two alike. ``settings``: facts by
    setting, as ``Comparison.keys``."""
    words = [settings["dataset"].map(short)]
    words.append("TP " + settings["tensor_parallel_size"].map(short).astype(object))
    for name in telling(settings, _TOLD, _ALWAYS):
        before, unit = _BESIDE.get(name, ("", ""))
        words.append(before + settings[name].map(short).astype(object) + unit)
    names = [" · ".join(parts) for parts in zip(*words, strict=True)]
    return _distinct(pd.Series(names, index=settings.index, dtype=object))


def arm_names(arms: pd.DataFrame) -> pd.Series:
    """Return a label for each arm, no two alike: two drafts with one label get the draft's name
    appended. ``arms``: facts by arm_id, as ``Comparison.keys``."""
    twice = arms["arm_label"].duplicated(keep=False)
    drafts = arms["draft_model"] if "draft_model" in arms else arms["arm_label"]
    names = [
        with_draft(label, draft) if same else label
        for label, draft, same in zip(arms["arm_label"], drafts, twice, strict=True)
    ]
    return _distinct(pd.Series(names, index=arms.index, dtype=object))


def with_draft(label: str, draft: object) -> str:
    """Return an arm's label with its draft: ``eagle3 K=3 (small)``."""
    return f"{label} ({short(draft)})"


def telling(rows: pd.DataFrame, names: Sequence[str], always: Sequence[str] = ()) -> list[str]:
    """Return those of the columns ``names`` that tell apart rows which ``always`` and the columns
    before them leave alike. So a revision that always goes with its model is not named, nor is one
    GPU per rank."""
    kinds = np.zeros(len(rows), np.int64)
    for name in always:
        kinds = _finer(kinds, rows[name])
    told: list[str] = []
    for name in names:
        finer = _finer(kinds, rows[name]) if name in rows else kinds
        if finer.max(initial=0) > kinds.max(initial=0):
            told.append(name)
            kinds = finer
    return told


def _finer(kinds: Kinds, column: pd.Series) -> Kinds:
    values, different = pd.factorize(column, use_na_sentinel=False)
    numbered: Kinds = np.unique(kinds * len(different) + values, return_inverse=True)[1]
    return numbered


def _distinct(names: pd.Series) -> pd.Series:
    number = names.groupby(names).cumcount() + 1
    return names.where(number == 1, names + " (" + number.astype(str) + ")")


def short(value: object) -> str:
    """Return a value as it stands in a name: a longer one is cut, one that nobody stated is unknown."""
    if pd.isna(value):  # type: ignore[call-overload]
        return "unknown"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
