"""What tokens cost, always with the basis: which price, for how many GPUs, how busy they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, isfinite, log
from typing import Any

import numpy as np
import pandas as pd

from warehouse.catalogue import counted
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
        return counted(number, self.unit)

    @property
    def sentence(self) -> str:
        """The basis in one sentence, to stand beside every cost."""
        return (
            f"{money(self.usd_per_hour)} USD/h for {self.counted(self.gpus_per_instance)} "
            f"({self.source}), {self.gpus_used} charged: {money(self.usd_per_hour_charged)} USD/h, busy {self.utilisation:.0%} of the time."
        )

    def as_json(self) -> dict[str, Any]:
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
    rest = None if output is None or total is None or total == output else total - output
    if rest is not None and rest < 0:
        raise InvalidInput(
            f"Total throughput counts output too, so {total:g} tokens/s cannot be below the "
            f"output's {output:g}."
        )
    rates = (output, rest, total)
    return Cost(*(None if rate is None else usd_per_million(rate, basis) for rate in rates))


def saving(baseline: float, other: float) -> float:
    """Return the share of the baseline's cost that is saved (0-1); negative where it costs more."""
    return 1 - other / baseline


@dataclass(frozen=True)
class BreakEven:
    """Tokens to serve and hours to run until an investment is paid back; None: never."""

    investment_usd: float
    tokens: float | None
    hours: float | None


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


# --- Energy per token, where the power of the GPUs was recorded during the load.


#: What the runners' sampler calls it: watts of each GPU, or of all of them added up.
POWER = "gpu_power_watts"
#: ``draftboard:gpu_power_watts{gpu="0"}`` and the bare name are one series.
_NAME = r"^(?:[^{]*:)?([^:{]+)"


def joules(samples: pd.DataFrame, window: tuple[float, float]) -> float | None:
    """Return the energy of the GPUs during a load, without the rest of the machine: trapezoids under
    the power curve inside ``window`` (unix s).

    None where no power was recorded before, in and after the window: half a curve is no energy, and a driver
    that says 0 W says nothing.
    """
    names = samples["name"].astype("str").str.extract(_NAME, expand=False)
    rows = samples[names == POWER]
    power = rows.groupby("at", sort=True)["value"].sum().rename("watts").reset_index()
    begin, end = window
    at, watts = power["at"].to_numpy(), power["watts"].to_numpy()
    if len(at) < 2 or not end > begin:
        return None
    # The samples reach over the window, give or take their own spacing.
    gap = float(np.median(np.diff(at)))
    if at[0] > begin + gap or at[-1] < end - gap:
        return None
    inside = (at > begin) & (at < end)
    times = np.concatenate([[begin], at[inside], [end]])
    return float(np.trapezoid(np.interp(times, at, watts), times)) or None


#: Traffics tell prefill from decode where the most prompt tokens a step are so many times the fewest.
LENGTHS_APART = 1.5


def prefill_and_decode(
    used: Sequence[tuple[float, float, float]],
) -> tuple[float, float] | None:
    """Return the joules of a prompt token and of a request's decode step, by least squares over traffics
    of one arm at one load: prompt tokens, decode steps (output tokens / acceptance length), joules.

    None where the traffics are too alike to tell, or where one of the two would be below zero.
    """
    rows = np.array(used, dtype=np.float64).reshape(-1, 3)
    if len(rows) < 2 or not (np.isfinite(rows).all() and (rows > 0).all()):
        return None
    lengths = rows[:, 0] / rows[:, 1]
    if lengths.max() < LENGTHS_APART * lengths.min():
        return None
    # Each traffic counts alike, however long it was measured.
    prefill, decode = np.linalg.lstsq(rows[:, :2] / rows[:, 2:], np.ones(len(rows)))[0]
    return (float(prefill), float(decode)) if prefill >= 0 and decode >= 0 else None


# --- From tokens a day to replicas, GPUs and money.
#
# A replica is one server on ``basis.gpus_used`` GPUs; only whole ones can be rented, enough of them
# for the busiest moment, and they are paid around the clock. So how busy they are follows from the
# demand: a utilisation that somebody states is no part of it, or the same idle time would be paid
# twice. A month is a twelfth of a year of 365 days.


