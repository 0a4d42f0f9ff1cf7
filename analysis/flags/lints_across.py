"""Doubts that need both cells of a pair."""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import pandas as pd

from analysis.frames import listed, records
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
    if baseline is None or speculative is None or abs(speculative - baseline) <= 1:
        return None
    return Flag(
        "company_differs",
        "warning",
        f"On average {baseline:.1f} other launches ran beside the baseline and {speculative:.1f} "
        "beside the speculative arm, and they share the machine's processor and power.",
    )


#: A cache is smaller where it holds so much less; hits differ where their shares are so far apart.
LESS_CACHE, _APART = 0.01, 0.02


def less_cache(
    baseline: float | None, speculative: float | None, request_tokens: float | None
) -> Flag | None:
    """Return a flag where the draft takes room from the KV cache (tokens), with the requests of
    ``request_tokens`` each (prompt and answer) that no longer fit at once."""
    if not baseline or speculative is None or speculative > (1 - LESS_CACHE) * baseline:
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
    of_pair: dict[str, list[Flag]] = {}
    for cell, flag in (*_across(long), *_caches(long), *_definitions(refused)):
        of_pair.setdefault(cell, []).append(flag)
    # Most pairs share their doubts with others: each is kept once.
    kept: dict[tuple[Flag, ...], tuple[Flag, ...]] = {}
    found = []
    for row in records(pairs[["baseline_id", "speculative_id", "flags"]]):
        doubts = (
            *row["flags"],
            *of_pair.get(row["speculative_id"], ()),
            *(_of("baseline", f) for f in of_cell.get(row["baseline_id"], ())),
            *(_of("speculative", f) for f in of_cell.get(row["speculative_id"], ())),
        )
        found.append(kept.setdefault(doubts, doubts))
    return found


def _caches(long: pd.DataFrame) -> Iterator[tuple[str, Flag]]:
    """Yield the flags about room in the KV cache, in requests as long as the baseline's, where the
    engines state it."""
    if not (long["metric"] == "kv_cache_tokens").any():
        return
    names = ("kv_cache_tokens", "prompt_tokens", "output_tokens")
    means = long[long["metric"].isin(names) & (long["statistic"] == "mean")]
    values: dict[str, dict[str, tuple[float, float]]] = {}
    for cell, metric, *both in listed(means, "speculative_id", "metric", "baseline", "speculative"):
        values.setdefault(cell, {})[metric] = (both[0], both[1])
    for cell, stated in values.items():
        lengths = [stated[name][0] for name in names[1:] if name in stated]
        sizes = stated.get("kv_cache_tokens", (None, None))
        tokens = sum(lengths) if len(lengths) == 2 else None
        flag = less_cache(sizes[0], sizes[1], tokens)
        if flag is not None:
            yield cell, flag


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


def _across(long: pd.DataFrame) -> Iterator[tuple[str, Flag]]:
    seen: set[tuple[str, str]] = set()
    for metric, statistic, judge in _JUDGES:
        rows = long[(long["metric"] == metric) & (long["statistic"] == statistic)]
        for cell, baseline, speculative in listed(
            rows, "speculative_id", "baseline", "speculative"
        ):
            flag = judge(baseline, speculative)
            if flag is not None and (cell, flag.name) not in seen:
                seen.add((cell, flag.name))
                yield cell, flag


def _definitions(refused: pd.DataFrame) -> Iterator[tuple[str, Flag]]:
    for cell, rows in refused.groupby("speculative_id"):
        names = ", ".join(sorted({METRICS[m].label for m in rows["metric"] if m in METRICS}))
        first = rows.iloc[0]
        sentence = (
            f"Not compared, since the definitions differ or are unknown ({first['means']} and "
            f"{first['means_s']}): {names}."
        )
        yield str(cell), Flag("definition_differs", "warning", sentence)
