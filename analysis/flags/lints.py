"""Doubts about one cell: every check on a result, each one sentence with its figures."""

from collections.abc import Callable, Iterator, Sequence

from analysis.flags import agreeing, machine, numbers, validity
from analysis.flags.numbers import drifting, spread
from analysis.flags.validity import DECIDES_NOTHING as DECIDES_NOTHING
from warehouse.loads import Load, load_of
from warehouse.rows import Cell, Flag, Severity

Flags = Iterator[Flag]

STOPPED_EARLY = ("requests_exhausted", "over_saturation", "max_errors", "max_error_rate")
#: What interpolating between two looks at the counters may add to a ratio of them.
_COUNTED = 0.05
BEFORE_REASONING = ("G1", "G2a", "G2b", "G3a")
EVIDENCE = {
    "cpu": "These numbers come from a CPU, so they say nothing about the speed of a GPU.",
    "mock": "A mock server answered, so these numbers say nothing about any model.",
    "dummy_weights": "The model ran with dummy weights, so its acceptance and texts mean nothing.",
    "simulated": "These numbers were simulated, not measured.",
}


def lint(cell: Cell) -> tuple[Flag, ...]:
    """Return every flag that one cell earns by itself, in a fixed order."""
    return tuple(flag for check in CHECKS for flag in check(cell))


def measured(cell: Cell, metric: str, statistic: str = "mean") -> float | None:
    """Return a measurement of the cell, canonical where there is one, else reported; None without
    either."""
    found = {
        m.origin: m.value
        for m in cell.measurements
        if m.metric == metric and m.statistic == statistic
    }
    return found.get("canonical", found.get("reported"))


def _flag(name: str, severity: Severity, sentence: str) -> Flag:
    return Flag(name, severity, sentence)


def _counts(cell: Cell) -> Flags:
    if not cell.requests_complete and cell.requests is not None:
        yield _flag(
            "sampled",
            "warning",
            f"The report keeps only a part of its {cell.requests_made or 'unknown number of'} "
            "requests, so nothing can be recomputed from them.",
        )
    elif not cell.requests_complete and cell.status == "good":
        yield _flag(
            "summary_only",
            "info",
            "The report holds no request records: its own values stand as its load generator "
            "defines them, and nothing can be recomputed.",
        )
    yield from validity.errors(cell)
    # A report that does not count its requests has a value for each level that it ran.
    if cell.completed == 0 and (cell.requests_made is not None or cell.status != "good"):
        yield _flag("no_completed_requests", "error", "No request of this cell completed.")


def _stopping(cell: Cell) -> Flags:
    reason = cell.stop_reason or ""
    if any(word in reason for word in STOPPED_EARLY):
        yield _flag(
            "stopped_early", "warning", f"The run stopped early: {reason.replace('_', ' ')}."
        )


def _load(cell: Cell) -> Flags:
    load, made = _asked(cell), cell.requests_made
    if load is None or load.kind != "concurrency" or load.value is None:
        return
    wanted = round(load.value)
    if made is not None and made < 5 * wanted:
        yield _flag(
            "few_prompts",
            "warning",
            f"{made} requests at concurrency {wanted} are fewer than 5 per slot ({5 * wanted}).",
        )
    got = _in_flight(cell)
    if got is not None and got < 0.9 * wanted:
        yield _flag(
            "low_concurrency",
            "warning",
            f"Only {got:.1f} requests were in flight on average, of the {wanted} asked for.",
        )


def _in_flight(cell: Cell) -> float | None:
    """Return how many requests were in flight on average; by Little's law where the report does not
    say it and none failed."""
    said = measured(cell, "achieved_concurrency")
    served, each = measured(cell, "request_throughput"), measured(cell, "request_latency")
    if said is not None or served is None or each is None or cell.errored or cell.incomplete:
        return said
    return numbers.littles_law(served, each)


def _asked(cell: Cell) -> Load | None:
    facts = cell.facts
    return load_of(facts.load_profile, facts.concurrency, facts.rate, facts.trace)


def _speed(cell: Cell) -> Flags:
    rate, gap = measured(cell, "output_throughput"), measured(cell, "itl")
    wanted = cell.facts.concurrency
    if rate is None or not gap or wanted is None or rate <= 1.05 * wanted * 1000 / gap:
        return
    yield _flag(
        "impossible_throughput",
        "error",
        f"{rate:.1f} tok/s is more than {wanted} streams with one token every {gap:.2f} ms "
        f"can give ({wanted * 1000 / gap:.1f} tok/s).",
    )


def _lengths(cell: Cell) -> Flags:
    median = measured(cell, "output_tokens", "p50")
    if median is not None and median <= 1:
        yield _flag("short_output", "warning", f"The median output is {median:g} token long.")


