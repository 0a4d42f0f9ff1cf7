"""``draftboard whatif``: what a K, load, acceptance or length that was not measured would give."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option
from commands.price_options import paying_from, price_options
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from answers.predict.values import Answer, Asked, Refused, Table
    from warehouse.filters import Filters
    from warehouse.store import Reader

_OPTIONS = (
    click.option("--k", type=click.IntRange(min=0), help="Draft tokens; 0: no speculation."),
    click.option("--concurrency", type=click.IntRange(min=1), help="Requests in flight."),
    click.option("--acceptance-rate", type=float, help="Instead of the measured one, 0-1."),
    click.option("--mean-acceptance-length", type=float, help="Instead of the rate; with bonus."),
    click.option("--prompt-tokens", type=float, help="Per request [as measured]."),
    click.option("--output-tokens", type=float, help="Per request [as measured]."),
    click.option("--textbook", is_flag=True, help="Without measurements: two simple models."),
    click.option(
        "--text", type=click.Choice(["structured", "code", "natural_language"]),
        default="structured", show_default=True, help="With --textbook: what caps the gain.",
    ),
    click.option(
        "--decode-share", type=float, default=0.6, show_default=True,
        help="With --textbook: share of the time that is decoding.",
    ),
    click.option(
        "--draft-cost", type=float, default=0.1, show_default=True,
        help="With --textbook: a drafted token's cost over a step of the target.",
    ),
)  # fmt: skip


def _whatif_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@warehouse_option
@filter_options
@_whatif_options
@price_options
@json_option
def whatif(warehouse: Path | None, as_json: bool, **given: Any) -> None:
    """Predict throughput, latencies and cost from what was measured, and say how far to trust it.

    Example: draftboard whatif --dataset code --k 4 --concurrency 8 --usd-per-hour 5

    Example: draftboard whatif --textbook --acceptance-rate 0.7
    """
    if given["textbook"]:
        _textbook(given, as_json)
    else:
        _measured(warehouse, given, as_json)


def _textbook(given: Mapping[str, Any], as_json: bool) -> None:
    from answers.predict.values import NOT_MEASURED, Parameters, table
    from warehouse.errors import InvalidInput

    if given["acceptance_rate"] is None:
        raise InvalidInput("The textbook models need --acceptance-rate, e.g. 0.7.")
    k = 4 if given["k"] is None else given["k"]
    asked = Parameters(
        given["acceptance_rate"], k, given["text"], given["decode_share"], given["draft_cost"]
    )
    if as_json:
        click.echo(json_text(asked.found().as_json()))
        return
    _show_table(table(asked))
    click.echo(NOT_MEASURED)


def _measured(warehouse: Path | None, given: Mapping[str, Any], as_json: bool) -> None:
    from answers.predict.answer import predict
    from answers.predict.values import Refused
    from answers.predict.values import as_json as as_json_object
    from warehouse.errors import InvalidInput
    from warehouse.store import Reader
    from warehouse.store_cache import warehouse_path

    paying, filters = paying_from(given), filters_from(dict(given))
    with Reader(warehouse_path(warehouse)) as reader:
        asked, told = _asked(given, lambda: _decided(reader, filters))
        found = list(predict(reader, filters, asked, paying))
    refused = [one for one in found if isinstance(one, Refused)]
    if not found:
        click.echo(
            "No speculative cell with latencies and acceptance matches. `draftboard runs` lists "
            "what there is; `draftboard whatif --textbook` needs no measurement."
        )
    elif len(refused) == len(found):
        raise InvalidInput(refused[0].reason)
    elif as_json:
        click.echo(json_text(as_json_object(found)))
    else:
        click.echo(told, nl=bool(told))
        _show(found)


def _decided(reader: "Reader", filters: "Filters") -> tuple[int, int] | None:
    """Return K and concurrency of the first decision that has both; None without one."""
    from answers.decide.answer import decide
    from answers.decide.values import Question

    for one in decide(reader, Question(filters)).decisions:
        load, arm = one.operating_load, one.operating.arm
        ks = {cell.num_speculative_tokens for cell in one.arms if cell.arm == arm} - {None}
        if load.kind == "concurrency" and load.value is not None and len(ks) == 1:
            return int(ks.pop() or 0), int(load.value)
    return None


def _asked(
    given: Mapping[str, Any], decided: "Callable[[], tuple[int, int] | None]"
) -> tuple["Asked", str]:
    """Return what is asked, and what is told of a K or a load that was not given: the decision's
    own."""
    from answers.predict.values import Asked
    from warehouse.errors import InvalidInput

    k, concurrency, told = given["k"], given["concurrency"], ""
    if k is None or concurrency is None:
        own = decided()
        if own is None:
            raise InvalidInput(
                "There is no decision to take K and load from: give --k and --concurrency, e.g. "
                "--k 4 --concurrency 8."
            )
        k = own[0] if k is None else k
        concurrency = own[1] if concurrency is None else concurrency
        told = f"K = {k} at {concurrency} at once; what was not given is what draftboard verdict decides on."
    rate, length = given["acceptance_rate"], given["mean_acceptance_length"]
    if rate is not None and length is not None:
        raise InvalidInput("--acceptance-rate and --mean-acceptance-length say the same; give one.")
    asked = Asked(
        k, concurrency, rate, length, given["prompt_tokens"], given["output_tokens"],
    )  # fmt: skip
    return asked, told


def _show(found: "Sequence[Answer | Refused]") -> None:
    from answers.predict import words
    from answers.predict.values import Refused

    for one in found:
        if isinstance(one, Refused):
            click.echo(f"{words.title(one.place)}: {one.reason}\n")
            continue
        click.echo(words.title(one.place, one.asked))
        _show_table(words.numbers(one))
        for sentence in one.warnings:
            click.echo(f"warning: {sentence}")
        for sentence in one.trust:
            click.echo(sentence)
        if one.cost is not None:
            click.echo(one.cost.sentence)
        click.echo()


def _show_table(table: "Table") -> None:
    from commands.output import show_table

    show_table(list(table.header), [list(row) for row in table.rows])
