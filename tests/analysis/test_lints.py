"""Each check fires on a bad cell, names its figures, and leaves a good one alone."""

from collections.abc import Callable
from typing import Any

import pytest

from analysis.flags.lints import lint, measured
from analysis.flags.lints_across import clocks_differ, company_differs, lengths_differ
from analysis.flags.validity import DECIDES_NOTHING
from warehouse.rows import REQUEST_SCHEMA, Acceptance, Cell, Measurement, Origin, Sample

Build = Callable[..., Cell]


def accepted(**changes: Any) -> tuple[Acceptance, ...]:
    values: dict[str, Any] = {
        "source": "counters", "drafts": 100, "draft_tokens": 300, "accepted_tokens": 210,
        "rate": 0.7, "mean_length": 3.1, "by_position": (0.9, 0.7, 0.5),
    }  # fmt: skip
    if {"rate", "mean_length"} & changes.keys():
        # Not of these counts any more.
        changes = {"accepted_tokens": None, **changes}
    return (Acceptance(**{**values, **changes}),)


def others(*cores: float) -> tuple[Sample, ...]:
    """Samples of the cores that other processes kept busy, among other series."""
    running = tuple(Sample(at, "num_requests_running", 8.0) for at in range(3))
    return running + tuple(Sample(at, "cpu_cores_used_by_others", c) for at, c in enumerate(cores))


def machine(**series: list[float]) -> tuple[Sample, ...]:
    """Samples of the machine, one a second."""
    return tuple(
        Sample(at, name, v) for name, values in series.items() for at, v in enumerate(values)
    )


def told(origin: Origin, values: dict[str, float]) -> tuple[Measurement, ...]:
    """Statistics of the time to the first token."""
    return tuple(Measurement(origin, "ttft", name, value) for name, value in values.items())


OLD = {"schema_generation": "G2a", "load_generator_version": "0.4.0"}

