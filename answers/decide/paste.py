"""What to paste: the value of ``--speculative-config`` and the whole ``vllm serve`` line."""

import json
from typing import Any

from analysis.drafts.dynamic_k import DynamicTable
from analysis.drafts.serve_line import Config, serve_line, speculative_config
from analysis.matching.arms import config_of
from analysis.matching.guess import SOME_METHOD
from answers.decide.read import Ground
from answers.decide.shown import Shown, k_kind


def flags_to_paste(known: Ground, setting: int, shown: Shown) -> tuple[str | None, str | None]:
    """Return the value of ``--speculative-config`` and the whole ``vllm serve`` line for the method
    taken and its K; None where nothing is to be drafted, and where the method, K or the model is
    unknown."""
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
    facts = {str(name): value for name, value in row.items()}
    config = _config(facts, arm.k, server.table)
    model = facts.get("model")
    line = serve_line(facts, config) if isinstance(model, str) else None
    return (None if config is None else json.dumps(config)), line


def _config(facts: dict[str, Any], k: int | None, table: DynamicTable | None) -> Config | None:
    """Return the arm's own settings with the K that was decided; where K is not fixed,
    unchanged."""
    if k is None:
        return config_of(facts.get("speculative_config")) or None
    return speculative_config(facts, table or DynamicTable(((1, 1, k),), ()))
