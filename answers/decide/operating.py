"""The load at which the worth is told: the reader's, else the largest measured one."""

from analysis.choice.judged import Judged
from analysis.evidence.words import SETTLED
from answers.decide.values import Difference, Level
from answers.decide.words import loads_listed
from warehouse.loads import Load


def operating_level(
    levels: tuple[Level, ...], judged: Judged, wanted: float | None
) -> tuple[Level | None, str | None]:
    """Return the level at the operating load, and a sentence where there is none.

    Without a wish: the largest load at which an arm meets the SLO. A load that was not measured
    lies between two that were: where both are settled alike, it is told by the worse of the two.
    """
    if wanted is None:
        meets = {load for at, load in enumerate(judged.loads) if judged.allowed[:, at].any()}
        kept = [one for one in levels if one.load in meets]
        return max(kept, key=lambda one: one.load.order, default=None), None
    exact = next((one for one in levels if one.load.value == wanted), None)
    between = exact or _between(levels, wanted)
    if between is not None:
        return between, None
    measured = loads_listed([one.load for one in levels])
    return None, f"At a load of {wanted:g} nothing is known; measured: {measured}."


def _between(levels: tuple[Level, ...], wanted: float) -> Level | None:
    """Return the worse of two measured neighbours that are settled alike, at the wanted load."""
    known = [one for one in levels if one.load.value is not None]
    below = [one for one in known if (one.load.value or 0) < wanted]
    above = [one for one in known if (one.load.value or 0) > wanted]
    if not below or not above:
        return None
    one, other = below[-1], above[0]
    words = {one.difference.word, other.difference.word}
    if one.load.kind != other.load.kind or len(words) != 1 or not words <= SETTLED:
        return None
    worse = min(one, other, key=lambda x: _lowest(x.difference))
    return Level(
        Load(one.load.kind, wanted, one.load.name), worse.num_speculative_tokens, worse.arm,
        worse.difference, worse.launches, k_kind=worse.k_kind,
    )  # fmt: skip


def _lowest(difference: Difference) -> float:
    return -1.0 if difference.low is None else difference.low
