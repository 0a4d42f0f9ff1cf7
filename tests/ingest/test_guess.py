"""``ingest --guess``: what it would take a folder for, and that it takes nothing unasked."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.matching.guess_paths import (
    Named,
    concurrency,
    datasets,
    datasets_apart,
    drafts,
    named,
    rate,
    repeat,
)
from tests.ingest.readers.test_inferencex import ROW
from tests.ingest.readers.test_sglang import line as sglang_line

OFFLINE = {
    "elapsed_time": 4.0, "num_requests": 100, "total_num_tokens": 20_000,
    "requests_per_second": 25.0, "tokens_per_second": 5000.0,
}  # fmt: skip
NO_COUNTS = dict.fromkeys(("spec_decode_num_drafts", "spec_decode_per_position_acceptance_rates"))


@pytest.fixture
def results(write: Any, bench: Any, tmp_path: Path) -> Path:
    """A baseline and a speculative file for each of two datasets."""
    for arm in ("base", "spec-on"):
        for number, dataset in enumerate(("chat", "code")):
            counted = {} if arm == "spec-on" else NO_COUNTS
            told = bench(**counted, duration=2.0 + number)
            write(f"in/{arm}/{dataset}_openai-infqps-concurrency2-20261121.json", told)
    return tmp_path / "in"


@pytest.fixture
def in_folders(write: Any, bench: Any, tmp_path: Path) -> Callable[..., Path]:
    """One report in a folder of its own for each name; no report says its arm."""

    def make(*arms: str, name: str = "c2") -> Path:
        for number, arm in enumerate(arms):
            write(f"in/{arm}/{name}.json", bench(duration=2.0 + number, **NO_COUNTS))
        return tmp_path / "in"

    return make


@pytest.mark.parametrize(
    ("paths", "arms", "found"),
    [
        (["base/chat-c1", "eagle3/chat-c1", "base/code-c1", "eagle3/code-c1"],
         ["none", "eagle3"] * 2, ["chat", "chat", "code", "code"]),
        # What only one arm has says something of the arm.
        (["a/chat", "head/chat", "a/code", "head/code"], ["none", "x"] * 2,
         ["chat", "chat", "code", "code"]),
        (["swe-bench_base_r0", "mt_bench_base_r1"], ["none"] * 2, ["swe-bench", "mt_bench"]),
        (["gsm8k.json", "math500.json.gz"], [None, None], ["gsm8k", "math500"]),
        (["c1-r0.json", "c2-r1.json"], ["none"] * 2, [None, None]),
    ],
)  # fmt: skip
def test_a_dataset_is_what_is_left_of_a_path(
    paths: list[str], arms: list[str | None], found: list[str | None]
) -> None:
    assert list(datasets(paths, arms)) == found


def test_a_path_says_its_load_and_no_other_number() -> None:
    assert [concurrency(p) for p in ("x-c16.json", "conc_8", "openai-infqps-concurrency4-t", "isl8_con2")] == [
        16, 8, 4, 2,
    ]  # fmt: skip
    assert [concurrency(p) for p in ("abc16", "c16k", "h100", "c0", "spec3")] == [None] * 5
    assert [rate(p) for p in ("qps2.5/x", "x-rate_4.json", "infqps")] == [2.5, 4.0, None]
    assert named("spec-bench/no-spec.json").method == "none"


def test_of_several_loads_a_path_says_the_nearest_to_its_name() -> None:
    paths = ("bs256/tp2-k3-c8.json", "c4-c16.json", "c1/c2.json", "bs4/bs8.json", "c8/bs16.json")
    assert [concurrency(path) for path in paths] == [8, 16, 2, 8, 8]
    paths = (
        "batch_size_8",
        "batch-size=8/x",
        "max_concurrency=8",
        "max-num-seqs-8",
        "num-prompts-8",
    )
    assert [concurrency(path) for path in paths] == [8, 8, 8, None, None]
    assert [rate(path) for path in ("qps2/qps4.json", "accept-rate0.8/x", "hit_rate0.5/rate2")] == [
        4.0, None, 2.0,
    ]  # fmt: skip


def test_a_path_says_which_repeat_it_is() -> None:
    paths = (
        "r0/c1.json",
        "run_2/c8",
        "chat-seed42-c8.json",
        "run1/try-3",
        "run20261121/c1",
        "gpr4",
        "r2d2",
    )
    assert [repeat(path) for path in paths] == [0, 2, 42, 3, None, None, None]


def test_repeats_that_paths_number_are_paired_with_those_of_the_baseline(
    run: Any, in_folders: Any
) -> None:
    """All of an arm's launches came after all of the baseline's: the last one was the nearest of all."""
    folder = in_folders("base/r1", "base/r2", "base/r3", "eagle3/r1", "eagle3/r2", "eagle3/r3")
    shown = run(folder, "--guess", "--yes").out
    assert "repeat" in shown
    assert {(one["spec_method"], one["repeat"]) for one in run.cells()} == {
        (arm, number) for arm in ("none", "eagle3") for number in (1, 2, 3)
    }
    assert "Nobody says: repeat" not in run(in_folders("base", "eagle3"), "--guess").out


@pytest.mark.parametrize("name", ["bs16", "qps4", "c8"])
def test_no_name_changes_that_all_were_sent_at_once(
    run: Any, write: Any, bench: Any, tmp_path: Path, name: str
) -> None:
    write(f"in/k2-{name}.json", bench(max_concurrency=None))
    (file,) = run(tmp_path / "in", "--guess", "--json").json["files"]
    assert (file["loads"], file["loads_from"]) == (["as fast as it takes them"], "contents")
    run(tmp_path / "in", "--guess", "--yes")
    (cell,) = run.cells()
    assert (cell["load_profile"], cell["concurrency"], cell["rate"]) == ("throughput", None, None)


def test_the_load_shown_is_the_one_that_is_stored(run: Any, write: Any, tmp_path: Path) -> None:
    """``vllm bench throughput`` says no load; a number at once limits it, a rate does not."""
    for number, name in enumerate(("qps4", "c8")):
        write(f"in/{name}.json", {**OFFLINE, "model_id": f"tiny-{number}"})
    files = run(tmp_path / "in", "--guess", "--json").json["files"]
    assert [file["loads"] for file in files] == [["8 at once"], ["as fast as it takes them"]]
    assert [file["loads_from"] for file in files] == ["name", "contents"]
    run(tmp_path / "in", "--guess", "--yes")
    assert [(cell["concurrency"], cell["rate"]) for cell in run.cells()] == [
        (8, None),
        (None, None),
    ]


def test_a_server_that_was_told_to_draft_is_no_baseline_by_the_others(
    run: Any, write: Any, bench: Any, tmp_path: Path
) -> None:
    for number, name in enumerate(("a", "eagle3-k2")):
        write(f"in/{name}/c2.json", bench(duration=2.0 + number, **NO_COUNTS))
    served = "vllm serve tiny --spec-model meta/draft"
    write("in/a/meta.json", {"served_with": served})
    files = run(tmp_path / "in", "--guess", "--json").json["files"]
    assert [file["facts"]["spec_method"] for file in files] == [
        {"value": "speculative", "from": "contents"}, {"value": "eagle3", "from": "name"},
    ]  # fmt: skip


def test_the_size_of_a_model_that_reports_say_is_no_dataset(run: Any, in_folders: Any) -> None:
    folder = in_folders("8b/base", "8b/eagle3", "70b/base", "70b/eagle3")
    files = run(folder, "--guess", "--json").json["files"]
    assert {file["facts"]["dataset"]["value"] for file in files} == {None}


def test_two_sizes_of_a_draft_are_two_arms(run: Any, in_folders: Any) -> None:
    folder = in_folders("base", "eagle3-1.5B", "eagle3-8b", "ngram", name="70b-c2")
    shown = run(folder, "--guess", "--yes").out
    assert "eagle3 K=? (1.5b)*" in shown
    assert "Taken for repeats" not in shown
    found = {(one["spec_method"], one["draft_model"]) for one in run.cells()}
    assert found == {("none", None), ("eagle3", "1.5b"), ("eagle3", "8b"), ("ngram", None)}


@pytest.mark.parametrize(
    ("paths", "arms", "found"),
    [
        # One size tells nothing apart, and one that a baseline has is the model's.
        (["base", "eagle3-1b"], ["none", "eagle3"], [None, None]),
        (["8b/base", "8b/eagle3", "70b/base", "70b/eagle3"], ["none", "eagle3"] * 2, [None] * 4),
        (["8b/base", "8b/draft-68m", "8b/draft"], ["none", "draft_model", "draft_model"],
         [None, "68m", None]),
        # Without a baseline nothing says whose size it is.
        (["eagle3-1b", "eagle3-8b"], ["eagle3"] * 2, [None, None]),
    ],
)  # fmt: skip
def test_a_size_is_that_of_the_draft_where_only_drafts_have_it(
    paths: list[str], arms: list[str], found: list[str | None]
) -> None:
    files = [Named(path, arm, None, None) for path, arm in zip(paths, arms, strict=True)]
    assert list(drafts(files)) == found


def test_drafts_that_the_user_tells_apart_are_shown(
    run: Any, in_folders: Any, tmp_path: Path
) -> None:
    folder = in_folders("base", "eagle3-fp8", "eagle3-bf16")
    facts = tmp_path / "facts.yaml"
    facts.write_text('paths: ["eagle3-{draft_model}/*"]', "utf-8")
    shown = run(folder, "--guess", "--facts", facts).out
    assert "eagle3 K=? (fp8)*" in shown
    assert "Taken for repeats" not in shown


@pytest.mark.parametrize(
    ("arms", "drafts_of"),
    [
        (["base", "eagle3-fp8", "eagle3-bf16"], {"eagle3": {"fp8", "bf16"}}),
        (["base", "eagle3-1b-fp8", "eagle3-1b-bf16"], {"eagle3": {"fp8", "bf16"}}),
        (["base", "ngram_4_2", "ngram_4_3"], {"ngram": {"4_2", "4_3"}}),
        (["base", "eagle3_3", "eagle3_5", "medusa"], {"eagle3": {"3", "5"}, "medusa": {None}}),
        (["base", "eagle3/steps5-topk8", "eagle3/steps3-topk1"],
         {"eagle3": {"steps5-topk8", "steps3-topk1"}}),
        (["base", "spec-new-head", "spec-old-head"], {"speculative": {"new", "old"}}),
        # A baseline's number is that of a repeat.
        (["base-1", "base-2", "eagle3-1", "eagle3-2"], {"eagle3": {None}}),
        (["base-fp8", "base-bf16", "eagle3-fp8", "eagle3-bf16"], {"eagle3": {None}}),
        (["base", "eagle3-r1-0badcafe", "eagle3-20260101T101010Z"], {"eagle3": {None}}),
        (["base", "eagle3-c0ffee00-0a0b-4a7e-8bd1-0123456789ab", "eagle3"], {"eagle3": {None}}),
    ],
)  # fmt: skip
def test_what_only_names_of_one_arm_say_tells_its_drafts_apart(
    run: Any, in_folders: Any, arms: list[str], drafts_of: Any
) -> None:
    """Two drafts that are averaged as if they were repeats decide wrongly."""
    run(in_folders(*arms), "--guess", "--yes")
    drafts: dict[str, set[str | None]] = {}
    for one in run.cells():
        drafts.setdefault(one["spec_method"], set()).add(one["draft_model"])
    assert drafts == {"none": {None}} | drafts_of


@pytest.mark.parametrize("told", ["eagle3", "baseline"])
def test_a_file_that_says_no_arm_is_not_what_the_others_are_not(
    run: Any, in_folders: Any, told: str
) -> None:
    """A study of prompt lengths beside a baseline became a speculative arm, and won."""
    folder = in_folders("run_0_CTX1024", "run_1_CTX4096", told)
    files = run(folder, "--guess", "--json").json["files"]
    assert [file["facts"]["spec_method"] for file in files] == [
        {"value": "none" if told == "baseline" else told, "from": "name"},
        *[{"value": None, "from": "nobody"}] * 2,
 ]  # fmt: skip
    assert "Nobody says: arm of 2 files" in run(folder, "--guess").out
    run(folder, "--guess", "--yes")
    assert {(one["spec_method"], one["draft_model"]) for one in run.cells()} == {
        (None, None), ("none" if told == "baseline" else told, None),
    }  # fmt: skip


def test_servers_that_say_they_do_not_draft_make_no_speculation_of_the_others(
    run: Any, write: Any, tmp_path: Path
) -> None:
    server = {"model_path": "acme/chat", "speculative_algorithm": None}
    for name, told in (("plain/ctx1024", {"server_info": server}), ("study/ctx4096", {})):
        write(f"in/{name}.jsonl", sglang_line(**told))
    files = run(tmp_path / "in", "--guess", "--json").json["files"]
    assert [file["facts"]["spec_method"]["value"] for file in files] == ["none", None]


@pytest.mark.parametrize(
    ("word", "gpu", "count"),
    [
        ("h200sxm", "H200", None), ("a100sxm4", "A100", None), ("h100nvl", "H100", None),
        ("H100-PCIe-80GB", "H100", None), ("2xH100", "H100", 2), ("8xh200", "H200", 8),
        ("h100x8", "H100", 8), ("h100-8x", "H100", 8), ("2x8xH100", "H100", 16), ("mi300x8", "MI300X", 8),
        ("gh200", "GH200", None), ("gb200-nvl72", "GB200", None), ("rtx5090", "RTX 5090", None),
        ("2x4090", "RTX 4090", 2), ("rtx_4070_ti", "RTX 4070 TI", None), ("a6000", "RTX A6000", None),
        ("l40s", "L40S", None), ("h20", "H20", None), ("h20-3e", "H20 3E", None), ("8gpus", None, 8),
        # Cards that nobody knows here are not a shorter name.
        ("h2000", None, None), ("t4g", None, None), ("w4a16", None, None), ("h100-vs-h200", None, None),
    ],
)  # fmt: skip
def test_a_card_is_the_longest_name_that_fits_or_unknown(
    word: str, gpu: str | None, count: int | None
) -> None:
    said = named(f"cloud_{word}/baseline/c8.json")
    assert (said.gpu, said.gpu_count) == (gpu, count)
    if gpu or count:
        paths = [f"cloud_{one}/c8.json" for one in (word, "b300")]
        assert datasets(paths, [None, None]) == (None, None)


def test_of_several_cards_the_nearest_to_the_file_counts() -> None:
    assert named("h100/h200/c8.json").gpu == "H200"


@pytest.mark.parametrize(
    ("name", "tp", "count", "args"),
    [
        ("TP4_DP2", 4, 8, {"data-parallel-size": 2}), ("TP8_DP1", 8, 8, None), ("tp2pp4", 2, 8,
        {"pipeline-parallel-size": 4}), ("tp8-ep8", 8, None, {"expert-parallel-size": 8}),
        ("4xH100_tp2_dp2", 2, 4, {"data-parallel-size": 2}), ("tp4", 4, None, None),
        ("tensor-parallel-size-4_data_parallel_size=2", 4, 8, {"data-parallel-size": 2}),
        # Ranks that share the GPUs of the tensor parallel ones.
        ("tp8_dp8_dp-attn", 8, None, {"data-parallel-size": 8, "enable-dp-attention": True}),
    ],
)  # fmt: skip
def test_a_path_says_how_gpus_share_the_work(
    name: str, tp: int, count: int | None, args: dict[str, Any] | None
) -> None:
    said = named(f"{name}/c16.json")
    assert (said.tensor_parallel_size, said.gpu_count, said.server_args) == (tp, count, args)
    assert datasets([f"{one}/c16.json" for one in (name, "tp1")], [None, None]) == (None, None)


@pytest.mark.parametrize(
    ("name", "dataset"),
    [
        ("CTX1024", "random 1024"), ("isl-8k_osl-1k", "random 8k/1k"), ("ISL1024", "random 1024"),
        ("in1024_out128", "random 1024/128"), ("isl1024osl128", "random 1024/128"), ("mt-bench_ctx512", "mt-bench 512"), ("osl128", "random ?/128"),
    ],
)  # fmt: skip
def test_a_length_of_prompts_is_a_dataset_also_of_one_arm(name: str, dataset: str) -> None:
    assert datasets([f"base/{name}/c8.json", "eagle3/c8.json"], ["none", "eagle3"])[0] == dataset


def test_servers_of_other_parallelism_are_no_pairs(run: Any, in_folders: Any) -> None:
    arms = [f"{arm}/TP{tp}_DP{dp}_CTX{ctx}" for arm in ("baseline", "eagle3-k3")
            for tp, dp in ((4, 2), (8, 1)) for ctx in (1024, 4096)]  # fmt: skip
    folder = in_folders(*arms)
    assert "data-parallel-size 2*" in run(folder, "--guess").out
    run(folder, "--guess", "--yes")
    found = [(one["tensor_parallel_size"], one["server_args"], one["gpu_count"], one["dataset"])
             for one in run.cells() if one["spec_method"] == "none"]  # fmt: skip
    assert sorted(found, key=repr) == [
        (4, '{"data-parallel-size": 2}', 8, "random 1024"),
        (4, '{"data-parallel-size": 2}', 8, "random 4096"),
        (8, None, 8, "random 1024"), (8, None, 8, "random 4096"),
    ]  # fmt: skip
    assert run(folder, "--guess", "--json").json["repeats_named_apart"] == {}


@pytest.mark.parametrize("said", [True, False])
def test_repeats_whose_names_differ_in_a_word_are_told(
    run: Any, in_folders: Any, said: bool
) -> None:
    """Repeats that a number, a hash or a time tells apart are nothing to ask about."""
    own = ("base-fp8", "base-bf16") if said else ("base-r1-0badcafe", "base-20260101T101010Z")
    folder = in_folders("eagle3", *own)
    shown = " ".join(run(folder, "--guess").out.split())
    told = "Taken for repeats of baseline, though their names differ: bf16, fp8."
    assert (told in shown, "Taken for repeats" in shown) == (said, said)
    answer = run(folder, "--guess", "--json").json["repeats_named_apart"]
    assert answer == ({"baseline": ["bf16", "fp8"]} if said else {})


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["x_num-prompts-100", "x_num-prompts-200"], ["num-prompts-100", "num-prompts-200"]),
        (["num_prompts=1", "num_prompts=2"], ["num-prompts-1", "num-prompts-2"]),
        (["latency_128_256_8", "latency_256_128_8"], ["128-256", "256-128"]),
        (["128/1024/c1", "1024/128/c1"], ["128-1024", "1024-128"]),
        (["input-len-128_output-len-256_bs8", "input-len-128_output-len-512_bs8"],
         ["output-len-256", "output-len-512"]),
        (["temp-0.0", "temp-0.5", "temp-1.0"], ["temp-0.0", "temp-0.5", "temp-1.0"]),
        (["128_256/1", "128_256/2", "512_256/1"], ["128", "128", "512"]),
        # Those of repeats, of moments, of jobs and of servers.
        (["0", "1", "2"], [None] * 3),
        (["01/c1", "02/c1"], [None] * 2),
        (["2026-11-01_10-00-30/c1", "2026-11-01_10-15-30/c1"], [None] * 2),
        (["2026-11-01/c1", "2026-11-05/c1"], [None] * 2),
        (["20261101-100000/c1", "20261101-101500/c1"], [None] * 2),
        (["port-8000", "port-8004"], [None] * 2),
    ],
)  # fmt: skip
def test_numbers_that_both_arms_have_tell_settings_apart(
    names: list[str], found: list[str | None]
) -> None:
    """Pairs of one length with another told wrong gains, and nobody was told."""
    both = [("none", "baseline"), ("eagle3", "eagle3_yuhuili-LLaMA3.1-8B")]
    files = [
        Named(f"{arm}/{one}.json", method, None, None) for method, arm in both for one in names
    ]
    assert list(datasets_apart(files, [False] * len(files))) == found * 2


@pytest.mark.parametrize(
    ("baselines", "others", "found"),
    [
        # A place that tells settings apart does so for a number that only one arm has there.
        (["128", "256"], ["128", "512"], [["128", "256"], ["128", "512"]]),
        # One setting of an arm is not all those of the other.
        (["128", "256"], ["128"], [["128", "256"], ["128"]]),
        (["128"], ["512", "256"], [[None], [None, None]]),
    ],
)
def test_a_setting_of_one_arm_is_no_partner_for_another(
    baselines: list[str], others: list[str], found: list[list[str | None]]
) -> None:
    files = [
        *(Named(f"base/{one}", "none", None, None) for one in baselines),
        *(Named(f"eagle3/{one}", "eagle3", None, None) for one in others),
    ]
    assert list(datasets_apart(files, [False] * len(files))) == sum(found, [])


@pytest.mark.parametrize(
    ("others", "found"),
    [(["gsm8k", "humaneval"], ["gsm8k", "humaneval"] * 2), (["gsm8k"], [None] * 3),
     (["first", "second"], [None] * 4)],
)  # fmt: skip
def test_words_are_a_dataset_where_they_tell_repeats_of_both_arms_apart(
    others: list[str], found: list[str | None]
) -> None:
    files = [
        *(Named(f"base/{one}", "none", None, None) for one in ("gsm8k", "humaneval")),
        *(Named(f"eagle3/{one}", "eagle3", None, None) for one in others),
    ]
    assert list(datasets_apart(files, [True] * len(files))) == found


@pytest.mark.parametrize("sets", [("gsm8k/", "humaneval/"), ("",)])
def test_numbers_stand_beside_the_dataset(run: Any, in_folders: Any, sets: tuple[str, ...]) -> None:
    names = [f"{one}num-prompts-{n}" for one in sets for n in (100, 200)]
    folder = in_folders(*(f"{arm}/{name}" for arm in ("base", "eagle3") for name in names))
    run(folder, "--guess", "--yes")
    assert {one["dataset"] for one in run.cells()} == {name.replace("/", " ") for name in names}
    assert run(folder, "--guess", "--json").json["repeats_named_apart"] == {}


def test_numbers_that_only_one_arm_has_are_told(run: Any, in_folders: Any) -> None:
    folder = in_folders("base/128_256", "base/512_256", "eagle3")
    shown = " ".join(run(folder, "--guess").out.split())
    assert "Taken for repeats of baseline, though their names differ: 128, 512." in shown
    assert "num_speculative_tokens, dataset or server_args." in shown


def test_it_shows_what_it_would_take_and_takes_nothing(run: Any, results: Path) -> None:
    shown = run(results, "--guess")
    assert shown.status == 0
    assert "4 files with 4 cells." in shown.out
    assert "model tiny" in shown.out
    for line in ("baseline*", "speculative K=2", "chat*", "code*", "* from its path"):
        assert line in shown.out
    assert "Nobody says: engine of 2 files, GPU, number of GPUs, tensor parallel size." in shown.out
    assert "Nothing was taken in; do so with --yes." in shown.out
    assert max(map(len, shown.out.splitlines())) <= 100
    assert run.generation is None
    files = run(results, "--guess", "--json").json["files"]
    assert files[0]["facts"]["spec_method"] == {"value": "none", "from": "name"}
    assert files[2]["facts"]["num_speculative_tokens"] == {"value": 2, "from": "contents"}
    assert files[0]["set"] == {"spec_method": "none", "dataset": "chat"}


def test_what_the_user_says_and_what_a_report_says_is_never_guessed(
    run: Any, results: Path
) -> None:
    said = ("--set", "spec_method=medusa", "--set", "gpu=H200", "--set", "dataset=mine")
    files = run(results, "--guess", "--json", *said).json["files"]
    assert {one["facts"]["gpu"]["from"] for one in files} == {"you"}
    assert [one["set"] for one in files] == [{}] * 4
    run(results, "--guess", "--yes", *said)
    assert {(one["spec_method"], one["dataset"]) for one in run.cells()} == {("medusa", "mine")}


def test_where_no_file_says_an_arm_the_folder_of_all_does(
    run: Any, write: Any, bench: Any, tmp_path: Path
) -> None:
    for number, name in enumerate(("c1", "c2")):
        write(f"eagle3-k5/{name}.json", bench(duration=2.0 + number, **NO_COUNTS))
    files = run(tmp_path / "eagle3-k5", "--guess", "--json").json["files"]
    assert [one["set"] for one in files] == [
        {"spec_method": "eagle3", "num_speculative_tokens": 5}
    ] * 2


def test_a_file_that_is_no_result_is_named(run: Any, write: Any, results: Path) -> None:
    path = write("in/broken.json", "{")
    shown = run(results, "--guess")
    assert f"not a result: {path}" in shown.out
    taken = run(results, "--guess", "--yes", "--json")
    assert (taken.status, taken.json["accepted"]) == (1, 4)


@pytest.mark.parametrize("words", [("--yes",), ("--guess", "--watch"), ("--guess",)])
def test_usage_that_makes_no_sense_ends_with_2(run: Any, results: Path, words: Any) -> None:
    assert run(*([] if words == ("--guess",) else [results]), *words).status == 2


@pytest.mark.parametrize(("last", "cells"), [("y", 4), ("n", 0)])
def test_on_a_terminal_it_asks_for_what_is_missing(
    run: Any, results: Path, last: str, cells: int
) -> None:
    answers = ["eagle3", "H200", "many", "2", "", last]
    shown = _answered(run, results, answers)
    for question in ("Method of 2 speculative files", "GPU of 4 files", "Number of GPUs of 4"):
        assert question in shown
    assert "gpu_count='many' does not fit" in shown
    if not cells:
        assert run.generation is None
        return
    found = run.cells()
    assert {(c["spec_method"], c["num_speculative_tokens"]) for c in found} == {
        ("none", None), ("eagle3", 2),
    }  # fmt: skip
    assert {(c["gpu"], c["gpu_count"], c["tensor_parallel_size"]) for c in found} == {
        ("H200", 2, None)
    }


def test_what_the_rows_of_one_file_say_is_neither_asked_nor_overwritten(
    run: Any, write: Any, tmp_path: Path
) -> None:
    rows = [
        ROW | {"spec_decoding": arm, "isl": isl} for arm in ("none", "mtp") for isl in (128, 1024)
    ]
    write("in/agg_bmk.json", rows)
    (file,) = run(tmp_path / "in", "--guess", "--json").json["files"]
    assert file["facts"]["spec_method"] == {"value": "several", "from": "contents"}
    assert file["facts"]["dataset"] == {"value": "several", "from": "contents"}
    shown = run(tmp_path / "in", "--guess").out
    assert "arm several, dataset several" in shown
    assert "Nobody says: draft tokens K." in shown
    shown = _answered(run, tmp_path / "in", ["y"] * 8)
    assert "Method of" not in shown
    assert "Dataset of" not in shown
    found = {(one["spec_method"], one["dataset"]) for one in run.cells()}
    assert found == {(arm, f"random {isl}/1024") for arm in ("none", "mtp") for isl in (128, 1024)}


def _answered(run: Any, folder: Path, answers: list[str]) -> str:
    """Return what a terminal shows where these lines are typed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "draftboard", "ingest", str(folder), "--guess",
               "--warehouse", str(run.root)]  # fmt: skip
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        os.write(ours, "".join(f"{one}\n" for one in answers).encode())
        shown = _all_of(ours)
    assert child.returncode == 0, shown
    return shown


def _all_of(terminal: int) -> str:
    said = b""
    try:
        while piece := os.read(terminal, 4096):
            said += piece
    except OSError:
        # The other end of a terminal was closed.
        os.close(terminal)
    return said.decode()
