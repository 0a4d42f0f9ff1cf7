"""How many GPUs a cost charges: what was stated, else what was recorded, else what must be."""

from collections.abc import Mapping
from typing import Any

import pandas as pd


def gpus_charged(stated: int | None, keys: Mapping[str, Any], bought: int) -> int | None:
    """The GPUs behind a throughput; None where that is unknown and not obvious.

    ``keys``: gpu_count and tensor_parallel_size of the setting, any may be missing. ``bought``:
    GPUs that the price buys; a price of one GPU leaves nothing open.
    """
    for value in (stated, keys.get("gpu_count"), keys.get("tensor_parallel_size")):
        if value is not None and not pd.isna(value):
            return int(value)
    return 1 if bought <= 1 else None
