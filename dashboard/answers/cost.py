"""What the Cost page says: what speculation saves in words, tables, curves and their basis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import records, records_by
from analysis.money.break_even import Pays
from analysis.money.demand import Demand
from analysis.money.worth import Worth
from analysis.money.worth_tables import k_lines, lines, pays_table
from analysis.service.operating_point import Rule
from analysis.significance.comparison import Comparison
from analysis.significance.improvement import geometric_mean
from analysis.tables import flags_told, percent
from dashboard.answers import MOST_PANELS, Drawing, drawn
from dashboard.arm_places import joined_badge, synthetic
from dashboard.charts.cost import cost_by_concurrency
from dashboard.components import Shown, shown
from dashboard.cost_curves import cost_panel, cost_scales, curve_rows
from dashboard.cost_tables import Places, cost_rows, demand_rows, interval, usd
from dashboard.panels import places
from dashboard.paying import Paying, basis_of
from dashboard.phrases import counted

NOTHING = "What does a token cost with speculation? No pair of arms to compare yet."
#: Sentences under the headline; more would hide the page.
_MOST_NOTES = 6
UNPRICED = "What does a token cost with speculation? The price is not known yet."


@dataclass(frozen=True)
class Ground:
    """What the answer stands on: the comparison and what follows from it under ``rule``."""

    found: Comparison
    rows: Sequence[Worth]
    rule: Rule
    demand: Demand | None
    cells: pd.DataFrame
    pays: Sequence[Pays]


@dataclass(frozen=True)
class Answer:
    """``names``: what stands in the box of the arithmetic -> row of ``worth``."""

    headline: str
    notes: tuple[str, ...]
    doubts: tuple[str, ...]
    badges: tuple[str, ...]
    totals: Shown
    demands: Shown | None
    panels: int
    names: dict[str, int]
    pays: Shown
    pays_lines: tuple[str, ...]
    rows: pd.DataFrame
    """Both arms of every setting, unrounded, for a file."""


def priced(found: Comparison, paying: Paying) -> list[tuple[int, int]]:
    """The (setting, arm_id) that a price is known for."""
    return [key for key, basis in _bases(found, paying) if not isinstance(basis, str)]


def unpriced(found: Comparison, paying: Paying) -> tuple[str, ...]:
    """Why settings have no price, each sentence once."""
    told = (basis for _, basis in _bases(found, paying) if isinstance(basis, str))
    return tuple(dict.fromkeys(told))


def _bases(found: Comparison, paying: Paying) -> list[tuple[tuple[int, int], Any]]:
    pairs = found.pairs[["setting", "arm_id"]].drop_duplicates()
    keys = sorted((int(a), int(b)) for a, b in pairs.itertuples(index=False, name=None))
    told = dict(zip(found.keys.index, records(found.keys), strict=True))
    return [(key, basis_of(paying, told[key])) for key in keys]


def answer(ground: Ground) -> Answer:
    """All that the page says; its curves are ``drawings``."""
    place = _places(ground)
    rows = _sorted(ground.rows, place)
    told = list(k_lines(ground.pays))
    demands = shown(demand_rows(rows, place)) if ground.demand and rows else None
    return Answer(
        headline(rows, place, ground.demand),
        _notes(rows),
        _doubts(ground),
        tuple(sorted({str(place[row.setting, row.arm_id]["badge"]) for row in rows} - {""})),
        shown(cost_rows(rows, place)),
        demands,
        int(ground.found.pairs["setting"].nunique()),
        _names(ground.rows, place),
        shown(_table(*pays_table(ground.pays))),
        (*told[:MOST_PANELS], *_unsaid(len(told) - MOST_PANELS)),
        pd.json_normalize([row.as_json() for row in rows]),
    )


def drawings(ground: Ground) -> list[Drawing]:
    """Cost over concurrency, one chart for a setting."""
    place = _places(ground)
    rows = _sorted(ground.rows, place)
    curves = curve_rows(*_drawn(ground.found, rows), ground.rule, place)
    if curves.empty:
        return []
    scales = cost_scales(curves)
    told = "USD per million output tokens, log scale; large: where the arm runs"
    if ground.rule.slo is not None:
        told = f"{told}; dotted: misses the SLO"
    return [
        drawn(cost_by_concurrency(cost_panel(curves, name, scales), (_title(curves, name), told),
                                  scales))
        for name in dict.fromkeys(curves["panel"])
    ]  # fmt: skip


def _sorted(rows: Sequence[Worth], place: Places) -> list[Worth]:
    return sorted(rows, key=lambda row: _order(place[row.setting, row.arm_id]))


def _drawn(found: Comparison, rows: Sequence[Worth]) -> tuple[Comparison, list[Worth]]:
    """The settings that are drawn, those with most pairs, and the rows of them."""
    known = found.pairs["setting"].isin({row.setting for row in rows})
    most = set(found.pairs.loc[known, "setting"].value_counts().index[:MOST_PANELS])
    pairs, levels = (part[part["setting"].isin(most)] for part in (found.pairs, found.levels))
    drawn_ones = replace(found, pairs=pairs, levels=levels)
    return drawn_ones, [row for row in rows if row.setting in most]


def _unsaid(settings: int) -> tuple[str, ...]:
    return (f"{counted(settings, 'more setting')}: choose filters.",) if settings > 0 else ()


def _places(ground: Ground) -> Places:
    found = ground.found
    rows = found.pairs[["setting", "arm_id", "speculative_id"]]
    by_hand = synthetic(rows.rename(columns={"speculative_id": "cell_id"}), ground.cells)
    named = places(found)
    known: dict[tuple[int, int], Mapping[str, Any]] = {}
    for key, row in zip(named.index, records(named), strict=True):
        known[key] = {**row, "badge": joined_badge(str(row["badge"]), key in by_hand)}
    return known


def _order(where: Mapping[str, Any]) -> tuple[str, str]:
    return str(where["panel"]), str(where["arm"])


def headline(rows: Sequence[Worth], place: Places, demand: Demand | None) -> str:
    """What the cheapest arm saves per output token, and in a year."""
    if not rows:
        return NOTHING
    known = [row for row in rows if row.saving is not None]
    if not known:
        return "What speculation saves is unknown: no load qualifies in both arms."
    arm = _cheapest(known, place)
    mine = [row for row in known if place[row.setting, row.arm_id]["arm"] == arm]
    told = _one(mine[0], place) if len(mine) == 1 else _several(mine)
    return f"{arm} {told}{_yearly(mine, demand)}."


def _cheapest(rows: Sequence[Worth], place: Places) -> str:
    """The arm with the lowest geometric mean of cost over the baseline's."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ratio = 1 - (row.saving or 0.0)
        ratios.setdefault(str(place[row.setting, row.arm_id]["arm"]), []).append(ratio)
    return min(ratios, key=lambda arm: geometric_mean(pd.Series(ratios[arm])) or 1.0)


