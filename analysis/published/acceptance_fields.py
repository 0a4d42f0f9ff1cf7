"""Acceptance as people print it: which field of a row says what, and what follows from what."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.published.printed import Range, decimal, exactly, printed, propagated

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


@dataclass(frozen=True)
class Measures:
    """What a row says of acceptance. ``given``: k, rate, length, drafts, drafted, accepted;
    ``positions``: the share accepted at each, in order. Rates are shares of 1."""

    given: Mapping[str, Range]
    positions: tuple[Range, ...] = ()

    def follows(self) -> dict[str, Range]:
        """Return what the other fields give for a printed ``length`` and ``rate``."""
        found = {}
        for wanted, names, formula in _FORMULAS:
            known = self._fixed() if "k" in names else self._known()
            if wanted in self.given and wanted not in found and names <= known.keys():
                found[wanted] = formula(known)
        return found

    @property
    def tokens_per_step(self) -> Range | None:
        """The tokens of a step: as printed, else as they follow; None where nothing says them."""
        if "length" in self.given:
            return self.given["length"]
        return (
            Measures({**self.given, "length": exactly(1)}, self.positions).follows().get("length")
        )

    def _known(self) -> dict[str, Range]:
        told = dict(self.given)
        if self.positions:
            ends = ("value", "low", "high")
            told["positions"] = Range(*(sum(getattr(p, e) for p in self.positions) for e in ends))
            told["count"] = exactly(len(self.positions))
        return {n: v for n, v in told.items() if n not in ("drafts", "drafted") or v.value >= 1}

    def _fixed(self) -> dict[str, Range]:
        """Return what is known where every draft has K tokens; without K where counts say that
        they have not."""
        told = self._known()
        if {"k", "drafts", "drafted"} <= told.keys():
            each = propagated(lambda a, b: a / b, told["drafted"], told["drafts"])
            if not each.meets(told["k"]):
                del told["k"]
        return told


_Formula = Callable[[Mapping[str, Range]], Range]


def _by(formula: Callable[..., float], *names: str) -> tuple[set[str], _Formula]:
    return set(names), lambda known: propagated(formula, *(known[name] for name in names))


#: Printed field, the fields that it follows from, and how; the first that is known counts.
_FORMULAS: tuple[tuple[str, set[str], _Formula], ...] = (
    ("length", *_by(lambda accepted, drafts: 1 + accepted / drafts, "accepted", "drafts")),
    ("length", *_by(lambda shares: 1 + shares, "positions")),
    ("length", *_by(lambda k, rate: 1 + k * rate, "k", "rate")),
    ("rate", *_by(lambda accepted, drafted: accepted / drafted, "accepted", "drafted")),
    ("rate", *_by(lambda shares, count: shares / count, "positions", "count")),
    ("rate", *_by(lambda accepted, drafts, k: accepted / drafts / k, "accepted", "drafts", "k")),
)


def meaning(name: str) -> str | None:
    """Return what a field says of acceptance; None where it says nothing of it."""
    words = re.sub(r"[^a-z0-9τ]+", " ", name.casefold()).strip()
    words = re.sub(r"^(vllm )?(spec decode )?|( total)$", "", words)
    return next((what for what, names in _NAMES.items() if re.fullmatch(names, words)), None)


def measures(fields: Mapping[str, Any]) -> Measures:
    """Read what the fields of a row say of acceptance; what is no number says nothing."""
    given: dict[str, Range] = {}
    positions: list[Range] = []
    for name, value in fields.items():
        what = meaning(name)
        for part in _parts(value) if what == "positions" else [value]:
            number = _number(name, part, what) if what else None
            if number is not None and what == "positions":
                positions.append(number)
            elif number is not None and what:
                given.setdefault(what, number)
    return Measures(given, tuple(positions))


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return (
        value
        if isinstance(value, list)
        else re.split(r"[,;/|\s]+(?=[\d.])", str(value).strip("[] "))
    )


def _number(name: str, value: Any, what: str) -> Range | None:
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
