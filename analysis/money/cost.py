"""What tokens cost, always with the basis: which price, for how many GPUs, how busy they are."""

from dataclasses import dataclass
from math import isfinite
from typing import Any

from warehouse.errors import InvalidInput

MILLION = 1_000_000
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Basis:
    """What is paid for. A cost without it means nothing.

    ``usd_per_hour`` buys ``gpus_per_instance`` GPUs; the throughput is that of ``gpus_used`` of
    them, which pay their share. ``utilisation`` (0-1] is the share of the paid time in which the
    server runs at this throughput. ``unit``: what is charged, GPUs or machines without one. Raises
    InvalidInput for a value that cannot be.
    """

    usd_per_hour: float
    gpus_per_instance: int = 1
    gpus_used: int = 1
    utilisation: float = 1.0
    source: str = "given by the user"
    unit: str = "GPU"

    def __post_init__(self) -> None:
        if not (isfinite(self.usd_per_hour) and self.usd_per_hour > 0):
            raise InvalidInput(f"A price must be above zero: {self.usd_per_hour:g} USD/h is not.")
        if self.gpus_per_instance < 1 or self.gpus_used < 1:
            raise InvalidInput("GPUs per instance and GPUs used must each be at least 1.")
        if not 0 < self.utilisation <= 1:
            raise InvalidInput(
                f"Utilisation is a share above 0 and up to 1: {self.utilisation:g} is not; "
                "write 0.6 for 60 %."
            )

    @property
    def usd_per_gpu_hour(self) -> float:
        """The price of one GPU for an hour."""
        return self.usd_per_hour / self.gpus_per_instance

    @property
    def usd_per_hour_charged(self) -> float:
        """What the GPUs behind the throughput cost per hour."""
        return self.usd_per_gpu_hour * self.gpus_used

    @property
    def name(self) -> str:
        """What is charged, in words: ``per instance``, ``per GPU`` or the share of an instance."""
        if self.gpus_used == self.gpus_per_instance:
            return "per instance" if self.gpus_per_instance > 1 else f"per {self.unit}"
        if self.gpus_used == 1:
            return f"per {self.unit}"
        return f"{self.counted(self.gpus_used)} at the price of {self.gpus_per_instance}"

    def counted(self, number: int) -> str:
        """Return a number of what is charged: ``1 GPU``, ``12 GPUs``, ``3 CPU machines``."""
        return f"{number:,} {self.unit}{'' if number == 1 else 's'}"

    @property
    def sentence(self) -> str:
        """The basis in one sentence, to stand beside every cost."""
        return (
            f"{money(self.usd_per_hour)} USD/h for {self.counted(self.gpus_per_instance)} "
            f"({self.source}), {self.gpus_used} charged: {money(self.usd_per_hour_charged)} USD/h, busy {self.utilisation:.0%} of the time."
        )

    def as_json(self) -> dict[str, Any]:
        """Return the fields and the sentence as a dict for JSON."""
        return {
            "name": self.name,
            "usd_per_hour": self.usd_per_hour,
            "gpus_per_instance": self.gpus_per_instance,
            "gpus_used": self.gpus_used,
            "utilisation": self.utilisation,
            "usd_per_hour_charged": self.usd_per_hour_charged,
            "price_source": self.source,
            "unit": self.unit,
            "sentence": self.sentence,
        }


def money(usd: float) -> str:
    """Write USD with cents, below one with a tenth of them: ``63.30``, ``0.116``."""
    return f"{usd:,.2f}" if usd >= 1 else f"{usd:.3f}"


@dataclass(frozen=True)
class Cost:
    """USD per million tokens. Each line spreads the whole price over that kind of token alone, so
    they are three views of one bill and must not be added; None where the rate is unknown."""

    usd_per_million_output_tokens: float | None
    usd_per_million_input_tokens: float | None
    usd_per_million_total_tokens: float | None

    def as_json(self) -> dict[str, float | None]:
        """Return the three figures by name, as a dict for JSON."""
        return dict(vars(self))


def usd_per_million(tokens_per_second: float, basis: Basis) -> float:
    """Return USD per million tokens: 1e6 / (tokens/s x 3600 x utilisation) x USD per hour of the
    GPUs charged.

    The formula of the published study, with its basis said. Raises InvalidInput for a rate that is
    not above zero.
    """
    if not (isfinite(tokens_per_second) and tokens_per_second > 0):
        raise InvalidInput(
            f"Tokens cannot be priced at {tokens_per_second:g} tokens/s: the rate must be above 0."
        )
    per_hour = tokens_per_second * SECONDS_PER_HOUR * basis.utilisation
    return MILLION / per_hour * basis.usd_per_hour_charged


def cost(output: float | None, total: float | None, basis: Basis) -> Cost:
    """Return the cost at an output and a total throughput (tokens/s); input is their difference."""
    return Cost(
        None if output is None else usd_per_million(output, basis),
        _input_cost(output, total, basis),
        None if total is None else usd_per_million(total, basis),
    )


def _input_cost(output: float | None, total: float | None, basis: Basis) -> float | None:
    if output is None or total is None or total == output:
        return None
    if total < output:
        raise InvalidInput(
            f"Total throughput counts output too, so {total:g} tokens/s cannot be below the "
            f"output's {output:g}."
        )
    return usd_per_million(total - output, basis)


def saving(baseline: float, other: float) -> float:
    """Return the share of the baseline's cost that is saved (0-1); negative where it costs more."""
    return 1 - other / baseline


@dataclass(frozen=True)
class BreakEven:
    """Tokens to serve and hours to run until an investment is paid back; None: never."""

    investment_usd: float
    tokens: float | None
    hours: float | None

    def as_json(self) -> dict[str, float | None]:
        """Return the fields as a dict for JSON."""
        return dict(vars(self))


def break_even(
    investment_usd: float, usd_saved_per_million: float, usd_saved_per_hour: float
) -> BreakEven:
    """Return investment / saving, in tokens and in hours.

    ``investment_usd``: what the benchmark and a draft's training cost. Raises InvalidInput for an
    investment that is below zero or not finite.
    """
    if not (isfinite(investment_usd) and investment_usd >= 0):
        raise InvalidInput(f"An investment cannot be {investment_usd:g} USD.")
    return BreakEven(
        investment_usd,
        None if not usd_saved_per_million > 0 else investment_usd / usd_saved_per_million * MILLION,
        None if not usd_saved_per_hour > 0 else investment_usd / usd_saved_per_hour,
    )
