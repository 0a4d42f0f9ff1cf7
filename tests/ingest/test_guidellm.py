"""Every GuideLLM generation: what it says, in whose words, recomputed independently."""

import re
from pathlib import Path

import msgspec
import pytest
import zstandard

from ingest.discovery import sniff
from ingest.formats import guidellm
from ingest.model import Context, FileContent, hashed, open_content
from warehouse.errors import InvalidInput
from warehouse.loads import load_of
from warehouse.rows import Cell

REPORTS = Path(__file__).parents[1] / "fixtures" / "reports"
SOURCE = "a" * 64


def raw(name: str) -> dict:
    packed = (REPORTS / f"{name}.json.zst").read_bytes()
    return msgspec.json.decode(zstandard.ZstdDecompressor().decompress(packed))


def cells(name: str, **facts: object) -> list[Cell]:
    content = open_content(REPORTS / f"{name}.json.zst")
    return list(sniff(content).parse(content, Context(lambda: SOURCE, facts)).cells)


def from_report(report: object) -> list[Cell]:
    data = report if isinstance(report, bytes) else msgspec.json.encode(report)
    view = memoryview(data)
    content = FileContent(Path("report.json"), view, hashed(view))
    return list(guidellm.parse(content, Context(lambda: SOURCE)).cells)


def values(cell: Cell, origin: str) -> dict[tuple[str, str], float]:
    return {(m.metric, m.statistic): m.value for m in cell.measurements if m.origin == origin}


@pytest.mark.parametrize(
    ("name", "generation", "definition", "version", "request_format"),
    [
        ("g1-0.3.1", "G1", "guidellm<0.4", None, "text_completions"),
        ("g2a-0.4.0", "G2a", "guidellm 0.4-0.7.3", None, "chat_completions"),
        ("g2b-0.5.3", "G2b", "guidellm 0.4-0.7.3", "0.5.3", "chat_completions"),
        ("g3a-0.6.1", "G3a", "guidellm 0.4-0.7.3", "0.6.1", "chat_completions"),
        ("g3b-0.7.4", "G3b", "guidellm>=0.7.4", "0.7.4", "chat_completions"),
        ("g4-0.8.1", "G4", "guidellm>=0.7.4", "0.8.1", "chat_completions"),
    ],
)
def test_each_generation_says_what_it_is_and_what_was_run(
    name: str, generation: str, definition: str, version: str, request_format: str
) -> None:
    found = cells(name)
    assert [c.facts.concurrency for c in found] == [1, 4, 8]
    for cell in found:
        assert (cell.schema_generation, cell.reported_definition) == (generation, definition)
        assert cell.load_generator_version == version
        assert (cell.facts.model, cell.facts.request_format) == ("tiny-mock", request_format)
        assert cell.facts.load_profile == "concurrent"
        assert cell.facts.dataset is None
        assert (cell.completed, cell.errored, cell.incomplete) == (20, 0, 0)
        assert cell.requests is not None
        assert cell.requests.num_rows == 20


def recomputed_throughput(benchmark: dict, old: bool) -> float:
    """Tokens spread evenly from first to last token, those inside the window / its length."""
    run = benchmark.get("scheduler_metrics") or {}
    begin = run.get("measure_start_time") or benchmark["start_time"]
    finish = run.get("measure_end_time") or benchmark["end_time"]
    total = 0.0
    for record in benchmark["requests"]["successful"]:
        timings = record if old else record["info"]["timings"]
        first = timings["first_token_time" if old else "first_token_iteration"]
        last = timings["last_token_time" if old else "last_token_iteration"]
        tokens = record["output_tokens"]
        if begin <= first <= finish:
            total += 1
        if last > first:
            inside = max(0.0, min(last, finish) - max(first, begin))
            total += (tokens - 1) * inside / (last - first)
        elif begin <= first <= finish:
            total += tokens - 1
    return total / (finish - begin)


@pytest.mark.parametrize("name", sorted(p.name[:-9] for p in REPORTS.glob("*.json.zst")))
def test_canonical_throughput_agrees_with_a_plain_recomputation(name: str) -> None:
    report = raw(name)
    for cell, benchmark in zip(cells(name), report["benchmarks"], strict=True):
        expected = recomputed_throughput(benchmark, old=name.startswith("g1"))
        got = values(cell, "canonical")["output_throughput", "mean"]
        assert got == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("name", ["g3b-0.7.4", "g4-0.8.1", "warmup-0.8.1", "maxduration-0.8.1"])