#: name, severity, what makes a good cell bad, what the sentence must say.
BAD: list[tuple[str, str, dict[str, Any], str]] = [
    ("sampled", "warning",
     {"requests_complete": False, "requests": REQUEST_SCHEMA.empty_table()}, "40"),
    ("summary_only", "info", {"requests_complete": False}, "its own values stand"),
    ("errors", "warning", {"completed": 39, "errored": 1}, "1 of 40 requests failed (2.5%"),
    ("errors", "info", {"requests_made": 1000, "completed": 999, "errored": 1}, "1 of 1000"),
    # 3 of 40 are 7.5 %.
    ("error_rate_high", "error", {"completed": 37, "errored": 3}, "3 of 40 requests failed (7.5%)"),
    ("no_completed_requests", "error", {"completed": 0, "incomplete": 40}, "No request"),
    ("stopped_early", "warning", {"stop_reason": "over_saturation"}, "over saturation"),
    ("stopped_early", "warning", {"stop_reason": "max_error_rate"}, "max error rate"),
    ("few_prompts", "warning", {"requests_made": 39, "completed": 39}, "39 requests at concurrency 8"),
    ("low_concurrency", "warning", {"measured": {("achieved_concurrency", "mean"): 7.1}}, "7.1"),
    ("busy_machine", "warning", {"samples": others(0.9, 1.4)}, "1.15 cores"),
    ("throttled", "warning", {"samples": machine(gpu_hot=[0, 1, 1, 0], gpu_braked=[0] * 4)},
     "(too hot 50% of the time)"),
    ("throttled", "warning", {"samples": machine(gpu_braked=[0, 0, 0, 1])}, "power brake 25%"),
    ("power_limited", "info", {"samples": machine(gpu_power_capped=[1, 1, 1, 0])}, "for 75%"),
    ("gpu_neighbour", "warning", {"samples": machine(gpu_processes_of_others=[0, 0, 2, 1])},
     "Up to 2 processes of somebody else computed on its GPUs for 50%"),
    ("steal", "warning", {"samples": machine(cpu_steal_share=[0.01, 0.04])}, "2.5%"),
    # 8 streams x 1000 / 10 ms = 800 tok/s; 5 % are tolerated: 840.
    ("impossible_throughput", "error", {"measured": {("output_throughput", "mean"): 841.0}}, "800"),
    ("short_output", "warning", {"measured": {("output_tokens", "p50"): 1.0}}, "1 token"),
    ("unknown_format", "warning",
     {"schema_generation": "unknown", "load_generator_version": "9.0"}, "GuideLLM 9.0"),
    ("timeout_60s", "warning",
     {**OLD, "completed": 39, "errored": 1, "measured": {("ttft", "max"): 59_000.0}}, "59 s"),
    ("reasoning_mismatch", "warning",
     {**OLD, "facts": {"server_args": {"reasoning-parser": "qwen3"}}}, "before 0.7"),
    ("reasoning_mismatch", "warning",
     {**OLD, "facts": {"model": "openai/gpt-oss-120b", "engine": "vllm"}}, "before 0.7"),
    ("evidence_cpu", "warning", {"facts": {"evidence": "cpu"}}, "CPU"),
    ("evidence_mock", "warning", {"facts": {"evidence": "mock"}}, "mock"),
    ("evidence_dummy_weights", "warning", {"facts": {"evidence": "dummy_weights"}}, "dummy"),
    ("evidence_simulated", "warning", {"facts": {"evidence": "simulated"}}, "simulated"),
    ("synthetic_acceptance", "error", {"facts": {"synthetic_acceptance": True}}, "set by hand"),
    ("synthetic_acceptance", "error",
     {"facts": {"speculative_config": {"rejection_sample_method": "synthetic"}}}, "set by hand"),
    ("lossy_verification", "error",
     {"facts": {"speculative_config": {"rejection_sample_method": "typical"}}}, "'typical'"),
    ("lossy_verification", "error",
     {"facts": {"speculative_config": {"acceptance_method": "typical_acceptance_sampler"}}},
     "'typical_acceptance_sampler'"),
    ("lossy_verification", "error",
     {"facts": {"server_args": {"--speculative-accept-threshold-single": 0.6}}}, "is 0.6"),
    ("baseline_drafts", "error",
     {"facts": {"spec_method": "none", "num_speculative_tokens": None}}, "drafted 100 times"),
    ("never_speculated", "error",
     {"acceptance": accepted(drafts=0, rate=None, mean_length=None, by_position=())}, "eagle3"),
    # K = 2 allows at most 3 tokens a step.
    ("acceptance_too_long", "error",
     {"facts": {"num_speculative_tokens": 2},
      "acceptance": accepted(draft_tokens=200, accepted_tokens=None)}, "3.10"),
    ("acceptance_near_zero", "warning",
     {"acceptance": accepted(rate=0.004, mean_length=1.012, by_position=())}, "0.40%"),
    # 40 tokens in 100 drafts: a draft that proposes nothing is not counted.
    ("drafts_do_not_fit", "error",
     {"acceptance": accepted(draft_tokens=40, accepted_tokens=None)}, "holds 0.40 tokens"),
    ("drafts_do_not_fit", "error",
     {"acceptance": accepted(draft_tokens=700, accepted_tokens=None)}, "at most K = 3"),
    ("positions_increase", "error",
     {"acceptance": accepted(by_position=(0.7, 0.9, 0.5))}, "0.700, 0.900, 0.500"),
    ("acceptance_near_one", "warning",
     {"acceptance": accepted(mean_length=3.4, by_position=(0.9995, 0.9, 0.5))}, "0.9995"),
    # 0.9 + 0.7 + 0.2 = 1.8, but 3.1 - 1 = 2.1.
    ("positions_do_not_add_up", "error",
     {"acceptance": accepted(by_position=(0.9, 0.7, 0.2))}, "1.800"),
    ("beyond_usual", "warning", {"measured": {("request_throughput", "mean"): 2e5}}, "200,000"),
    ("counts_differ", "warning", {"requests_made": 50}, "40 requests ended"),
    ("statistics_disagree", "error",
     {"measurements": told("reported", {"min": 10.0, "max": 20.0, "mean": 30.0})}, "a mean of 30"),
    ("more_than_requests_hold", "error",
     {"measurements": (Measurement("reported", "request_throughput", "mean", 90.0),)}, "5,400"),
    ("reported_differs", "warning",
     {"measurements": (*told("reported", {"mean": 100.0}), *told("canonical", {"mean": 50.0}))},
     "the report says 100.0, its requests give 50.0 ms"),
    ("acceptance_disagrees", "error",
     {"acceptance": accepted(rate=0.9, accepted_tokens=210)}, "0.900, but its counts give 0.700"),
]  # fmt: skip


def test_a_good_cell_earns_no_flag(good_cell: Build) -> None:
    assert lint(good_cell()) == ()


def test_a_good_baseline_earns_no_flag(good_cell: Build) -> None:
    facts = {"spec_method": "none", "num_speculative_tokens": None}
    assert lint(good_cell(facts, acceptance=())) == ()
    assert lint(good_cell(facts, acceptance=accepted(
        drafts=0, draft_tokens=0, accepted_tokens=0, rate=None, mean_length=None, by_position=()
    ))) == ()  # fmt: skip


@pytest.mark.parametrize(
    ("name", "severity", "bad", "says"), BAD, ids=[f"{b[0]}-{i}" for i, b in enumerate(BAD)]
)
def test_a_bad_cell_earns_its_flag_and_no_unrelated_error(
    good_cell: Build, name: str, severity: str, bad: dict[str, Any], says: str
) -> None:
    flags = {flag.name: flag for flag in lint(good_cell(**bad))}
    assert flags[name].severity == severity
    assert says in flags[name].sentence
    # A request throughput that nothing can hold disagrees with the report's own counts, too.
    assert set(flags) - {name} <= {"errors", "rates_disagree"}


