"""What the Draft tokens page says of one arm family: words, tables and drawings."""

import json
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd

from analysis.drafts import tuning_tables
from analysis.drafts.best_k import BestK, Choice, Goal
from analysis.drafts.tuning import Advice
from analysis.matching.arm_values import arm_values, with_baseline
from analysis.significance.evidence import OPEN
from analysis.tables import Table
from analysis.verdicts.duels import Duel, Duels, duels
from analysis.verdicts.methods import Ranking
from dashboard import families
from dashboard.components import Shown, shown
from dashboard.depth import bracketed
from dashboard.phrases import counted
from warehouse.catalogue import METRICS

OFF = "no drafts"


@dataclass(frozen=True)
class Setting:
    """One family on one dataset. ``cells``: one row per load and K, as ``gain_rows`` makes them."""

    name: str
    advice: Advice
    cells: pd.DataFrame

    @property
    def note(self) -> str:
        """Its badges as the end of a title."""
        return "".join(bracketed(text) for text in families.badges_of(self.advice.about))


def settings(
    found: list[Advice], cells: pd.DataFrame, measured: pd.DataFrame, goal: Goal
) -> dict[str, Setting]:
    """Name -> setting. ``cells`` and ``measured`` are those that ``found`` was made from."""
    values = with_baseline(arm_values(cells, measured, goal.metric, goal.statistic))
    values = values[values["value"] > 0].assign(arm=values["k"])
    fought = duels(values, goal.metric, goal.statistic, goal.tie)
    names = families.distinct([advice.best.dataset for advice in found])
    return {
        name: Setting(name, advice, _gain_rows(advice.best, values, fought))
        for name, advice in zip(names, found, strict=True)
    }


def _gain_rows(best: BestK, values: pd.DataFrame, fought: Duels) -> pd.DataFrame:
    """concurrency, k, value, low and high (extremes of the repeats), repeats, gain, gain_low,
    gain_high (NaN: unknown; 0 for the baseline), unsettled, taken, tied."""
    own = values[(values["setting"] == best.setting) & (values["family"] == best.family)]
    league = int(own["league"].iloc[0])
    mine = values[values["league"] == league]
    spread = mine.groupby(["concurrency", "k"])["value"].agg(["min", "max", "size"])
    rows = [
        _gain_row(choice, k, fought.at(league, choice.concurrency).get((0, k)))
        for choice in best.choices
        for k in sorted(choice.values)
    ]
    ends = spread.rename(columns={"min": "low", "max": "high", "size": "repeats"})
    return pd.DataFrame(rows).join(ends, on=["concurrency", "k"])


def _gain_row(choice: Choice, k: int, duel: Duel | None) -> dict[str, Any]:
    unknown = float("nan")
    gain = (0.0, 0.0, 0.0) if k == 0 else (unknown, unknown, unknown)
    if duel is not None:
        gain = (duel.improvement, duel.low, duel.high)
    return {
        "concurrency": choice.concurrency, "k": k, "value": choice.values[k],
        "gain": gain[0], "gain_low": gain[1], "gain_high": gain[2],
        "unsettled": k > 0 and (duel is None or duel.verdict == OPEN),
        "taken": k == choice.k, "tied": k in choice.tied and k != choice.k,
    }  # fmt: skip


def headline(setting: Setting) -> str:
    """Which K to serve with, by load."""
    advice = setting.advice
    if advice.table is None:
        return f"On {setting.name}, no number of draft tokens meets the SLO at any load measured."
    if advice.table.largest == 0:
        return f"On {setting.name}, drafting does not pay at any load measured: serve without it."
    parts = [_tokens(k) for _, _, k in advice.table.entries]
    if len(parts) == 1:
        loads = [load for load, _ in advice.table.by_load]
        return f"On {setting.name}, draft {parts[0]} at every load measured ({_span(loads)})."
    ends = [end for _, end, _ in advice.table.entries]
    first = f"{parts[0]} in batches up to {ends[0]}"
    middle = [f"{part} up to {end}" for part, end in zip(parts[1:-1], ends[1:-1], strict=True)]
    return f"On {setting.name}, draft {', '.join([first, *middle])}, then {parts[-1]}."


