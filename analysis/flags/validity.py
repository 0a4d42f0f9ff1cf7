"""What makes a cell's numbers invalid for a decision: errors, speculation that is not itself, defects."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from warehouse.defects import KnownDefect
from warehouse.rows import Cell, Flag, Severity

Flags = Iterator[Flag]

#: Flags of cells that are shown and decide nothing.
DECIDES_NOTHING: frozenset[str] = frozenset(
    {
        "error_rate_high", "lossy_verification", "synthetic_acceptance", "never_speculated",
        "baseline_drafts", "statistics_disagree", "more_than_requests_hold",
    }
)  # fmt: skip

#: Known defects of the engine that low acceptance shows, and that answers would show beside the
#: baseline's. Such a cell decides; where the defect shows that is said first.
SHOWN_DEFECT, BREAKING_DEFECT = "known_defect_shown", "known_defect_of_answers"

#: More errors than this, of the requests that ended, and the rest is no fair sample of the load.
MOST_ERRORS = 0.05

#: Ways to verify drafts that keep the target model's distribution, in the words of vLLM's releases.
LOSSLESS = ("standard", "strict", "probabilistic", "block", "rejection_sampler")
_SYNTHETIC = "synthetic"
_METHODS = ("rejection_sample_method", "acceptance_method")
#: SGLang accepts a draft token from this probability on; 1 is what keeps the distribution.
_THRESHOLDS = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")


def errors(cell: Cell) -> Flags:
    """Yield a flag that says how many requests failed; above 5 % nothing is decided from the
    others."""
    if not cell.errored:
        return
    ended = cell.completed + cell.errored
    rate = cell.errored / ended
    counted = f"{cell.errored} of {ended} requests failed"
    if rate > MOST_ERRORS:
        yield Flag(
            "error_rate_high",
            "error",
            f"{counted} ({rate:.1%}): above {MOST_ERRORS:.0%} the others are no fair sample.",
        )
        return
    severity: Severity = "info" if rate < 0.01 else "warning"
    yield Flag("errors", severity, f"{counted} ({rate:.1%}; below 1 % is expected).")


def verification(cell: Cell) -> Flags:
    """Yield a flag where accepted drafts may not be what the target model would have said."""
    config: Mapping[str, Any] = cell.facts.speculative_config or {}
    methods = [str(config[name]) for name in _METHODS if config.get(name) is not None]
    if cell.facts.synthetic_acceptance or _SYNTHETIC in methods:
        yield Flag(
            "synthetic_acceptance", "error", "Acceptance was set by hand here, not measured."
        )
    for method in methods:
        if method not in (*LOSSLESS, _SYNTHETIC):
            yield _lossy(f"drafts are verified by {method!r}, not by one of {', '.join(LOSSLESS)}")
    options = {**(cell.facts.server_args or {}), **config}
    named = {str(key).lstrip("-").replace("-", "_"): value for key, value in options.items()}
    for name in _THRESHOLDS:
        value = named.get(name)
        if isinstance(value, int | float) and value < 1:
            yield _lossy(f"{name} is {float(value):g}, below 1")


def caching(cell: Cell) -> Flags:
    """Yield a flag where the arm keeps a block in the prefix cache that arms with such a draft
    drop."""
    config: Mapping[str, Any] = cell.facts.speculative_config or {}
    if config.get("disable_eagle_block_drop") is True and cell.facts.prefix_caching is not False:
        yield Flag(
            "eagle_block_kept",
            "warning",
            "disable_eagle_block_drop keeps the last block of each prefix in the cache, which is "
            "dropped otherwise: hits and acceptance are those of another cache.",
        )


def drafting(cell: Cell) -> Flags:
    """Yield a flag where the arm did not do what its name says: a baseline never drafts, another
    arm does."""
    method = cell.facts.spec_method
    for a in cell.acceptance:
        if a.drafts is None or method is None:
            continue
        if method == "none" and a.drafts > 0:
            yield Flag(
                "baseline_drafts",
                "error",
                f"The baseline drafted {a.drafts} times by {a.source}, so it speculates.",
            )
        if method != "none" and a.drafts == 0:
            yield Flag(
                "never_speculated",
                "error",
                f"The {method} arm never drafted by {a.source}: 0 drafts.",
            )


def _lossy(why: str) -> Flag:
    sentence = f"The arm may answer otherwise than its model: {why}."
    return Flag("lossy_verification", "error", sentence)


def defects(cell: Cell, known: Iterable[KnownDefect]) -> Flags:
    """Yield a flag for each of the ``known`` defects of engines that the arm has, by whether what shows
    it was measured, too."""
    facts, shown = cell.facts, ("canonical", "acceptance_rate")
    rate = next((m.value for m in cell.measurements if (m.origin, m.metric) == shown), None)
    for one in (each for each in known if each.concerns(facts)):
        name, when = BREAKING_DEFECT if one.breaks_answers else "known_defect", f"({one.when})"
        if rate is not None and rate < one.acceptance_below:
            name = SHOWN_DEFECT
            when = f"that shows here ({rate:.1%} of the drafted tokens were accepted)"
        yield Flag(
            name,
            "warning",
            f"{facts.engine} {facts.engine_version} has a known defect {when}: {one.effect}. "
            f"{one.do} See {one.source}.",
        )
