"""Doubts that need both cells of a pair."""

from collections.abc import Callable
from functools import lru_cache, partial

import pandas as pd

from analysis.frames import records
from warehouse.catalogue import METRICS
from warehouse.rows import Flag

#: Clocks of two arms may be so far apart, as a share of the baseline's.
_CLOCKS_APART = 0.02


def lengths_differ(
    baseline: float | None, speculative: float | None, what: str = "Median outputs",
    name: str = "output_lengths_differ", most: float = 0.05,
) -> Flag | None:  # fmt: skip
    """Return a flag where lengths (tokens) are more than ``most`` of the baseline's apart."""
    if not baseline or speculative is None or abs(speculative - baseline) <= most * baseline:
        return None
    said = f"{what} are {baseline:g} and {speculative:g} tokens long, more than {most * 100:g} % apart."
    return Flag(name, "warning", said)


def clocks_differ(what: str, baseline: float | None, speculative: float | None) -> Flag | None:
    """Return a flag where mean clocks (MHz) are more than 2 % of the baseline's apart; ``what``:
    GPU, CPU."""
    if not baseline or speculative is None:
        return None
    if abs(speculative - baseline) <= _CLOCKS_APART * baseline:
        return None
    return Flag(
        "clocks_differ",
        "warning",
        f"The {what} ran at {baseline:,.0f} MHz for the baseline and at {speculative:,.0f} MHz for "
        f"the speculative arm, {speculative / baseline - 1:+.1%}: part of the difference is the "
        "clock's.",
    )


def company_differs(baseline: float | None, speculative: float | None) -> Flag | None:
    """Return a flag where the mean numbers of launches beside the two arms are more than one
    apart."""
    if baseline is None or speculative is None or abs(speculative - baseline) <= 1:
        return None
    return Flag(
        "company_differs",
        "warning",
        f"On average {baseline:.1f} other launches ran beside the baseline and {speculative:.1f} "
        "beside the speculative arm, and they share the machine's processor and power.",
    )


#: A cache is smaller where it holds so much less; hits differ where their shares are so far apart.
_SMALLER, _APART = 0.01, 0.02


def less_cache(
    baseline: float | None, speculative: float | None, request_tokens: float | None
) -> Flag | None:
    """Return a flag where the draft takes room from the KV cache (tokens), with the requests of
    ``request_tokens`` each (prompt and answer) that no longer fit at once."""
    if not baseline or speculative is None or speculative > (1 - _SMALLER) * baseline:
        return None
    said = (
        f"The KV cache holds {speculative:,.0f} tokens instead of {baseline:,.0f} "
        f"({speculative / baseline - 1:.1%}), since the draft takes memory"
    )
    if request_tokens:
        fit = [int(size / request_tokens) for size in (baseline, speculative)]
        said += (
            f": of requests like these ({request_tokens:,.0f} tokens) {fit[1]:,} fit at once "
            f"instead of {fit[0]:,}"
        )
    return Flag("less_cache", "info", f"{said}.")


def hits_differ(baseline: float | None, speculative: float | None) -> Flag | None:
    """Return a flag where one arm found more of its prompts (shares, 0-1) in the prefix cache."""
    if baseline is None or speculative is None or abs(baseline - speculative) <= _APART:
        return None
    return Flag(
        "prefix_hits_differ",
        "warning",
        f"{baseline:.1%} of the baseline's prompt tokens came from the prefix cache and "
        f"{speculative:.1%} of the other arm's: part of the difference is the cache's.",
    )


# --- The doubts about a pair: from its matching, from its values, from each of its cells.


def pair_flags(
    pairs: pd.DataFrame, long: pd.DataFrame, refused: pd.DataFrame, flags: pd.DataFrame | None
) -> list[tuple[Flag, ...]]:
    """Return the flags of each pair: of its matching, of its values and of each of its cells."""
    of_cell: dict[str, list[Flag]] = {}
    for row in [] if flags is None else records(flags):
        flag = Flag(row["name"], row["severity"], row["sentence"])
        of_cell.setdefault(row["cell_id"], []).append(flag)
    of_pair = _merged(_across(long), _cache_flags(long), _definition_flags(refused))
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


def _merged(*found: dict[str, tuple[Flag, ...]]) -> dict[str, tuple[Flag, ...]]:
    cells = dict.fromkeys(cell for one in found for cell in one)
    return {cell: tuple(f for one in found for f in one.get(cell, ())) for cell in cells}


def _cache_flags(long: pd.DataFrame) -> dict[str, tuple[Flag, ...]]:
    """Return the flags about room in the KV cache, in requests as long as the baseline's, where the
    engines state it."""
    names = ("kv_cache_tokens", "prompt_tokens", "output_tokens")
    if not (long["metric"] == names[0]).any():
        return {}
    rows = long[long["metric"].isin(names) & (long["statistic"] == "mean")]
    values: dict[str, dict[str, tuple[float, float]]] = {}
    for row in records(rows[["speculative_id", "metric", "baseline", "speculative"]]):
        told = values.setdefault(str(row["speculative_id"]), {})
        told[str(row["metric"])] = (row["baseline"], row["speculative"])
    flags = {cell: _of_cache(told) for cell, told in values.items()}
    return {cell: (flag,) for cell, flag in flags.items() if flag is not None}


def _of_cache(told: dict[str, tuple[float, float]]) -> Flag | None:
    sizes = told.get("kv_cache_tokens", (None, None))
    lengths = [told[name][0] for name in ("prompt_tokens", "output_tokens") if name in told]
    return less_cache(sizes[0], sizes[1], sum(lengths) if len(lengths) == 2 else None)


@lru_cache(10_000)
def _of(arm: str, flag: Flag) -> Flag:
    return Flag(flag.name, flag.severity, f"{arm}: {flag.sentence}")


#: What is judged by both values of a metric: metric, statistic, and the judge; the first doubt of a
#: name counts.
_JUDGES: tuple[tuple[str, str, Callable[[float | None, float | None], Flag | None]], ...] = (
    ("output_tokens", "p50", lengths_differ),
    ("output_tokens", "mean", partial(lengths_differ, what="Mean outputs")),
    ("output_tokens", "p05", partial(lengths_differ, what="The shortest outputs (P5)", most=0.5)),
    (
        "prompt_tokens",
        "mean",
        partial(lengths_differ, what="Mean prompts", name="prompt_lengths_differ"),
    ),
    ("gpu_clock", "mean", partial(clocks_differ, "GPU")),
    ("cpu_clock", "mean", partial(clocks_differ, "processor")),
    ("launches_beside", "mean", company_differs),
    ("prefix_cache_hit_rate", "mean", hits_differ),
)
#: The metrics that a comparison must hold for these flags.
JUDGED_ACROSS: tuple[str, ...] = tuple(dict.fromkeys(metric for metric, _, _ in _JUDGES))


def _across(long: pd.DataFrame) -> dict[str, tuple[Flag, ...]]:
    found: dict[str, dict[str, Flag]] = {}
    for metric, statistic, judge in _JUDGES:
        rows = long[(long["metric"] == metric) & (long["statistic"] == statistic)]
        for row in records(rows[["speculative_id", "baseline", "speculative"]]):
            if (flag := judge(row["baseline"], row["speculative"])) is not None:
                found.setdefault(row["speculative_id"], {}).setdefault(flag.name, flag)
    return {cell: tuple(told.values()) for cell, told in found.items()}


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
