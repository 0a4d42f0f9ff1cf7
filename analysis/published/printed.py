"""Numbers as somebody printed them: 9.10 is more exact than 9.1, and both hide half a last digit; and the
conventions in which gains and acceptance are printed; and a figure beside what its own row gives."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any

import yaml

from warehouse.catalogue import Better
from warehouse.errors import InvalidInput

#: Slack for sums in binary floating point, relative.
_EPSILON = 1e-9


@dataclass(frozen=True)
class PrintedRange:
    """What a value may have been before it was rounded, and the value itself."""

    value: float
    low: float
    high: float

    def meets(self, other: "PrintedRange") -> bool:
        """Return whether some number lies in both ranges, so that it may have been printed as either."""
        slack = _EPSILON * max(abs(self.low), abs(self.high), abs(other.low), abs(other.high))
        return self.low <= other.high + slack and other.low <= self.high + slack

    def scaled(self, factor: float) -> "PrintedRange":
        """Return the range in another unit; ``factor`` may be negative."""
        return PrintedRange(self.value * factor, *sorted((self.low * factor, self.high * factor)))


def exactly(value: float) -> PrintedRange:
    """Return a value that nobody rounded as a range: a price, a number of GPUs, a demand."""
    return PrintedRange(value, value, value)


def printed(value: Any) -> PrintedRange:
    """Return a printed number (Decimal, int or text, ``+20.7 %``, ``1.65x`` and ``1,171.7`` too) as
    a range, give or take half of its last digit. Raises ValueError for what is no finite number."""
    number = decimal(value)
    half = float(Decimal(5).scaleb(int(number.as_tuple().exponent) - 1))
    return PrintedRange(float(number), float(number) - half, float(number) + half)


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


def propagated(formula: Callable[..., float], *inputs: PrintedRange) -> PrintedRange:
    """Return the range of a formula that rises or falls steadily in each of its inputs, from its
    corners."""
    corners = [formula(*corner) for corner in product(*((r.low, r.high) for r in inputs))]
    return PrintedRange(formula(*(r.value for r in inputs)), min(corners), max(corners))


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


# --- Acceptance as people print it: which field of a row says what, and what follows from what.


#: What a field says -> its names, lower case, with single spaces between the words.
_NAMES = {
    "k": r"num spec(ulative)? tokens|spec(ulative)? tokens|k|gamma",
    "rate": r"((mean|avg|average|draft|token) )*accept(ance|ed)? rate( pct| percent)?",
    "length": r"((mean|avg|average) )*accept(ance|ed)? len(gth)?|(mean )?tokens per step|tau|τ",
    "drafts": r"((num|total) )*drafts",
    "drafted": r"((num|total) )*(draft|drafted|proposed) tokens",
    "accepted": r"((num|total) )*accepted tokens",
    "positions": r"(accept\w* )?(rates? )?((per|by|at) )?pos(itions?)?( \d+)?( accept\w*( rates?)?)?"
    r"|accept\w* rates? per pos(ition)?",
}


#: Printed field, the fields that it follows from, and how; the first whose fields are known counts.
_FORMULAS: tuple[tuple[str, tuple[str, ...], Callable[..., float]], ...] = (
    ("length", ("accepted", "drafts"), lambda accepted, drafts: 1 + accepted / drafts),
    ("length", ("positions",), lambda shares: 1 + shares),
    ("length", ("k", "rate"), lambda k, rate: 1 + k * rate),
    ("rate", ("accepted", "drafted"), lambda accepted, drafted: accepted / drafted),
    ("rate", ("positions", "count"), lambda shares, count: shares / count),
    ("rate", ("accepted", "drafts", "k"), lambda accepted, drafts, k: accepted / drafts / k),
)


def follows(told: Mapping[str, PrintedRange]) -> dict[str, PrintedRange]:
    """Return what the other measures give for ``length`` and ``rate``, printed or not."""
    found: dict[str, PrintedRange] = {}
    for wanted, names, formula in _FORMULAS:
        if wanted not in found and told.keys() >= set(names):
            found[wanted] = propagated(formula, *(told[name] for name in names))
    return found


def meaning(name: str) -> str | None:
    """Return what a field says of acceptance; None where it says nothing of it."""
    words = re.sub(r"[^a-z0-9τ]+", " ", name.casefold()).strip()
    words = re.sub(r"^(vllm )?(spec decode )?|( total)$", "", words)
    return next((what for what, names in _NAMES.items() if re.fullmatch(names, words)), None)


def measures(fields: Mapping[str, Any]) -> dict[str, PrintedRange]:
    """Return what the fields of a row say: k (only where every draft has as many tokens), rate,
    length, drafts, drafted, accepted, ``positions`` (the sum over them) and their ``count``; rates
    are shares of 1. What is no number says nothing."""
    found: dict[str, list[PrintedRange]] = {}
    for name, value in fields.items():
        what = meaning(name)
        if what is not None:
            parts = [value]
            if what == "positions" and isinstance(value, Mapping | list):
                parts = list(value.values()) if isinstance(value, Mapping) else value
            elif what == "positions":
                parts = re.split(r"[,;/|\s]+(?=[\d.])", str(value).strip("[] "))
            numbers = (_measure(name, part, what) for part in parts)
            found.setdefault(what, []).extend(one for one in numbers if one is not None)
    shares = found.pop("positions", [])
    told = {what: numbers[0] for what, numbers in found.items() if numbers}
    if shares:
        ends = (sum(getattr(one, end) for one in shares) for end in ("value", "low", "high"))
        told |= {"positions": PrintedRange(*ends), "count": exactly(len(shares))}
    told = {n: v for n, v in told.items() if n not in ("drafts", "drafted") or v.value >= 1}
    if told.keys() >= {"k", "drafts", "drafted"}:
        each = propagated(lambda drafted, drafts: drafted / drafts, told["drafted"], told["drafts"])
        told = told if each.meets(told["k"]) else {n: v for n, v in told.items() if n != "k"}
    return told


def _measure(name: str, value: Any, what: str) -> PrintedRange | None:
    """Return a printed number that is not below zero; a share in percent as a share of 1."""
    try:
        known = exactly(float(decimal(value))) if what == "k" else printed(value)
    except ValueError:
        return None
    if what in ("rate", "positions") and (
        known.value > 1 or "%" in f"{name}{value}" or "pct" in name.casefold()
    ):
        known = known.scaled(0.01)
    return known if known.value >= 0 else None


# --- How a table prints a gain: the conventions in use, and which one its rows follow.
#
# For something of which more is better the three in percent are one, and so are both factors. They
# part for latencies: from 20 to 10 ms is an improvement of 50 %, a change of -50 %, a ratio of times
# of 100 %, 2 times as fast, 0.5 times the latency.


_GAIN = re.compile(
    r"(published|printed|reported)?\s*(pct|speed ?up|improvement|gain|change|delta|uplift|factor|ratio)?"
    r"\s*(pct|percent|factor|x)?\s*((vs|over|against) (the )?baseline)?"
)
#: Nobody is ten times as fast by drafts: a larger number is a percentage.
_LARGEST_FACTOR = 10
_TIMES = re.compile(r"[x×]\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Convention:
    """``unit`` is ``%`` or ``x``; ``of_less`` gives what is printed for new / old of something of
    which less is better, ``back`` is its inverse."""

    name: str
    words: str
    unit: str
    of_less: Callable[[float], float]
    back: Callable[[float], float]

    def follows(self, values: Sequence[PrintedRange], better: Better) -> PrintedRange:
        """Return what a row with these values, old and new, would print."""
        of_more = CONVENTIONS[1 if self.unit == "%" else -1].of_less
        of = self.of_less if better == "lower" else of_more
        return propagated(lambda old, new: of(new / old), *values)

    def improvement(self, value: float, better: Better) -> float:
        """Return a printed gain as an improvement in ``%``; infinite where it is none."""
        if better != "lower":
            return value if self.unit == "%" else 100 * (value - 1)
        return 100 * (1 - self.back(value))


#: In the order in which they are taken where rows follow several alike.
CONVENTIONS = (
    Convention("improvement", "improvements, positive is better", "%",
               lambda q: 100 * (1 - q), lambda v: 1 - v / 100),
    Convention("change", "changes, new / old - 1", "%",
               lambda q: 100 * (q - 1), lambda v: 1 + v / 100),
    Convention("ratio of times", "ratios of times, old / new - 1 for a latency", "%",
               lambda q: 100 * (1 / q - 1), lambda v: 1 / (1 + v / 100) if v != -100 else -float("inf")),
    Convention("factor", "factors, new / old, and old / new for a latency", "x",
               lambda q: 1 / q, lambda v: 1 / v if v else float("inf")),
    Convention("ratio", "ratios, new / old for a latency too", "x", lambda q: q, lambda v: v),
)  # fmt: skip
NAMED = {one.name: one for one in CONVENTIONS}


@dataclass(frozen=True)
class Printed:
    """One printed gain: its column, its text, the values beside it (old, new), which is better."""

    column: str
    text: str
    values: tuple[PrintedRange, PrintedRange]
    better: Better

    @property
    def form(self) -> str:
        """The sign that is printed with the number: ``%``, ``x``, or empty."""
        return "x" if _TIMES.search(self.text) else "%" * self.text.rstrip().endswith("%")


def gains(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that print a gain: ``published_pct``, ``speedup``, ``Change (%)`` …"""
    words = {name: re.sub(r"[^a-z0-9]+", " ", name.casefold()).strip() for name in fields}
    return {n: v for n, v in fields.items() if words[n] and _GAIN.fullmatch(words[n])}


