"""What is no number where one belongs is never passed over: it is refused, or nothing read it."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from ingest.formats.guidellm import _acceptance
from ingest.formats.guidellm_shape import GuidellmRequest
from tests.ingest.readers import (
    test_genai_perf,
    test_inferencex,
    test_llmd,
    test_sglang,
    test_vllm_files,
)
from tests.ingest.readers.reading import cells, values, written
from tests.ingest.readers.test_genai_perf import distribution
from tests.secrets.others import OTHERS
from tests.secrets.planted import bench
from warehouse.errors import InvalidInput
from warehouse.rows import Cell

Place = tuple[Any, ...]
#: Of a list so many members are altered; the others are read alike.
_MEMBERS = 2
#: So many numbers are altered in one file; where that changes anything, one by one.
_AT_ONCE = 24
WRONG = ("fast", True, [1.0])
#: They are kept as they are said.
_OPAQUE = {"server_args": None, "speculative_config": None}
SAMPLES = {
    **{name: other.files for name, other in OTHERS.items()},
    "vllm bench": {"b.json": bench(False)},
    "vllm bench, detailed": {"b.json": bench(True)},
}


def _numbers(value: Any, place: Place = ()) -> Iterator[Place]:
    if isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value[:_MEMBERS])
        for key, member in members:
            yield from _numbers(member, (*place, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place


def _altered(files: dict[str, Any], *wrongs: tuple[Place, Any]) -> dict[str, Any]:
    altered = copy.deepcopy(files)
    for place, wrong in wrongs:
        holder = altered
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = wrong
    return altered


def _written(folder: Path, files: dict[str, Any], one: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        lines = name.endswith(".jsonl") or (one == "vllm append" and isinstance(value, list))
        text = "\n".join(map(json.dumps, value)) if lines else json.dumps(value)
        (folder / name).write_text(text)
    return folder / next(iter(files))


def _said(found: list[Cell]) -> list[Any]:
    """All that is stored of cells but their requests and what they are called."""
    return [
        (c.facts.model_copy(update=_OPAQUE), c.measurements, c.acceptance, c.completed, c.errored, c.incomplete, c.duration,
         c.requests and c.requests.drop_columns(["cell_id"]).to_pylist())
        for c in found
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLES)
def test_what_is_no_number_is_refused_or_nothing_had_read_it(tmp_path: Path, kind: str) -> None:
    files = SAMPLES[kind]
    before = cells(_written(tmp_path / "right", files, kind))
    said, flags = _said(before), [one.flags for one in before]
    passed_over, refused = [], 0
    wrongs = [(place, WRONG[n % len(WRONG)]) for n, place in enumerate(_numbers(files))]
    left = [wrongs[n : n + _AT_ONCE] for n in range(0, len(wrongs), _AT_ONCE)]
    for n, several in enumerate(left):
        path = _written(tmp_path / str(n), _altered(files, *several), kind)
        try:
            after = cells(path)
        except (InvalidInput, ValidationError):
            after = []
        if after and _said(after) == said:
            continue  # Nothing had read any of them.
        if len(several) > 1:
            left += [[one] for one in several]
        elif not after:
            refused += 1
        elif [one.flags for one in after] == flags:
            passed_over.append(".".join(map(str, several[0][0])))
    assert passed_over == []
    assert refused


def _one(tmp_path: Path, said: Any, name: str = "r.json") -> Cell:
    (found,) = cells(written(tmp_path / name, said, lines=True))
    return found


@pytest.mark.parametrize(("unit", "latency_s"), [("ms", 1.5), ("s", 1500.0), ("us", 0.0015)])
def test_a_time_is_read_in_the_unit_that_it_states(
    tmp_path: Path, unit: str, latency_s: float
) -> None:
    said = test_genai_perf.report() | {"request_latency": distribution(unit, 1500.0)}
    told = values(_one(tmp_path, said), "reported")
    assert told["request_latency", "mean"] == pytest.approx(latency_s)


@pytest.mark.parametrize(
    "said",
    [
        test_genai_perf.report() | {"request_latency": distribution("fortnights", 1500.0)},
        _altered({"": test_llmd.ONE}, (("", "metrics", "latency", "request_latency", "units"), "h"))[""],
    ],
)  # fmt: skip
def test_a_unit_that_nobody_knows_is_refused(tmp_path: Path, said: Any) -> None:
    with pytest.raises(
        InvalidInput, match=r"the unit of request_latency is '.*' where ms, s, us or ns"
    ):
        _one(tmp_path, said)


@pytest.mark.parametrize("wrong", ["inf", "NaN"])
def test_failures_that_are_no_number_are_unknown_and_never_none(tmp_path: Path, wrong: Any) -> None:
    said = _altered({"": test_llmd.ONE}, (("", "metrics", "requests", "failures"), wrong))[""]
    found = _one(tmp_path, said)
    assert found.requests_made is None
    assert ("error_rate", "mean") not in values(found, "reported")


@pytest.mark.parametrize("key", ["ep", "dp_attention", "num_prefill_gpu"])
def test_rows_whose_gpus_share_the_work_otherwise_are_two_servers(tmp_path: Path, key: str) -> None:
    one, other = (
        _one(tmp_path, test_inferencex.ROW | {key: value}).facts.server_args for value in (4, 8)
    )
    assert one is not None
    assert other is not None
    assert one[key] != other[key]


@pytest.mark.parametrize(
    ("args", "facts"),
    [
        ({"--max-num-seqs": 8, "--enforce-eager": None}, {"server_args": {"max-num-seqs": "8", "enforce-eager": True}}),
        ({"--no-enable-prefix-caching": True, "-q": "fp8"}, {"prefix_caching": False, "precision": "fp8"}),
        ({"-sc": '{"method": "mtp", "num_speculative_tokens": 2}'}, {"spec_method": "mtp", "num_speculative_tokens": 2}),
        ({"--speculative-config.method": "eagle3"}, {"spec_method": "eagle3"}),
        ({"speculative_config": {"method": "eagle3"}}, {"spec_method": "eagle3"}),
        ({"--specul": "?"}, {"spec_method": None, "server_args": {"--specul": "?"}}),
        ({}, {"spec_method": None, "server_args": None}),
    ],
)  # fmt: skip
def test_the_arguments_of_llmds_servers_are_facts(
    tmp_path: Path, args: dict[str, Any], facts: dict[str, Any]
) -> None:
    said = copy.deepcopy(test_llmd.TWO)
    said["scenario"]["stack"][0]["native"]["args"] = args
    found = _one(tmp_path, json.loads(json.dumps(said).replace("Infinity", "12"))).facts
    assert {key: getattr(found, key) for key in facts} == facts


def test_llmds_servers_that_differ_stand_beside_one_another(tmp_path: Path) -> None:
    said = copy.deepcopy(test_llmd.TWO)
    engine = said["scenario"]["stack"][0]
    said["scenario"]["stack"].append(
        copy.deepcopy(engine) | {"native": {"args": {"--max-model-len": 9}}}
    )
    found = _one(tmp_path, json.loads(json.dumps(said).replace("Infinity", "12"))).facts
    assert found.server_args == {
        "aggregate 0": {"max-model-len": "1024"}, "aggregate 1": {"max-model-len": "9"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("varied", "dataset"),
    [
        ({"random_input_len": 128, "random_output_len": 256}, "random 128/256"),
        ({"--random-input-len": 128}, "random_input_len=128"),
        ({"dataset_name": "custom", "dataset_path": "/data/gsm8k.jsonl"}, "custom gsm8k.jsonl"),
        ({}, None),
    ],
)
def test_lengths_that_a_sweep_varied_are_its_dataset(
    tmp_path: Path, varied: dict[str, Any], dataset: str | None
) -> None:
    said = bench(False) | varied | {"run_number": 1}
    assert _one(tmp_path, said).facts.dataset == dataset


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (test_vllm_files.LATENCY | {"latencies": [1.0, -50.0]}, "took -50 s, which cannot be"),
        (test_vllm_files.LATENCY | {"latencies": [1.0, "x"]}, "lacks the time of some of its batches"),
        (test_vllm_files.THROUGHPUT | {"elapsed_time": 0}, "lacks its number of requests or its time"),
        (test_vllm_files.THROUGHPUT | {"total_num_tokens": 1}, "1 tokens in"),
        (test_sglang.line(request_rate=-4.0), "below zero"),
        (bench(False) | {"request_rate": "fast"}, "'fast' where the rate of its requests belongs"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words(tmp_path: Path, said: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        _one(tmp_path, said)


@pytest.mark.parametrize(
    ("said", "flag"),
    [
        (test_vllm_files.LATENCY, None),
        (_altered(test_vllm_files.LATENCY, (("percentiles", "99"), 30.0)), "reported_differs"),
        (test_inferencex.ROW | {"completed": 40, "num_prompts": 40}, None),
        (test_inferencex.ROW | {"completed": 50, "num_prompts": 40}, "counts_differ"),
    ],
)
def test_what_contradicts_itself_is_told(tmp_path: Path, said: Any, flag: str | None) -> None:
    told = {one.name for one in _one(tmp_path, said).flags}
    assert told & {"reported_differs", "counts_differ"} == ({flag} if flag else set())


def test_the_summary_of_a_sweep_names_its_runs(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="give the run=N.json files"):
        cells(written(tmp_path / "summary.json", [bench(False) | {"run_number": 0}]))


def test_true_is_no_number_of_a_record(run: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "b.json", bench(False))
    written(tmp_path / "meta.json", {"tensor_parallel_size": True})
    done = run(path, "--json")
    assert done.json["accepted"] == 0
    assert (
        "tensor_parallel_size=true does not fit the contract: a number belongs there" in done.reason
    )


HALF = {"num_spec_steps": 10, "num_draft_tokens": 30, "num_accepted_draft_tokens": 15}


@pytest.mark.parametrize("left_out", HALF)
def test_a_request_that_does_not_say_all_of_its_drafts_counts_in_no_sum(left_out: str) -> None:
    requests = [HALF, HALF | {left_out: None}]
    (found,) = _acceptance([_request(one) for one in requests])
    assert (found.drafts, found.draft_tokens, found.accepted_tokens) == (10, 30, 15)


def test_drafts_below_zero_are_refused() -> None:
    with pytest.raises(InvalidInput, match="fewer than no draft tokens"):
        _acceptance([_request(HALF | {"num_draft_tokens": -5})])


def _request(drafts: dict[str, Any]) -> GuidellmRequest:
    said = {"response_metrics": {"speculative_decoding": drafts}}
    return msgspec.json.decode(json.dumps(said), type=GuidellmRequest)
