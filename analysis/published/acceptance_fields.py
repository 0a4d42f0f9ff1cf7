"""Acceptance as people print it: which field of a row says what, and what follows from what."""

import re
from collections.abc import Callable, Mapping
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


#: Printed field, the fields that it follows from, and how; the first whose fields are known counts.
_FORMULAS: tuple[tuple[str, tuple[str, ...], Callable[..., float]], ...] = (
    ("length", ("accepted", "drafts"), lambda accepted, drafts: 1 + accepted / drafts),
    ("length", ("positions",), lambda shares: 1 + shares),
    ("length", ("k", "rate"), lambda k, rate: 1 + k * rate),
    ("rate", ("accepted", "drafted"), lambda accepted, drafted: accepted / drafted),
    ("rate", ("positions", "count"), lambda shares, count: shares / count),
    ("rate", ("accepted", "drafts", "k"), lambda accepted, drafts, k: accepted / drafts / k),
)


def follows(told: Mapping[str, Range]) -> dict[str, Range]:
    """Return what the other measures give for ``length`` and ``rate``, printed or not."""
    found: dict[str, Range] = {}
    for wanted, names, formula in _FORMULAS:
        if wanted not in found and told.keys() >= set(names):
            found[wanted] = propagated(formula, *(told[name] for name in names))
    return found


def meaning(name: str) -> str | None:
    """Return what a field says of acceptance; None where it says nothing of it."""
    words = re.sub(r"[^a-z0-9τ]+", " ", name.casefold()).strip()
    words = re.sub(r"^(vllm )?(spec decode )?|( total)$", "", words)
    return next((what for what, names in _NAMES.items() if re.fullmatch(names, words)), None)


def measures(fields: Mapping[str, Any]) -> dict[str, Range]:
    """Return what the fields of a row say: k (only where every draft has as many tokens), rate,
    length, drafts, drafted, accepted, ``positions`` (the sum over them) and their ``count``; rates
    are shares of 1. What is no number says nothing."""
    found: dict[str, list[Range]] = {}
    for name, value in fields.items():
        what = meaning(name)
        if what is not None:
            parts = _parts(value) if what == "positions" else [value]
            numbers = (_number(name, part, what) for part in parts)
            found.setdefault(what, []).extend(one for one in numbers if one is not None)
    shares = found.pop("positions", [])
    told = {what: numbers[0] for what, numbers in found.items() if numbers}
    if shares:
        ends = (sum(getattr(one, end) for one in shares) for end in ("value", "low", "high"))
        told |= {"positions": Range(*ends), "count": exactly(len(shares))}
    told = {n: v for n, v in told.items() if n not in ("drafts", "drafted") or v.value >= 1}
    if told.keys() >= {"k", "drafts", "drafted"}:
        each = propagated(lambda drafted, drafts: drafted / drafts, told["drafted"], told["drafts"])
        told = told if each.meets(told["k"]) else {n: v for n, v in told.items() if n != "k"}
    return told


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
