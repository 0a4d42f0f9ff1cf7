"""``draftboard cost``: what tokens cost, on which basis, and what speculation saves."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import (
    filter_options,
    json_option,
    question_from,
    question_options,
    warehouse_option,
)
from commands.price_options import paying_from, price_list, price_options
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from analysis.money.cost import Demand
    from answers.cost.values import Costs, Terms

_OPTIONS = (
    click.option("--output-throughput", type=float, help="Output tokens/s; no warehouse is read."),
    click.option("--total-throughput", type=float, help="Prompt and output tokens/s, with it."),
    click.option("--tokens-per-day", type=float, help="A demand in output tokens: GPUs, cost."),
    click.option(
        "--peak-to-mean", type=float, default=1.0, show_default=True,
        help="Busiest moment of the demand over its mean: the GPUs suffice for it.",
    ),
    click.option("--whole-instances", is_flag=True, help="GPUs are rented by the instance only."),
    click.option("--investment", type=float, help="USD spent on benchmark and draft: break-even."),
    click.option("--list-prices", is_flag=True, help="Show the price list with its sources."),
)  # fmt: skip


def _cost_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@warehouse_option
@filter_options
@question_options
@_cost_options
@price_options
@json_option
def cost(warehouse: Path | None, as_json: bool, **given: Any) -> None:
    """Cost per million tokens at the load you run, and what speculation saves there.

    The arm is the one that `draftboard verdict` decides on; --arm costs another one.

    Example: draftboard cost --dataset code --load 16 --usd-per-hour 41.62 --gpus-per-instance 8

    Example: draftboard cost --output-throughput 2620.89 --usd-per-hour 41.62 --gpus-per-instance 8
    --gpus-used 8
    """
    if given["list_prices"]:
        _list_prices(given["prices"], as_json)
    elif given["output_throughput"] is not None:
        _one(given, as_json)
    else:
        _from_warehouse(warehouse, given, as_json)


def _list_prices(file: Path | None, as_json: bool) -> None:
    from commands.output import show_table

    prices = price_list(file)
    if as_json:
        click.echo(json_text({"prices": [price.model_dump() for price in prices]}))
        return
    header = ["name", "USD/h", "GPUs", "GPU", "USD/GPU-h", "kind", "date", "source"]
    rows = [
        [
            p.name, f"{p.usd_per_hour:.2f}", str(p.gpus_per_instance), p.gpu,
            f"{p.usd_per_hour / p.gpus_per_instance:.2f}", p.kind, p.date, p.source,
        ]
        for p in prices
    ]  # fmt: skip
    show_table(header, rows)


def _one(given: Mapping[str, Any], as_json: bool) -> None:
    from analysis.money.cost import cost as cost_of
    from analysis.money.cost import fleet
    from analysis.money.paying import Hardware, basis_or_raise
    from commands.output import show_table

    basis = basis_or_raise(paying_from(given), Hardware())
    output = given["output_throughput"]
    found = cost_of(output, given["total_throughput"], basis)
    demand = _demand(given)
    needed = demand and fleet(demand, output, basis, given["whole_instances"]).as_json()
    if as_json:
        answer = {**found.as_json(), "output_throughput": output, "basis": basis.as_json()}
        click.echo(json_text({**answer, "fleet": needed}))
        return
    lines = {**found.as_json(), **(needed or {})}
    shown = {name: value for name, value in lines.items() if value is not None}
    show_table(
        ["", "value"], [[_words(name), _amount(name, value)] for name, value in shown.items()]
    )
    click.echo(basis.sentence)


def _demand(given: Mapping[str, Any]) -> "Demand | None":
    from analysis.money.cost import Demand

    daily = given["tokens_per_day"]
    return None if daily is None else Demand(daily, given["peak_to_mean"])


def _terms(given: Mapping[str, Any]) -> "Terms":
    from answers.cost.values import Terms

    return Terms(paying_from(given), _demand(given), given["whole_instances"], given["investment"])


def _from_warehouse(warehouse: Path | None, given: dict[str, Any], as_json: bool) -> None:
    from answers.cost.words import as_json as as_json_object

    found = _answer(warehouse, given)
    if as_json:
        click.echo(json_text(as_json_object(found)))
    elif not found.rows:
        click.echo(
            found.why_none or "There is nothing to cost; draftboard runs lists what there is."
        )
    else:
        _show(found)


def _answer(warehouse: Path | None, given: dict[str, Any]) -> "Costs":
    from answers.cost.answer import cost as cost_of
    from answers.cost.answer import with_energy
    from answers.decide.answer import decide
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    question, terms = question_from(given), _terms(given)
    with Reader(warehouse_path(warehouse)) as reader:
        return with_energy(reader, cost_of(decide(reader, question), terms))


def _show(found: "Costs") -> None:
    from answers.cost.tables import costs, demands, others
    from commands.output import show_table

    click.echo(click.wrap_text(found.headline, width=100))
    click.echo()
    show_table(*costs(found.rows))
    demand = found.terms.demand
    if demand is not None:
        click.echo()
        show_table(*demands(found.rows), title=f"{demand.tokens_per_day:,.0f} output tokens a day")
    header, rows = others(found.rows)
    if rows:
        click.echo()
        show_table(header, rows)
    click.echo()
    for line in found.notes:
        click.echo(line)


def _words(name: str) -> str:
    return name.replace("usd", "USD").replace("_", " ")


def _amount(name: str, value: float) -> str:
    return f"{value:,.3f}" if name.startswith("usd") else f"{value:,}"