def convention_of(rows: Sequence[Printed]) -> Convention:
    """Return the convention that most of the gains follow. All are of one column and form.

    One loss that a table prints as a plus is a wrong sign and no table of changes.
    """
    unit, column = rows[0].form, rows[0].column.casefold()
    known = [one for one in CONVENTIONS if unit in ("", one.unit)]
    small = all(abs(printed(row.text).value) < _LARGEST_FACTOR for row in rows)
    if small and "pct" not in column and re.search(r"speed.?up|factor|ratio|x$", column):
        known.sort(key=lambda one: one.unit != "x")

    def votes(by: Convention) -> int:
        fitting = [
            row for row in rows if printed(row.text).meets(by.follows(row.values, row.better))
        ]
        rises = (
            row.better == "lower" and row.values[1].value > row.values[0].value for row in fitting
        )
        return len(fitting) - (by.name == "change" and any(rises))

    return max(known, key=votes)


def told(rows: Sequence[Printed], convention: Convention) -> str:
    """Say in which convention a column is printed, and what ratios of times are as improvements."""
    said = f"printed as {convention.words}{', as one row alone says' * (len(rows) == 1)}"
    values = [convention.improvement(printed(row.text).value, row.better) for row in rows[:_MOST]]
    some = ", ".join(f"{value:.1f}" for value in values) + " …" * (len(rows) > _MOST)
    as_improvements = f"; as improvements they are {some} %"
    return f"{said}{as_improvements * (convention.name == 'ratio of times')}."


