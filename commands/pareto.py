"""``draftboard pareto``: what a GPU yields against what a user sees, dominated points marked."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option

if TYPE_CHECKING:
    import pandas as pd

    from warehouse.loads import Load

#: Numbers that mean something inside one answer alone.
_NUMBERED = ["setting", "arm_id", "load"]
NUMBERS = ("tokens_per_second_per_user", "tokens_per_second_per_gpu")


@click.command()
@warehouse_option
@filter_options
@click.option("--front", is_flag=True, help="Only the points that no other one beats in both.")
@json_option
def pareto(warehouse: Path | None, front: bool, as_json: bool, **given: Any) -> None:
    """Throughput per GPU against tokens/s per user, over arms, loads and tensor parallel sizes.

    A point is dominated where another one of the same model, dataset and GPU gives each user and
    each GPU at least as much, and one of them more.

    Example: draftboard pareto --dataset code --front
    """
    table, left_out, loads = _load(warehouse, given)
    table = table[~table["dominated"].astype(bool)] if front else table
    if as_json:
        rows = json.loads(table.drop(columns=_NUMBERED).to_json(orient="records"))
        told = [
            {**row, "load": loads[place].as_json()}
            for row, place in zip(rows, table["load"], strict=True)
        ]
        click.echo(json.dumps({"points": told, "left_out": left_out}))
    elif table.empty and not left_out:
        click.echo("No cell matches. `draftboard runs` lists what there is.")
    else:
        _show(table)
    if left_out and not as_json:
        click.echo(f"{left_out} levels are left out: a rate or the number of GPUs is unknown.")


def _load(
    warehouse: Path | None, given: dict[str, Any]
) -> "tuple[pd.DataFrame, int, tuple[Load, ...]]":
    from analysis.matching.arm_levels import arm_levels
    from analysis.service.pareto import METRICS_READ, STATISTICS_READ, points, unplaced
    from commands.measured import read_measured

    measured = read_measured(warehouse, filters_from(given), METRICS_READ, STATISTICS_READ)
    levels = arm_levels(measured.cells, measured.measurements)
    return points(levels), unplaced(levels), levels.loads


def _show(table: "pd.DataFrame") -> None:
    from analysis.frames import records
    from analysis.tables import known_text, number
    from commands.output import show_table

    header = [
        "arm", "TP", "GPUs", "load", "tok/s per user", "tok/s per GPU", "dominated by",
    ]  # fmt: skip
    for _, rows in table.groupby("group", sort=True):
        first = records(rows)[0]
        told = [first[name] for name in ("model", "dataset", "gpu", "evidence")]
        lines = [
            [
                str(row["arm_label"]), number(row["tensor_parallel_size"], 0),
                number(row["gpus"], 0), str(row["load_short"]),
                *(number(row[name], 1) for name in NUMBERS),
                "" if not row["dominated"] else str(row["dominated_by"]),
            ]
            for row in records(rows)
        ]  # fmt: skip
        show_table(header, lines, title=", ".join(map(known_text, told)))
        click.echo()
