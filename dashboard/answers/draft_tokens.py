"""What the Draft tokens page says of one arm family: words, tables and drawings."""

import json
from dataclasses import dataclass
from itertools import groupby
from math import isnan
from typing import Any

import pandas as pd

from analysis.drafts import tuning_tables
from analysis.drafts.best_k import BestK, Choice, Goal
from analysis.drafts.tuning import Advice
from analysis.frames import records
from analysis.matching.arm_values import arm_values, with_baseline
from analysis.significance.evidence import OPEN
from analysis.tables import Table, metric_name, number, percent
from analysis.verdicts.duels import Duel, Duels, duels
from analysis.verdicts.methods import Ranking
from dashboard import families
from dashboard.answers import Drawing, drawn
from dashboard.charts import Scales, nothing
from dashboard.charts import drafts as charts_drafts
from dashboard.charts.drafts import Axis
from dashboard.components import Shown, shown
from dashboard.depth import bracketed
from dashboard.ends import panel_of
from dashboard.phrases import counted
from warehouse.catalogue import METRICS

#: More panels than this are neither read nor drawn quickly.
MOST_PANELS = 6
_OFF = "no drafts"


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


def gain_drawings(known: dict[str, Setting]) -> list[Drawing]:
    """A heat map per dataset, at most ``MOST_PANELS``."""
    return [_gain_drawing(setting) for setting in list(known.values())[:MOST_PANELS]]


def _gain_drawing(setting: Setting) -> Drawing:
    best = setting.advice.best
    metric, rows = METRICS[best.metric], setting.cells
    if rows["gain"].isna().all() or (rows["k"] > 0).sum() == 0:
        return drawn(nothing(f"{setting.name}: gain unknown, no baseline{setting.note}"))
    marks = rows.assign(
        load=rows["concurrency"].astype(str),
        draft=[f"K = {k}" if k else _OFF for k in rows["k"]],
        text=[_short(gain) for gain in rows["gain"]],
        interval=[_interval(row) for row in records(rows)],
        value=[f"{number(value, metric.decimals)} {metric.unit}" for value in rows["value"]],
        square=list(squares({setting.name: setting})),
    )
    return drawn(charts_drafts.gain_by_load(marks[_MAP], (_best_title(setting), _SUBTITLE)))


_MAP = ["load", "concurrency", "draft", "k", "gain", "text", "interval", "value",
        "repeats", "taken", "tied", "unsettled", "square"]  # fmt: skip
_SUBTITLE = "gain over the baseline"


def squares(known: dict[str, Setting]) -> dict[str, tuple[str, int, int]]:
    """Name of a square of the heat maps -> its setting, K and load, row by row."""
    return {
        _square(name, k, load): (name, k, load)
        for name, setting in known.items()
        for k, load in setting.cells[["k", "concurrency"]].astype(int).itertuples(index=False)
    }


def _square(name: str, k: int, load: int) -> str:
    return f"{name}: {f'K = {k}' if k else _OFF} at concurrency {load}"


def _best_title(setting: Setting) -> str:
    taken = [choice.k for choice in setting.advice.best.choices if choice.k is not None]
    if not taken:
        return f"{setting.name}: no K meets the SLO{setting.note}"
    words = [str(k) if k else "none" for k, _ in groupby(taken)]
    return f"{setting.name}: draft {', then '.join(words)}{setting.note}"


def _short(gain: float) -> str:
    return "unknown" if isnan(gain) else f"{gain * 100:+.1f} %" if gain else "0 %"


def _interval(row: dict[str, Any]) -> str:
    if row["k"] == 0:
        return "this is the baseline"
    if isnan(row["gain_low"]):
        return f"{percent(row['gain'])}, noise unknown"
    return (
        f"{percent(row['gain'])} (95 %: {percent(row['gain_low'])} to {percent(row['gain_high'])})"
    )