def test_since_0_7_4_the_reported_throughput_is_the_canonical_one(name: str) -> None:
    for cell in cells(name):
        key = ("output_throughput", "mean")
        assert values(cell, "canonical")[key] == pytest.approx(values(cell, "reported")[key], 1e-3)


def test_tpot_of_0_3_left_out_the_first_token_and_canonical_puts_it_back() -> None:
    cell = cells("g1-0.3.1")[0]
    key = ("tpot", "mean")
    assert values(cell, "reported")[key] == pytest.approx(8.42, abs=0.01)
    assert values(cell, "canonical")[key] == pytest.approx(11.74, abs=0.01)


def test_units_are_ms_for_tokens_and_seconds_for_requests_and_rates_have_only_a_mean() -> None:
    found = values(cells("g4-0.8.1")[0], "reported")
    assert 20 < found["ttft", "mean"] < 500
    assert 0.05 < found["request_latency", "mean"] < 5
    assert [s for m, s in found if m == "output_throughput"] == ["mean"]


def test_errors_are_counted_and_do_not_pollute_the_latencies() -> None:
    cell = cells("err500-0.5.3")[1]
    assert (cell.completed, cell.errored) == (6, 14)
    assert values(cell, "canonical")["error_rate", "mean"] == pytest.approx(0.7)
    assert values(cell, "canonical")["ttft", "min"] > 1
    rows = cell.requests.to_pylist()
    assert {r["request_latency"] for r in rows if r["status"] == "errored"} == {None}


def test_an_error_is_kept_wherever_a_request_states_it() -> None:
    report = raw("err500-0.5.3")
    for one in report["benchmarks"][1]["requests"]["errored"]:
        one["error"] = one["info"].pop("error")
    told, moved = (
        [row["error"] for row in found[1].requests.to_pylist()]
        for found in (cells("err500-0.5.3"), from_report(report))
    )
    assert moved == told
    assert sum(error is not None for error in told) == 14


def test_requests_of_the_warm_up_stay_and_are_marked_outside_the_window() -> None:
    cell = cells("warmup-0.8.1")[0]
    assert cell.requests.num_rows == 40
    assert sum(cell.requests["in_window"].to_pylist()) in (27, 28)


def test_the_reason_of_the_stop_and_the_incomplete_requests_are_kept() -> None:
    found = cells("maxduration-0.8.1")
    assert [c.stop_reason for c in found] == ["max_duration", "max_duration", "requests_exhausted"]
    assert [c.incomplete for c in found] == [1, 5, 0]
    assert all(c.requests_complete for c in found)


def test_acceptance_is_pooled_over_the_requests_of_the_server() -> None:
    (found,) = cells("specdecode-0.8.1")[0].acceptance
    assert (found.drafts, found.draft_tokens, found.accepted_tokens) == (123, 369, 192)
    assert found.mean_length == pytest.approx(1 + 192 / 123)
    assert sum(found.by_position) == pytest.approx(192 / 123)


def test_the_model_is_found_in_the_request_where_the_report_leaves_it_out() -> None:
    assert {c.facts.model for c in cells("no-model-0.5.3")} == {"tiny-mock"}


def test_what_the_user_gives_overrides_the_report() -> None:
    assert cells("g4-0.8.1", model="mine", gpu="H200")[0].facts.model == "mine"


def test_a_report_from_the_future_is_read_by_structure_and_marked() -> None:
    report = raw("g4-0.8.1")
    report["metadata"] |= {"version": 99, "guidellm_version": "9.0"}
    found = from_report(report)
    assert {c.schema_generation for c in found} == {"unknown"}
    assert {f.name for c in found for f in c.flags} == {"unknown_report_version"}
    assert [c.facts.concurrency for c in found] == [1, 4, 8]


def test_a_sampled_report_has_no_canonical_values() -> None:
    report = raw("g4-0.8.1")
    del report["benchmarks"][0]["requests"]["successful"][5:]
    cell = from_report(report)[0]
    assert not cell.requests_complete
    assert values(cell, "canonical") == {}


def test_a_sampled_report_does_not_say_which_prompts_its_cell_had() -> None:
    report = raw("g4-0.8.1")
    whole = from_report(report)[0].facts.prompt_set_hash
    del report["benchmarks"][0]["requests"]["successful"][5:]
    assert whole is not None
    assert from_report(report)[0].facts.prompt_set_hash is None


