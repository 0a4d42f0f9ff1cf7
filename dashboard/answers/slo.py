"""What the SLO page says of loads: the largest within an SLO, in words, a table and strips."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.frames import records, records_by
from analysis.matching.arm_levels import ArmLevels
from analysis.money.cost import usd_per_million
from analysis.service.goodput import Goodput
from analysis.service.goodput_levels import Pooled, pooled
from analysis.service.largest_load import Level, Load, largest_loads
from analysis.service.operating_point import Point, Rule, operating_points
from analysis.service.slo import Slo
from analysis.tables import UNKNOWN, number
from dashboard.answers import MOST_PANELS, Drawing, drawn
from dashboard.charts.pareto import MEETS, MISSES, UNMEASURED, slo_strips
from dashboard.components import Shown, shown
from dashboard.paying import Paying, basis_of
from dashboard.phrases import counted

BASELINE = "baseline"
_STATES = {True: MEETS, False: MISSES, None: UNMEASURED}
NOTHING = "Nothing that was measured has a concurrency, so there is no largest load."


@dataclass(frozen=True)
class ArmLoad:
    """One arm in its setting: its largest load and the point where it is costed (None: nowhere).

    ``usd``: per million output tokens there; ``unpriced`` says why that is None.
    """

    key: tuple[int, int]
    panel: str
    arm: str
    badge: str
    load: Load
    point: Point | None
    usd: float | None
    unpriced: str


@dataclass(frozen=True)
class Answer:
    """``goodputs``: by cell, only where they were asked for; ``unpriced``: sentences."""

    headline: str
    arms: tuple[ArmLoad, ...]
    totals: Shown
    levels: Shown
    strips: list[Drawing]
    panels: int
    badges: tuple[str, ...]
    unpriced: tuple[str, ...]
    rows: pd.DataFrame
    """Every load of every arm, unrounded, for a file."""


def arm_loads(levels: ArmLevels, named: pd.DataFrame, slo: Slo, paying: Paying) -> list[ArmLoad]:
    """Judge every arm, settings in the order of their names, the baseline first."""
    loads = largest_loads(levels.values, slo)
    points = operating_points(levels.values, Rule(slo=slo), loads)
    keys = dict(zip(levels.keys.index, records(levels.keys), strict=True))
    places = dict(zip(named.index, records(named), strict=True))
    found = []
    for key, load in loads.items():
        place, point = places[key], points.get(key)
        basis = basis_of(paying, keys[key])
        told = basis if isinstance(basis, str) else ""
        usd = (
            None
            if point is None or isinstance(basis, str)
            else usd_per_million(point.output, basis)
        )
        found.append(
            ArmLoad(
                key, place["panel"], place["arm"], place["badge"], load,
                point, usd, told,
            )
        )  # fmt: skip
    return sorted(found, key=lambda arm: (arm.panel, arm.arm != BASELINE, arm.arm))


def answer(
    arms: Sequence[ArmLoad], levels: ArmLevels, slo: Slo, goodputs: Mapping[str, Goodput | None]
) -> Answer:
    """All that the page shows of an SLO; ``levels``: those that ``arms`` were judged by. Drawn are
    the settings with most measurements."""
    rows = _level_rows(arms, levels, goodputs)
    most = set(levels.values["setting"].value_counts().index[:MOST_PANELS])
    panels = dict.fromkeys(arm.panel for arm in arms if arm.key[0] in most)
    return Answer(
        headline(arms, slo),
        tuple(arms),
        shown(_totals(arms, rows)),
        shown(_levels_told(rows, bool(goodputs))),
        [_strips([arm for arm in arms if arm.panel == name]) for name in panels],
        int(levels.values["setting"].nunique()),
        tuple(sorted({arm.badge for arm in arms} - {""})),
        tuple(dict.fromkeys(arm.unpriced for arm in arms if arm.unpriced)),
        _file_rows(rows),
    )


def headline(arms: Sequence[ArmLoad], slo: Slo) -> str:
    """Whether speculation carries more load within the SLO."""
    if not arms:
        return NOTHING
    settings = _settings(arms)
    if not settings:
        meeting = sum(arm.load.largest is not None for arm in arms)
        return f"Within {slo.text}: {meeting} of {counted(len(arms), 'arm')} can be run."
    if len(settings) == 1:
        return _one(slo, *settings[0])
    return _many(slo, settings)


def _settings(arms: Sequence[ArmLoad]) -> list[tuple[ArmLoad, ArmLoad]]:
    """The baseline and the arm that carries most, of every setting that has both."""
    panels: dict[str, list[ArmLoad]] = {}
    for arm in arms:
        panels.setdefault(arm.panel, []).append(arm)
    return [
        (_largest(own, True), _largest(own, False))
        for own in panels.values()
        if len({arm.arm == BASELINE for arm in own}) == 2
    ]


def _largest(arms: Sequence[ArmLoad], baseline: bool) -> ArmLoad:
    mine = [arm for arm in arms if (arm.arm == BASELINE) == baseline]
    return max(mine, key=lambda arm: arm.load.largest or 0)


def _one(slo: Slo, old: ArmLoad, new: ArmLoad) -> str:
    return (
        f"Within {slo.text}, {new.arm} carries {_carried(new.load)} on {new.panel}; "
        f"the baseline carries {_carried(old.load)}."
    )


def _carried(load: Load) -> str:
    if load.largest is None:
        return "no load that was measured"
    least = "at least " if load.largest == load.levels[-1].concurrency else ""
    return f"{least}{counted(load.largest, 'concurrent request')}"


def _many(slo: Slo, settings: Sequence[tuple[ArmLoad, ArmLoad]]) -> str:
    loads = [(old.load.largest or 0, new.load.largest or 0) for old, new in settings]
    more, less = (sum(new > old for old, new in loads), sum(new < old for old, new in loads))
    nowhere = sum(old == new == 0 for old, new in loads)
    told = f"a larger load than the baseline in {more} of {len(loads)} settings"
    tail = f", a smaller one in {less}" if less else ""
    none = f"; in {nowhere} neither meets it at any load" if nowhere else ""
    return f"Within {slo.text}, speculation carries {told}{tail}{none}."


def _level_rows(
    arms: Sequence[ArmLoad], levels: ArmLevels, goodputs: Mapping[str, Goodput | None]
) -> list[tuple[ArmLoad, Level, float | None, Pooled]]:
    """Each arm's levels with what was in flight and the goodput over the repeats."""
    means = levels.values[levels.values["statistic"] == "mean"]
    flying = means[means["metric"] == "achieved_concurrency"]
    by = ["setting", "arm_id", "concurrency"]
    held = flying.groupby(by)["value"].mean().to_dict()
    judged = levels.values[levels.values["cell_id"].isin(goodputs)].drop_duplicates("cell_id")
    cells = records_by(judged, by, ["cell_id"])
    rows = []
    for arm in arms:
        for level in arm.load.levels:
            key = (*arm.key, level.concurrency)
            known = [goodputs[cell["cell_id"]] for cell in cells.get(key, ())]
            rows.append((arm, level, held.get(key), pooled([g for g in known if g is not None])))
    return rows