def _one(row: Worth, place: Places) -> str:
    saved = row.saving or 0.0
    word = "cheaper" if saved >= 0 else "dearer"
    sure = f" (95 %: {interval(row)})" if row.saving_low is not None else ""
    panel = place[row.setting, row.arm_id]["panel"]
    return (
        f"makes an output token {percent(abs(saved)).lstrip('+')} {word}{sure} on {panel}: "
        f"{usd(row.baseline)} → {usd(row.speculative)} USD per million"
    )


def _several(rows: Sequence[Worth]) -> str:
    savings = [row.saving or 0.0 for row in rows]
    cheaper = sum(saved > 0 for saved in savings)
    return (
        f"makes output tokens cheaper in {cheaper} of {len(savings)} settings "
        f"({percent(min(savings))} to {percent(max(savings))} saved)"
    )


def _yearly(rows: Sequence[Worth], demand: Demand | None) -> str:
    amounts = [row.usd_saved_per_year for row in rows if row.usd_saved_per_year is not None]
    if demand is None or not amounts:
        return ""
    millions = f"{demand.tokens_per_day / 1e6:,.6g} million output tokens a day"
    if not any(amounts):
        return f"; {millions} take as many GPUs either way, so nothing is saved a year"
    low, high = f"{min(amounts):,.0f}", f"{max(amounts):,.0f}"
    told = low if low == high else f"{low} to {high}"
    return f"; at {millions} that is {told} USD a year"


def _notes(rows: Sequence[Worth]) -> tuple[str, ...]:
    """The bases and what cannot be said; that no GPU worked is said once for all."""
    told = [line for line in lines(rows) if "no price of a GPU" not in line]
    kinds = sorted({str(row.about["evidence"]) for row in rows} - {"gpu", "None"})
    if kinds:
        told.append(f"Measured on {', '.join(kinds)}: this is no price of a GPU's work.")
    more = len(told) - _MOST_NOTES
    return (*told[:_MOST_NOTES], *([f"{more} more notes: choose filters."] if more > 0 else []))


def _doubts(ground: Ground) -> tuple[str, ...]:
    """The flags that are errors: a cost that ignores them would mislead."""
    pairs = ground.found.pairs.drop_duplicates("speculative_id")
    errors = [any(flag.severity == "error" for flag in flags) for flags in pairs["flags"]]
    severe = np.array(errors, dtype=bool)
    known = records_by(pairs.loc[severe], ["setting", "arm_id"], ["concurrency", "flags"])
    told = (
        line
        for row in ground.rows
        for line in flags_told(known.get((row.setting, row.arm_id), ()))
        if line.startswith("error")
    )
    return tuple(dict.fromkeys(told))


def _title(curves: pd.DataFrame, panel: str) -> str:
    badges = sorted(set(curves.loc[curves["panel"] == panel, "badge"]) - {""})
    return panel + "".join(f"  [{badge}]" for badge in badges)


def _names(rows: Sequence[Worth], place: Places) -> dict[str, int]:
    told = [place[row.setting, row.arm_id] for row in rows]
    return {f"{where['arm']} on {where['panel']}": at for at, where in enumerate(told)}


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(header))
