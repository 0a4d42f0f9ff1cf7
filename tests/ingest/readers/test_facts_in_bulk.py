"""A stranger's folder: two arms, three datasets, four loads, paired by one command."""

import functools
import itertools
import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.matching.comparison import compare
from ingest.settings import read_facts, served_with
from tests.ingest.readers import (
    test_aiperf,
    test_genai_perf,
    test_inference_perf,
    test_inferencex,
    test_llmd,
    test_llmperf,
    test_sglang,
    test_vllm_files,
)
from tests.ingest.readers.reading import written
from warehouse import queries
from warehouse.catalogue import METRICS, STATISTICS
from warehouse.errors import UnknownKey
from warehouse.filters import Filters
from warehouse.store import Reader

LOADS, DATASETS = (1, 2, 4, 8), ("chat", "code", "math")
ARMS = {
    "baseline": "vllm serve meta/llama -tp 2 --dtype bfloat16 --port 8000",
    "eagle3": "vllm serve meta/llama -tp 2 --dtype bfloat16 --port 8001 --speculative-config "
    + "'"
    + '{"method": "eagle3", "model": "meta/draft", "num_speculative_tokens": 3}'
    + "'",
}
SERVED = {arm: {"served_with": command} for arm, command in ARMS.items()}
FACTS = {"set": {"gpu": "H200", "gpu_count": 2}}


def _stage(n: int) -> Any:
    return test_inference_perf.stage(
        test_inference_perf.STAGES[0], concurrency=n, requested_rate=1.0
    )


def _rows(n: int) -> Any:
    return {key: value for key, value in test_inferencex.ROW.items() if key != "spec_decoding"} | {
        "conc": n
    }


def _llmd(n: int) -> Any:
    said = json.loads(json.dumps(test_llmd.ONE))
    said["scenario"]["load"]["args"]["max_concurrency"] = n
    del said["scenario"]["platform"]
    return said


def _aiperf(n: int) -> Any:
    said = test_aiperf.said()
    (phase,) = said["input_config"]["phases"]
    phase["concurrency"] = n
    return said


MADE: dict[str, Callable[[int], Any]] = {
    "sglang": lambda n: test_sglang.line(max_concurrency=n, backend="vllm"),
    "inference-perf": _stage,
    "inferencex": _rows,
    "llm-d": _llmd,
    "llmperf": lambda n: test_llmperf.summary() | {"num_concurrent_requests": n},
    "genai-perf": lambda n: test_genai_perf.report(concurrency=n),
    "aiperf": _aiperf,
    "vllm-throughput": lambda n: test_vllm_files.THROUGHPUT | {"elapsed_time": 4.0 + n},
    "vllm-latency": lambda n: test_vllm_files.LATENCY,
}
UNCOUNTED = dict.fromkeys(("spec_decode_num_drafts", "spec_decode_per_position_acceptance_rates"))
ENDS = {"inference-perf": "-stage_0_lifecycle_metrics.json", "llmperf": "_summary.json",
        "sglang": ".jsonl", "guidellm-yaml": ".yaml",
        "aiperf": "/profile_export_aiperf.json"}  # fmt: skip
#: Where those stand that say a dataset themselves, to which a name adds where it is one for all.
DATASET_AT: dict[str, tuple[Any, ...]] = {
    "sglang": ("random_input_len",), "inferencex": ("isl",), "llmperf": ("mean_input_tokens",),
    "aiperf": ("input_config", "datasets", 0, "prompts", "isl", "mean"),
    "genai-perf": ("input_config", "input", "synthetic_tokens", "mean"),
    "llm-d": ("scenario", "load", "type"),
}  # fmt: skip


def _of_dataset(said: Any, kind: str, number: int) -> Any:
    """The same with another length of its prompts, or another kind of its load, for each number."""
    if kind in DATASET_AT:
        *way, last = DATASET_AT[kind]
        holder = functools.reduce(operator.getitem, way, said)
        known = holder[last]
        holder[last] = f"{known}-{number}" if isinstance(known, str) else known + number
    return said