def value_drawings(setting: Setting) -> list[Drawing]:
    """A chart over K at the lowest, the middle and the highest load."""
    best, rows = setting.advice.best, setting.cells
    method = best.family.split(" ")[0]
    marks = rows.assign(
        arm=[arm_name(method, k) for k in rows["k"]],
        solid=(rows["repeats"] > 1).astype(int),
        note=[_note(row) for row in records(rows)],
    )
    levels = sorted(rows["concurrency"].unique())
    chosen = sorted({levels[0], levels[len(levels) // 2], levels[-1]})
    what = f"{metric_name(best.metric, best.statistic)}, {setting.name}"
    return [
        drawn(
            charts_drafts.value_by_k(
                marks[marks["concurrency"] == load].drop(columns=["unsettled", "taken", "tied"]),
                METRICS[best.metric],
                (f"{_load_title(best, int(load))}{setting.note}", what),
            )
        )
        for load in chosen
    ]


def _load_title(best: BestK, load: int) -> str:
    (choice,) = [choice for choice in best.choices if choice.concurrency == load]
    if choice.k is None:
        return f"Concurrency {load}: no K meets the SLO"
    return f"Concurrency {load}: {f'K = {choice.k}' if choice.k else _OFF}"


def _note(row: dict[str, Any]) -> str:
    if row["taken"]:
        return "take"
    return "tied" if row["tied"] else ""


def arm_name(method: str, k: int) -> str:
    """As the catalogue names arms, so that they get their colour."""
    return f"{method} K={k}" if k else "baseline"


def position_drawings(known: dict[str, Setting], conditional: bool) -> list[Drawing]:
    """Acceptance by position, a chart per dataset."""
    column = "conditional" if conditional else "rate"
    return [_positions(setting, column) for setting in list(known.values())[:MOST_PANELS]]


def _positions(setting: Setting, column: str) -> Drawing:
    rows = setting.advice.positions.dropna(subset=column)
    name = f"{setting.name}: {_lengths(setting.advice.acceptance)}{setting.note}"
    if rows.empty:
        return drawn(nothing(f"{setting.name}: acceptance by position unknown{setting.note}"))
    of_all = "of all drafts" if column == "rate" else "of drafts that got so far"
    marks = _named(rows, setting)[["arm", "k", "concurrency", "position", column]]
    subtitle = f"accepted at each position, {of_all}; one line per K and load"
    return drawn(charts_drafts.acceptance_by_position(marks, column, (name, subtitle)))


def _lengths(accepted: pd.DataFrame) -> str:
    known = accepted["mean_length"].dropna()
    if known.empty:
        return "mean acceptance length unknown"
    low, high = known.min(), known.max()
    span = f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"
    return f"{span} tokens per step"


def acceptance_drawings(known: dict[str, Setting], over: Axis, metric: str) -> list[Drawing]:
    """``acceptance_rate`` or ``mean_acceptance_length`` over K or load, a chart per dataset."""
    return [_acceptance(setting, over, metric) for setting in list(known.values())[:MOST_PANELS]]


_COLUMNS = {"acceptance_rate": "rate", "mean_acceptance_length": "mean_length"}


def _acceptance(setting: Setting, over: Axis, key: str) -> Drawing:
    metric, column = METRICS[key], _COLUMNS[key]
    rows = setting.advice.acceptance.dropna(subset=column)
    if rows.empty:
        return drawn(nothing(f"{setting.name}: {metric.label.lower()} unknown{setting.note}"))
    marks = _named(rows, setting)[["arm", "k", "concurrency", "rate", "mean_length", "repeats"]]
    last = marks.groupby("arm")["concurrency"].transform("max") == marks["concurrency"]
    marks = marks.assign(end_label=marks["arm"].where(last, ""), value=marks[column], panel="")
    marks = panel_of(marks.assign(end_y=marks["value"]), "", Scales((), 0.0, _high(marks, column)))
    marks = marks.drop(columns=["panel", "value"])
    names = (f"{metric.label}, {setting.name}{setting.note}", _measured_over(over, metric.unit))
    return drawn(charts_drafts.acceptance_over(marks, over, column, names))


def _high(marks: pd.DataFrame, column: str) -> float:
    return 1.0 if column == "rate" else float(marks[column].max())


def _measured_over(over: Axis, unit: str) -> str:
    if over == "k":
        return f"{unit}; higher is better; one line per load"
    return f"{unit}; higher is better; one line per K"


def _named(rows: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    method = setting.advice.best.family.split(" ")[0]
    return rows.assign(arm=[arm_name(method, int(k)) for k in rows["k"]])


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
