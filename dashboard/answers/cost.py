"""The money of decisions as the Cost page shows it: tables, curves and rows for a file."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from answers.cost.contract import money_json
from answers.cost.steps import steps
from answers.cost.tables import Table, costs, demands, others
from answers.cost.values import Costs, Money, Terms
from answers.decide.words import title
from answers.wording import badge
from dashboard.answers import MOST_PANELS, Drawing, drawn
from dashboard.charts.cost import cost_by_load
from dashboard.components import Shown, shown
from dashboard.cost_curves import cost_panel, cost_scales, curve_rows


@dataclass(frozen=True)
class Answer:
    """``panels``: settings that could be drawn. ``names``: name of a decision that has a
    price -> its place in ``Costs.rows``.
    ``rows``: both arms of every decision, unrounded, for a file."""

    headline: str
    notes: tuple[str, ...]
    badges: tuple[str, ...]
    totals: Shown
    demands: Shown | None
    others: Shown | None
    drawings: tuple[Drawing, ...]
    panels: int
    names: dict[str, int]
    rows: pd.DataFrame
    why_none: str | None


def answer(found: Costs) -> Answer:
    """All that the page shows."""
    curves = [row for row in found.rows if row.curve]
    more = others(found.rows)
    return Answer(
        found.headline,
        found.notes,
        tuple(sorted({badge(row.decision.subject.evidence) for row in found.rows} - {""})),
        _shown(costs(found.rows)),
        None if found.terms.demand is None else _shown(demands(found.rows)),
        _shown(more) if more[1] else None,
        tuple(drawings(curves[:MOST_PANELS])),
        len(curves),
        _names(found.rows),
        pd.json_normalize([_file_row(row) for row in found.rows]),
        found.why_none,
    )


def drawings(rows: Sequence[Money]) -> list[Drawing]:
    """Cost over the load, one chart for a decision, on one scale."""
    told = "USD per million output tokens, log scale; large: where it is costed"
    curves = [curve_rows(row) for row in rows]
    curves = [curve for curve in curves if not curve.empty]
    if not curves:
        return []
    scales = cost_scales(curves)
    return [
        drawn(cost_by_load(cost_panel(curve, scales), (_title(row), told), scales, _axis(row)))
        for row, curve in zip(rows, curves, strict=True)
    ]


def _title(row: Money) -> str:
    told = badge(row.decision.subject.evidence)
    return title(row.decision) + (f"  [{told}]" if told else "")


def _axis(row: Money) -> str:
    kind = row.curve[-1].load
    return "requests a second" if kind.is_rate else "requests at once"


def _names(rows: Sequence[Money]) -> dict[str, int]:
    """Each decision's own name -> its place, of those that have a price and a load."""
    told = [f"{row.arm} on {title(row.decision)}" for row in rows]
    return {
        name if told.count(name) == 1 else f"{name} ({told[:at].count(name) + 1})": at
        for at, name in enumerate(told)
        if rows[at].basis is not None and rows[at].load is not None
    }


def step_rows(row: Money, terms: Terms) -> Shown:
    """The arithmetic of one decision."""
    names = {"what": "step", "formula": "how", "speculative": "with speculation"}
    return shown(pd.DataFrame([vars(step) for step in steps(row, terms)]).rename(columns=names))


def _file_row(row: Money) -> dict[str, object]:
    whole = money_json(row)
    return {name: value for name, value in whole.items() if name not in ("loads", "missing")}


def _shown(table: Table) -> Shown:
    header, rows = table
    return shown(pd.DataFrame(rows, columns=header))
