"""What GPUs cost: a few dated prices with their sources, and the ones a user brings along.

A CPU that a lab ran on has a price of its own: that of a machine, never of a GPU.

Prices age. These are for a first answer and for recognising a figure somebody else printed; a
real decision takes the price on the reader's own contract.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from analysis.money.cost import Basis
from warehouse.errors import InvalidInput, UnknownKey

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

    def basis(self, gpus_used: int, utilisation: float = 1.0) -> Basis:
        """Return this price as the basis of a cost."""
        source = f"{self.name}, {self.kind}, {self.date}, {self.source}"
        return Basis(self.usd_per_hour, self.gpus_per_instance, gpus_used, utilisation, source,
                     self.unit)  # fmt: skip


_CLOUDS = "price list of the AWS API collected in github.com/datareceipts/data-receipts"
_HYPERSTACK = "hyperstack.cloud/gpu-pricing"
_EC2 = "us-east-1, Linux, 2 vCPU and 8 GiB, aws.amazon.com/ec2/pricing/on-demand"


def _price(name: str, gpu: str, usd: float, at: str, source: str) -> Price:
    gpus, instance = gpu.split(" x ") if " x " in gpu else ("1", gpu)
    kind, _, where = source.partition(": ")
    values = {"name": name, "gpu": instance, "gpus_per_instance": int(gpus), "usd_per_hour": usd}
    return Price.model_validate({**values, "kind": kind, "date": at, "source": where})


def _machine(name: str, cpu: str, usd: float) -> Price:
    """Return the price of a machine without a GPU: what the laptop lab would cost as a cloud
    instance of its size."""
    price = _price(name, cpu, usd, "2026-11", f"on-demand: {_EC2}")
    return price.model_copy(update={"unit": "CPU machine"})


#: One instance each; USD per hour of the whole instance.
PRICES: tuple[Price, ...] = (
    _price("aws p5en.48xlarge", "8 x H200", 63.296, "2026-08-06",
           "on-demand: us-east-1, github.com/dstackai/dstack/pull/4110"),
    _price("aws p5en.48xlarge capacity block", "8 x H200", 41.61, "2026-01",
           "reserved: sjramblings.io/inference-tax-nobody-budgeted-for"),
    _price("published study", "8 x H200", 41.62, "2026",
           "published: developers.redhat.com on speculative decoding in vLLM for gpt-oss, which "
           "calls it on-demand; it is a cent from the Capacity Block rate"),
    _price("aws p5.48xlarge", "8 x H100", 55.04, "2026-11-09", f"on-demand: us-east-1, {_CLOUDS}"),
    _price("aws p4de.24xlarge", "8 x A100-80GB", 27.44705, "2026-11-09",
           f"on-demand: us-east-1, {_CLOUDS}"),
    _price("aws p4d.24xlarge", "8 x A100-40GB", 21.957642, "2026-11-09",
           f"on-demand: us-east-1, {_CLOUDS}"),
    _price("hyperstack b200", "B200", 6.00, "2026-08-26", f"on-demand: {_HYPERSTACK}"),
    _price("hyperstack h200", "H200", 3.99, "2026-08-26", f"on-demand: {_HYPERSTACK}"),
    _price("hyperstack h100", "H100", 3.20, "2026-08-26", f"on-demand: {_HYPERSTACK}"),
    _machine("CPU lab price, aws m7a.large", "EPYC", 0.11592),
    _machine("CPU lab price, aws m7i.large", "Xeon", 0.1008),
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
