"""A table of K by batch size as vLLM reads it: what is wrong with one, before a server is started."""

from typing import Any

from warehouse.arms import TABLE, table_of


def table_problem(config: dict[str, Any]) -> str | None:
    """Say what keeps vLLM from taking the table of an arm; None where there is no table, or nothing
    wrong with it."""
    stated = config.get(TABLE)
    if stated is None:
        return None
    table = table_of(config)
    if not table or len(table) != len(stated):
        return f"{TABLE} wants [[from, to, K], …] in whole numbers, and is {stated!r}"
    if table[0][0] != 1:
        return f"{TABLE} begins at batch size {table[0][0]}; begin at 1"
    before = 0
    for start, end, _ in table:
        if start <= before or end < start:
            return f"{TABLE} has a range {start} to {end} after one that ends at {before}"
        before = end
    most, largest = config.get("num_speculative_tokens"), max(k for _, _, k in table)
    if not isinstance(most, int) or most < max(largest, 1):
        return f"num_speculative_tokens must be {max(largest, 1)}, the largest K of its table"
    return None