def test_a_level_that_was_cut_off_does_not_either() -> None:
    found = cells("maxduration-0.8.1")
    assert [(c.incomplete > 0, c.facts.prompt_set_hash is None) for c in found] == [
        (True, True), (True, True), (False, False),
    ]  # fmt: skip


def loads(name: str) -> list[str]:
    facts = [cell.facts for cell in cells(name)]
    found = [load_of(f.load_profile, f.concurrency, f.rate, f.trace) for f in facts]
    return ["unknown" if load is None else load.text for load in found]


def test_each_level_of_a_sweep_has_the_load_of_its_own_strategy() -> None:
    one, most, *rates = loads("sweep-0.8.1")
    assert (one, most) == ("1 at once", "512 at once")
    assert len(rates) == 2
    assert all(re.fullmatch(r"[\d.]+ requests/s \(at most 512 at once\)", r) for r in rates)


def test_a_poisson_rate_without_a_limit_has_none() -> None:
    assert loads("poisson-0.8.1") == ["10 requests/s (Poisson)"]


def test_a_replayed_trace_is_known_by_its_file() -> None:
    report = raw("g4-0.8.1")
    for benchmark, scale in zip(report["benchmarks"], (1.0, 2.0, None), strict=True):
        benchmark["config"]["strategy"] = {"type_": "trace", "time_scale": scale}
    report["config"]["spec"]["data"] = [{"kind": "trace", "path": "logs/monday.jsonl"}]
    facts = [cell.facts for cell in from_report(report)]
    assert [f.trace for f in facts] == [
        "monday.jsonl", "monday.jsonl (time x 2)", "monday.jsonl",
    ]  # fmt: skip
    assert {(f.load_profile, f.concurrency) for f in facts} == {("trace", None)}


def open_loop(late_s: float, strategy: str = "poisson") -> Cell:
    """A recorded level as if its requests had been due when they were sent, the last four earlier."""
    report = raw("g4-0.8.1")
    level = report["benchmarks"][1]
    level["config"]["strategy"] = {"type_": strategy, "rate": 4.0}
    done = [request["info"]["timings"] for request in level["requests"]["successful"]]
    for place, timings in enumerate(done):
        delay = late_s if place >= len(done) - 4 else 0.0
        timings["targeted_start"] = timings["request_start"] - 3.0 - delay
    return from_report(report)[1]


def test_requests_of_a_rate_that_were_sent_behind_their_times_are_flagged() -> None:
    behind, punctual = (
        {flag.name: flag.sentence for flag in open_loop(late_s).flags} for late_s in (1.2, 0.1)
    )
    assert "sent 1.20 s or more behind its time" in behind["sent_late"]
    assert "sent_late" not in punctual
    assert "sent_late" not in {flag.name for flag in open_loop(1.2, "concurrent").flags}


def test_a_window_that_outlives_its_requests_is_cut_to_their_activity() -> None:
    report = raw("g4-0.8.1")
    expected = values(from_report(report)[0], "canonical")
    report["benchmarks"][0]["scheduler_metrics"]["measure_end_time"] += 190.0
    report["benchmarks"][0]["end_time"] += 190.0
    found = from_report(report)[0]
    assert values(found, "canonical") == pytest.approx(expected)
    assert found.duration == pytest.approx(5.851, abs=0.001)
    assert "window_outlives_activity" in {flag.name for flag in found.flags}


def test_the_window_of_a_sampled_report_stays_what_it_says() -> None:
    report = raw("g4-0.8.1")
    report["benchmarks"][0]["scheduler_metrics"]["measure_end_time"] += 190.0
    del report["benchmarks"][0]["requests"]["successful"][5:]
    found = from_report(report)[0]
    assert found.duration == pytest.approx(195.851, abs=0.001)
    assert found.flags == ()


def test_nan_and_infinity_count_as_unknown_and_are_flagged() -> None:
    data = msgspec.json.encode(raw("g2b-0.5.3"))
    found = from_report(data.replace(b'"random_seed":42', b'"random_seed":NaN'))
    assert "not_a_number" in {f.name for f in found[0].flags}


def test_errored_requests_of_0_3_claim_no_tokens() -> None:
    report = raw("g1-0.3.1")
    lists = report["benchmarks"][0]["requests"]
    lists["errored"] = [lists["successful"].pop() | {"error": "TimeoutError"}]
    rows = from_report(report)[0].requests.to_pylist()
    assert [r["output_tokens"] for r in rows if r["status"] == "errored"] == [None]


