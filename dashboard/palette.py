"""Every colour of a chart: an arm has a hue for its method and lightness for K, on any ground."""

import colorsys
import math
import re

#: Better and worse are told by sign and word; where colour helps, blue against orange. White text
#: is read on each of them (contrast 4.6 and more), on a light page and on a dark one.
WORSE, EVEN, BETTER, ON_THESE = "#a85508", "#6b7280", "#1d5fb4", "#ffffff"

#: Method -> (hue in degrees, saturation, lightness at K=1, lightness at K=16).
_HUES: tuple[tuple[str, tuple[int, float, float, float]], ...] = (
    ("eagle", (213, 0.72, 0.68, 0.44)),
    ("draft_model", (176, 0.70, 0.46, 0.26)),
    ("ngram", (30, 0.88, 0.60, 0.40)),
    ("mtp", (275, 0.50, 0.72, 0.48)),
    ("suffix", (22, 0.42, 0.55, 0.34)),
)
#: A method that has no hue of its own yet; far from every hue above.
_OTHER = (325, 0.50, 0.66, 0.44)
_BASELINE, _UNKNOWN = "#8b919a", "#b3a58f"
_LARGEST_K = 16


def arm_colour(label: str) -> str:
    """Return the hex colour of an arm given its catalogue label, e.g. ``eagle3 K=3``."""
    if label == "baseline":
        return _BASELINE
    if label == "unknown":
        return _UNKNOWN
    hue, saturation, light, dark = _hue(label.split(" ")[0].lower())
    lightness = light + (dark - light) * _depth(label)
    red, green, blue = colorsys.hls_to_rgb(hue / 360, lightness, saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _hue(method: str) -> tuple[int, float, float, float]:
    return next((hue for name, hue in _HUES if name in method), _OTHER)


def _depth(label: str) -> float:
    """Return the lightness of an arm's colour: 0 for K=1 (or unknown K) to 1 for K=16 and more."""
    found = re.search(r"K=(\d+)", label)
    k = min(max(int(found.group(1)), 1), _LARGEST_K) if found else 1
    return math.log2(k) / math.log2(_LARGEST_K)
