"""Doubts that need more than one cell: the levels of a run, the two arms of a pair."""

from collections import Counter
from collections.abc import Sequence

from analysis.flags.lints import measured
from warehouse.rows import Cell, Flag


def lint_run(cells: Sequence[Cell]) -> tuple[Flag, ...]:
    """Whether the levels of one run shared prompts, which a prefix cache then answers."""
    levels: Counter[str] = Counter()
    for cell in cells:
        if cell.requests is not None:
            levels.update(set(cell.requests.column("prompt_hash").drop_null().to_pylist()))
    reused = sum(1 for count in levels.values() if count > 1)
    if not reused:
        return ()
    return (
        Flag(
            "prompts_reused_across_levels",
            "info",
            f"{reused} of {len(levels)} prompts were sent at more than one level of this run, so "
            "later levels may find them in the prefix cache.",
        ),
    )


def lint_pair(baseline: Cell, speculative: Cell) -> tuple[Flag, ...]:
    """Output lengths within 5 %, the same prompts, both arms good."""
    hashes = (baseline.facts.prompt_set_hash, speculative.facts.prompt_set_hash)
    found = [
        lengths_differ(*(measured(c, "output_tokens", "p50") for c in (baseline, speculative))),
    ]
    if None not in hashes and hashes[0] != hashes[1]:
        found.append(
            Flag(
                "prompts_differ",
                "error",
                f"The arms were given different prompts ({hashes[0]} and {hashes[1]}).",
            )
        )
    if "failed" in (baseline.status, speculative.status):
        found.append(Flag("failed_arm", "error", "One arm of this pair failed."))
    return tuple(flag for flag in found if flag is not None)


def lengths_differ(baseline: float | None, speculative: float | None) -> Flag | None:
    """A flag where median output lengths (tokens) are more than 5 % of the baseline's apart."""
    if not baseline or speculative is None or abs(speculative - baseline) <= 0.05 * baseline:
        return None
    return Flag(
        "output_lengths_differ",
        "warning",
        f"Median outputs are {baseline:g} and {speculative:g} tokens long, more than 5 % apart.",
    )
