"""The power that was recorded during cells, as energy per token."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from commands.measured import Measured
    from warehouse.store import Reader

#: A setting, an arm of it, and which of the two it is compared with.
Key = tuple[int, int, str]


def joules_per_token(
    warehouse: Path | None, measured: "Measured", cells: Mapping[Key, Sequence[str]]
) -> dict[Key, float | None]:
    """Joules per output token over the cells of each key; None where one has no power recorded."""
    from warehouse.store import Reader, warehouse_path

    rows = measured.measurements
    mean = (rows["metric"] == "output_throughput") & (rows["statistic"] == "mean")
    rates = rows[mean].set_index("cell_id")["value"].to_dict()
    told = measured.cells.set_index("cell_id")[["started_at", "duration"]].to_dict("index")
    facts = {cell: {**told[cell], "rate": rates[cell]} for ids in cells.values() for cell in ids}
    with Reader(warehouse_path(warehouse)) as reader:
        return {key: _pooled(reader, {cell: facts[cell] for cell in ids})
                for key, ids in cells.items()}  # fmt: skip


def _pooled(reader: "Reader", cells: Mapping[str, Mapping[Any, Any]]) -> float | None:
    from analysis.money.energy import energy
    from warehouse import queries

    joules = tokens = 0.0
    for cell_id, facts in cells.items():
        start, length = facts["started_at"].timestamp(), facts["duration"]
        made = facts["rate"] * length
        found = energy(queries.samples(reader, cell_id).to_pandas(), (start, start + length), made)
        if found is None:
            return None
        joules, tokens = joules + found.joules, tokens + made
    return joules / tokens if tokens else None
