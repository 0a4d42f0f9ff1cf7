"""What is paid for GPUs: from what somebody said and what is known of a setting to one basis."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.frames import plain
from analysis.money.cost import Basis
from analysis.money.prices import PRICES, Price, by_name, for_gpu
from warehouse.errors import InvalidInput

_FACTS = ("gpu", "gpu_count", "tensor_parallel_size")


@dataclass(frozen=True)
class Paying:
    """What somebody says of money. ``usd_per_hour`` buys ``gpus_per_instance`` GPUs (None: 1);
    ``price``: the name of a listed price instead; without both, the first price of the setting's
    GPU. ``gpus_used`` None: as recorded. ``utilisation``: share of the paid time in which a server
    is busy (0-1], for the cost of a token."""

    usd_per_hour: float | None = None
    gpus_per_instance: int | None = None
    gpus_used: int | None = None
    utilisation: float = 1.0
    price: str | None = None
    prices: tuple[Price, ...] = PRICES

    def __post_init__(self) -> None:
        if self.usd_per_hour is not None and self.price is not None:
            raise InvalidInput("--usd-per-hour and --price both name a price; give one of them.")
        if self.usd_per_hour is None and self.gpus_per_instance is not None:
            raise InvalidInput("--gpus-per-instance says what --usd-per-hour buys; give both.")


@dataclass(frozen=True)
class Hardware:
    """What is known of the GPUs behind a throughput; None: unknown."""

    gpu: str | None = None
    gpu_count: int | None = None
    tensor_parallel_size: int | None = None


@dataclass(frozen=True)
class Refusal:
    """Why there is no basis, in one sentence that says what to give."""

    sentence: str


def hardware_of(row: Mapping[str, Any]) -> Hardware:
    """Return the GPUs of a frame's row; None for what the frame shows as missing."""
    gpu, count, parallel = (plain(row.get(name)) for name in _FACTS)
    return Hardware(
        None if gpu is None else str(gpu),
        None if count is None else int(count),
        None if parallel is None else int(parallel),
    )


def basis_of(paying: Paying, on: Hardware) -> Basis | Refusal:
    """Return what the GPUs of a setting cost, or why that is unknown.

    Raises UnknownKey for a price that is not on the list, InvalidInput for a value that cannot be
    (a price of zero, a utilisation of 60).
    """
    price = _price(paying, on)
    if isinstance(price, Refusal):
        return price
    used = _charged(paying, on, price.gpus_per_instance)
    if used is None:
        return Refusal(
            f"The price buys {price.gpus_per_instance} GPUs, but how many of them the throughput "
            "is of was not recorded: give --gpus-used (1 for one GPU's share, "
            f"{price.gpus_per_instance} for the whole instance)."
        )
    return Basis(
        price.usd_per_hour, price.gpus_per_instance, used, paying.utilisation, price.source,
        price.unit,
    )  # fmt: skip


def basis_or_raise(paying: Paying, on: Hardware) -> Basis:
    """Return the basis that ``basis_of`` finds. Raises InvalidInput with the refusal where there is
    none."""
    found = basis_of(paying, on)
    if isinstance(found, Refusal):
        raise InvalidInput(found.sentence)
    return found


def _price(paying: Paying, on: Hardware) -> Basis | Refusal:
    """Return the stated price, the one that was named, or the first of the GPU; one GPU charged."""
    if paying.usd_per_hour is not None:
        bought = 1 if paying.gpus_per_instance is None else paying.gpus_per_instance
        return Basis(paying.usd_per_hour, bought)
    if paying.price is not None:
        return by_name(paying.price, paying.prices).basis(1)
    found = for_gpu(on.gpu, paying.prices)
    if found is None:
        return Refusal(
            f"No price is known for {on.gpu or 'an unknown GPU'}; give --usd-per-hour (and "
            "--gpus-per-instance), or --price NAME from draftboard cost --list-prices."
        )
    return found.basis(1)


def _charged(paying: Paying, on: Hardware, bought: int) -> int | None:
    """Return how many GPUs are behind a throughput: stated, recorded, or obvious where the price
    buys one."""
    for value in (paying.gpus_used, on.gpu_count, on.tensor_parallel_size):
        if value is not None:
            return value
    return 1 if bought <= 1 else None
