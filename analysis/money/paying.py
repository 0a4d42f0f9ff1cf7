"""What is paid for GPUs: from what somebody said and what is known of a setting to one basis."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from analysis.frames import plain
from analysis.money.cost import Basis
from warehouse.errors import InvalidInput, UnknownKey

# --- What GPUs cost: a few dated prices with their sources, and the ones a user brings along.
#
# A CPU that a lab ran on has a price of its own: that of a machine, never of a GPU.
#
# Prices age. These are for a first answer and for recognising a figure somebody else printed; a
# real decision takes the price on the reader's own contract.


Text = Annotated[str, Field(min_length=1, max_length=500)]


class Price(BaseModel):
    """One row: ``usd_per_hour`` buys an instance with ``gpus_per_instance`` of these GPUs. ``unit``:
    what is bought and charged; a machine without a GPU is one."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: Text
    gpu: Text
    gpus_per_instance: Annotated[int, Field(ge=1)] = 1
    usd_per_hour: Annotated[float, Field(gt=0)]
    kind: Literal["on-demand", "reserved", "spot", "published", "own"] = "own"
    date: Annotated[
        str, BeforeValidator(str), Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")
    ]  # as exact as the source is: year, month or day
    source: Text
    unit: Literal["GPU", "CPU machine"] = "GPU"

    def basis(self, gpus_used: int) -> Basis:
        """Return this price as the basis of a cost."""
        source = f"{self.name}, {self.kind}, {self.date}, {self.source}"
        return Basis(
            self.usd_per_hour, self.gpus_per_instance, gpus_used, source=source, unit=self.unit
        )


_CLOUDS = "price list of the AWS API collected in github.com/datareceipts/data-receipts"
_HYPERSTACK = "hyperstack.cloud/gpu-pricing"
_EC2 = "us-east-1, Linux, 2 vCPU and 8 GiB, aws.amazon.com/ec2/pricing/on-demand"


def _price_of(name: str, gpu: str, usd: float, at: str, source: str, unit: str = "GPU") -> Price:
    gpus, instance = gpu.split(" x ") if " x " in gpu else ("1", gpu)
    kind, _, where = source.partition(": ")
    values = {"name": name, "gpu": instance, "gpus_per_instance": int(gpus), "usd_per_hour": usd}
    return Price.model_validate({**values, "kind": kind, "date": at, "source": where, "unit": unit})


#: One instance each; USD per hour of the whole instance.
PRICES: tuple[Price, ...] = (
    _price_of("aws p5en.48xlarge", "8 x H200", 63.296, "2026-08-06",
           "on-demand: us-east-1, github.com/dstackai/dstack/pull/4110"),
    _price_of("aws p5en.48xlarge capacity block", "8 x H200", 41.61, "2026-01",
           "reserved: sjramblings.io/inference-tax-nobody-budgeted-for"),
    _price_of("published study", "8 x H200", 41.62, "2026",
           "published: developers.redhat.com on speculative decoding in vLLM for gpt-oss, which "
           "calls it on-demand; it is a cent from the Capacity Block rate"),
    _price_of("aws p5.48xlarge", "8 x H100", 55.04, "2026-11-09", f"on-demand: us-east-1, {_CLOUDS}"),
    _price_of("aws p4de.24xlarge", "8 x A100-80GB", 27.44705, "2026-11-09",
           f"on-demand: us-east-1, {_CLOUDS}"),
    _price_of("aws p4d.24xlarge", "8 x A100-40GB", 21.957642, "2026-11-09",
           f"on-demand: us-east-1, {_CLOUDS}"),
    _price_of("hyperstack b200", "B200", 6.00, "2026-08-26", f"on-demand: {_HYPERSTACK}"),
    _price_of("hyperstack h200", "H200", 3.99, "2026-08-26", f"on-demand: {_HYPERSTACK}"),
    _price_of("hyperstack h100", "H100", 3.20, "2026-08-26", f"on-demand: {_HYPERSTACK}"),
    # Machines without a GPU: what the laptop lab would cost as a cloud instance of its size.
    _price_of("CPU lab price, aws m7a.large", "EPYC", 0.11592, "2026-11", f"on-demand: {_EC2}",
           "CPU machine"),
    _price_of("CPU lab price, aws m7i.large", "Xeon", 0.1008, "2026-11", f"on-demand: {_EC2}",
           "CPU machine"),
)  # fmt: skip


