"""What a decision has to be read with: cells left out, arms that were not interleaved."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from analysis.choice.gather import DECIDING
from answers.decide.read import Ground
from answers.decide.shown import Shown
from answers.decide.values import Excluded
from answers.wording import percent

_SAME = ("study", "model", "gpu", "dataset")


def settings_excluded(known: Ground, keys: dict[str, Any]) -> Iterator[Excluded]:
    """Yield the cells of the same study, model, hardware and dataset that decide nothing."""
    if not known.excluded:
        return
    cells = known.cells[known.cells["cell_id"].isin(known.excluded)]
    mask = np.ones(len(cells), dtype=bool)
    for name in _SAME:
        value = keys.get(name)
        mask &= (cells[name].isna() if value is None else cells[name] == value).to_numpy()
    for cell_id in cells.loc[mask, "cell_id"]:
        yield known.excluded[str(cell_id)]


def not_interleaved(known: Ground, setting: int) -> Iterator[str]:
    """Yield a sentence where the launches of an arm and its baseline followed one another in time.

    What drifts meanwhile (temperature, neighbours) then looks like a difference between the arms.
    The drift that could hide is estimated from the arms' own launches: slope per hour times the
    hours between the middles of both arms.
    """
    apart = known.hours_apart.get(setting)
    if apart is None:
        return
    slope = _slope(_deciding(known.pairs[setting]), known.hours)
    hidden = (
        ""
        if slope is None
        else f", and a drift like theirs of {percent(slope)} an hour could hide or feign "
        f"{percent(slope * apart, sign=False)}"
    )
    yield (
        "The arms were not interleaved: all launches of one came before those of the other, "
        f"{_apart(apart)}{hidden}."
    )


def _apart(hours: float) -> str:
    if hours >= 1:
        return f"{hours:.1f} hours apart"
    minutes = round(hours * 60)
    return "about a minute apart" if minutes <= 1 else f"{minutes} minutes apart"


def _deciding(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs in the first of the deciding metrics that they have."""
    mine = pairs[(pairs["baseline"] > 0) & (pairs["speculative"] > 0)]
    there = set(zip(mine["metric"].astype(str), mine["statistic"].astype(str), strict=True))
    metric, statistic = next((line for line in DECIDING if line in there), ("", ""))
    chosen: pd.DataFrame = mine[(mine["metric"] == metric) & (mine["statistic"] == statistic)]
    return chosen


def _slope(rows: pd.DataFrame, hours: pd.Series) -> float | None:
    """Return by how much the logarithm of a cell's throughput changes in an hour, within arm and
    load."""
    parts = []
    for arm, value in (("baseline_id", "baseline"), ("speculative_id", "speculative")):
        own = rows[["arm_id", "load", arm, value]].astype({arm: object})
        own = own.rename(columns={arm: "cell_id", value: "value"})
        parts.append(own.assign(arm=arm).drop_duplicates("cell_id"))
    every = pd.concat(parts, ignore_index=True)
    every = every[every["value"] > 0]  # Of nothing served there is no logarithm.
    every = every.assign(
        at=hours.reindex(every["cell_id"]).to_numpy(dtype=np.float64),
        log=np.log(every["value"].to_numpy(dtype=np.float64)),
    ).dropna(subset=["at", "log"])
    group = every.groupby(["arm", "arm_id", "load"])
    at = every["at"] - group["at"].transform("mean")
    log = every["log"] - group["log"].transform("mean")
    spread = float((at**2).sum())
    return float((at * log).sum() / spread) if spread > 0 else None


def less_room(known: Ground, setting: int, shown: Shown) -> Iterator[str]:
    """Yield a sentence for each arm taken whose draft leaves less room in the KV cache."""
    names = {one.arm_id: one.label for one in shown.judged.field.candidates}
    rows = known.pairs[setting].drop_duplicates("speculative_id")
    for arm in dict.fromkeys(arm for _, arm in shown.drafts_at()):
        flags = (flag for told in rows.loc[rows["arm_id"] == arm, "flags"] for flag in told)
        said = next((flag.sentence for flag in flags if flag.name == "less_cache"), None)
        if said is not None:
            yield f"{names[arm]}: {said}"
