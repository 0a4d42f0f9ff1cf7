"""``draftboard cost``: what tokens cost, on which basis, and what speculation saves."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option
from commands.price_options import basis_from, price_list, price_options

if TYPE_CHECKING:
    import pandas as pd

    from analysis.money.demand import Demand
    from analysis.money.worth import Terms, Worth
    from analysis.service.operating_point import Rule
    from analysis.significance.comparison import Comparison
    from commands.cost_output import Answer
    from commands.measured import Measured
    from commands.power import Key

_OPTIONS = (
    click.option("--output-throughput", type=float, help="Output tokens/s; no warehouse is read."),
    click.option("--total-throughput", type=float, help="Prompt and output tokens/s, with it."),
    click.option("--at", default="peak", show_default=True, help="peak, or a concurrency."),
    click.option("--slo", help="Within this SLO instead, e.g. 'ttft:p95<200ms; itl:p99<10ms'."),
    click.option("--tokens-per-day", type=float, help="A demand in output tokens: GPUs, cost."),
    click.option("--peak-to-mean", type=float, default=1.0, help="Busiest moment over the mean."),
    click.option("--whole-instances", is_flag=True, help="GPUs are rented by the instance only."),
    click.option("--investment", type=float, help="USD spent on benchmark and draft: break-even."),
    click.option("--allow", multiple=True, metavar="FIELD", help="As in draftboard compare."),
    click.option("--list-prices", is_flag=True, help="Show the price list with its sources."),
)


def _cost_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@warehouse_option
@filter_options
@_cost_options
@price_options
@json_option
def cost(warehouse: Path | None, as_json: bool, **given: Any) -> None:
    """Cost per million tokens of matched arms, or of one throughput, always with its basis.

    Example: draftboard cost --dataset code --usd-per-hour 41.62 --gpus-per-instance 8 --at peak

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
        click.echo(json.dumps({"prices": [price.model_dump() for price in prices]}))
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
    from analysis.money.demand import fleet
    from commands.output import show_table

    basis = basis_from(_priced(given), {})
    output = given["output_throughput"]
    found = cost_of(output, given["total_throughput"], basis)
    demand = _demand(given)
    needed = demand and fleet(demand, output, basis, given["whole_instances"]).as_json()
    if as_json:
        answer = {**found.as_json(), "output_throughput": output, "basis": basis.as_json()}
        click.echo(json.dumps({**answer, "fleet": needed}))
        return
    lines = {**found.as_json(), **(needed or {})}
    shown = {name: value for name, value in lines.items() if value is not None}
    show_table(
        ["", "value"], [[_words(name), _amount(name, value)] for name, value in shown.items()]
    )
    click.echo(basis.sentence)


def _priced(given: Mapping[str, Any]) -> Mapping[str, Any]:
    from warehouse.errors import InvalidInput

    if given["usd_per_hour"] is None and given["price"] is None:
        raise InvalidInput(
            "A cost needs a price: give --usd-per-hour, or --price NAME from --list-prices."
        )
    return given


def _demand(given: Mapping[str, Any]) -> "Demand | None":
    from analysis.money.demand import Demand

    daily = given["tokens_per_day"]
    return None if daily is None else Demand(daily, given["peak_to_mean"])


def _rule(given: Mapping[str, Any]) -> "Rule":
    from analysis.service.operating_point import Rule
    from analysis.service.slo import parse
    from warehouse.errors import InvalidInput

    if given["slo"]:
        return Rule(slo=parse(given["slo"]))
    if given["at"] == "peak":
        return Rule()
    if not given["at"].isdecimal():
        raise InvalidInput(f"--at takes peak or a concurrency, and {given['at']!r} is neither.")
    return Rule(concurrency=int(given["at"]))


def _from_warehouse(warehouse: Path | None, given: Mapping[str, Any], as_json: bool) -> None:
    from analysis.money.worth import Terms
    from commands.cost_output import as_json as as_json_object
    from commands.cost_output import show

    terms = Terms(
        _rule(given), lambda keys: basis_from(given, keys), _demand(given),
        given["whole_instances"], given["investment"],
    )  # fmt: skip
    answer = _answer(warehouse, given, terms)
    if as_json:
        click.echo(json.dumps(as_json_object(answer), allow_nan=False))
    elif not answer.rows:
        click.echo("No pair of arms matches. `draftboard compare` says why, `draftboard runs` "
                   "lists what there is.")  # fmt: skip
    else:
        show(answer)


def _answer(warehouse: Path | None, given: Mapping[str, Any], terms: "Terms") -> "Answer":
    from analysis.money.break_even import pays_at
    from analysis.money.worth import worth
    from analysis.significance.comparison import METRICS_READ, STATISTICS_READ, compare
    from commands.cost_output import Answer
    from commands.measured import read_measured

    slo = terms.rule.slo
    metrics = [*METRICS_READ, *(slo.metrics if slo else ())]
    statistics = [*STATISTICS_READ, *(slo.statistics if slo else ())]
    measured = read_measured(warehouse, filters_from(dict(given)), metrics, statistics)
    if measured.cells.empty:
        return Answer(terms, [], [], {}, {})
    flags = _flags(warehouse, measured)
    found = compare(measured.cells, measured.measurements, given["allow"], flags)
    rows = worth(found, terms)
    pays = pays_at(found.pairs, measured.cells, measured.acceptance)
    return Answer(terms, rows, pays, _energies(warehouse, measured, rows), _errors(found, rows))


def _flags(warehouse: Path | None, measured: "Measured") -> "pd.DataFrame":
    from warehouse import queries
    from warehouse.store import Reader, warehouse_path

    with Reader(warehouse_path(warehouse)) as reader:
        found: pd.DataFrame = queries.flags(reader, list(measured.cells["cell_id"])).to_pandas()
    return found


def _errors(found: "Comparison", rows: "Sequence[Worth]") -> dict[tuple[int, int], list[str]]:
    """The flags of a comparison that are errors: a cost that ignores them would mislead."""
    from analysis.tables import flags

    return {
        (row.setting, row.arm_id): [
            line for line in flags(found, row.setting, row.arm_id) if line.startswith("error")
        ]
        for row in rows
    }


def _energies(
    warehouse: Path | None, measured: "Measured", rows: "Sequence[Worth]"
) -> "dict[Key, float | None]":
    """Joules per output token of each arm at its operating point."""
    from commands.power import joules_per_token

    sides = {
        (row.setting, row.arm_id, arm): side.point.cells
        for row in rows
        for arm, side in (("baseline", row.baseline), ("speculative", row.speculative))
        if side is not None
    }
    return joules_per_token(warehouse, measured, sides)


def _words(name: str) -> str:
    return name.replace("usd", "USD").replace("_", " ")


def _amount(name: str, value: float) -> str:
    return f"{value:,.3f}" if name.startswith("usd") else f"{value:,}"
