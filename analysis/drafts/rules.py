"""The published rules of thumb, and what each would have said; the measurement decides.

Three articles give three rules. They contradict one another (the published study runs at an
acceptance of 0.28 to 0.45, which two of them call poor, and still wins), so a rule never decides
here: it stands beside the measured answer, which it meets or not.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

#: Draft more tokens than now, as many, fewer, or stop drafting.
Says = Literal["more", "keep", "fewer", "off"]


@dataclass(frozen=True)
class Opinion:
    """What one rule of thumb says. ``says`` and ``why`` follow the rule; ``agrees``: whether the
    measurement says the same, None where it cannot tell (it has no larger, or no smaller, K to
    compare with)."""

    rule: str
    says: Says
    why: str
    agrees: bool | None = None


@dataclass(frozen=True)
class Arm:
    """One measured arm: its K, acceptance rate (0-1) and mean acceptance length (with bonus)."""

    k: int
    rate: float
    mean_length: float


def opinions(arm: Arm, best: Collection[int], measured: Collection[int]) -> tuple[Opinion, ...]:
    """Return what each rule says of ``arm``, and whether the measurement says so too.

    ``best``: the K that did best at this load, several where they are tied, 0 for no speculation;
    ``measured``: all that were measured there.
    """
    truth: set[Says] = {"off" if k == 0 else _towards(k, arm.k) for k in best}
    reach = {"more": max(measured) > arm.k, "fewer": any(0 < k < arm.k for k in measured),
             "off": 0 in measured}  # fmt: skip
    return tuple(
        Opinion(rule, says, why, says in truth or (False if reach.get(says, True) else None))
        for rule, says, why in (_by_thresholds(arm), _by_sweet_spot(arm), _by_tokens_per_cycle(arm))
    )


_Said = tuple[str, Says, str]


def _by_thresholds(arm: Arm) -> _Said:
    rule = "start at 3; above 50 % acceptance 4 to 5, below 30 % 2 or another draft"
    if arm.rate > 0.50:
        return rule, "more" if arm.k < 4 else "keep", _acceptance(arm, "above 50 %")
    if arm.rate < 0.30:
        return rule, "fewer" if arm.k > 2 else "keep", _acceptance(arm, "below 30 %")
    return rule, _towards(3, arm.k), _acceptance(arm, "between 30 and 50 %: K = 3")


def _by_sweet_spot(arm: Arm) -> _Said:
    rule = "start at 4 to 5; 60-80 % is the sweet spot, below 50 % is poor, above 85 % raise it"
    if arm.rate > 0.85:
        return rule, "more", _acceptance(arm, "above 85 %")
    if arm.rate < 0.50:
        return rule, "fewer", _acceptance(arm, "below 50 %: poorly aligned")
    return rule, "keep", _acceptance(arm, "near the sweet spot")


def _by_tokens_per_cycle(arm: Arm) -> _Said:
    rule = "4-5 accepted tokens a cycle are good; below 2 not worth the draft, below 1 a net loss"
    accepted = arm.mean_length - 1
    why = f"{accepted:.2f} accepted tokens a cycle"
    if accepted < 2:
        return rule, "off", f"{why}: {'a net loss' if accepted < 1 else 'not worth the draft'}"
    return rule, "keep", why


def _acceptance(arm: Arm, where: str) -> str:
    return f"acceptance of {arm.rate * 100:.0f} % is {where}"


def _towards(best: int, k: int) -> Says:
    if best == k:
        return "keep"
    return "more" if best > k else "fewer"
