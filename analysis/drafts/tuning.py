"""What to serve with: for each arm family the best K by load, as vLLM takes it, and its reasons."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.drafts.acceptance_tables import acceptance_by_level, acceptance_by_position
from analysis.drafts.best_k import BestK, Choice, Goal, best_k, facts
from analysis.drafts.dynamic_k import DynamicTable, dynamic_table
from analysis.drafts.rules import Arm, Opinion, opinions
from analysis.drafts.serve_line import serve_line, speculative_config
from analysis.frames import records
from analysis.matching.arms import about


@dataclass(frozen=True)
class Judged:
    """What a rule of thumb says of one arm at one load."""

    k: int
    concurrency: int
    opinion: Opinion


@dataclass(frozen=True)
class Advice:
    """One family on one setting. ``table``, ``config``, ``serve``: None where no K meets the SLO at
    any load; ``config`` is None too where drafting is best left off. ``acceptance`` and
    ``positions``: as in ``acceptance_tables``, of this family and setting."""

    about: Mapping[str, Any]
    best: BestK
    table: DynamicTable | None
    config: dict[str, Any] | None
    serve: str | None
    acceptance: pd.DataFrame
    positions: pd.DataFrame
    rules: tuple[Judged, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know before using the table."""
        if self.table is None:
            return ()
        loads = [load for load, _ in self.table.by_load]
        span = f"from {loads[0]} to {loads[-1]}" if len(loads) > 1 else f"at {loads[0]} alone"
        notes = [f"Measured {span}: vLLM goes on with the last K above."]
        taken = {choice.concurrency: choice.k for choice in self.best.choices}
        kept = [str(load) for load, k in self.table.by_load if k != taken[load]]
        if kept:
            notes.append(
                f"At concurrency {', '.join(kept)} the table keeps its neighbour's K: a change "
                "would gain too little."
            )
        if self.config is not None and len(self.table.entries) > 1:
            notes.append("vLLM ignores the table where data parallelism is used.")
        if self.config is not None and any(k == 0 for _, _, k in self.table.entries):
            notes.append(
                "K = 0 was measured on a server without a draft; here the draft stays in memory."
            )
        missing = [str(c.concurrency) for c in self.best.choices if c.k is None]
        if missing:
            notes.append(f"No K meets the SLO at concurrency {', '.join(missing)}: left out.")
        return tuple(notes)


@dataclass(frozen=True)
class Inputs:
    """Frames as the queries of these names return them."""

    cells: pd.DataFrame
    measurements: pd.DataFrame
    acceptance: pd.DataFrame
    positions: pd.DataFrame


def advice(given: Inputs, goal: Goal, margin: float) -> list[Advice]:
    """An ``Advice`` for each family on each setting; ``margin`` as in ``dynamic_table``."""
    accepted = acceptance_by_level(given.cells, given.acceptance)
    by_position = acceptance_by_position(given.cells, given.acceptance, given.positions)
    return [
        _advice(given.cells, best, margin, (_of(accepted, best), _of(by_position, best)))
        for best in best_k(given.cells, given.measurements, goal)
    ]


def _of(table: pd.DataFrame, best: BestK) -> pd.DataFrame:
    mine = (table["setting"] == best.setting) & (table["family"] == best.family)
    return table[mine].reset_index(drop=True)


def _advice(
    cells: pd.DataFrame, best: BestK, margin: float, tables: tuple[pd.DataFrame, pd.DataFrame]
) -> Advice:
    told = about(cells, best.cell_id) | {"dataset": best.dataset, "family": best.family}
    candidates = best.candidates()
    table = config = serve = None
    if not candidates.empty:
        known = facts(cells, best)
        table = dynamic_table(candidates, margin)
        config = speculative_config(known, table)
        serve = serve_line(known, config)
    return Advice(told, best, table, config, serve, *tables, _rules(best, tables[0]))


def _rules(best: BestK, accepted: pd.DataFrame) -> tuple[Judged, ...]:
    """Every rule on every arm and load whose acceptance is known and whose K could be judged."""
    choices: dict[int, Choice] = {choice.concurrency: choice for choice in best.choices}
    known = accepted.dropna(subset=["rate", "mean_length"])
    return tuple(
        Judged(row["k"], row["concurrency"], opinion)
        for row in records(known)
        if (choice := choices.get(row["concurrency"])) is not None and choice.tied
        for opinion in opinions(
            Arm(row["k"], row["rate"], row["mean_length"]), choice.tied, tuple(choice.values)
        )
    )
