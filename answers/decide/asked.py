"""A traffic mix as people write it."""

from math import isfinite, nan

from warehouse.errors import InvalidInput

_EXAMPLE = "code=0.7,prose=0.3"


def mix_from(text: str | None) -> tuple[tuple[str, float], ...]:
    """Read a traffic mix such as ``code=0.7,prose=0.3`` as weights; empty for none. Raises
    InvalidInput for another form."""
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    weights = tuple(map(_weight, parts))
    names = [name for name, _ in weights]
    if len(set(names)) < len(names):
        raise InvalidInput(f"--mix: {text!r} names a dataset twice; write each once.")
    return weights


def _weight(part: str) -> tuple[str, float]:
    name, _, share = part.rpartition("=")
    try:
        weight = float(share)
    except ValueError:
        weight = nan
    if not name.strip() or not isfinite(weight):
        raise InvalidInput(f"--mix: {part!r} is no share of a dataset; write {_EXAMPLE}.")
    return name.strip(), weight
