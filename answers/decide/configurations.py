"""What tells two decisions apart that are about the same model, hardware, engine and size."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.matching.comparison import SETTING
from analysis.matching.difference import flat

#: What the name of a decision says anyway.
_SAID = (
    "study", "model", "gpu", "gpu_count", "engine", "engine_version", "tensor_parallel_size",
    "evidence",
)  # fmt: skip
#: A name holds so many facts, each no longer than this.
_MOST, _LONGEST = 3, 40


def configurations(keys: pd.DataFrame) -> dict[int, str]:
    """Return by setting ``max_num_seqs 2, prefix_caching True``: the facts in which settings of one
    dataset differ that are otherwise named alike. A setting that needs no such words is not in it.

    ``keys``: as ``Comparison.keys``, facts by (setting, arm_id).
    """
    settings = keys[~keys.index.get_level_values(0).duplicated()].droplevel(1)
    named = [name for name in _SAID if name in settings]
    found: dict[int, str] = {}
    for _, alike in settings.groupby(named, dropna=False, sort=False):
        if alike["dataset"].duplicated().any():
            found |= _told(alike)
    return found


def _told(alike: pd.DataFrame) -> dict[int, str]:
    """Return, for settings of one name, the words that tell each apart from the others."""
    rest = [name for name in SETTING if name in alike and name not in (*_SAID, "dataset")]
    facts = {at: flat(dict(zip(rest, row, strict=True)))
             for at, row in zip(alike.index, alike[rest].itertuples(index=False), strict=True)}  # fmt: skip
    datasets = alike["dataset"].astype(str)
    varied = sorted({
        name
        for _, of_dataset in datasets.groupby(datasets)
        for name in _varied([facts[at] for at in of_dataset.index])
    })  # fmt: skip
    return {int(at): _words(said, varied) for at, said in facts.items()} if varied else {}


def _varied(facts: list[dict[str, Any]]) -> set[str]:
    """Return the names of the facts in which some of these differ."""
    names = {name for one in facts for name in one}
    return {name for name in names if len({str(one.get(name)) for one in facts}) > 1}


def _words(said: Mapping[str, Any], varied: list[str]) -> str:
    told = [f"{_short(name)} {_value(said.get(name))}" for name in varied[:_MOST]]
    more = len(varied) - _MOST
    return ", ".join([*told, *([f"{more} more"] if more > 0 else [])])


def _short(name: str) -> str:
    """Return a server argument's name without the prefix ``server_args.``."""
    return name.removeprefix("server_args.")


def _value(value: object) -> str:
    return "not stated" if value is None else str(value)[:_LONGEST]
