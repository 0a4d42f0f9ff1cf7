"""``draftboard whatif``: what a K, load, acceptance or length that was not measured would give."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.options import filter_options, filters_from, json_option, warehouse_option
from commands.price_options import basis_from, price_options

if TYPE_CHECKING:
    from analysis.money.cost import Basis
    from analysis.prediction.forecast import Forecast
    from analysis.prediction.whatif import Question
    from commands.measured import Measured

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


@dataclass(frozen=True)
class Answer:
    """One arm family on one dataset: its forecast, or the sentence that says why there is none."""

    about: Mapping[str, Any]
    forecast: "Forecast | None"
    cost: Mapping[str, Any] | None
    refused: str | None = None


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
    from analysis.prediction.forecast_tables import textbook
    from analysis.prediction.textbook import both
    from commands.output import show_table
    from warehouse.errors import InvalidInput

    if given["acceptance_rate"] is None:
        raise InvalidInput("The textbook models need --acceptance-rate, e.g. 0.7.")
    k = 4 if given["k"] is None else given["k"]
    found = both(
        given["acceptance_rate"], k, given["text"], given["decode_share"], given["draft_cost"]
    )
    if as_json:
        click.echo(json.dumps(found.as_json()))
        return
    show_table(*textbook(found))
    click.echo("Textbook models: no measurement stands behind these figures.")


def _measured(warehouse: Path | None, given: Mapping[str, Any], as_json: bool) -> None:
    from analysis.matching.load_points import METRICS_READ
    from commands.measured import read_measured
    from warehouse.errors import InvalidInput

    question = _question(given)
    found = read_measured(warehouse, filters_from(dict(given)), METRICS_READ, ("mean",))
    answers = list(_answers(found, question, given))
    if not answers:
        click.echo(
            "No speculative cell with latencies and acceptance matches. `draftboard runs` lists "
            "what there is; `draftboard whatif --textbook` needs no measurement."
        )
    elif all(answer.forecast is None for answer in answers):
        raise InvalidInput(str(answers[0].refused))
    elif as_json:
        click.echo(json.dumps(_as_json(answers), allow_nan=False))
    else:
        _show(answers)


def _question(given: Mapping[str, Any]) -> "Question":
    from analysis.prediction.whatif import Question
    from warehouse.errors import InvalidInput

    if given["k"] is None or given["concurrency"] is None:
        raise InvalidInput("What if what? Give --k and --concurrency, e.g. --k 4 --concurrency 8.")
    rate, length = given["acceptance_rate"], given["mean_acceptance_length"]
    if rate is not None and length is not None:
        raise InvalidInput("--acceptance-rate and --mean-acceptance-length say the same; give one.")
    if rate is not None:
        if not 0 <= rate <= 1:
            raise InvalidInput(f"--acceptance-rate is a share between 0 and 1, not {rate:g}.")
        length = 1 + given["k"] * rate
    return Question(
        given["k"], given["concurrency"], length, given["prompt_tokens"], given["output_tokens"]
    )


def _answers(found: "Measured", question: "Question", given: Mapping[str, Any]) -> Iterator[Answer]:
    from analysis.drafts.acceptance_tables import position_counts
    from analysis.matching.arms import BASELINE, about, place_arms
    from analysis.matching.load_points import load_points

    points = load_points(found.cells, found.measurements)
    positions = position_counts(found.cells, found.acceptance, found.positions)
    placed = place_arms(found.cells)
    drafted = points[points["family"] != BASELINE]
    for system, family, dataset in (
        drafted[["system", "family", "dataset"]].drop_duplicates().itertuples(index=False)
    ):
        here = (placed["system"] == system) & (placed["family"] == family)
        one = str(placed.index[here & (placed["dataset"] == dataset)][0])
        told = about(found.cells, one) | {"dataset": dataset, "family": family}
        mine = positions[(positions["system"] == system) & (positions["family"] == family)]
        yield _answer(told, (points, mine), (system, question), given)


def _answer(
    about: dict[str, Any], frames: Any, asked: tuple[int, "Question"], given: Mapping[str, Any]
) -> Answer:
    from analysis.matching.load_points import of_family
    from analysis.prediction.forecast import forecast
    from warehouse.errors import InvalidInput

    points, positions = frames
    try:
        mine = of_family(points, asked[0], about["family"])
        found = forecast(mine, positions, about["dataset"], asked[1])
    except InvalidInput as error:
        return Answer(about, None, None, str(error))
    return Answer(about, found, _cost(found, given, about))


def _cost(
    found: "Forecast", given: Mapping[str, Any], about: Mapping[str, Any]
) -> dict[str, Any] | None:
    """USD per million output tokens, where a price is given."""
    from analysis.money.cost import usd_per_million

    if given["usd_per_hour"] is None and given["price"] is None:
        return None
    basis: Basis = basis_from(given, about)
    arms = {"predicted": found.prediction, "baseline": found.baseline}
    return {
        "basis": basis.as_json(),
        "usd_per_million_output_tokens": {
            name: None if arm is None else usd_per_million(arm.output_throughput, basis)
            for name, arm in arms.items()
        },
    }


def _as_json(answers: list[Answer]) -> dict[str, Any]:
    return {
        "forecasts": [
            {**a.about, **a.forecast.as_json(), "cost": a.cost} for a in answers if a.forecast
        ],
        "refused": [{**a.about, "reason": a.refused} for a in answers if a.refused],
    }


def _show(answers: list[Answer]) -> None:
    from analysis.prediction import forecast_tables
    from commands.output import show_table

    for answer in answers:
        if answer.forecast is None:
            click.echo(f"{forecast_tables.title(answer.about)}: {answer.refused}\n")
            continue
        click.echo(forecast_tables.title(answer.about, answer.forecast.prediction.question))
        show_table(*forecast_tables.values(answer.forecast, answer.cost))
        for line in forecast_tables.trust(answer.forecast):
            click.echo(line)
        if answer.cost is not None:
            click.echo(answer.cost["basis"]["sentence"])
        click.echo()