def _reading(cell: Cell) -> Flags:
    if cell.load_generator != "guidellm":
        return
    if cell.schema_generation == "unknown":
        yield _flag(
            "unknown_format",
            "warning",
            f"GuideLLM {cell.load_generator_version or 'of unknown version'} is newer than this "
            "reader, so the report was read by its structure.",
        )
    ttft = measured(cell, "ttft", "max")
    version = cell.load_generator_version or ""
    if cell.schema_generation in ("G2a", "G2b") and cell.errored and (ttft or 0) > 50_000:
        yield _flag(
            "timeout_60s",
            "warning",
            f"GuideLLM {version or '0.4-0.5'} gives up after 60 s and first tokens took up to "
            f"{(ttft or 0) / 1000:.0f} s, so some of the {cell.errored} errors may be its own.",
        )
    if cell.schema_generation in BEFORE_REASONING and _hides_reasoning(cell):
        yield _flag(
            "reasoning_mismatch",
            "warning",
            "GuideLLM before 0.7 does not see reasoning tokens, so TTFT counts to the first answer "
            "token and ITL is too low.",
        )


def _hides_reasoning(cell: Cell) -> bool:
    """Return whether a parser takes the reasoning out of answers: one was asked for, or the model
    is one for which vLLM takes its own."""
    named = any("reasoning_parser" in k.replace("-", "_") for k in cell.facts.server_args or {})
    model = (cell.facts.model or "").lower().replace("_", "-")
    return named or (cell.facts.engine == "vllm" and "gpt-oss" in model)


def _evidence(cell: Cell) -> Flags:
    evidence = cell.facts.evidence
    if evidence in EVIDENCE:
        yield _flag(f"evidence_{evidence}", "warning", EVIDENCE[evidence])


def _acceptance(cell: Cell) -> Flags:
    k, warm = cell.facts.num_speculative_tokens, (cell.facts.temperature or 0) > 0
    for a in cell.acceptance:
        if k is not None and a.mean_length is not None and a.mean_length > k + 1 + 1e-9:
            yield _flag(
                "acceptance_too_long",
                "error",
                f"A mean acceptance length of {a.mean_length:.2f} is more than K + 1 = {k + 1}.",
            )
        if a.drafts and a.rate is not None and a.rate < 0.01:
            yield _flag(
                "acceptance_near_zero",
                "warning",
                f"Only {a.rate:.2%} of the drafted tokens were accepted"
                + (f" at temperature {cell.facts.temperature:g}; " if warm else "; ")
                + "check the draft model and how it samples.",
            )


def _drafted(cell: Cell) -> Flags:
    """Yield a flag where a draft holds less than one token or more than K, by the server's counters:
    vLLM counts no empty draft. Requests count steps without a draft, too."""
    k = cell.facts.num_speculative_tokens
    for a in cell.acceptance:
        if a.source == "requests" or not a.drafts or a.draft_tokens is None:
            continue
        held = a.draft_tokens / a.drafts
        if held < 1 - _COUNTED or (k is not None and held > k * (1 + _COUNTED)):
            most = "" if k is None else f" and at most K = {k}"
            yield _flag(
                "drafts_do_not_fit",
                "error",
                f"A draft holds {held:.2f} tokens by {a.source}; it holds at least one{most}.",
            )


def _positions(cell: Cell) -> Flags:
    for a in cell.acceptance:
        r = a.by_position
        if any(b > c + 1e-6 for c, b in zip(r, r[1:], strict=False)):
            yield _flag(
                "positions_increase",
                "error",
                f"Acceptance rises with the position ({_list(r)}), which cannot be.",
            )
        if r and max(r) >= 0.999:
            yield _flag(
                "acceptance_near_one",
                "warning",
                f"Acceptance of {max(r):.4f} at a position is suspicious or synthetic.",
            )
        if r and a.mean_length and abs(sum(r) - (a.mean_length - 1)) > 0.02 * a.mean_length:
            yield _flag(
                "positions_do_not_add_up",
                "error",
                f"The positions add up to {sum(r):.3f}, but {a.mean_length - 1:.3f} tokens are "
                "accepted per draft.",
            )


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{v:.3f}" for v in values)


CHECKS: tuple[Callable[[Cell], Flags], ...] = (
    _counts, _stopping, _load, *machine.CHECKS, _speed, _lengths, _reading, _evidence,
    validity.verification, validity.caching, validity.drafting, _acceptance, _drafted, _positions,
    drifting, *numbers.CHECKS, spread, *agreeing.CHECKS,
)  # fmt: skip
