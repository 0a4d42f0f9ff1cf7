"""``draftboard whatif``: what a K, load, acceptance or length that was not measured would give."""

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
    price_options,
    reading,
    show,
    show_json,
    warehouse_option,
    with_options,
)
from warehouse.errors import InvalidInput
from warehouse.filters import Filters

if TYPE_CHECKING:
    from analysis.prediction.reach import Question
    from answers.predict.break_even import BreakEven
    from warehouse.store import Reader

_whatif_options = with_options(
    click.option("--k", type=click.IntRange(min=0), help="Draft tokens; 0: no speculation."),
    click.option("--concurrency", type=click.IntRange(min=1), help="Requests in flight."),
    click.option("--acceptance-rate", type=float, help="Instead of the measured one, 0-1."),
    click.option("--mean-acceptance-length", type=float, help="Instead of the rate; with bonus."),
    click.option("--prompt-tokens", type=float, help="Per request [as measured]."),
    click.option("--output-tokens", type=float, help="Per request [as measured]."),
    click.option(
        "--break-even", is_flag=True, help="From how many tokens a step on a draft pays, by K and load."
    ),
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


@click.command()
@warehouse_option
@filter_options
@_whatif_options
@price_options
@json_option
def whatif(warehouse: Path | None, as_json: bool, **given: Any) -> None:
    """Predict throughput, latencies and cost from what was measured, and say how far to trust it.

    Example: draftboard whatif --dataset code --k 4 --concurrency 8 --usd-per-hour 5

    Example: draftboard whatif --break-even --dataset code --k 3

    Example: draftboard whatif --textbook --acceptance-rate 0.7
    """
    if given["textbook"]:
        _textbook(given, as_json)
        return
    from answers.predict import break_even, values
    from answers.predict.answer import predict

    paying, filters, found, told = paying_from(given), filters_from(given), list[Any](), ""
    with reading(warehouse) as reader:
        if given["break_even"]:
            found += break_even.break_evens(reader, filters, *_k_and_load(given))
        else:
            question, told = _question(given, reader, filters)
            found += predict(reader, filters, question, paying)
    refused = [one for one in found if isinstance(one, values.RefusedForecast)]
    if not found and not as_json:
        show(
            "No speculative cell with latencies and acceptance matches. `draftboard runs` lists "
            "what there is; `draftboard whatif --textbook` needs no measurement."
        )
    elif refused and len(refused) == len(found):
        raise InvalidInput(refused[0].reason)
    elif as_json:
        show_json(
            (break_even.break_evens_json if given["break_even"] else values.forecasts_json)(found)
        )
    else:
        show(told or None)
        for answer in found:
            if isinstance(answer, values.RefusedForecast):
                show(f"{values.title(answer.place)}: {answer.reason}\n")
            elif isinstance(answer, break_even.BreakEven):
                _show(answer)
            else:
                show(
                    values.title(answer.place),
                    answer.headline,
                    Table(*values.numbers(answer)),
                    *(f"warning: {sentence}" for sentence in answer.warnings),
                    *answer.trust,
                    None if answer.cost is None else answer.cost.sentence,
                    "",
                )


def _k_and_load(given: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the K and the load for which --break-even is asked; None: for each that was measured."""
    stated = ("acceptance_rate", "mean_acceptance_length", "prompt_tokens", "output_tokens")
    if given["k"] == 0 or any(given[name] is not None for name in stated):
        raise InvalidInput(
            "--break-even tells from which acceptance on a draft pays, with requests as measured: give "
            "it a --k from 1 on and a --concurrency, or neither."
        )
    return given["k"], given["concurrency"]


def _show(answer: "BreakEven") -> None:
    from answers.predict import break_even, values

    largest = answer.steps[-1].concurrency
    show(
        values.title(answer.place),
        *(answer.sentence(step) for step in answer.steps if step.concurrency == largest),
        Table(*break_even.table(answer)),
        answer.stands_on,
        "",
    )


def _textbook(given: Mapping[str, Any], as_json: bool) -> None:
    from analysis.prediction.reach import Textbook
    from answers.predict import values

    if given["acceptance_rate"] is None:
        raise InvalidInput("The textbook models need --acceptance-rate, e.g. 0.7.")
    textbook = Textbook(
        given["acceptance_rate"], 4 if given["k"] is None else given["k"], given["text"],
        given["decode_share"], given["draft_cost"],
    )  # fmt: skip
    if as_json:
        show_json(textbook.as_json())
    else:
        show(Table(*values.table(textbook)), values.NOT_MEASURED)


def _question(
    given: Mapping[str, Any], reader: "Reader", filters: Filters
) -> "tuple[Question, str]":
    """Return what is asked, and what is told of a K or a load that was not given: the decision's
    own."""
    from analysis.prediction.reach import Question

    k, concurrency, told = given["k"], given["concurrency"], ""
    if k is None or concurrency is None:
        own = _decided(reader, filters)
        if own is None:
            raise InvalidInput(
                "There is no decision to take K and load from: give --k and --concurrency, e.g. "
                "--k 4 --concurrency 8."
            )
        k = own[0] if k is None else k
        concurrency = own[1] if concurrency is None else concurrency
        told = f"K = {k} at {concurrency} at once; what was not given is that of the arm that draftboard verdict names."
    rate, length = given["acceptance_rate"], given["mean_acceptance_length"]
    if rate is not None and length is not None:
        raise InvalidInput("--acceptance-rate and --mean-acceptance-length say the same; give one.")
    tokens = given["prompt_tokens"], given["output_tokens"]
    return Question(k, concurrency, rate, length, *tokens), told


def _decided(reader: "Reader", filters: Filters) -> tuple[int, int] | None:
    """Return K and concurrency of the first decision that has both; None without one."""
    from answers.decide.answer import decide
    from answers.decide.values import DecideQuestion

    for decision in decide(reader, DecideQuestion(filters)).decisions:
        load, arm = decision.operating_load, decision.operating.arm
        ks = {cell.num_speculative_tokens for cell in decision.arms if cell.arm == arm} - {None}
        if load.kind == "concurrency" and load.value is not None and len(ks) == 1:
            return int(ks.pop() or 0), int(load.value)
    return None
