"""The options that say what GPUs cost, and the basis that follows from them."""

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from analysis.money.cost import Basis
    from analysis.money.prices import Price

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
    """--usd-per-hour, --gpus-per-instance, --gpus-used, --utilisation, --price, --prices."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def price_list(file: Path | None) -> "tuple[Price, ...]":
    """The user's own prices first, then those that come along. Raises InvalidInput."""
    from analysis.money.prices import PRICES, own_prices
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


def basis_from(given: Mapping[str, Any], keys: Mapping[str, Any]) -> "Basis":
    """The basis for a setting (``keys``: gpu, gpu_count, tensor_parallel_size, any may be missing).

    ``--usd-per-hour`` wins over ``--price``, and that over the first price for the setting's GPU.
    Raises InvalidInput or UnknownKey where price or number of GPUs stays unknown.
    """
    from analysis.money.cost import Basis
    from analysis.money.prices import by_name, for_gpu

    usd, bought = given["usd_per_hour"], given["gpus_per_instance"]
    _unambiguous(given)
    if usd is not None:
        bought = 1 if bought is None else bought
        return Basis(usd, bought, _used(given, keys, bought), given["utilisation"])
    prices = price_list(given["prices"])
    found = by_name(given["price"], prices) if given["price"] else for_gpu(keys.get("gpu"), prices)
    return found.basis(_used(given, keys, found.gpus_per_instance), given["utilisation"])


def _unambiguous(given: Mapping[str, Any]) -> None:
    from warehouse.errors import InvalidInput

    if given["usd_per_hour"] is not None and given["price"] is not None:
        raise InvalidInput("--usd-per-hour and --price both name a price; give one of them.")
    if given["usd_per_hour"] is None and given["gpus_per_instance"] is not None:
        raise InvalidInput("--gpus-per-instance says what --usd-per-hour buys; give both.")


def _used(given: Mapping[str, Any], keys: Mapping[str, Any], bought: int) -> int:
    from analysis.money.charged import gpus_charged
    from warehouse.errors import InvalidInput

    found = gpus_charged(given["gpus_used"], keys, bought)
    if found is not None:
        return found
    raise InvalidInput(
        f"The price buys {bought} GPUs, but how many of them the throughput is of is unknown: "
        f"give --gpus-used (1 for one GPU's share, {bought} for the whole instance)."
    )
