"""The options that say what GPUs cost, and the basis that follows from them."""

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from analysis.money.paying import Paying, Price

Command = Callable[..., Any]

_OPTIONS = (
    click.option("--usd-per-hour", type=float, help="Your price: USD per hour of an instance."),
    click.option("--gpus-per-instance", type=int, help="GPUs that this price buys [1]."),
    click.option("--gpus-used", type=int, help="GPUs behind the throughput [as recorded]."),
    click.option(
        "--utilisation", type=float, default=1.0, show_default=True,
        help="Share of the paid time in which the server is that busy, 0-1.",
    ),
    click.option("--price", metavar="NAME", help="A price of the list, by its name."),
    click.option(
        "--prices", type=click.Path(path_type=Path), metavar="FILE",
        help="Your own price list (YAML or CSV: name, gpu, usd_per_hour, date, source).",
    ),
)  # fmt: skip


def price_options(command: Command) -> Command:
    """Add --usd-per-hour, --gpus-per-instance, --gpus-used, --utilisation, --price and --prices."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def price_list(file: Path | None) -> "tuple[Price, ...]":
    """Return the prices of the user's own file, then those that Draftboard brings. Raises
    InvalidInput."""
    from analysis.money.paying import PRICES, own_prices
    from analysis.published.printed import yaml_as_printed
    from warehouse.errors import InvalidInput

    if file is None:
        return PRICES
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The price list {file} cannot be read: {error}.") from error
    if file.suffix.lower() == ".csv":
        rows: Any = list(csv.DictReader(io.StringIO(text)))
    else:
        rows = yaml_as_printed(text, file.name)
    return (*own_prices(rows, file.name), *PRICES)


def paying_from(given: Mapping[str, Any]) -> "Paying":
    """Return what the options say of money. Raises InvalidInput where they contradict each
    other."""
    from analysis.money.paying import Paying

    return Paying(
        given["usd_per_hour"], given["gpus_per_instance"], given["gpus_used"],
        given["utilisation"], given["price"], price_list(given["prices"]),
    )  # fmt: skip