#: Gains that a sentence lists.
_MOST = 12


# --- One published figure beside what its own row gives.


@dataclass(frozen=True)
class Finding:
    """One figure that was recomputed. ``published`` and ``recomputed`` are in ``unit`` (``%`` for
    savings, ``%`` or ``x`` for gains, as their table prints them: ``convention``).

    ``low`` and ``high``: what the figure can be, given how its inputs were rounded in print.
    ``kind`` of a flagged one: arithmetic, sign, swapped, basis or drafts. ``better``: which
    direction of a gain's metric is better.
    """

    section: str
    about: dict[str, str]
    metric: str
    published: float
    recomputed: float
    low: float
    high: float
    unit: str
    flagged: bool
    reason: str
    kind: str | None = None
    convention: str = "improvement"
    better: Better | None = None
    measured: tuple[dict[str, Any], ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON."""
        return {**vars(self), "measured": list(self.measured)}


@dataclass(frozen=True)
class Figure:
    """A figure to check: what was printed, and what follows from the row."""

    section: str
    about: dict[str, str]
    metric: str
    printed: PrintedRange
    follows: PrintedRange
    unit: str
    convention: str = "improvement"
    better: Better | None = None

    @property
    def agrees(self) -> bool:
        """Whether rounding in print explains the difference."""
        return self.printed.meets(self.follows)

    def finding(self, reason: str = "", kind: str | None = None) -> Finding:
        """Return this figure as a finding. A ``kind`` flags it; without a reason it follows from
        its row."""
        return Finding(
            self.section, self.about, self.metric, self.printed.value, self.follows.value,
            self.follows.low, self.follows.high, self.unit, kind is not None,
            reason or "Follows from its own row.", kind, self.convention, self.better,
        )  # fmt: skip

    def differs(self) -> Finding:
        """Return a flagged finding: the figure does not follow from its row."""
        low, high = (shown(value, self.unit) for value in (self.follows.low, self.follows.high))
        span = "" if low == high else f" ({low} to {high} as its inputs are rounded)"
        return self.finding(
            f"Its own row gives {shown(self.follows.value, self.unit)}{span}, "
            f"not {shown(self.printed.value, self.unit)}.",
            "arithmetic",
        )


def shown(value: float, unit: str) -> str:
    """Write a figure for a sentence: with a sign for improvements, with digits enough for small
    sums of money."""
    if unit in ("%", "x"):
        return f"{value:+.1f} %" if unit == "%" else f"{value:.2f}x"
    number = f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"
    return f"{number} {unit}".strip()
