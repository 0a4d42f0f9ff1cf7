"""``draftboard pareto``: what a GPU yields against what a user sees, dominated points marked."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from answers.cost.capacity import Trade


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
    from answers.cost.capacity import trade
    from answers.cost.words import trade_json
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    with Reader(warehouse_path(warehouse)) as reader:
        found = trade(reader, filters_from(given))
    if as_json:
        click.echo(json_text(trade_json(found, front)))
    elif not found.groups and not found.left_out:
        click.echo("No cell matches. `draftboard runs` lists what there is.")
    else:
        _show(found, front)


def _show(found: "Trade", front: bool) -> None:
    from answers.cost.tables import trade_points
    from answers.wording import known
    from commands.output import show_table

    for group in found.groups:
        place = group[0].place
        title = ", ".join(map(known, (place.model, place.dataset, place.on.gpu, place.evidence)))
        shown = [point for point in group if not (front and point.dominated_by)]
        show_table(*trade_points(shown), title=title)
        click.echo()
    if found.left_out:
        click.echo(
            f"{found.left_out} levels are left out: a rate or the number of GPUs is unknown."
        )
