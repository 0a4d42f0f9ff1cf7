"""One pair of cells: what differs in their configuration, their requests, their outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.matching.difference import differences
from answers.compare.values import Comparison
from answers.compare.values import Pair as Compared
from answers.compare.words import load_name
from dashboard.answers import Drawing, drawn
from dashboard.charts import pair as charts_pair
from dashboard.components import Shown, shown
from dashboard.depth import DISTRIBUTIONS, bracketed
from warehouse.catalogue import METRICS
from warehouse.rows import COMPLETED

#: Requests of a cell that are drawn one by one; of more, every so-manieth.
MOST_REQUESTS = 4000
#: Shares of requests at which the names of the two lines stand: far enough apart to be read.
_NAMED_AT = (0.2, 0.8)
_STARTED = ("commands", "environment", "settings")


@dataclass(frozen=True)
class Pair:
    """Ids of two cells and what a reader calls them; ``note`` is the badge of their evidence."""

    baseline_id: str
    speculative_id: str
    baseline: str
    speculative: str
    note: str

    @property
    def arms(self) -> dict[str, str]:
        """cell_id -> name of the arm."""
        return {self.baseline_id: self.baseline, self.speculative_id: self.speculative}


def pairs(found: Comparison, setting: str) -> dict[str, Pair]:
    """Name -> pair of one setting, by arm, load and repeat."""
    named: dict[str, Pair] = {}
    arms = [arm for one in found.settings if one.name == setting for arm in one.arms]
    for arm in arms:
        for pair in arm.pairs:
            name = _distinct(_name(arm.name, pair), named)
            note = ", ".join(arm.badges)
            named[name] = Pair(pair.reference_cell, pair.arm_cell, found.reference, arm.name, note)
    return named


def _name(arm: str, pair: Compared) -> str:
    name = f"{arm}, {load_name(pair.load)}"
    return name if pair.repeat is None else f"{name}, repeat {pair.repeat}"


def _distinct(name: str, taken: Mapping[str, Pair]) -> str:
    """Repeats that were not numbered are numbered as they come."""
    number = 1 + sum(known == name or known.startswith(f"{name} (") for known in taken)
    return name if number == 1 else f"{name} ({number})"


def configuration(pair: Pair, cells: pd.DataFrame, runs: pd.DataFrame) -> Shown:
    """setting, and its value in either cell: all in which the two differ.

    ``cells`` and ``runs`` as the queries of those names return them.
    """
    before, after = (_record(cell, cells, runs) for cell in (pair.baseline_id, pair.speculative_id))
    changes = differences(before, after)
    return shown(
        pd.DataFrame(
            {
                "setting": [change.field for change in changes],
                pair.baseline: [_said(change.before) for change in changes],
                pair.speculative: [_said(change.after) for change in changes],
            }
        )
    )


def _record(cell_id: str, cells: pd.DataFrame, runs: pd.DataFrame) -> dict[str, Any]:
    """A cell joined with how its run was started."""
    cell = records(cells[cells["cell_id"] == cell_id])[0]
    same = (runs["source_id"] == cell["source_id"]) & (runs["run_id"] == cell["run_id"])
    run = records(runs[same])[0]
    return {**{name: run[name] for name in _STARTED}, **cell}


def _said(value: Any) -> str:
    if value is None:
        return "not stated"
    # A whole number in a column that also has gaps comes as a float.
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def distributions(pair: Pair, known: Mapping[tuple[str, str], pd.DataFrame]) -> list[Drawing]:
    """One chart per metric that the requests have. ``known``: (cell_id, metric) -> share, value."""
    drawings = []
    for metric in DISTRIBUTIONS:
        parts = [
            _line(known[cell, metric], arm, share)
            for share, (cell, arm) in zip(_NAMED_AT, pair.arms.items(), strict=True)
        ]
        rows = pd.concat(parts, ignore_index=True)
        if not rows.empty:
            note = bracketed(pair.note)
            drawings.append(drawn(charts_pair.distributions(rows, METRICS[metric], note)))
    return drawings


def _line(rows: pd.DataFrame, arm: str, share: float) -> pd.DataFrame:
    """The arm's name stands where ``share`` of its requests are done."""
    at = (rows["share"] - share).abs().idxmin() if len(rows) else None
    return rows.assign(arm=arm, label=[arm if row == at else "" for row in rows.index])


def first_tokens(pair: Pair, known: Mapping[str, pd.DataFrame]) -> list[Drawing]:
    """TTFT over prompt length, a chart per arm on one scale. ``known``: cell_id -> requests."""
    parts = {pair.arms[cell]: _first_tokens(rows) for cell, rows in known.items()}
    told = {arm: rows for arm, rows in parts.items() if len(rows)}
    if not told:
        return []
    both = pd.concat(told.values())
    ends = (float(both["prompt_tokens"].max()), float(both["ttft"].max()))
    return [
        drawn(
            charts_pair.first_token_by_prompt(
                rows.assign(arm=arm),
                f"{arm}{_drawn_of(rows, parts[arm])}{bracketed(pair.note)}",
                ends,
            )
        )
        for arm, whole in told.items()
        for rows in [whole.iloc[:: len(whole) // MOST_REQUESTS + 1]]
    ]


def _drawn_of(drawn_rows: pd.DataFrame, whole: pd.DataFrame) -> str:
    if len(drawn_rows) == len(whole):
        return f": {len(whole):,} requests"
    return f": {len(drawn_rows):,} of {len(whole):,} requests"


def _first_tokens(requests: pd.DataFrame) -> pd.DataFrame:
    done = requests[requests["status"] == COMPLETED]
    return done[["prompt_tokens", "ttft"]].dropna().astype("float64")


def greedy(pair: Pair, cells: pd.DataFrame) -> bool | None:
    """Whether both cells ran at temperature 0; None where one does not say."""
    told = cells.set_index("cell_id").loc[list(pair.arms), "temperature"]
    return None if told.isna().any() else bool((told == 0).all())
