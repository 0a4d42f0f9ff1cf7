"""What a night may take: hours and money, all its calls together."""

from dataclasses import dataclass

from warehouse.errors import RunnerError
from warehouse.nights import Limits


@dataclass(frozen=True)
class Budget:
    """What a night may take, in hours and USD. ``usd_per_hour``: of the node, from the study; None
    where the study states no price."""

    limits: Limits
    usd_per_hour: float | None

    def __post_init__(self) -> None:
        """Raise RunnerError where money is limited and the node has no price."""
        if self.limits.usd is not None and not self.usd_per_hour:
            raise RunnerError(
                "--max-usd needs the price of the node, and the study states none; add price: "
                "{usd_per_hour: …, gpus_per_instance: …} to it, or use --max-hours."
            )

    @property
    def allowed_s(self) -> float | None:
        """The seconds of measuring that the tighter limit allows; None: no limit."""
        allowed = [] if self.limits.hours is None else [self.limits.hours * 3600]
        if self.limits.usd is not None and self.usd_per_hour:
            allowed.append(self.limits.usd / self.usd_per_hour * 3600)
        return min(allowed, default=None)

    def left_s(self, measured_s: float) -> float | None:
        """Return the seconds that are left after ``measured_s``, never below 0; None: no limit."""
        allowed = self.allowed_s
        return None if allowed is None else max(0.0, allowed - measured_s)

    def __str__(self) -> str:
        """Write the budget: ``3 h``, ``20 USD`` or both."""
        hours = [] if self.limits.hours is None else [f"{self.limits.hours:g} h"]
        money = [] if self.limits.usd is None else [f"{self.limits.usd:g} USD"]
        return " or ".join(hours + money)
