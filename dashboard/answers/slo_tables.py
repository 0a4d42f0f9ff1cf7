"""The tables of the SLO page: an arm a row, a load a row, and all of it for a file."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.frames import records_by
from analysis.matching.arm_levels import ArmLevels
from analysis.service.goodput import Goodput
from analysis.service.goodput_levels import Pooled, pooled
from analysis.service.largest_load import Level
from analysis.tables import UNKNOWN, number
from dashboard.answers.arm_loads import ArmLoad
from dashboard.charts.pareto import MEETS, MISSES, UNMEASURED
from warehouse.loads import Load

#: An arm at one of its loads, what was in flight there, and the goodput over the repeats.
Row = tuple[ArmLoad, Level, float | None, Pooled]

STATES = {True: MEETS, False: MISSES, None: UNMEASURED}


def level_rows(
    arms: Sequence[ArmLoad], levels: ArmLevels, goodputs: Mapping[str, Goodput | None]
) -> list[Row]:
    """Each arm's levels with what was in flight and the goodput over the repeats."""
    means = levels.values[levels.values["statistic"] == "mean"]
    flying = means[means["metric"] == "achieved_concurrency"]
    by = ["setting", "arm_id", "load"]
    places = {load: place for place, load in enumerate(levels.loads)}
    held = flying.groupby(by)["value"].mean().to_dict()
    judged = levels.values[levels.values["cell_id"].isin(goodputs)].drop_duplicates("cell_id")
    cells = records_by(judged, by, ["cell_id"])
    rows = []
    for arm in arms:
        for level in arm.load.levels:
            key = (*arm.key, places[level.load])
            known = [goodputs[cell["cell_id"]] for cell in cells.get(key, ())]
            rows.append((arm, level, held.get(key), pooled([g for g in known if g is not None])))
    return rows


def totals(arms: Sequence[ArmLoad], rows: Sequence[Row]) -> pd.DataFrame:
    """A row per arm."""
    good = {(arm.key, level.load): known for arm, level, _, known in rows}
    counted_any = any(known.goodput is not None for known in good.values())
    return pd.DataFrame([_total(arm, good, counted_any) for arm in arms])


def _total(
    arm: ArmLoad, good: Mapping[tuple[tuple[int, int], Load], Pooled], counted_any: bool
) -> dict[str, Any]:
    largest = arm.load.largest
    told = {
        "setting": arm.panel,
        "arm": arm.arm,
        "largest load": "no load" if largest is None else largest.text,
        "output tok/s": number(arm.output, 1),
        "USD per million output tokens": number(arm.usd, 3),
    }
    if counted_any:
        known = None if largest is None else good[arm.key, largest]
        told |= _good(known or Pooled(None, None, None))
    return told | {"why no more": arm.load.sentence, "evidence": arm.badge or "GPU"}


def _good(known: Pooled) -> dict[str, str]:
    share = UNKNOWN if known.good_share is None else f"{known.good_share:.1%}"
    return {
        "good requests": share,
        "goodput, req/s": number(known.goodput, 2),
        "good output, tok/s": number(known.good_output_throughput, 1),
    }


def levels_told(rows: Sequence[Row], with_goodput: bool) -> pd.DataFrame:
    """A row per arm and load."""
    return pd.DataFrame(
        [
            {
                "setting": arm.panel,
                "arm": arm.arm,
                "load": level.load.text,
                "in flight": number(held, 1),
                "this load": STATES[level.met],
                "repeats that meet it": f"{level.meeting} of {level.repeats}",
                "why not": why(level),
                **(_good(known) if with_goodput else {}),
            }
            for arm, level, held, known in rows
        ]
    )


def file_rows(rows: Sequence[Row]) -> pd.DataFrame:
    """The same unrounded, for a file."""
    return pd.DataFrame(
        [
            {
                "setting": arm.panel,
                "arm": arm.arm,
                "evidence": arm.badge or "GPU",
                "largest_load": None if arm.load.largest is None else arm.load.largest.text,
                "output_throughput": arm.output,
                "usd_per_million_output_tokens": arm.usd,
                **vars(level),
                "load": level.load.text,
                "broken": "; ".join(level.broken),
                "missing": "; ".join(level.missing),
                "achieved_concurrency": held,
                **vars(known),
            }
            for arm, level, held, known in rows
        ]
    )


def why(level: Level) -> str:
    """Which bounds a load misses, and which were not measured there."""
    parts = [f"misses {', '.join(level.broken)}"] if level.broken else []
    parts += [f"not measured: {', '.join(level.missing)}"] if level.missing else []
    return "; ".join(parts)
