"""What charts of several pages draw, and what they call its settings and arms."""

import pandas as pd

from analysis.matching.comparison import Comparison
from analysis.matching.names import arm_names, setting_names
from answers.wording import badge

CHARTED: tuple[str, ...] = (
    "output_throughput",
    "total_throughput",
    "ttft",
    "itl",
    "tpot",
    "request_latency",
)

#: Drawn only when asked for: not in every warehouse, or neither direction is better.
MORE: tuple[str, ...] = (
    "request_throughput",
    "chunk_gap",
    "achieved_concurrency",
    "prompt_tokens",
    "output_tokens",
)
_PLACE = ["setting", "arm_id"]


def places(found: Comparison) -> pd.DataFrame:
    """Return panel, badge and arm of what was compared, indexed by (setting, arm_id)."""
    compared = found.keys[found.keys.index.isin(pd.MultiIndex.from_frame(found.geomean[_PLACE]))]
    settings = compared[~compared.index.get_level_values("setting").duplicated()].droplevel(1)
    arms = compared[~compared.index.get_level_values("arm_id").duplicated()].droplevel(0)
    panel, arm = setting_names(settings), arm_names(arms)
    return pd.DataFrame(
        {
            "panel": panel.reindex(compared.index.get_level_values("setting")).to_numpy(),
            "badge": [badge(evidence) for evidence in compared["evidence"]],
            "arm": arm.reindex(compared.index.get_level_values("arm_id")).to_numpy(),
        },
        index=compared.index,
    )
