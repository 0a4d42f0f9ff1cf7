"""Doubts about one cell: every check on a result, each one sentence with its figures."""

from collections.abc import Callable
from statistics import fmean

from analysis.flags.numbers import AGREEING, VALUES, Flags, drifting, spread
from analysis.flags.validity import caching, drafting, errors, verification
from warehouse.loads import load_of
from warehouse.rows import Cell, Flag

# --- Doubts that the machine raises: throttling, others on its GPUs or processor, launches beside.


#: Names of the samples, and how many busy cores of others are too many. An engine on a CPU competes
#: for the cores themselves; beside a GPU they only feed it.
OTHERS = "cpu_cores_used_by_others"
OTHERS_ON_CPU, OTHERS_BESIDE_GPU = 0.15, 1.0
HOT, BRAKED, CAPPED = "gpu_hot", "gpu_braked", "gpu_power_capped"
STRANGERS, STEAL = "gpu_processes_of_others", "cpu_steal_share"
#: Shares of the measurement: throttled for so long, at the power limit for so long, stolen so much.
THROTTLED, AT_LIMIT, STOLEN = 0.01, 0.10, 0.02


def _machine(cell: Cell) -> Flags:
    why = {"too hot": _mean(cell, HOT), "power brake": _mean(cell, BRAKED)}
    held = [f"{word} {share:.0%}" for word, share in why.items() if share and share > THROTTLED]
    if held:
        yield Flag(
            "throttled",
            "warning",
            f"A GPU's clock was held back during the measurement ({', '.join(held)} of the time), so "
            "it is slower than the card.",
        )
    capped = _mean(cell, CAPPED)
    if capped and capped > AT_LIMIT:
        yield Flag(
            "power_limited",
            "info",
            f"A GPU was at its power limit for {capped:.0%} of the measurement, so its clock "
            "followed its power.",
        )

    strangers = [sample.value for sample in cell.samples if sample.name == STRANGERS]
    if most := max(strangers, default=0.0):
        share = fmean(value > 0 for value in strangers)
        yield Flag(
            "gpu_neighbour",
            "warning",
            f"{'A process' if most == 1 else f'Up to {most:.0f} processes'} of somebody else computed on its GPUs for {share:.0%} of the "
            "measurement.",
        )
    cores = _mean(cell, OTHERS)
    limit = OTHERS_ON_CPU if cell.facts.evidence == "cpu" else OTHERS_BESIDE_GPU
    if cores is not None and cores > limit:
        yield Flag(
            "busy_machine",
            "warning",
            f"Other processes kept {cores:.2f} cores of the machine busy during the "
            f"measurement (more than {limit:g} disturbs it).",
        )

    stolen = _mean(cell, STEAL)
    if stolen is not None and stolen > STOLEN:
        yield Flag(
            "steal",
            "warning",
            f"The hypervisor gave {stolen:.1%} of the processor's time to others during the "
            f"measurement (more than {STOLEN:.0%} disturbs it).",
        )


def _mean(cell: Cell, name: str) -> float | None:
    values = [sample.value for sample in cell.samples if sample.name == name]
    return fmean(values) if values else None


# --- Doubts that its counts, load, speed, lengths, acceptance and evidence raise.


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
    return tuple(flag for check in _CHECKS for flag in check(cell))


def measured(cell: Cell, metric: str, statistic: str = "mean") -> float | None:
    """Return a measurement of the cell, canonical where there is one, else reported; None without
    either."""
    found = {
        m.origin: m.value
        for m in cell.measurements
        if m.metric == metric and m.statistic == statistic
    }
    return found.get("canonical", found.get("reported"))


def _requests(cell: Cell) -> Flags:
    if not cell.requests_complete and cell.requests is not None:
        yield Flag(
            "sampled",
            "warning",
            f"The report keeps only a part of its {cell.requests_made or 'unknown number of'} "
            "requests, so nothing can be recomputed from them.",
        )
    elif not cell.requests_complete and cell.status == "good":
        yield Flag(
            "summary_only",
            "info",
            "The report holds no request records: its own values stand as its load generator "
            "defines them, and nothing can be recomputed.",
        )
    yield from errors(cell)
    # A report that does not count its requests has a value for each level that it ran.
    if cell.completed == 0 and (cell.requests_made is not None or cell.status != "good"):
        yield Flag("no_completed_requests", "error", "No request of this cell completed.")
    reason = cell.stop_reason or ""
    if any(word in reason for word in STOPPED_EARLY):
        sentence = f"The run stopped early: {reason.replace('_', ' ')}."
        yield Flag("stopped_early", "warning", sentence)


