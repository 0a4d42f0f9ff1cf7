"""All that the Verdict page shows of one subject, made once and then cached."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import records
from analysis.significance.comparison import Comparison, in_study_order
from analysis.significance.confidence import SERIES, Confidence
from analysis.significance.evidence_tables import interval_text
from analysis.tables import metric_name, number, percent
from analysis.verdicts.decision import DECISIVE, Decision
from analysis.verdicts.overall import Overall, saved_per_token
from dashboard import charts, panels
from dashboard import phrases_verdict as said
from dashboard.answers import MOST_PANELS, Compared, Drawing, arm_badges, drawn
from dashboard.arm_places import SYNTHETIC
from dashboard.charts import verdict as charts_verdict
from dashboard.components import Shown, shown
from dashboard.ends import panel_of
from dashboard.phrases import counted, evidence, named
from warehouse.catalogue import METRICS

#: A small panel, px: two rows of them stand above the fold.
PANEL_HEIGHT = 190
#: More datasets than this do not fit side by side.
_ACROSS = 4
#: What a tile is about, and what it is called.
_TILES = (
    ("ttft", "p95", "First token (P95)"),
    ("request_latency", "p50", "Request (median)"),
)
_FORMULA = (
    "Improvement of the geometric means over the loads that both arms have, averaged as logarithms "
    "over the settings. The interval is that of settings which err together: never too narrow."
)
_COST = (
    "The same GPUs for less time: 1 − 1 / (1 + gain in output tokens per second). No price enters; "
    "the Cost page turns it into money."
)
_ORIGIN = {
    "CPU lab": "A lab on a CPU, not a GPU.",
    "simulated": "Simulated, not measured.",
    "mock": "A mock server, not a model.",
    "dummy weights": "Dummy weights, not a real model.",
    "evidence unknown": "Of unknown origin.",
    SYNTHETIC: "Acceptance set by hand.",
}


@dataclass(frozen=True)
class Judged:
    """Everything known of one subject; ``names``: setting -> dataset, TP and what else differs;
    ``arms``: arm_id -> name; ``badges``: arm_id -> what a reader must know of its origin."""

    known: Compared
    overalls: tuple[Overall, ...]
    names: dict[int, str]
    arms: dict[int, str]
    badges: dict[int, tuple[str, ...]]


@dataclass(frozen=True)
class Tile:
    """A number with its name, what stands under it and how it is calculated (markdown)."""

    label: str
    value: str
    note: str
    formula: str


@dataclass(frozen=True)
class Evidence:
    """What one setting says: its name, a paragraph and the sentences under it."""

    name: str
    paragraph: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """``grid``: rows of small panels, None for an empty place; ``left_out``: panels without one."""

    headline: str
    tiles: tuple[Tile, ...]
    against: tuple[str, ...]
    evidence: str
    grid: tuple[tuple[Drawing | None, ...], ...]
    left_out: int
    changes: Drawing
    totals: Shown
    methods: Shown
    by_setting: Shown
    settings: tuple[Evidence, ...]

    @property
    def shared(self) -> tuple[str, ...]:
        """The sentences of the evidence that every setting has, where there are several."""
        if len(self.settings) < 2:
            return ()
        first, *others = self.settings
        return tuple(s for s in first.sentences if all(s in one.sentences for one in others))

    def own(self, one: Evidence) -> tuple[str, ...]:
        """The sentences of a setting that others do not share."""
        return tuple(sentence for sentence in one.sentences if sentence not in self.shared)


def judged(known: Compared, overalls: Sequence[Overall]) -> Judged:
    """``overalls`` of ``known``, with the names that charts and sentences use."""
    places = panels.places(known.found)
    settings = places.index.get_level_values("setting")
    arms = places.index.get_level_values("arm_id")
    badges = arm_badges(places, known)
    return Judged(
        known,
        tuple(overalls),
        dict(zip(settings.astype(int), places["panel"], strict=True)),
        dict(zip(arms.astype(int), places["arm"], strict=True)),
        {int(arm): tuple(sorted(set(badges[arms == arm]) - {""})) for arm in arms.unique()},
    )


def verdict(about: Judged, arm: str) -> Verdict:
    """The verdict on one arm, given its name."""
    one = next(o for o in about.overalls if about.arms[o.arm_id] == arm)
    found, names, badges = about.known.found, about.names, about.badges[one.arm_id]
    rows = _of_arm(_lines(found, about.known.sure), one.arm_id)
    grid, left_out = _grid(about, one)
    return Verdict(
        headline=" ".join([*_origin(badges), said.headline(one, arm, names)]),
        tiles=_tiles(one),
        against=said.against(one, rows, names),
        evidence=_evidence(found, one),
        grid=grid,
        left_out=left_out,
        changes=_changes(one, arm, badges),
        totals=shown(_totals(one)),
        methods=shown(_methods(about)),
        by_setting=shown(_by_setting(about, one)),
        settings=tuple(_setting(s, names) for s in one.settings),
    )  # fmt: skip


def _origin(badges: tuple[str, ...]) -> list[str]:
    """What a manager must not forget when repeating the sentence behind it."""
    words = {word for badge in badges for word in badge.split(", ")}
    return [sentence for word, sentence in _ORIGIN.items() if word in words]


def _of_arm(rows: pd.DataFrame, arm_id: int) -> pd.DataFrame:
    return rows[rows["arm_id"] == arm_id]


def _lines(found: Comparison, sure: Confidence) -> pd.DataFrame:
    told = sure.geomean[[*SERIES, "verdict"]]
    return in_study_order(found.geomean).sort_values("line").merge(told, on=list(SERIES))


def _tiles(one: Overall) -> tuple[Tile, ...]:
    gain = one.gain
    size = gain["improvement"]
    cost = "unknown" if pd.isna(size) else said.cheaper(saved_per_token(size))
    tiles = [
        Tile("Output tokens per second", said.direction(gain), said.interval(gain), _formula(gain)),
        Tile("Cost per output token", cost, "on the same GPUs", _COST),
    ]
    for metric, statistic, label in _TILES:
        rows = one.lines[(one.lines["metric"] == metric) & (one.lines["statistic"] == statistic)]
        tiles += [
            Tile(label, said.direction(row), said.spread(row), _formula(row))
            for row in records(rows)
        ]
    return tuple(tiles)


def _formula(row: dict[str, object]) -> str:
    metric = METRICS[str(row["metric"])]
    return f"{named(metric, str(row['statistic']))}: {metric.definition} {_FORMULA}"


def _evidence(found: Comparison, one: Overall) -> str:
    """What the verdict stands on: cells, repeats, loads, doubts."""
    pairs = _of_arm(found.pairs, one.arm_id).drop_duplicates("speculative_id")
    cells = pairs["speculative_id"].nunique() + pairs["baseline_id"].nunique()
    repeats = pairs.groupby(["setting", "concurrency"], dropna=False).size()
    low, high = one.measured
    told = evidence(repeats, ([f.name for f in flags] for flags in pairs["flags"]))
    told = told.removeprefix("Evidence: ")
    loads = f"{low:.0f} to {high:.0f}" if low != high else f"{low:.0f}"
    return (
        f"{counted(cells, 'cell')} in {counted(len(one.settings), 'setting')}, "
        f"concurrency {loads}; {told}{_reached(pairs)}"
    )


def _reached(pairs: pd.DataFrame) -> str:
    """The first load that was asked for and not reached."""
    told = [f.sentence for flags in pairs["flags"] for f in flags if f.name == "low_concurrency"]
    return f" For example, {told[0]}" if told else ""


def _grid(about: Judged, one: Overall) -> tuple[tuple[tuple[Drawing | None, ...], ...], int]:
    """Datasets side by side, tensor parallel sizes below one another; as they come where other
    things tell settings apart."""
    found = about.known.found
    mine = replace(
        found, pairs=_of_arm(found.pairs, one.arm_id), levels=_of_arm(found.levels, one.arm_id)
    )
    levels = panels.level_rows(mine, about.known.sure, "mean", ("output_throughput",))
    marks = panels.improvements(levels)
    if marks.empty:
        return (), 0
    marks = marks.assign(end_label=[f"{v * 100:+.0f}\u202f%" if text else "" for v, text in
                                    zip(marks["value"], marks["end_label"], strict=True)])  # fmt: skip
    places = _places(about, one)
    rates = _rate(about, one)
    drawn_ones = {s: _panel(about, one, rates[s], marks) for s in places[:MOST_PANELS]}
    rows = _rows(about, places[:MOST_PANELS])
    grid = tuple(tuple(None if s is None else drawn_ones[s] for s in row) for row in rows)
    return grid, max(len(places) - MOST_PANELS, 0)


def _places(about: Judged, one: Overall) -> list[int]:
    """The settings of an arm by tensor parallel size, then by name."""
    keys = about.known.found.keys["tensor_parallel_size"].astype("float64")
    size = {s.setting: keys.loc[(s.setting, one.arm_id)] for s in one.settings}
    # An unknown size is sorted last.
    return sorted(size, key=lambda s: (bool(np.isnan(size[s])), size[s], about.names[s]))


def _rows(about: Judged, settings: list[int]) -> list[list[int | None]]:
    keys = about.known.found.keys.reset_index().drop_duplicates("setting").set_index("setting")
    told = keys.loc[settings, ["dataset", "tensor_parallel_size"]]
    told = told.astype(object).where(told.notna(), "unknown")
    datasets = sorted(told["dataset"].unique(), key=str)
    if told.duplicated().any() or len(datasets) > _ACROSS:
        padded: list[int | None] = [*settings, *[None] * (-len(settings) % _ACROSS)]
        return [padded[i : i + _ACROSS] for i in range(0, len(padded), _ACROSS)]
    by_place = {(row.tensor_parallel_size, row.dataset): setting
                for setting, row in zip(told.index, told.itertuples(), strict=True)}  # fmt: skip
    sizes = told["tensor_parallel_size"].unique()
    return [[by_place.get((size, name)) for name in datasets] for size in sizes]


def _panel(about: Judged, one: Overall, row: dict[str, Any], marks: pd.DataFrame) -> Drawing:
    """The chart of one setting; ``row``: the interval of its output throughput."""
    setting = int(row["setting"])
    decision = next(s for s in one.settings if s.setting == setting)
    scales = panels.improvement_scales(marks)
    name = about.names[setting]
    rows = panel_of(marks, name, scales)
    end = decision.crossover.at if decision.crossover.kind == "ends" else None
    ends = pd.DataFrame({"arm": rows["arm"].iloc[:1], "concurrency": end}).dropna()
    note = "".join(f"  [{badge}]" for badge in about.badges[one.arm_id])
    title = (said.panel_answer(decision.answer, row, end), name + note)
    return drawn(charts.improvement_by_concurrency(rows, title, scales, ends, PANEL_HEIGHT))


def _rate(about: Judged, one: Overall) -> dict[int, dict[str, Any]]:
    """Setting -> the interval of the output throughput of an arm."""
    rows = _of_arm(about.known.sure.geomean, one.arm_id)
    metric, statistic = DECISIVE
    chosen = rows[(rows["metric"] == metric) & (rows["statistic"] == statistic)]
    return {int(row["setting"]): row for row in records(chosen)}


def _by_setting(about: Judged, one: Overall) -> pd.DataFrame:
    """A row per setting of an arm."""
    rates = _rate(about, one)
    return pd.DataFrame(
        [
            {
                "setting": about.names[s.setting],
                "turn it on?": s.answer,
                "output tokens/s": percent(s.improvement),
                "95 % interval": interval_text(rates[s.setting]["low"], rates[s.setting]["high"])
                or "none",
                "repeats": f"{rates[s.setting]['repeats']:.0f}",
                "where the gain ends": s.crossover.sentence,
            }
            for s in one.settings
        ]
    )


def _changes(one: Overall, arm: str, badges: tuple[str, ...]) -> Drawing:
    rows = records(one.lines)
    known = (
        one.lines[["low", "high"]].astype(object).where(one.lines[["low", "high"]].notna(), None)
    )
    table = pd.DataFrame(
        {
            "line": [said.short_name(METRICS[r["metric"]], r["statistic"]) for r in rows],
            "arm": arm, "value": one.lines["improvement"], "low": known["low"],
            "high": known["high"],
            "interval": [interval_text(r["low"], r["high"]) or "none" for r in rows],
        }
    ).dropna(subset="value")  # fmt: skip
    note = "".join(f"  [{badge}]" for badge in badges)
    return drawn(charts_verdict.changes(table, "Right of zero is better", f"{arm}{note}"))


def _totals(one: Overall) -> pd.DataFrame:
    """The study's table over all settings."""
    rows = records(one.lines)
    return pd.DataFrame(
        {
            "metric": [metric_name(r["metric"], r["statistic"]) for r in rows],
            "baseline": [number(r["baseline"], METRICS[r["metric"]].decimals) for r in rows],
            "speculative": [number(r["speculative"], METRICS[r["metric"]].decimals) for r in rows],
            "change": [percent(r["improvement"]) for r in rows],
            "95 % interval": [interval_text(r["low"], r["high"]) or "none" for r in rows],
            "settings": [said.spread(r) for r in rows],
        }
    )


def _methods(about: Judged) -> pd.DataFrame:
    """Every arm, the best first."""
    gains = [o.gain for o in about.overalls]
    return pd.DataFrame(
        {
            "arm": [about.arms[o.arm_id] for o in about.overalls],
            "turn it on?": [o.answer for o in about.overalls],
            "output tokens/s": [percent(g["improvement"]) for g in gains],
            "95 % interval": [interval_text(g["low"], g["high"]) or "none" for g in gains],
            "gain ends at": [_ends(o) for o in about.overalls],
            "settings": [str(len(o.settings)) for o in about.overalls],
        }
    )


def _ends(one: Overall) -> str:
    return "nowhere measured" if one.ends_at is None else f"about {one.ends_at:.0f}"


def _setting(one: Decision, names: dict[int, str]) -> Evidence:
    return Evidence(names[one.setting], one.paragraph, one.evidence)