#: Just inside each limit.
EDGES: list[dict[str, Any]] = [
    *(
        {"facts": {"speculative_config": {"rejection_sample_method": word}}}
        for word in ("standard", "strict", "probabilistic", "block")
    ),
    {"facts": {"server_args": {"speculative_accept_threshold_acc": 1.0}}},
    # 64 is the most that may be in flight of a rate, and is not asked for.
    {"facts": {"load_profile": "poisson", "rate": 2.0, "concurrency": 64}},
    {"requests_made": 40},
    {"requests_made": None},
    {"measured": {("achieved_concurrency", "mean"): 7.2}},
    {"measured": {("output_throughput", "mean"): 839.9}},
    {"measured": {("output_tokens", "p50"): 2.0}},
    {"facts": {"concurrency": None}},
    {"facts": {"evidence": None}},
    {"facts": {"spec_method": None, "num_speculative_tokens": None}},
    {"acceptance": accepted(mean_length=4.0, rate=0.998, by_position=(0.998,) * 3)},
    {"acceptance": accepted(rate=0.01, mean_length=1.03, by_position=())},
    {"stop_reason": None},
    {**OLD, "measured": {("ttft", "max"): 59_000.0}},
    {"facts": {"server_args": {"reasoning_parser": "qwen3"}}},
    {"facts": {"model": "openai/gpt-oss-120b", "engine": "vllm"}},
    {"load_generator": "vllm-bench", "schema_generation": "unknown"},
    {"measurements": ()},
    {"samples": others(0.5, 1.5)},
]


@pytest.mark.parametrize("changes", EDGES)
def test_a_cell_just_inside_a_limit_or_with_unknowns_earns_no_flag(
    good_cell: Build, changes: dict[str, Any]
) -> None:
    assert lint(good_cell(**changes)) == ()


def test_at_5_percent_of_errors_a_cell_still_decides(good_cell: Build) -> None:
    names = [{f.name for f in lint(good_cell(completed=100 - n, errored=n))} for n in (5, 6)]
    assert [bool(found & DECIDES_NOTHING) for found in names] == [False, True]


def test_every_flag_that_decides_nothing_is_an_error_of_a_bad_cell() -> None:
    assert {name for name, severity, *_ in BAD if severity == "error"} >= DECIDES_NOTHING


def test_a_draft_that_is_never_accepted_at_a_temperature_says_so(good_cell: Build) -> None:
    bad = accepted(rate=0.0, mean_length=1.0, by_position=())
    (flag,) = lint(good_cell({"temperature": 0.6}, acceptance=bad))
    assert "at temperature 0.6" in flag.sentence


def test_an_engine_on_a_cpu_is_disturbed_sooner(good_cell: Build) -> None:
    names = {flag.name for flag in lint(good_cell({"evidence": "cpu"}, samples=others(0.1, 0.21)))}
    assert names == {"busy_machine", "evidence_cpu"}


def test_a_canonical_measurement_wins_over_a_reported_one(good_cell: Build) -> None:
    both = (
        Measurement("canonical", "ttft", "p50", 1.0),
        Measurement("reported", "ttft", "p50", 2.0),
        Measurement("reported", "ttft", "p99", 3.0),
    )
    cell = good_cell(measurements=both)
    assert measured(cell, "ttft", "p50") == 1.0
    assert measured(cell, "ttft", "p99") == 3.0
    assert measured(cell, "itl") is None


def test_a_cool_gpu_of_ones_own_earns_no_flag(good_cell: Build) -> None:
    quiet = machine(
        gpu_hot=[0.0] * 9, gpu_braked=[0.0] * 9, gpu_power_capped=[0.0] * 9,
        gpu_processes_of_others=[0.0] * 9, cpu_steal_share=[0.001] * 9,
    )  # fmt: skip
    assert lint(good_cell(samples=quiet)) == ()


def test_clocks_of_two_arms_may_be_two_percent_apart() -> None:
    assert clocks_differ("GPU", 1980.0, 1950.0) is None
    flag = clocks_differ("GPU", 1980.0, 1900.0)
    assert flag is not None
    assert (flag.name, flag.severity) == ("clocks_differ", "warning")
    assert "1,980 MHz for the baseline and at 1,900 MHz" in flag.sentence
    assert "-4.0%" in flag.sentence


def test_arms_that_ran_among_others_and_alone_are_flagged() -> None:
    assert company_differs(5.0, 4.2) is None
    flag = company_differs(5.0, 1.5)
    assert flag is not None
    assert "5.0 other launches ran beside the baseline and 1.5" in flag.sentence


def test_arms_with_like_lengths_earn_no_flag() -> None:
    assert lengths_differ(100.0, 105.0) is None


def test_arms_with_lengths_more_than_five_percent_apart_are_flagged() -> None:
    flag = lengths_differ(100.0, 106.0)
    assert flag is not None
    assert flag.name == "output_lengths_differ"
    assert "100 and 106 tokens" in flag.sentence


@pytest.mark.parametrize("lengths", [(None, 100), (100, None), (0, 100)])
def test_unknown_lengths_are_not_compared(lengths: tuple[float | None, float | None]) -> None:
    assert lengths_differ(*lengths) is None
