"""Numbers and names as every face shows them: one rounding, one word for unknown."""

import math
import re
from collections.abc import Callable

#: The header of a table, and its rows.
TextRows = tuple[list[str], list[list[str]]]
UNKNOWN = "unknown"
#: Where a reader of Markdown makes a link, a mention or a reference of bare text. A word joiner is
#: seen by nobody and ends what it looks for.
_REFERRED = re.compile(r"(?i)(https?://|www(?=\.)|[@#](?=\w))")
#: Within a word an underscore is no markup.
_MARKUP = re.compile(r"([\\`*\[\]<>|#~]|(?<![^\W_])_|_(?![^\W_]))")
#: Between a number and its unit, so that no line ends there.
_SPACE = "\u202f"
#: Two launches that differ much leave intervals whose ends have hundreds of digits: this is 10,000 %.
_LARGEST = 100.0
#: Evidence other than a GPU's -> how a sentence about its origin begins.
ORIGINS = {
    "cpu": "Measured on a CPU",
    "mock": "Measured against a mock server",
    "dummy_weights": "Measured with dummy weights",
    "simulated": "Simulated, not measured",
}
METHODS = {
    "eagle": "EAGLE",
    "eagle3": "EAGLE-3",
    "draft_model": "a draft model",
    "ngram": "n-gram lookup",
    "mtp": "multi-token prediction",
    "suffix": "suffix decoding",
    "medusa": "Medusa",
    "speculative": "speculation",
}


def rounded(value: float | None, decimals: int) -> str:
    """Write a value with commas between thousands, ``1,171.7``; an unknown one is said so, never
    0."""
    return UNKNOWN if value is None or math.isnan(value) else f"{value:,.{decimals}f}"


def points(ratio: float) -> str:
    """Write a ratio in percent without the sign of percent: ``+20.7``; ``-1,388`` without a decimal
    where it is large, ``+10,000+`` where it is larger than anything means."""
    if math.isnan(ratio):
        return UNKNOWN
    if abs(ratio) > _LARGEST:
        return f"{math.copysign(_LARGEST, ratio) * 100:+,.0f}+"
    return f"{ratio * 100:+,.{0 if abs(ratio) >= 10 else 1}f}"


def percent(ratio: float | None, sign: bool = True) -> str:
    """Write a ratio in percent: ``+20.7 %``; without a plus or minus where a word beside it says
    the direction."""
    if ratio is None or math.isnan(ratio):
        return UNKNOWN
    text = points(ratio) if sign else points(ratio)[1:]
    return f"{text}{_SPACE}%"


def size(ratio: float) -> str:
    """Write how large a change is, for use before "better" or "worse": ``11.1 %``; from 100 % on as
    a multiple, ``14.9 times``."""
    # A change of 100 % or more is one of something that grew: nothing loses more than all of it.
    return f"{1 + abs(ratio):,.1f} times" if abs(ratio) >= 1 else f"{abs(ratio) * 100:.1f} %"


def interval(low: float | None, high: float | None) -> str:
    """Write an interval of ratios in percent: ``+18.2 to +23.3 %``; empty where there is none."""
    return between(low, high, points, f"{_SPACE}%")


def directed(low: float | None, high: float | None, better: bool) -> str:
    """Write an interval beside a word that says the direction: ``18.2 to 23.3 %``; what is below
    zero goes in the other direction."""
    if low is None or high is None:
        return ""
    ends = (low, high) if better else (-high, -low)
    return between(*ends, lambda end: points(end).removeprefix("+"), f"{_SPACE}%")


def between(
    low: float | None, high: float | None, write: Callable[[float], str], unit: str = ""
) -> str:
    """Write an interval whose ends ``write`` turns into text; empty where there is none. An end that
    lies beyond all numbers is said so: ``no lower bound, up to +23.3 %``."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    if abs(low) == abs(high) == math.inf:
        return "no bound"
    if low == -math.inf:
        return f"no lower bound, up to {write(high)}{unit}"
    if high == math.inf:
        return f"from {write(low)}{unit}, no upper bound"
    return f"{write(low)} to {write(high)}{unit}"


def known(value: object) -> str:
    """Write a fact as text; an unknown one as the word for unknown."""
    return UNKNOWN if value is None else str(value)


def arm_words(method: str, k: int | None, how: str = "") -> str:
    """Return an arm in words: ``EAGLE-3 with 3 draft tokens``; ``how`` is said where K is not
    fixed: ``a draft model with K=5/2 by table``."""
    name = METHODS.get(method, method)
    if k is None:
        return f"{name} with {how}" if how else name
    return f"{name} with {k} draft token{'' if k == 1 else 's'}"


def listed(names: list[str], most: int = 3) -> str:
    """Join names: ``a, b and c``; more than ``most`` as ``a, b, c and 4 more``."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


_BADGES = {
    "gpu": "", "cpu": "CPU lab", "mock": "mock", "dummy_weights": "dummy weights",
    "simulated": "simulated",
}  # fmt: skip
SYNTHETIC = "synthetic acceptance"


def badge(evidence: object) -> str:
    """Return what a reader must know about the origin of numbers: empty for a real GPU run."""
    return _BADGES.get(str(evidence), "evidence unknown")


def bracketed(*badges: str) -> str:
    """Return badges as the end of a name or a title: ``  [CPU lab]``; empty for none."""
    return "".join(f"  [{badge}]" for badge in badges if badge)


def badges(evidence: str | None, set_by_hand: bool) -> tuple[str, ...]:
    """Return the badge of the evidence, and the badge of an acceptance that nobody measured; often
    none."""
    return tuple(part for part in (badge(evidence), SYNTHETIC if set_by_hand else "") if part)


def markdown(text: str) -> str:
    """Return a text as one line that Markdown shows as it stands: it is no markup, no link and
    mentions nobody."""
    return _MARKUP.sub(r"\\\1", _REFERRED.sub("\\1\u2060", " ".join(text.split())))
