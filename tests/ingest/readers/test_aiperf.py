"""AIPerf: a real run of 0.13 against a real server, and what its writer makes of other runs."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.discovery import find_units
from ingest.model import Unit
from tests.ingest.readers.reading import FIXTURES, cell, load, values, written
from warehouse.errors import InvalidInput

REAL = FIXTURES / "aiperf"
SUMMARY, REQUESTS = "profile_export_aiperf.json", "profile_export.jsonl"


def said() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((REAL / SUMMARY).read_text())
    return read


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (REAL / REQUESTS).read_text().splitlines()]


def put(folder: Path, summary: Any, requests: list[dict[str, Any]] | None) -> Path:
    """A run of AIPerf in a folder."""
    if requests is not None:
        written(folder / REQUESTS, *requests, lines=True)
    return written(folder / SUMMARY, summary)


def test_its_words_and_units_become_ours() -> None:
    found, own = cell(REAL / SUMMARY), said()
    told = values(found, "reported")
    assert told["ttft", "p99"] == own["time_to_first_token"]["p99"]
    assert told["itl", "mean"] == own["inter_token_latency"]["avg"]
    assert told["chunk_gap", "p50"] == own["inter_chunk_latency"]["p50"]
    assert told["request_latency", "max"] == own["request_latency"]["max"] / 1000
    assert told["output_throughput", "mean"] == own["output_token_throughput"]["avg"]
    assert told["total_throughput", "mean"] == own["total_token_throughput"]["avg"]
    assert ("tpot", "mean") not in told
    facts = found.facts
    assert (facts.model, facts.dataset) == ("lab-target", "synthetic 30/24")
    assert (facts.request_format, facts.temperature) == ("text_completions", 0.0)
    assert (load(found), facts.ignore_eos) == ("4 at once", True)
    assert (found.completed, found.errored, found.load_generator_version) == (24, 0, "0.13.0")
    assert found.flags == ()


def test_its_requests_agree_with_a_plain_recomputation() -> None:
    found = cell(REAL / SUMMARY)
    mine, told = values(found, "canonical"), values(found, "reported")
    own = [one["metrics"] for one in rows()]
    tokens = [one["usage_completion_tokens"]["value"] for one in own]
    ttft = [one["time_to_first_token"]["value"] for one in own]
    latency = [one["request_latency"]["value"] for one in own]
    start = [one["metadata"]["request_start_ns"] / 1e9 for one in rows()]
    length = max(s + ms / 1000 for s, ms in zip(start, latency, strict=True)) - min(start)
    assert mine["ttft", "mean"] == pytest.approx(np.mean(ttft), abs=1e-3)
    assert mine["ttft", "p95"] == pytest.approx(sorted(ttft)[22], abs=1e-3)
    decoding = sum(latency) - sum(ttft)
    assert mine["itl", "mean"] == pytest.approx(decoding / (sum(tokens) - 24), abs=1e-3)
    assert mine["tpot", "mean"] == pytest.approx(sum(latency) / sum(tokens), abs=1e-3)
    assert mine["output_throughput", "mean"] == pytest.approx(sum(tokens) / length, rel=1e-6)
    # Its own rates are of its tokenizer's tokens and of a window that opens a little earlier.
    assert told["output_throughput", "mean"] == pytest.approx(
        mine["output_throughput", "mean"], rel=0.01
    )


def test_a_run_is_one_result_whatever_lies_beside(tmp_path: Path) -> None:
    path = put(tmp_path, said(), rows())
    for name in (
        "inputs.json",
        "server_metrics_export.json",
        "profile_export_aiperf_timeslices.json",
    ):
        written(tmp_path / name, {"data": []})
    (tmp_path / "profile_export_aiperf.csv").write_text("Metric,avg,min,max\n")
    size = path.stat().st_size + (tmp_path / REQUESTS).stat().st_size
    assert list(find_units([tmp_path])) == [Unit(path, False, size)]


def test_under_a_name_of_its_own_it_has_its_requests_too(tmp_path: Path) -> None:
    written(tmp_path / "run7.jsonl", *rows(), lines=True)
    path = written(tmp_path / "run7.json", said())
    assert [unit.path for unit in find_units([tmp_path]) if isinstance(unit, Unit)] == [path]
    found = cell(path)
    assert found.requests is not None
    assert found.requests.num_rows == 24


def test_without_its_requests_it_stands_by_its_summary(tmp_path: Path) -> None:
    found = cell(put(tmp_path, said(), None))
    assert (found.requests, values(found, "canonical")) == (None, {})
    assert values(found, "reported") == values(cell(REAL / SUMMARY), "reported")


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda path: path.write_text(""), "is empty"),
        (lambda path: path.write_text(" \n"), "white space"),
        (lambda path: path.write_text("<html>"), "cannot be read"),
        (lambda path: path.write_bytes(path.read_text().encode("utf-16")), "UTF-16"),
        (lambda path: (path.unlink(), path.symlink_to(path.name)), "could not be read"),
    ],
    ids=["empty", "blank", "html", "utf16", "loop"],
)
def test_requests_that_cannot_be_read_are_not_passed_over(
    tmp_path: Path, spoil: Any, word: str
) -> None:
    path = put(tmp_path, said(), rows())
    spoil(tmp_path / REQUESTS)
    (unit,) = find_units([tmp_path])
    assert isinstance(unit, Unit)
    assert unit.path == path
    with pytest.raises(InvalidInput, match=word) as refused:
        cell(path)
    assert REQUESTS in str(refused.value) or "Line 1" in str(refused.value)


def test_its_requests_alone_are_read_too(tmp_path: Path) -> None:
    written(tmp_path / REQUESTS, *rows(), lines=True)
    (unit,) = find_units([tmp_path])
    assert isinstance(unit, Unit)
    found = cell(unit.path)
    assert values(found, "canonical") == values(cell(REAL / SUMMARY), "canonical")
    assert load(found) is None


def test_requests_of_the_warm_up_are_left_out_and_failed_ones_count(tmp_path: Path) -> None:
    changed = rows()
    changed[0]["metadata"]["benchmark_phase"] = "warmup"
    changed[1] |= {"metrics": {}, "error": {"code": 500, "type": "Server", "message": "gone"}}
    summary = said()
    summary["request_count"]["avg"] = 22.0
    summary["error_request_count"] = {"unit": "requests", "avg": 1.0}
    found = cell(put(tmp_path, summary, changed))
    assert (found.completed, found.errored) == (22, 1)
    assert found.requests is not None
    assert found.requests["error"].to_pylist().count("gone") == 1
    assert values(found, "canonical")["error_rate", "mean"] == pytest.approx(1 / 23)


def test_a_summary_and_requests_of_two_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="of two runs"):
        cell(put(tmp_path, said(), rows()[:5]))


def test_the_histogram_of_its_drafts_becomes_acceptance(tmp_path: Path) -> None:
    """``pooled_spec_decode_acceptance_histogram``: steps that accepted 0, 1, 2, 3 of 3 drafts."""
    summary = said()
    summary["pooled_spec_decode_acceptance_histogram"] = {"0": 40, "1": 30, "2": 20, "3": 10}
    summary["total_draft_tokens"] = {"unit": "tokens", "avg": 300.0}
    (accepted,) = cell(put(tmp_path, summary, None)).acceptance
    assert (accepted.drafts, accepted.draft_tokens, accepted.accepted_tokens) == (100, 300, 100)
    assert (accepted.rate, accepted.mean_length) == (pytest.approx(1 / 3), 2.0)
    assert accepted.by_position == (0.6, 0.3, 0.1)


def test_turns_of_its_sessions_are_kept_and_single_prompts_have_none(tmp_path: Path) -> None:
    assert {*cell(REAL / SUMMARY).requests.column("turn").to_pylist()} == {None}
    lines = rows()
    for number, line in enumerate(lines):
        line["metadata"]["turn_index"] = number % 2
    found = cell(put(tmp_path, said(), lines))
    assert sorted(found.requests.column("turn").to_pylist()) == [1] * 12 + [2] * 12
    assert ("ttft_later_turns", "p50") in values(found, "canonical")


def test_the_histogram_of_each_request_is_kept_with_it(tmp_path: Path) -> None:
    lines = rows()
    lines[1]["spec_decode_acceptance"] = {
        "acceptance_histogram": {"0": 2, "1": 3, "3": 5}, "num_draft_tokens": 30
    }  # fmt: skip
    told = cell(put(tmp_path, said(), lines)).requests
    assert told is not None
    counts = [told[name].to_pylist() for name in ("drafts", "draft_tokens", "accepted_tokens")]
    assert [one[1] for one in counts] == [10, 30, 18]
    assert {value for one in counts for value in (*one[:1], *one[2:])} == {None}


@pytest.mark.parametrize("accepted", ["1000000000", "-1"])
def test_a_histogram_of_drafts_that_cannot_be_is_refused_at_once(
    tmp_path: Path, accepted: str
) -> None:
    """A list of all positions up to that would take gigabytes."""
    summary, lines = said(), rows()
    summary["pooled_spec_decode_acceptance_histogram"] = {"0": 40, accepted: 1}
    summary["total_draft_tokens"] = {"unit": "tokens", "avg": 300.0}
    for line in lines:
        line["spec_decode_acceptance"] = {
            "acceptance_histogram": {accepted: 1},
            "num_draft_tokens": 3,
        }
    # A folder each: of a file that is read, the hash may still be computed beside.
    for beside in (None, lines):
        (tmp_path / str(beside is None)).mkdir()
        with pytest.raises(InvalidInput, match="which cannot be"):
            cell(put(tmp_path / str(beside is None), summary, beside))


@pytest.mark.parametrize(
    ("phase", "text"),
    [
        ({"type": "poisson", "rate": 4.0}, "4 requests/s (Poisson)"),
        ({"type": "constant", "rate": 4.0, "concurrency": 8}, "4 requests/s (at most 8 at once)"),
        (
            {"type": "gamma", "rate": 4.0, "smoothness": 0.5},
            "4 requests/s (gamma (burstiness 0.5))",
        ),
    ],
)
def test_its_load_is_that_of_the_measured_phase(
    tmp_path: Path, phase: dict[str, Any], text: str
) -> None:
    summary = copy.deepcopy(said())
    warm_up = {"name": "warmup", "kind": "warmup", "type": "concurrency", "concurrency": 1}
    summary["input_config"]["phases"] = [
        warm_up,
        {"name": "profiling", "kind": "profiling", **phase},
    ]
    assert load(cell(put(tmp_path, summary, None))) == text


def test_settings_of_earlier_releases_are_understood(tmp_path: Path) -> None:
    summary = said()
    for name in ("aiperf_version", "run_info"):
        del summary[name]
    summary["input_config"] = {
        "endpoint": {"model_names": ["tiny"], "type": "chat"},
        "loadgen": {"concurrency": 16, "request_count": 160},
        "input": {"prompt": {"input_tokens": {"mean": 100}, "output_tokens": {"mean": 50}}},
    }
    found = cell(put(tmp_path, summary, None))
    assert (found.facts.model, load(found)) == ("tiny", "16 at once")
    assert (found.facts.request_format, found.facts.dataset) == (
        "chat_completions",
        "synthetic 100/50",
    )


def test_a_run_that_ended_early_says_so(tmp_path: Path) -> None:
    summary = said() | {"is_complete": False, "incomplete_reason": "records stalled"}
    (flag,) = cell(put(tmp_path, summary, None)).flags
    assert (flag.name, "records stalled" in flag.sentence) == ("stopped_early", True)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("sweep_aggregate/profile_export_aiperf_sweep.json",
         {"aggregation_type": "sweep", "num_profile_runs": 2, "per_combination_metrics": []}),
        ("aggregate/profile_export_aiperf_aggregate.json",
         {"schema_version": "1.0", "aiperf_version": "0.13.0", "metrics": {},
          "metadata": {"aggregation_type": "confidence", "num_profile_runs": 2}}),
    ],
)  # fmt: skip
def test_its_summary_of_several_runs_is_passed_over_beside_them_and_alone_names_them(
    run: Any, tmp_path: Path, place: str, says: Any
) -> None:
    summary = written(tmp_path / "in/plain" / place, says)
    alone = run(tmp_path / "in")
    assert alone.status == 1
    assert "AIPerf's own summary of several runs" in alone.out
    assert "give these (profile_export_aiperf.json of each run)" in alone.out

    for at_once in (4, 16):
        put(
            tmp_path / f"in/plain/concurrency_{at_once}",
            said() | {"benchmark_id": str(at_once)},
            None,
        )
    done = run(tmp_path / "in", "--json")
    assert (done.status, done.json["accepted"], done.json["rejected"]) == (0, 2, [])
    assert done.json["passed_over"] == [str(summary)]
    assert summary.name in run(tmp_path / "in").out
