"""``draftboard slo``: the largest load of each arm that meets an SLO, and its goodput."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from answers.cost.capacity import Capacity


@click.command()
@click.argument("requirement", metavar="SLO")
@warehouse_option
@filter_options
@click.option("--no-goodput", is_flag=True, help="Do not read the requests: levels only.")
@json_option
def slo(
    requirement: str, warehouse: Path | None, no_goodput: bool, as_json: bool, **given: Any
) -> None:
    """The largest load at which each arm meets SLO, what stops it, and its goodput.

    SLO is one or more bounds, metric:statistic<value, separated by ';'. Goodput counts the
    requests that meet the bounds themselves, so there the statistic plays no part.

    Example: draftboard slo 'ttft:p95<200ms; itl:p99<10ms; latency:p50<2s' --dataset code
    """
    from analysis.money.paying import Paying
    from answers.cost.capacity import capacity
    from answers.cost.words import capacity_json
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    with Reader(warehouse_path(warehouse)) as reader:
        found = capacity(reader, filters_from(given), requirement, Paying(), not no_goodput)
    if as_json:
        click.echo(json_text(capacity_json(found)))
    elif not found.arms:
        click.echo("No cell matches. `draftboard runs` lists what there is.")
    else:
        _show(found)


def _show(found: "Capacity") -> None:
    from answers.cost.tables import arms, loads
    from commands.output import show_table

    click.echo(f"SLO: {found.slo.text}")
    show_table(*arms(found))
    click.echo()
    show_table(*loads(found))
    if not found.counted:
        click.echo("Goodput: nothing was counted (no request records, or no bound on requests).")
