"""Numbers as somebody printed them: 9.10 is more exact than 9.1, and both hide half a last digit."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any

import yaml

from warehouse.errors import InvalidInput

#: Slack for sums in binary floating point, relative.
_EPSILON = 1e-9


@dataclass(frozen=True)
class Range:
    """What a value may have been before it was rounded, and the value itself."""

    value: float
    low: float
    high: float

    def meets(self, other: "Range") -> bool:
        """Return whether some number lies in both ranges, so that it may have been printed as either."""
        slack = _EPSILON * max(abs(self.low), abs(self.high), abs(other.low), abs(other.high))
        return self.low <= other.high + slack and other.low <= self.high + slack

    def scaled(self, factor: float) -> "Range":
        """Return the range in another unit; ``factor`` may be negative."""
        ends = sorted((self.low * factor, self.high * factor))
        return Range(self.value * factor, *ends)


def exactly(value: float) -> Range:
    """Return a value that nobody rounded as a range: a price, a number of GPUs, a demand."""
    return Range(value, value, value)


def printed(value: Any) -> Range:
    """Return a printed number (Decimal, int or text, ``+20.7 %``, ``1.65x`` and ``1,171.7`` too) as
    a range, give or take half of its last digit. Raises ValueError for what is no finite number."""
    number = decimal(value)
    exponent = number.as_tuple().exponent
    half = float(Decimal(5).scaleb(int(exponent) - 1))
    return Range(float(number), float(number) - half, float(number) + half)


def decimal(value: Any) -> Decimal:
    """Return the number in a cell of a table. Raises ValueError for what is no finite number."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is no number")
    text = str(value).strip().rstrip("%xX×").replace(",", "").replace("−", "-").strip()
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{value!r} is no number") from None
    if not number.is_finite() or abs(number) > Decimal("1e15"):
        raise ValueError(f"{value!r} is no usable number")
    return number


def decimals(value: Any) -> int:
    """Return how many digits are printed after the point."""
    return max(0, -int(decimal(value).as_tuple().exponent))


def propagated(formula: Callable[..., float], *inputs: Range) -> Range:
    """Return the range of a formula that rises or falls steadily in each of its inputs, from its
    corners."""
    corners = [formula(*corner) for corner in product(*((r.low, r.high) for r in inputs))]
    return Range(formula(*(r.value for r in inputs)), min(corners), max(corners))


class _AsPrinted(yaml.SafeLoader):
    """A reader of YAML whose numbers keep the digits they are written with; it takes no aliases.

    A small file of aliases to aliases would unfold into more text than any memory holds.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                problem="an alias (*name) stands for another part: write that part out",
                problem_mark=mark,
            )
        return super().compose_node(parent, index)


def _number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Decimal | str:
    text = str(loader.construct_scalar(node))
    try:
        return decimal(text)
    except ValueError:
        return text


for _tag in ("int", "float"):
    _AsPrinted.add_constructor(f"tag:yaml.org,2002:{_tag}", _number)


def yaml_as_printed(text: str, where: str) -> Any:
    """Parse YAML; numbers are Decimals with the digits of the file. Raises InvalidInput."""
    try:
        return yaml.load(text, Loader=_AsPrinted)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise InvalidInput(f"{where} is no YAML{line}: {problem}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where} is no YAML that can be read: {error}.") from error
