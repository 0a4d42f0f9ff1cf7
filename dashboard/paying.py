"""What a reader pays, as the pages ask for it: the choices, and the price list as a table."""

import pandas as pd

from analysis.money.paying import Paying
from analysis.money.prices import PRICES

#: What stands in the list of prices before the prices themselves.
LISTED, OWN = "by GPU: its first on-demand price", "my own price"
CHOICES: tuple[str, ...] = (LISTED, OWN, *(price.name for price in PRICES))


def paying(
    choice: str,
    own: tuple[float | None, int] = (None, 1),
    gpus_used: int | None = None,
    utilisation: float = 1.0,
) -> Paying:
    """``choice``: one of CHOICES; ``own``: USD per hour and the GPUs it buys, for OWN alone. Until a
    reader has stated the price, it is the listed one of the GPU."""
    usd, bought = own if choice == OWN else (None, 1)
    listed = None if choice in (LISTED, OWN) else choice
    return Paying(usd, None if usd is None else bought, gpus_used, utilisation, listed)


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
