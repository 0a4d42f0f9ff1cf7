"""All that the Verdict page shows of one subject, made once and then cached."""

from dataclasses import dataclass

import pandas as pd

from analysis.frames import records
from analysis.significance.comparison import Comparison, in_study_order
from analysis.significance.confidence import SERIES, Confidence
from analysis.significance.evidence_tables import interval_text
from analysis.tables import metric_name, number, percent
from analysis.verdicts.decision import Decision
from analysis.verdicts.overall import Overall, saved_per_token
from dashboard import phrases_verdict as said
from dashboard.answers import Drawing, drawn, verdict_grid
from dashboard.answers.judged import Judged, of_arm
from dashboard.answers.verdict_grid import rates
from dashboard.arm_places import SYNTHETIC
from dashboard.charts import verdict as charts_verdict
from dashboard.components import Shown, shown
from dashboard.phrases import counted, evidence, named
from warehouse.catalogue import METRICS

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


def verdict(about: Judged, arm: str) -> Verdict:
    """The verdict on one arm, given its name."""
    one = next(o for o in about.overalls if about.arms[o.arm_id] == arm)
    found, names, badges = about.known.found, about.names, about.badges[one.arm_id]
    rows = of_arm(_lines(found, about.known.sure), one.arm_id)
    grid, left_out = verdict_grid.grid(about, one)
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
    pairs = of_arm(found.pairs, one.arm_id).drop_duplicates("speculative_id")
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


def _by_setting(about: Judged, one: Overall) -> pd.DataFrame:
    """A row per setting of an arm."""
    by_setting = rates(about, one)
    return pd.DataFrame(
        [
            {
                "setting": about.names[s.setting],
                "turn it on?": s.answer,
                "output tokens/s": percent(s.improvement),
                "95 % interval": interval_text(
                    by_setting[s.setting]["low"], by_setting[s.setting]["high"]
                )
                or "none",
                "repeats": f"{by_setting[s.setting]['repeats']:.0f}",
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