SECONDS_PER_DAY = 86_400
DAYS_PER_YEAR = 365
HOURS_PER_YEAR = 24 * DAYS_PER_YEAR
MONTHS_PER_YEAR = 12


@dataclass(frozen=True)
class Demand:
    """Output tokens asked for on an average day; ``peak_to_mean``: the busiest moment over the
    mean, for which the replicas must suffice. Raises InvalidInput for what cannot be."""

    tokens_per_day: float
    peak_to_mean: float = 1.0

    def __post_init__(self) -> None:
        if not (isfinite(self.tokens_per_day) and self.tokens_per_day > 0):
            raise InvalidInput(f"A demand must be above zero: {self.tokens_per_day:g} is not.")
        if not (isfinite(self.peak_to_mean) and self.peak_to_mean >= 1):
            raise InvalidInput(f"The peak cannot be below the mean: {self.peak_to_mean:g} < 1.")

    @property
    def tokens_per_second(self) -> float:
        """The output tokens per second that must be served at the busiest moment."""
        return self.tokens_per_day / SECONDS_PER_DAY * self.peak_to_mean


@dataclass(frozen=True)
class Fleet:
    """What a demand takes: whole replicas, and what they cost around the clock (USD). ``busy``: the
    share of the paid time in which they serve (0-1), over an average day; ``instances``: whole ones
    rented, None where single GPUs of an instance can be."""

    replicas: int
    gpus: int
    instances: int | None
    usd_per_hour: float
    usd_per_day: float
    usd_per_month: float
    usd_per_year: float
    busy: float


def fleet(
    demand: Demand, tokens_per_second: float, basis: Basis, whole_instances: bool = False
) -> Fleet:
    """Return the replicas that serve ``demand`` at ``tokens_per_second`` (output) each.

    ``whole_instances``: GPUs can only be rented by the instance. Raises InvalidInput for a rate
    that is not above zero.
    """
    if not (isfinite(tokens_per_second) and tokens_per_second > 0):
        raise InvalidInput(f"A server that makes {tokens_per_second:g} tokens/s serves no demand.")
    # What three replicas serve must not take a fourth by a rounding error.
    replicas = max(ceil(demand.tokens_per_second / tokens_per_second - 1e-9), 1)
    gpus = replicas * basis.gpus_used
    instances = ceil(gpus / basis.gpus_per_instance) if whole_instances else None
    per_hour = (
        basis.usd_per_gpu_hour * gpus if instances is None else basis.usd_per_hour * instances
    )
    per_year = per_hour * HOURS_PER_YEAR
    return Fleet(
        replicas,
        gpus,
        instances,
        per_hour,
        per_hour * 24,
        per_year / MONTHS_PER_YEAR,
        per_year,
        demand.tokens_per_day / SECONDS_PER_DAY / (replicas * tokens_per_second),
    )


# --- What the KV cache of a draft's server has no room for, and what queueing those requests costs.


def at_once(load: float, measured: Sequence[tuple[float, float]]) -> float | None:
    """Return the output tokens/s of so many requests at once, between two measured loads on a straight line of
    logarithms; None beyond them. ``measured``: (requests at once, output tokens/s), in order of the loads."""
    for (low, slow), (high, fast) in pairwise([*measured[:1], *measured]):
        if low <= load <= high:
            share = 0.0 if low == high else (log(load) - log(low)) / (log(high) - log(low))
            return exp(log(slow) * (1 - share) + log(fast) * share)
    return None


def worse_from(
    fit: tuple[int, int],
    baseline: Sequence[tuple[float, float]],
    arm: Sequence[tuple[float, float]],
    queued: Sequence[tuple[float, float]] = (),
) -> int | None:
    """Return the number of requests at once from which the baseline, which has room for ``fit[0]`` of them,
    makes more than an arm that queues all beyond ``fit[1]`` and makes what it makes there, or what was measured
    of it (``queued``): ``fit[1]`` where it does before any has to wait; None where it never does while it has
    room, or where nothing tells. Measurements as in ``at_once``."""
    most = at_once(fit[1], arm)
    if most is None:
        return None
    served = ((load, at_once(load, baseline)) for load in range(fit[1], fit[0] + 1))
    return next(
        (at for at, made in served if made is not None and made > (at_once(at, queued) or most)),
        None,
    )