def _tokens(k: int) -> str:
    return counted(k, "token") if k else "nothing"


def _span(loads: list[int]) -> str:
    return f"concurrency {loads[0]}" + (f" to {loads[-1]}" if len(loads) > 1 else "")


def gain_sentence(setting: Setting) -> str:
    """What the K to take gains at the lowest and the highest load, with the interval."""
    best = setting.advice.best
    known = [choice for choice in best.choices if choice.gain is not None]
    if not known:
        return "Gain over the baseline: unknown or none at every load."
    ends = [known[0], known[-1]] if len(known) > 1 else known
    parts = [
        f"{tuning_tables.interval(choice.gain)} at concurrency {choice.concurrency}, K = {choice.k}"
        for choice in ends
        if choice.gain is not None
    ]
    what = METRICS[best.metric].label.lower()
    sure = "" if any(isnan(choice.gain.low) for choice in ends if choice.gain) else " (95 %)"
    return f"Improvement of {what} over the baseline{sure}: {'; '.join(parts)}."


def evidence(setting: Setting) -> str:
    """What the choice rests on."""
    repeats = [choice.repeats for choice in setting.advice.best.choices]
    sentence = f"{counted(len(repeats), 'load')}, at least {counted(min(repeats), 'repeat')} each"
    if min(repeats) < 2:
        return f"{sentence}: with a single repeat nobody knows the noise."
    unsettled = setting.cells.loc[setting.cells["k"] > 0, "unsettled"]
    if not unsettled.any():
        return f"{sentence}; all {counted(len(unsettled), 'gain')} settled."
    return f"{sentence}; {int(unsettled.sum())} of {counted(len(unsettled), 'gain')} not settled."


def rows(known: dict[str, Setting]) -> pd.DataFrame:
    """Every load and K of every dataset, unrounded, with acceptance where it is known."""
    return pd.concat([_rows(setting) for setting in known.values()], ignore_index=True)


def _rows(setting: Setting) -> pd.DataFrame:
    best = setting.advice.best
    accepted = setting.advice.acceptance.set_index(["concurrency", "k"])[["rate", "mean_length"]]
    accepted.columns = pd.Index(["acceptance_rate", "mean_acceptance_length"])
    told = {
        "dataset": best.dataset, "family": best.family, "badge": setting.note.strip(),
        "metric": best.metric, "statistic": best.statistic, "unit": METRICS[best.metric].unit,
    }  # fmt: skip
    joined = setting.cells.join(accepted, on=["concurrency", "k"])
    return pd.DataFrame(told, index=joined.index).join(joined)


def squares(known: dict[str, Setting]) -> dict[str, tuple[str, int, int]]:
    """Name of a square of the heat maps -> its setting, K and load, row by row."""
    return {
        _square(name, k, load): (name, k, load)
        for name, setting in known.items()
        for k, load in setting.cells[["k", "concurrency"]].astype(int).itertuples(index=False)
    }


def _square(name: str, k: int, load: int) -> str:
    return f"{name}: {f'K = {k}' if k else OFF} at concurrency {load}"


def entries(setting: Setting) -> str:
    """The table of K by batch size as vLLM takes it."""
    table = setting.advice.table
    found = [] if table is None else [list(entry) for entry in table.entries]
    return f"num_speculative_tokens_per_batch_size: {json.dumps(found)}"


def table(found: Table) -> Shown:
    """Rows of text as they are sent; an empty place is a dash."""
    header, rows = found
    return shown(pd.DataFrame([[text or "–" for text in row] for row in rows], columns=header))


def tables(setting: Setting, ranked: list[Ranking]) -> dict[str, Shown]:
    """``loads``, ``acceptance``, ``rules`` and ``ranking``, as the command line prints them; those
    that would be empty are left out."""
    advice, best = setting.advice, setting.advice.best
    found = {
        "loads": tuning_tables.by_load(advice),
        "acceptance": tuning_tables.acceptance(advice),
        "rules": tuning_tables.rules(advice),
    }
    for ranking in ranked[:1]:
        found["ranking"] = tuning_tables.ranking(ranking, best.metric)
    return {name: table(rows) for name, rows in found.items() if rows[1]}
