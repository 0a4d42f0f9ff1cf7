"""``draftboard cost``, ``slo`` and ``pareto``: what tokens cost, how much an arm carries, what users see of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.terminal import (
    Table,
    filter_options,
    filters_from,
    json_option,
    paying_from,
    price_list,
    price_options,
    question_from,
    question_options,
    reading,
    show,
    show_json,
    warehouse_option,
    with_options,
)

if TYPE_CHECKING:
    from analysis.money.cost import Demand
    from analysis.money.paying import Paying

NO_CELL = "No cell matches. `draftboard runs` lists what there is."

_cost_options = with_options(
    click.option("--output-throughput", type=float, help="Output tokens/s; no warehouse is read."),
    click.option("--total-throughput", type=float, help="Prompt and output tokens/s, with it."),
    click.option("--tokens-per-day", type=float, help="A demand in output tokens: GPUs, cost."),
    click.option(
        "--peak-to-mean", type=float, default=1.0, show_default=True,
        help="Busiest moment of the demand over its mean: the GPUs suffice for it.",
    ),
    click.option("--whole-instances", is_flag=True, help="GPUs are rented by the instance only."),
    click.option(
        "--request-tokens", type=click.IntRange(min=1), metavar="N",
        help="Tokens of your requests, prompt and answer: what of them fits into memory [as measured].",
    ),
    click.option("--investment", type=float, help="USD spent on benchmark and draft: break-even."),
    click.option("--list-prices", is_flag=True, help="Show the price list with its sources."),
)  # fmt: skip


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
    from analysis.money.cost import Demand
    from answers.cost import answer, values, words
    from answers.decide.answer import decide

    if given["list_prices"]:
        _list_prices(given["prices"], as_json)
        return
    paying, daily = paying_from(given), given["tokens_per_day"]
    demand = None if daily is None else Demand(daily, given["peak_to_mean"])
    if given["output_throughput"] is not None:
        _of_throughput(paying, demand, given, as_json)
        return
    terms = values.Terms(
        paying, demand, given["whole_instances"], given["investment"], given["request_tokens"]
    )
    question = question_from(given)
    with reading(warehouse) as reader:
        found = answer.costed(reader, decide(reader, question), terms)
    if as_json:
        show_json(values.costs_json(found))
        return
    if not found.rows:
        show(found.why_none or "There is nothing to cost; draftboard runs lists what there is.")
        return
    title = f"{demand.tokens_per_day:,.0f} output tokens a day" if demand else ""
    more = (
        Table(*words.break_evens(found.rows)),
        Table(*words.energies(found.rows), "Energy of the GPUs"),
    )
    # Who asks about the memory is answered, also that it is unknown.
    rooms = [*words.rooms(found.rows)] or [words.NO_CACHE] * bool(terms.request_tokens)
    show(
        click.wrap_text(found.headline, width=100),
        "",
        Table(*words.costs(found.rows)),
        *(("", Table(*words.demands(found.rows), title)) if demand else ()),
        *(part for table in more if table.rows for part in ("", table)),
        "",
        *(click.wrap_text(sentence, width=100) for sentence in rooms),
        *found.notes,
    )


def _list_prices(file: Path | None, as_json: bool) -> None:
    prices = price_list(file)
    if as_json:
        show_json({"prices": [price.model_dump() for price in prices]})
        return
    header = ["name", "USD/h", "GPUs", "GPU", "USD/GPU-h", "kind", "date", "source"]
    rows = [
        [
            p.name, f"{p.usd_per_hour:.2f}", str(p.gpus_per_instance), p.gpu,
            f"{p.usd_per_hour / p.gpus_per_instance:.2f}", p.kind, p.date, p.source,
        ]
        for p in prices
    ]  # fmt: skip
    show(Table(header, rows))


def _of_throughput(
    paying: "Paying", demand: "Demand | None", given: Mapping[str, Any], as_json: bool
) -> None:
    from analysis.money import cost as money
    from analysis.money.paying import Hardware, basis_or_raise

    basis = basis_or_raise(paying, Hardware())
    output = given["output_throughput"]
    found = money.cost(output, given["total_throughput"], basis)
    needed = demand and vars(money.fleet(demand, output, basis, given["whole_instances"]))
    if as_json:
        answer = {**vars(found), "output_throughput": output, "basis": basis.as_json()}
        show_json({**answer, "fleet": needed})
        return
    rows = [
        [
            name.replace("usd", "USD").replace("_", " "),
            f"{value:,.3f}" if name.startswith("usd") else f"{value:,}",
        ]
        for name, value in {**vars(found), **(needed or {})}.items()
        if value is not None
    ]
    show(Table(["", "value"], rows), basis.sentence)


# --- ``draftboard slo``: the largest load of each arm that meets an SLO, and its goodput.


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
    from answers.cost import words
    from answers.cost.capacity import capacity, capacity_json

    with reading(warehouse) as reader:
        found = capacity(reader, filters_from(given), requirement, Paying(), not no_goodput)
    uncounted = "Goodput: nothing was counted (no request records, or no bound on requests)."
    if as_json:
        show_json(capacity_json(found))
    elif not found.arms:
        show(NO_CELL)
    else:
        show(
            f"SLO: {found.slo.text}",
            Table(*words.arms(found)),
            "",
            Table(*words.loads(found)),
            None if found.counted else uncounted,
        )


# --- ``draftboard pareto``: what a GPU yields against what a user sees, dominated points marked.


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
    from answers.cost import words
    from answers.cost.capacity import trade, trade_json
    from answers.wording import known

    with reading(warehouse) as reader:
        found = trade(reader, filters_from(given))
    if as_json:
        show_json(trade_json(found, front))
        return
    for group in found.groups:
        place = group[0].place
        title = ", ".join(map(known, (place.model, place.dataset, place.on.gpu, place.evidence)))
        shown = [point for point in group if not (front and point.dominated_by)]
        show(Table(*words.trade_points(shown), title), "")
    if found.left_out:
        show(f"{found.left_out} levels are left out: a rate or the number of GPUs is unknown.")
    elif not found.groups:
        show(NO_CELL)
