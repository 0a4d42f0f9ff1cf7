"""The load that a reader speaks about, as people write it."""

from dataclasses import dataclass
from math import inf, nan

from warehouse.errors import InvalidInput
from warehouse.loads import Axis

#: What may be written.
EXAMPLES = "16 (requests at once), 16/s, or shares of the output tokens such as 1=0.2,8=0.5,64=0.3"
_RATE = "/s"


@dataclass(frozen=True)
class Wish:
    """A load, or the shares of the output tokens (sum 1) that several have. ``shares``: value and
    share, by value; ``rate``: values are requests a second, else so many at once unless only rates
    were measured."""

    shares: tuple[tuple[float, float], ...]
    rate: bool = False

    @property
    def value(self) -> float | None:
        """The one load; None where there are several."""
        return self.shares[0][0] if len(self.shares) == 1 else None

    def axis(self, there: frozenset[Axis]) -> Axis:
        """Return the kind of load that is meant, of those that were measured."""
        return (
            "rate" if self.rate or "concurrency" not in there and "rate" in there else "concurrency"
        )


def wish(text: str | float | None) -> Wish | None:
    """Read a load or shares of loads; None where nothing is written.

    Shares need not add up to 1. Raises InvalidInput for anything that is no load above 0.
    """
    parts = [part.strip() for part in str(text).split(",") if part.strip()] if text else []
    if text is not None and not parts and str(text).strip():
        raise _refused(str(text))
    if not parts:
        return None
    pairs = [_pair(part, str(text), len(parts) > 1) for part in parts]
    values = [value for value, _, _ in pairs]
    if len({rate for _, _, rate in pairs}) > 1 or len(set(values)) < len(values):
        raise _refused(str(text))
    total = sum(share for _, share, _ in pairs)
    shares = sorted((value, share / total) for value, share, _ in pairs)
    return Wish(tuple(shares), pairs[0][2])


def _pair(part: str, text: str, several: bool) -> tuple[float, float, bool]:
    load, said, share = part.partition("=")
    if several and not said:
        raise _refused(text)
    rate = load.strip().endswith(_RATE)
    value = _number(load.strip().removesuffix(_RATE))
    weight = _number(share) if said else 1.0
    if not (0 < value < inf and 0 < weight < inf):
        raise _refused(text)
    return value, weight, rate


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan


def _refused(text: str) -> InvalidInput:
    return InvalidInput(f"{text!r} is no load above 0; write {EXAMPLES}.")