@pytest.fixture(params=[*MADE, "vllm-bench", "guidellm", "guidellm-yaml"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(kind: str, tmp_path: Path, bench: Any, report: Any) -> Callable[..., Path]:
    """24 files of one format, each with numbers of its own, in a folder for each arm."""
    own = {
        "vllm-bench": lambda n: bench(max_concurrency=n, **UNCOUNTED),
        "guidellm": lambda n: report(levels=(n,)),
        "guidellm-yaml": lambda n: report(levels=(n,)),
    }
    make = (MADE | own)[kind]
    dump = yaml.safe_dump if kind == "guidellm-yaml" else json.dumps

    def build(*arms: str, alike: bool = False) -> Path:
        for number, (arm, dataset, n) in enumerate(itertools.product(arms, DATASETS, LOADS)):
            path = tmp_path / "results" / arm / (f"{dataset}-c{n}" + ENDS.get(kind, ".json"))
            path.parent.mkdir(parents=True, exist_ok=True)
            # Two files of one content would be one result.
            said = make(n) if alike else _of_dataset(make(n), kind, DATASETS.index(dataset))
            if kind == "inferencex":
                # Of one content are rows that say the same, however they are written.
                said["recipe_fingerprint"] = f"{number}"
            path.write_text(dump(said) + "\n" * number, encoding="utf-8")
        return tmp_path / "results"

    return build


def _paired(run: Any) -> tuple[set[str], set[str]]:
    """The arms and datasets of 24 cells of which each has its partner."""
    with Reader(run.root) as reader:
        cells = queries.cells(reader, Filters()).to_pandas()
        values = queries.measurements(reader, Filters(), list(METRICS), STATISTICS).to_pandas()
    found = compare(cells, values)
    assert found.unmatched.empty
    assert found.pairs["speculative_id"].nunique() == 12
    assert set(cells["concurrency"]) == set(LOADS)
    return set(cells["arm_label"]), set(cells["dataset"])


def test_two_arms_three_datasets_four_loads_pair_with_one_command(
    folder: Any, kind: str, run: Any, tmp_path: Path
) -> None:
    end = "/" + "*" if "/" in ENDS.get(kind, "") else "*"
    told = {
        "paths": ["{arm}/{dataset}-c{concurrency}" + end],
        "files": {f"{arm}/{end.replace('/', '*/')}": facts for arm, facts in SERVED.items()},
    }
    facts = written(tmp_path / "facts.yaml", FACTS | told)
    done = run(folder(*ARMS), "--facts", facts, "--json")
    assert (done.status, done.json["accepted"], done.err) == (0, 24, "")
    assert _paired(run) == ({"baseline", "eagle3 K=3"}, set(DATASETS))


@pytest.mark.slow
@pytest.mark.parametrize("alike", [False, True])
def test_so_they_do_by_what_names_and_contents_say(
    folder: Any, kind: str, run: Any, alike: bool
) -> None:
    """Where ``alike``, reports of all three datasets name one, or none."""
    results = folder("baseline", "eagle3-k3", alike=alike)
    done = run(results, "--guess", "--yes", "--json")
    assert (done.status, done.json["accepted"], done.err) == (0, 24, "")
    arms, datasets = _paired(run)
    assert arms == {"baseline", "eagle3 K=3"}
    assert len(datasets) == len(DATASETS)
    assert {name.split()[-1] for name in datasets} == set(DATASETS) or (
        kind in DATASET_AT and not alike
    )


def test_set_wins_over_the_file_and_the_file_over_what_lies_beside(
    run: Any, tmp_path: Path, bench: Any
) -> None:
    path = written(tmp_path / "r" / "a-c1.json", bench())
    written(
        path.parent / "meta.json", {"gpu": "A100", "dataset": "mine", "gpu_count": 1, "who": "me"}
    )
    facts = written(tmp_path / "f.yaml", {"set": {"gpu": "H100", "gpu_count": 2}})
    done = run(path.parent, "--facts", facts, "--set", "gpu_count=4", "--json")
    assert (done.status, done.json["accepted"]) == (0, 1)
    (cell,) = run.cells()
    assert (cell["dataset"], cell["gpu"], cell["gpu_count"]) == ("mine", "H100", 4)


def test_a_pattern_that_fits_nothing_is_named(run: Any, tmp_path: Path, bench: Any) -> None:
    path = written(tmp_path / "r.json", bench())
    facts = written(tmp_path / "f.yaml", {"paths": ["{arm}/{dataset}.json"], "files": {"x/*": {}}})
    said = run(path, "--facts", facts).err
    assert "x/*" in said
    assert said.count("fits no path") == 1


def test_a_name_that_does_not_fit_is_one_rejection(run: Any, tmp_path: Path, bench: Any) -> None:
    written(tmp_path / "r" / "code-cmany.json", bench())
    written(tmp_path / "r" / "code-c4.json", bench(max_concurrency=8))
    facts = written(tmp_path / "f.yaml", {"paths": ["{dataset}-c{concurrency}.json"]})
    done = run(tmp_path / "r", "--facts", facts, "--json")
    assert (done.status, done.json["accepted"]) == (1, 1)
    assert "from the path: concurrency='many'" in done.reason
    assert [cell["concurrency"] for cell in run.cells()] == [4]


def test_what_lies_beside_a_drop_does_not_change_what_its_record_says(
    run: Any, tmp_path: Path, report: Any
) -> None:
    drop = tmp_path / "r" / "drop"
    written(drop / "guidellm.json", report())
    written(drop / "record.json", {"schema_version": 1, "gpu": "H200"})
    written(tmp_path / "r" / "meta.json", {"gpu": "A100"})
    assert run(tmp_path / "r").status == 0
    assert [cell["gpu"] for cell in run.cells()] == ["H200"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"file": {}}, "section 'file'"),
        ({"paths": ["{arms}.json"]}, "'arms', which is no fact"),
        ({"paths": ["{arm}/{arm}.json"]}, "twice"),
        ({"files": {"*": {"gpus": 1}}}, "'gpus', which is no fact"),
        ({"files": {"*": {"served_with": "python serve.py"}}}, "no 'vllm serve'"),
        ({"set": {"gpu_count": 0}}, "gpu_count"),
    ],
)
def test_a_file_of_facts_that_cannot_be_is_refused(
    tmp_path: Path, said: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnknownKey, match=words):
        read_facts(written(tmp_path / "f.yaml", said))


def test_a_servers_command_line_says_model_arm_and_arguments() -> None:
    assert served_with(ARMS["baseline"]) == {
        "engine": "vllm", "model": "meta/llama", "tensor_parallel_size": "2",
        "precision": "bfloat16", "spec_method": "none",
    }  # fmt: skip
    told = served_with(
        "HF_HUB_OFFLINE=1 vllm serve --model=m --no-enable-prefix-caching --max-num-seqs 8 -q fp8"
    )
    assert (told["model"], told["prefix_caching"], told["precision"]) == ("m", False, "fp8")
    assert told["server_args"] == {"max-num-seqs": "8"}
    arm = served_with(ARMS["eagle3"])
    assert (arm["spec_method"], arm["num_speculative_tokens"]) == ("eagle3", 3)
    assert arm["draft_model"] == "meta/draft"
