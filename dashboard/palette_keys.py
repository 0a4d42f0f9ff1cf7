"""Colours for keys that are not arms: one sequence, told apart by lightness as well as by hue.

Colour means the arm. Where a reader tells marks apart by another key, the colours come from a
sequence of its own that colour-blind readers order by lightness; its ends are cut so that every one
of them stands out on white and on the dark ground.
"""

import colorsys

_FIRST, _LAST = (0.80, 0.42, 0.40), (0.55, 0.35, 0.68)
"""Hue, saturation and lightness of the ends: plum to a light green-blue, the long way round."""


def key_colours(number: int) -> list[str]:
    """Return hex colours of ``number`` values in their order."""
    return [_between(i / max(number - 1, 1)) for i in range(number)]


def _between(share: float) -> str:
    hue, saturation, lightness = (a + (b - a) * share for a, b in zip(_FIRST, _LAST, strict=True))
    red, green, blue = colorsys.hls_to_rgb(hue, lightness, saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
