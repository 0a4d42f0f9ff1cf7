"""What the choice is worth at the operating load, in figures."""

from dataclasses import dataclass

from answers.decide.tables import at_stake, line_name
from answers.decide.values import Decision
from answers.wording import UNKNOWN, interval, percent


@dataclass(frozen=True)
class Tile:
    """A figure with its name, and what it must be read with."""

    label: str
    value: str
    note: str


def tiles(one: Decision) -> tuple[Tile, ...]:
    """Return three figures: the gain and the saving, each with its word and interval, and what is
    at stake."""
    load, gain = one.operating.load.text, one.operating.difference
    sure = _sure(gain.low, gain.high)
    return (
        Tile(f"{line_name(gain)} at {load}", percent(gain.improvement), f"{gain.word}; {sure}"),
        _saving(one, load),
        Tile("At stake in the choice", at_stake(one), "what another K or method may still bring"),
    )


def _saving(one: Decision, load: str) -> Tile:
    label, saving = f"Cost of an output token at {load}", one.saving
    if not one.operating.drafts:
        return Tile(label, "as the baseline", "nothing is drafted there")
    if saving is None:
        return Tile(label, UNKNOWN, "known only where throughput decides")
    low, high = saving.low, saving.high
    sure = _sure(None if high is None else -high, None if low is None else -low)
    return Tile(label, percent(-saving.per_output_token), f"{saving.word}, same hardware; {sure}")


def _sure(low: float | None, high: float | None) -> str:
    """Write the 95 % interval, or that one launch gives none."""
    ends = interval(low, high)
    return f"95 %: {ends}" if ends else "one launch: no interval"