def own_prices(rows: Any, where: str) -> tuple[Price, ...]:
    """Read a user's price list: mappings with name, gpu, usd_per_hour, date, source (and
    gpus_per_instance, kind). Raises InvalidInput that names the first field that is wrong."""
    try:
        return TypeAdapter(tuple[Price, ...]).validate_python(rows)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise InvalidInput(
            f"{where}: {place}: {first['msg']}; each price needs name, gpu, usd_per_hour, date "
            "and source, and may say gpus_per_instance and kind."
        ) from error


def by_name(name: str, prices: Sequence[Price] = PRICES) -> Price:
    """Return the price of that name. Raises UnknownKey, listing the names there are."""
    for price in prices:
        if price.name.casefold() == name.casefold():
            return price
    raise UnknownKey(
        f"There is no price {name!r}; use one of: {', '.join(p.name for p in prices)}."
    )


def for_gpu(gpu: str | None, prices: Sequence[Price] = PRICES) -> Price | None:
    """Return the first on-demand or own price of that GPU (``NVIDIA H200 141GB`` is a H200).

    None where there is none: a price is never guessed.
    """
    for price in prices:
        if price.kind in ("on-demand", "own") and is_gpu(gpu or "", price):
            return price
    return None


def is_gpu(gpu: str, price: Price) -> bool:
    """Return whether a price is that of a GPU, however its name goes on (``NVIDIA H200 141GB``)."""
    return set(_words(price.gpu)) <= set(_words(gpu))


def instances_at(usd_per_hour: float, decimals: int, prices: Sequence[Price]) -> list[Price]:
    """Return the listed instances whose price prints as ``usd_per_hour`` with that many
    decimals."""
    return [p for p in prices if round(p.usd_per_hour, decimals) == round(usd_per_hour, decimals)]


def _words(gpu: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", gpu.casefold()) if word]


# --- What is paid for GPUs: from what somebody said and what is known of a setting to one basis.


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
    if paying.usd_per_hour is not None:
        bought = 1 if paying.gpus_per_instance is None else paying.gpus_per_instance
        price = Basis(paying.usd_per_hour, bought)
    elif paying.price is not None:
        price = by_name(paying.price, paying.prices).basis(1)
    else:
        listed = for_gpu(on.gpu, paying.prices)
        if listed is None:
            return Refusal(
                f"No price is known for {on.gpu or 'an unknown GPU'}; give --usd-per-hour (and "
                "--gpus-per-instance), or --price NAME from draftboard cost --list-prices."
            )
        price = listed.basis(1)
    # GPUs behind the throughput: stated, recorded, or obvious where the price buys one.
    stated = (paying.gpus_used, on.gpu_count, on.tensor_parallel_size)
    used = next((gpus for gpus in stated if gpus is not None), None)
    if used is None and price.gpus_per_instance <= 1:
        used = 1
    if used is None:
        return Refusal(
            f"The price buys {price.gpus_per_instance} GPUs, but how many of them the throughput "
            "is of was not recorded: give --gpus-used (1 for one GPU's share, "
            f"{price.gpus_per_instance} for the whole instance)."
        )
    return replace(price, gpus_used=used, utilisation=paying.utilisation)


def basis_or_raise(paying: Paying, on: Hardware) -> Basis:
    """Return the basis that ``basis_of`` finds. Raises InvalidInput with the refusal where there is
    none."""
    found = basis_of(paying, on)
    if isinstance(found, Refusal):
        raise InvalidInput(found.sentence)
    return found
