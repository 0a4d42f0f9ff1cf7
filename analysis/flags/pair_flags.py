"""The doubts about a pair: from its matching, from its values, from each of its cells."""

from functools import lru_cache

import pandas as pd

from analysis.flags.lints_across import lengths_differ
from analysis.frames import records
from warehouse.catalogue import METRICS
from warehouse.rows import Flag


def pair_flags(
    pairs: pd.DataFrame, long: pd.DataFrame, refused: pd.DataFrame, flags: pd.DataFrame | None
) -> list[tuple[Flag, ...]]:
    """Return the flags of each pair: of its matching, of its values and of each of its cells."""
    of_cell: dict[str, list[Flag]] = {}
    for row in [] if flags is None else records(flags):
        flag = Flag(row["name"], row["severity"], row["sentence"])
        of_cell.setdefault(row["cell_id"], []).append(flag)
    of_pair = _length_flags(long) | _definition_flags(refused)
    # Most pairs share their doubts with others: each is kept once.
    said: dict[tuple[Flag, ...], tuple[Flag, ...]] = {}
    found = []
    for row in records(pairs[["baseline_id", "speculative_id", "flags"]]):
        told = (
            *row["flags"],
            *of_pair.get(row["speculative_id"], ()),
            *(_of("baseline", f) for f in of_cell.get(row["baseline_id"], ())),
            *(_of("speculative", f) for f in of_cell.get(row["speculative_id"], ())),
        )
        found.append(said.setdefault(told, told))
    return found


@lru_cache(10_000)
def _of(arm: str, flag: Flag) -> Flag:
    return Flag(flag.name, flag.severity, f"{arm}: {flag.sentence}")


def _length_flags(long: pd.DataFrame) -> dict[str, tuple[Flag, ...]]:
    rows = long[(long["metric"] == "output_tokens") & (long["statistic"] == "p50")]
    told = {
        str(row["speculative_id"]): lengths_differ(row["baseline"], row["speculative"])
        for row in records(rows[["speculative_id", "baseline", "speculative"]])
    }
    return {cell: (flag,) for cell, flag in told.items() if flag is not None}


def _definition_flags(refused: pd.DataFrame) -> dict[str, tuple[Flag, ...]]:
    found: dict[str, tuple[Flag, ...]] = {}
    for cell, rows in refused.groupby("speculative_id"):
        names = ", ".join(sorted({METRICS[m].label for m in rows["metric"] if m in METRICS}))
        first = rows.iloc[0]
        sentence = (
            f"Not compared, since the definitions differ or are unknown ({first['means']} and "
            f"{first['means_s']}): {names}."
        )
        found[str(cell)] = (Flag("definition_differs", "warning", sentence),)
    return found