def _load(cell: Cell) -> Flags:
    facts, made = cell.facts, cell.requests_made
    load = load_of(facts.load_profile, facts.concurrency, facts.rate, facts.trace)
    if load is None or load.kind != "concurrency" or load.value is None:
        return
    wanted = round(load.value)
    if made is not None and made < 5 * wanted:
        yield Flag(
            "few_prompts",
            "warning",
            f"{made} requests at concurrency {wanted} are fewer than 5 per slot ({5 * wanted}).",
        )
    got = measured(cell, "achieved_concurrency")
    served, each = measured(cell, "request_throughput"), measured(cell, "request_latency")
    if got is None and served is not None and each is not None:
        # By Little's law, where the report does not say it and none failed.
        got = None if cell.errored or cell.incomplete else served * each
    if got is not None and got < 0.9 * wanted:
        yield Flag(
            "low_concurrency",
            "warning",
            f"Only {got:.1f} requests were in flight on average, of the {wanted} asked for.",
        )


def _speed(cell: Cell) -> Flags:
    rate, gap = measured(cell, "output_throughput"), measured(cell, "itl")
    wanted = cell.facts.concurrency
    if rate is None or not gap or wanted is None or rate <= 1.05 * wanted * 1000 / gap:
        return
    yield Flag(
        "impossible_throughput",
        "error",
        f"{rate:.1f} tok/s is more than {wanted} streams with one token every {gap:.2f} ms "
        f"can give ({wanted * 1000 / gap:.1f} tok/s).",
    )


def _lengths(cell: Cell) -> Flags:
    median = measured(cell, "output_tokens", "p50")
    if median is not None and median <= 1:
        yield Flag("short_output", "warning", f"The median output is {median:g} token long.")


def _reading(cell: Cell) -> Flags:
    if cell.load_generator != "guidellm":
        return
    if cell.schema_generation == "unknown":
        yield Flag(
            "unknown_format",
            "warning",
            f"GuideLLM {cell.load_generator_version or 'of unknown version'} is newer than this "
            "reader, so the report was read by its structure.",
        )
    ttft = measured(cell, "ttft", "max")
    version = cell.load_generator_version or ""
    if cell.schema_generation in ("G2a", "G2b") and cell.errored and (ttft or 0) > 50_000:
        yield Flag(
            "timeout_60s",
            "warning",
            f"GuideLLM {version or '0.4-0.5'} gives up after 60 s and first tokens took up to "
            f"{(ttft or 0) / 1000:.0f} s, so some of the {cell.errored} errors may be its own.",
        )
    # A parser takes the reasoning out of answers where one was asked for, or where the model is one
    # for which vLLM takes its own.
    asked = any("reasoning_parser" in k.replace("-", "_") for k in cell.facts.server_args or {})
    model = (cell.facts.model or "").lower().replace("_", "-")
    parsed = asked or (cell.facts.engine == "vllm" and "gpt-oss" in model)
    if cell.schema_generation in BEFORE_REASONING and parsed:
        yield Flag(
            "reasoning_mismatch",
            "warning",
            "GuideLLM before 0.7 does not see reasoning tokens, so TTFT counts to the first answer "
            "token and ITL is too low.",
        )


def _evidence(cell: Cell) -> Flags:
    evidence = cell.facts.evidence
    if evidence in EVIDENCE:
        yield Flag(f"evidence_{evidence}", "warning", EVIDENCE[evidence])


def _acceptance(cell: Cell) -> Flags:
    k, warm = cell.facts.num_speculative_tokens, (cell.facts.temperature or 0) > 0
    for a in cell.acceptance:
        if k is not None and a.mean_length is not None and a.mean_length > k + 1 + 1e-9:
            yield Flag(
                "acceptance_too_long",
                "error",
                f"A mean acceptance length of {a.mean_length:.2f} is more than K + 1 = {k + 1}.",
            )
        if a.drafts and a.rate is not None and a.rate < 0.01:
            yield Flag(
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
            yield Flag(
                "drafts_do_not_fit",
                "error",
                f"A draft holds {held:.2f} tokens by {a.source}; it holds at least one{most}.",
            )


def _positions(cell: Cell) -> Flags:
    for a in cell.acceptance:
        r = a.by_position
        if any(b > c + 1e-6 for c, b in zip(r, r[1:], strict=False)):
            rates = ", ".join(f"{rate:.3f}" for rate in r)
            yield Flag(
                "positions_increase",
                "error",
                f"Acceptance rises with the position ({rates}), which cannot be.",
            )
        if r and max(r) >= 0.999:
            yield Flag(
                "acceptance_near_one",
                "warning",
                f"Acceptance of {max(r):.4f} at a position is suspicious or synthetic.",
            )
        if r and a.mean_length and abs(sum(r) - (a.mean_length - 1)) > 0.02 * a.mean_length:
            yield Flag(
                "positions_do_not_add_up",
                "error",
                f"The positions add up to {sum(r):.3f}, but {a.mean_length - 1:.3f} tokens are "
                "accepted per draft.",
            )


_CHECKS: tuple[Callable[[Cell], Flags], ...] = (
    _requests, _load, _machine, _speed, _lengths, _reading, _evidence,
    verification, caching, drafting, _acceptance, _drafted, _positions,
    drifting, *VALUES, spread, *AGREEING,
)  # fmt: skip
