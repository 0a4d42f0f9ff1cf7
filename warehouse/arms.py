"""What an arm is called, and whether its engine chooses how many tokens are drafted."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

#: Who sets the draft tokens of a step: a table by batch size, the engine by what it saw accepted or by
#: the draft's confidence, or the text itself (as much as matches).
Chooser = Literal["table", "adaptive", "match"]
#: From batch size, to batch size, draft tokens.
Entry = tuple[int, int, int]

#: vLLM's name for K by batch size: ``[[from, to, K], …]``.
TABLE = "num_speculative_tokens_per_batch_size"
#: What a baseline has in place of a speculative config where it lacks what a method switches off in the
#: engine: the names of its arguments and variables. It is an arm of its own, and no baseline unless asked.
EQUAL_ENGINE = "equal_engine"
EQUAL_LABEL = "baseline, equal engine"
#: Settings that are true where the engine adapts K: vLLM's, SGLang's.
_ADAPTIVE = ("enable_adaptive_verification", "speculative_adaptive")


def chooser(method: str | None, config: Mapping[str, Any] | None) -> Chooser | None:
    """Return who sets the number of draft tokens; None where it is fixed, or nothing is drafted."""
    stated = config or {}
    if stated.get(TABLE) is not None:
        return "table"
    if any(stated.get(name) is True for name in _ADAPTIVE):
        return "adaptive"
    return "match" if method == "suffix" else None


def table_of(config: Mapping[str, Any] | None) -> tuple[Entry, ...]:
    """Return the table of K by batch size in its order; empty where there is none, or none that can
    be read."""
    stated = (config or {}).get(TABLE)
    return tuple(sorted(_entries(stated))) if isinstance(stated, list) else ()


def _entries(stated: list[Any]) -> Iterator[Entry]:
    for entry in stated:
        shaped = isinstance(entry, list | tuple) and len(entry) == 3
        if shaped and all(isinstance(number, int) and number >= 0 for number in entry):
            yield entry[0], entry[1], entry[2]


def steps_of(table: tuple[Entry, ...]) -> tuple[tuple[int, int], ...]:
    """Return (first batch size, K) of each change: two tables with the same steps say the same to
    vLLM, which goes on with a K until another one begins."""
    found: list[tuple[int, int]] = []
    for start, _, k in table:
        if not found or found[-1][1] != k:
            found.append((start, k))
    return tuple(found)


def arm_label(method: str | None, most: int | None, config: Mapping[str, Any] | None = None) -> str:
    """Return the name of an arm: ``baseline``, ``eagle3 K=3``, ``draft_model K=5/3/2 by table``,
    ``dspark K<=7 adaptive``, ``unknown``. ``most``: its draft tokens, at most."""
    if method is None:
        return "unknown"
    if method == "none":
        return EQUAL_LABEL if EQUAL_ENGINE in (config or {}) else "baseline"
    known = "?" if most is None else str(most)
    chosen = chooser(method, config)
    if chosen == "table":
        ks = "/".join(str(k) for _, k in steps_of(table_of(config)))
        return f"{method} K={ks or known} by table"
    if chosen is not None:
        return f"{method} K<={known}" + (" adaptive" if chosen == "adaptive" else "")
    return f"{method} K={known}"
