"""What to paste: the value of ``--speculative-config`` and the whole line that serves the arm."""

import json
from typing import Any

from analysis.drafts.dynamic_k import DynamicTable
from analysis.drafts.serve_line import Config, serve_line, speculative_config, stated_config
from analysis.matching.guess import SOME_METHOD
from answers.decide.shown import DecisionCase, k_kind
from answers.ground import Ground


def flags_to_paste(
    known: Ground, setting: int, shown: DecisionCase
) -> tuple[str | None, str | None]:
    """Return the value of vLLM's ``--speculative-config`` and the whole line that serves the method
    taken and its K on the engine that was measured; None where nothing is to be drafted, and where
    the method, K or the engine is unknown. Another engine has no such value."""
    server = shown.choice.server
    if server.arm is None:
        return None, None
    arm = shown.judged.field.candidates[server.arm]
    if arm.family.startswith(SOME_METHOD):
        return None, None
    pairs = known.pairs[setting]
    mine = pairs[pairs["arm_id"] == arm.arm_id]
    if mine.empty or k_kind(arm) == "unknown":
        return None, None
    cell = str(mine["speculative_id"].iloc[0])
    row = known.by_id.loc[cell]
    facts = {str(name): value for name, value in row.items()} | known.server_of(cell)
    engine = str(facts.get("engine")).lower()
    facts["command"] = facts.get("commands", {}).get(engine)
    config = _config(facts, arm.k, server.table)
    named = None if config is None or engine != "vllm" else json.dumps(config)
    return named, serve_line(facts, config)


def _config(facts: dict[str, Any], k: int | None, table: DynamicTable | None) -> Config | None:
    """Return the arm's own settings with the K that was decided; where K is not fixed,
    unchanged."""
    if k is None:
        return stated_config(facts) or None
    return speculative_config(facts, table or DynamicTable(((1, 1, k),), ()))
