"""What a reader pays, as the pages ask for it, and the basis that follows for a setting."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.money.charged import gpus_charged
from analysis.money.cost import Basis
from analysis.money.prices import PRICES, Price, by_name, for_gpu
from analysis.tables import known_text
from warehouse.errors import InvalidInput, UnknownKey

#: What stands in the list of prices before the prices themselves.
LISTED, OWN = "by GPU: its first on-demand price", "my own price"
CHOICES: tuple[str, ...] = (LISTED, OWN, *(price.name for price in PRICES))


@dataclass(frozen=True)
class Paying:
    """``price``: one of CHOICES. ``usd_per_hour`` buys ``gpus_per_instance`` GPUs, for OWN only;
    None: not said yet. ``gpus_used`` None: as recorded. ``utilisation``: 0-1."""

    price: str = LISTED
    usd_per_hour: float | None = None
    gpus_per_instance: int = 1
    gpus_used: int | None = None
    utilisation: float = 1.0


def basis_of(paying: Paying, keys: Mapping[str, Any]) -> Basis | str:
    """The basis for a setting (its gpu, gpu_count, tensor_parallel_size), or why there is none."""
    found = _price(paying, keys)
    if isinstance(found, str):
        return found
    bought = paying.gpus_per_instance if found is None else found.gpus_per_instance
    used = gpus_charged(paying.gpus_used, keys, bought)
    if used is None:
        return (
            f"The price buys {bought} GPUs, but of how many the throughput is was not recorded: "
            "state the GPUs behind the throughput."
        )
    if found is None:
        return Basis(paying.usd_per_hour or 0.0, bought, used, paying.utilisation)
    return found.basis(used, paying.utilisation)


def basis_or_refusal(paying: Paying, keys: Mapping[str, Any]) -> Basis:
    """``basis_of`` where there must be one. Raises InvalidInput that says what is missing."""
    found = basis_of(paying, keys)
    if isinstance(found, str):
        raise InvalidInput(found)
    return found


def _price(paying: Paying, keys: Mapping[str, Any]) -> Price | str | None:
    """A listed price, None for the reader's own, or what is missing."""
    if paying.price == OWN:
        return None if paying.usd_per_hour else "Your own price is not stated yet: USD per hour."
    if paying.price != LISTED:
        return by_name(paying.price)
    gpu = keys.get("gpu")
    try:
        return for_gpu(None if pd.isna(gpu) else str(gpu))
    except UnknownKey:
        return f"No price is listed for {known_text(gpu)}: choose a price, or give your own."


def share(percent: int) -> float:
    """A utilisation as the pages ask for it, as a share (0-1)."""
    return percent / 100


def price_rows() -> pd.DataFrame:
    """The price list: one row per price, its date and where it stands."""
    return pd.DataFrame(
        {
            "name": [p.name for p in PRICES],
            "GPU": [p.gpu for p in PRICES],
            "GPUs": [p.gpus_per_instance for p in PRICES],
            "USD per hour": [f"{p.usd_per_hour:,.2f}" for p in PRICES],
            "USD per GPU-hour": [f"{p.basis(1).usd_per_gpu_hour:,.2f}" for p in PRICES],
            "kind": [p.kind for p in PRICES],
            "date": [p.date for p in PRICES],
            "source": [p.source for p in PRICES],
        }
    )