GENERATIONS = [
    "g1-0.3.1", "g2a-0.4.0", "g2b-0.5.3", "g3a-0.6.1", "g3b-0.7.4", "g4-0.8.1", "err500-0.5.3",
]  # fmt: skip


@pytest.mark.parametrize("name", GENERATIONS)
@pytest.mark.parametrize("how", ["no records", "empty lists", "null lists"])
def test_a_report_without_its_records_is_read_by_what_it_says_of_itself(
    name: str, how: str
) -> None:
    report, whole = raw(name), cells(name)
    for level in report["benchmarks"]:
        if how == "no records":
            del level["requests"]
        else:
            empty: object = [] if how == "empty lists" else None
            level["requests"] = dict.fromkeys(("successful", "errored", "incomplete"), empty)
    found = from_report(report)
    assert len(found) == len(whole) > 0
    for one, full in zip(found, whole, strict=True):
        assert values(one, "reported") == values(full, "reported") != {}
        assert values(one, "canonical") == {}
        assert one.requests is None
        assert (one.requests_complete, one.status) == (False, full.status)
        assert (one.completed, one.errored) == (full.completed, full.errored)
        assert one.facts.concurrency == full.facts.concurrency
        assert one.facts.prompt_set_hash is None


def test_where_neither_records_nor_counts_of_the_run_are_kept_its_totals_stand() -> None:
    report, whole = raw("err500-0.5.3"), cells("err500-0.5.3")
    for level in report["benchmarks"]:
        del level["requests"], level["scheduler_metrics"]["requests_made"]
    found = from_report(report)
    assert [(c.completed, c.errored) for c in found] == [(c.completed, c.errored) for c in whole]


def broken(change: str) -> bytes:
    report = raw("g4-0.8.1")
    level = report["benchmarks"][0]
    if change == "negative":
        level["requests"]["successful"][0]["info"]["timings"]["request_end"] = 1.0
    elif change == "no section":
        del level["metrics"]
    elif change == "backwards":
        level["scheduler_metrics"]["measure_end_time"] = 1.0
    elif change == "nothing succeeded":
        for benchmark in report["benchmarks"]:
            benchmark["requests"]["successful"] = []
            made = benchmark["scheduler_metrics"]["requests_made"]
            made |= {"errored": made["successful"], "successful": 0}
    data = msgspec.json.encode(report)
    return data[: len(data) // 2] if change == "cut off" else data


@pytest.mark.parametrize(
    "change", ["negative", "no section", "backwards", "nothing succeeded", "cut off"]
)
def test_a_broken_report_is_refused_with_one_sentence(change: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        from_report(broken(change))
    assert "\n" not in str(caught.value)


def of_texts(name: str, outputs: list[object], calls: object = None) -> dict[str, float]:
    """What is measured of the texts of a level whose completed answers are ``outputs``, again and again."""
    report = raw(name)
    for at, record in enumerate(report["benchmarks"][0]["requests"]["successful"]):
        record["output"] = outputs[at % len(outputs)]
        if calls is not None:
            record["tool_calls"] = calls
    found = values(from_report(report)[0], "canonical")
    names = ("repeating_answers", "json_answers")
    return {name: found[name, "mean"] for name in names if (name, "mean") in found}


@pytest.mark.parametrize("name", ["g1-0.3.1", "g2b-0.5.3", "g3b-0.7.4", "g4-0.8.1", "err500-0.5.3"])
def test_answers_that_repeat_themselves_and_those_that_are_json_are_counted(name: str) -> None:
    half = of_texts(name, ["And so on, " * 40, '{"a": 1}'])
    assert half == {"repeating_answers": 0.5, "json_answers": 0.5}
    # What was taken away, or is no text, is unknown; nothing but empty answers says nothing.
    assert of_texts(name, ["{}", "sha256:" + "0" * 32, {"audio": 1}])["json_answers"] == 1.0
    assert of_texts(name, ["sha256:" + "0" * 32]) == of_texts(name, ["", None]) == {}


@pytest.mark.parametrize(("arguments", "share"), [('{"a": 1}', 1.0), ('{"a": 1', 0.0)])
def test_calls_of_tools_count_by_whether_they_validate(arguments: str, share: float) -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}]
    assert of_texts("g4-0.8.1", [None], calls)["json_answers"] == share