def _totals(
    arms: Sequence[ArmLoad], rows: Sequence[tuple[ArmLoad, Level, float | None, Pooled]]
) -> pd.DataFrame:
    good = {(arm.key, level.concurrency): known for arm, level, _, known in rows}
    counted_any = any(known.goodput is not None for known in good.values())
    return pd.DataFrame([_total(arm, good, counted_any) for arm in arms])


def _total(
    arm: ArmLoad, good: Mapping[tuple[tuple[int, int], int], Pooled], counted_any: bool
) -> dict[str, Any]:
    largest, point = arm.load.largest, arm.point
    told = {
        "setting": arm.panel,
        "arm": arm.arm,
        "largest load": "none" if largest is None else str(largest),
        "best at": "none" if point is None else str(point.concurrency),
        "output tok/s": number(None if point is None else point.output, 1),
        "USD per million output tokens": number(arm.usd, 3),
    }
    if counted_any:
        known = None if point is None else good[arm.key, point.concurrency]
        told |= _good(known or Pooled(None, None, None))
    return told | {"why no more": arm.load.sentence, "evidence": arm.badge or "GPU"}


def _good(known: Pooled) -> dict[str, str]:
    share = UNKNOWN if known.good_share is None else f"{known.good_share:.1%}"
    return {
        "good requests": share,
        "goodput, req/s": number(known.goodput, 2),
        "good output, tok/s": number(known.good_output_throughput, 1),
    }


def _levels_told(
    rows: Sequence[tuple[ArmLoad, Level, float | None, Pooled]], with_goodput: bool
) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "setting": arm.panel,
                "arm": arm.arm,
                "concurrency": level.concurrency,
                "in flight": number(held, 1),
                "this load": _STATES[level.met],
                "repeats that meet it": f"{level.meeting} of {level.repeats}",
                "why not": _why(level),
                **(_good(known) if with_goodput else {}),
            }
            for arm, level, held, known in rows
        ]
    )


def _file_rows(rows: Sequence[tuple[ArmLoad, Level, float | None, Pooled]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "setting": arm.panel,
                "arm": arm.arm,
                "evidence": arm.badge or "GPU",
                "largest_load": arm.load.largest,
                "runs_at": None if arm.point is None else arm.point.concurrency,
                "output_throughput": None if arm.point is None else arm.point.output,
                "usd_per_million_output_tokens": arm.usd,
                **vars(level),
                "broken": "; ".join(level.broken),
                "missing": "; ".join(level.missing),
                "achieved_concurrency": held,
                **vars(known),
            }
            for arm, level, held, known in rows
        ]
    )


def _why(level: Level) -> str:
    parts = [f"misses {', '.join(level.broken)}"] if level.broken else []
    parts += [f"not measured: {', '.join(level.missing)}"] if level.missing else []
    return "; ".join(parts)


def _strips(arms: Sequence[ArmLoad]) -> Drawing:
    """The chart of one setting."""
    rows = pd.DataFrame([row for arm in arms for row in _strip(arm)])
    badges = sorted({arm.badge for arm in arms} - {""})
    title = arms[0].panel + "".join(f"  [{badge}]" for badge in badges)
    return drawn(slo_strips(rows, (title, "filled: meets the SLO; cross: misses it")))


def _strip(arm: ArmLoad) -> list[dict[str, Any]]:
    lowest = arm.load.levels[0].concurrency
    largest = arm.load.largest
    far = "no load" if largest is None else f"up to {largest}"
    return [
        {
            "arm": arm.arm,
            "concurrency": level.concurrency,
            "state": _STATES[level.met],
            "solid": int(level.met is True),
            "told": _why(level) or "all bounds hold",
            "repeats": f"{level.meeting} of {level.repeats}",
            "label": f"{arm.arm}: {far}" if level.concurrency == lowest else "",
            "largest": largest if level.concurrency == lowest else None,
        }
        for level in arm.load.levels
    ]
