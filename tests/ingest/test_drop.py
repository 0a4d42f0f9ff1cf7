"""A drop joins a report with its record and with the server's own counters."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import zstandard

from ingest.watch import sightings
from tests.ingest.readers import test_genai_perf
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

START = 1_795_252_000.0


def exposition(drafts: int, rate: float = 0.5, k: int = 2) -> list[str]:
    accepted = int(drafts * k * rate)
    first = int(accepted * 0.6)
    return [
        f'vllm:spec_decode_num_drafts_total{{engine="0"}} {drafts}',
        f'vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {drafts * k}',
        f'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}',
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="0"}} {first}',
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="1"}} {accepted - first}',
        f'vllm:num_requests_running{{engine="0"}} {drafts % 7}',
    ]


@pytest.fixture
def drop(write: Any, report: Any) -> Callable[..., Any]:
    """``drop(levels, record={...}, files={name: text})`` writes a drop and returns its folder."""

    def put(
        levels: tuple[int, ...] = (4,), files: dict[str, str] | None = None, **record: Any
    ) -> Any:
        for name, text in (files or {}).items():
            write(f"drop/{name}", text)
        write("drop/guidellm.json", report(levels))
        return write("drop/record.json", {"schema_version": 1, **record}).parent

    return put


def snapshots(before: list[str], after: list[str]) -> dict[str, str]:
    return {"metrics-before.prom": "\n".join(before), "metrics-after.prom": "\n".join(after)}


def sentences(run: Any) -> dict[str, str]:
    """The flags of the first cell."""
    with Reader(run.root) as reader:
        rows = queries.flags(reader, [run.cells()[0]["cell_id"]]).to_pylist()
    return {row["name"]: row["sentence"] for row in rows}


def acceptances(run: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run.of_all(queries.acceptance)
    return [row for row in rows if row["source"] == "counters"]


def test_acceptance_is_the_difference_of_the_counters_around_the_run(run: Any, drop: Any) -> None:
    files = snapshots(exposition(100), exposition(300))
    assert run(drop(files=files, spec_method="ngram", num_speculative_tokens=2)).status == 0
    (found,) = acceptances(run)
    assert (found["drafts"], found["draft_tokens"], found["accepted_tokens"]) == (200, 400, 200)
    assert found["rate"] == pytest.approx(0.5)
    assert found["mean_length"] == pytest.approx(2.0)
    (cell,) = run.cells()
    shown = {
        (m["metric"], m["origin"]): m["value"]
        for m in run.of_cell(queries.cell_measurements, cell["cell_id"])
    }
    assert shown["acceptance_rate", "canonical"] == pytest.approx(0.5)


def test_where_a_report_has_no_duration_the_snapshots_tell_and_not_a_window_of_no_length(
    run: Any, write: Any
) -> None:
    """The two samples around its start lie before the first draft."""
    files = snapshots(exposition(100), exposition(300))
    lines = [json.dumps([START + at, exposition(100)]) for at in (-1, 1)]
    for name, text in {**files, "metrics-samples.jsonl": "\n".join(lines)}.items():
        write(f"drop/{name}", text)
    write("drop/genai.json", test_genai_perf.report(concurrency=3))
    record = {"schema_version": 1, "report": "genai.json", "spec_method": "ngram", "num_speculative_tokens": 2,
              "started_at": datetime.fromtimestamp(START, UTC).isoformat()}  # fmt: skip
    assert run(write("drop/record.json", record).parent).status == 0
    assert [a["drafts"] for a in acceptances(run)] == [200]
    assert "never_speculated" not in run.flags(run.cells()[0]["cell_id"])


def test_each_level_takes_its_own_difference_from_the_samples(run: Any, drop: Any) -> None:
    counts = [(-5, 0), (-0.2, 0), (3, 40), (5.2, 80), (99.9, 80), (102, 130), (110, 180)]
    lines = [json.dumps([START + at, exposition(drafts)]) for at, drafts in counts]
    files = {"metrics-samples.jsonl": "\n".join([*lines, '[17952, ["cut'])}
    assert run(drop(levels=(4, 10), files=files, spec_method="ngram")).status == 0
    assert [a["drafts"] for a in acceptances(run)][0] == 80
    assert len(acceptances(run)) == 2
    first = run.cells()[0]["cell_id"]
    running = [
        s for s in run.of_cell(queries.samples, first) if s["name"] == "num_requests_running"
    ]
    assert [s["at"] for s in running] == [START + 3]


def test_acceptance_counts_the_requests_of_warm_up_and_cool_down_too(
    run: Any, report: Any, write: Any
) -> None:
    trimmed = report((4,))
    window = {"measure_start_time": START + 2, "measure_end_time": START + 3}
    trimmed["benchmarks"][0]["scheduler_metrics"] |= window
    counts = [(-0.2, 0), (1.9, 30), (2.5, 40), (3.1, 50), (5.2, 80)]
    lines = [json.dumps([START + at, exposition(drafts)]) for at, drafts in counts]
    write("drop/guidellm.json", trimmed)
    write("drop/metrics-samples.jsonl", "\n".join(lines))
    folder = write("drop/record.json", {"schema_version": 1, "spec_method": "ngram"}).parent
    assert run(folder).status == 0
    assert [a["drafts"] for a in acceptances(run)] == [80]


def test_snapshots_around_several_levels_say_nothing_of_one(run: Any, drop: Any) -> None:
    assert run(drop((2, 4), snapshots(exposition(100), exposition(300)))).status == 0
    assert acceptances(run) == []
    assert "counters_not_divided" in run.flags(run.cells()[0]["cell_id"])


def test_a_restart_of_the_server_is_noticed(run: Any, drop: Any) -> None:
    assert run(drop(files=snapshots(exposition(300), exposition(100)))).status == 0
    assert acceptances(run) == []
    assert "counters_restarted" in run.flags(run.cells()[0]["cell_id"])


HTML = "<html>404</html>"
UTF16 = "\0".join(exposition(300)[0])


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"metrics-samples.jsonl": "garbage"}, "metrics-samples.jsonl"),
        ({"metrics-samples.jsonl": HTML}, "metrics-samples.jsonl"),
        ({"metrics-samples.jsonl": ""}, "metrics-samples.jsonl"),
        ({"metrics-samples.jsonl": json.dumps([START, [HTML]])}, "metrics-samples.jsonl"),
        (snapshots([HTML], [HTML]), "metrics-before.prom and metrics-after.prom"),
        (snapshots([UTF16], [UTF16]), "metrics-before.prom and metrics-after.prom"),
        (snapshots(exposition(100), []), "metrics-after.prom"),
        (snapshots([], exposition(100)), "metrics-before.prom"),
        (snapshots(exposition(100), exposition(300)[:2]), "metrics-after.prom"),
        (snapshots(exposition(100), exposition(300)[:4]), "metrics-after.prom"),
        ({"metrics-before.prom": "\n".join(exposition(100))}, "metrics-after.prom"),
        ({"metrics-after.prom": "\n".join(exposition(100))}, "metrics-before.prom"),
    ],
)
def test_counters_that_cannot_be_read_are_told(
    run: Any, drop: Any, files: dict[str, str], named: str
) -> None:
    assert run(drop(files=files, spec_method="ngram")).status == 0
    assert acceptances(run) == []
    told = sentences(run)
    assert "counters_restarted" not in told
    assert f"from {named} " in told["counters_unread"]


@pytest.mark.parametrize("value", ["fast", "-5"])
def test_a_counter_that_is_no_number_is_no_restart(run: Any, drop: Any, value: str) -> None:
    after = exposition(300)
    after[2] = f"{after[2].rpartition(' ')[0]} {value}"
    assert run(drop(files=snapshots(exposition(100), after), spec_method="ngram")).status == 0
    assert acceptances(run) == []
    told = sentences(run)
    assert "counters_restarted" not in told
    assert "from metrics-after.prom " in told["counters_unread"]


def test_a_sample_with_a_counter_that_is_no_number_is_passed_over(run: Any, drop: Any) -> None:
    middle = exposition(40)
    middle[1] = "vllm:spec_decode_num_draft_tokens_total NaN"
    texts = {-0.2: exposition(10), 3: middle, 5.2: exposition(80)}
    lines = [json.dumps([START + at, text]) for at, text in texts.items()]
    assert run(drop(files={"metrics-samples.jsonl": "\n".join(lines)})).status == 0
    assert [one["drafts"] for one in acceptances(run)] == [70]
    assert "counters_restarted" not in run.flags(run.cells()[0]["cell_id"])


@pytest.mark.parametrize(
    "files",
    [{}, snapshots(["vllm:generation_tokens_total 1"], ["vllm:generation_tokens_total 9"])],
)
def test_a_server_that_drafts_nothing_has_nothing_unread(
    run: Any, drop: Any, files: dict[str, str]
) -> None:
    assert run(drop(files=files, spec_method="none")).status == 0
    assert "counters_unread" not in run.flags(run.cells()[0]["cell_id"])


def test_the_record_says_what_the_report_cannot_and_set_has_the_last_word(
    run: Any, drop: Any
) -> None:
    record = {
        "dataset": "HumanEval", "gpu": "H200", "run_id": "study-7", "provenance": "Made here.",
        "speculative_config": {"method": "eagle3", "num_speculative_tokens": 3, "model": "d"},
        "commands": {"vllm": ["vllm", "serve", "m"]},
    }  # fmt: skip
    assert run(drop(**record), "--set", "gpu=A100").status == 0
    (cell,) = run.cells()
    assert (cell["dataset"], cell["gpu"], cell["run_id"]) == ("HumanEval", "A100", "study-7")
    assert cell["arm_label"] == "eagle3 K=3"
    assert cell["source_format"] == "drop"


def test_a_failed_run_without_a_report_is_kept_with_its_diagnosis(run: Any, write: Any) -> None:
    record = {
        "schema_version": 1, "status": "failed", "failure": "out of memory", "gpu": "H200",
        "failure_cause": "out_of_memory", "attempt": 2, "timeline": {"server_start": 4.5},
        "log_excerpt": [f"line {number}" for number in range(200)],
    }  # fmt: skip
    done = run(write("drop/record.json", record).parent, "--json")
    assert done.json["accepted"] == 1
    (cell,) = run.cells()
    assert (cell["status"], cell["gpu"], cell["completed"]) == ("failed", "H200", 0)
    assert "failed" in run.flags(cell["cell_id"])
    with Reader(run.root) as reader:
        (kept,) = queries.runs(reader, Filters()).to_pylist()
    said = json.loads(kept["report_config"])["record"]
    assert said["log_excerpt"][-1] == "line 199"
    assert len(said["log_excerpt"]) == 80
    assert (said["failure_cause"], said["attempt"]) == ("out_of_memory", 2)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"schema_version": 1}, "missing"),
        ({"schema_version": 2}, "schema_version"),
        ({"schema_version": 1, "gpus": 1}, "gpus"),
        ({"schema_version": 1, "report": "../../etc/passwd"}, "not a file name"),
        ({"schema_version": 1, "temperature": float("nan")}, "not a number"),
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ([], "contract: it is a list where an object belongs; mend it"),
        ("", "JSON: it ends in the middle"),
        (
            {"schema_version": 1, "gpu_count": "two"},
            "gpu_count is 'two' where a whole number belongs",
        ),
    ],
)
def test_a_record_that_breaks_the_contract_is_rejected(
    run: Any, write: Any, record: Any, said: str
) -> None:
    done = run(write("drop/record.json", record).parent, "--json")
    assert done.status == 1
    assert said in done.reason


@pytest.mark.parametrize("record", ["folder", "nowhere", "itself"])
def test_a_record_that_is_no_file_makes_no_bare_report_of_its_drop(
    run: Any, write: Any, report: Any, record: str
) -> None:
    folder = write("in/drop/guidellm.json", report()).parent
    place = folder / "record.json"
    place.mkdir() if record == "folder" else place.symlink_to(
        place.name if record == "itself" else "gone.json"
    )
    done = run(folder.parent, "--json")
    assert (done.status, done.json["accepted"]) == (1, 0)
    assert "record.json cannot be read" in done.reason
    assert [one.path for one in sightings([folder.parent], run.root, [])] == [folder]


def test_a_drop_is_one_unit_known_by_its_content(run: Any, drop: Any) -> None:
    folder = drop(files=snapshots(exposition(100), exposition(300)))
    assert run(folder.parent).status == 0
    generation = run.generation
    assert run(folder / "record.json", "--json").json["known"] == 1
    assert run.generation == generation
    (folder / "metrics-after.prom").write_text("\n".join(exposition(400)))
    assert run(folder, "--json").json["accepted"] == 1


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"environment": {"placement": {"launches_side_by_side": 4}}}, {"neighbours"}),
        ({"environment": {"placement": {"executor": "local"}}}, set()),
        # What a launch met counts, not how many there could have been.
        ({"environment": {"placement": {"launches_side_by_side": 4}, "neighbours": []}}, set()),
        ({"environment": {"neighbours": [{"launch": "r0-draft-tp1"}, {}, 3]}}, {"neighbours"}),
        ({"environment": {"placement": "node 7"}}, set()),
        ({"prefix_cache": "kept"}, {"prefix_cache_kept"}),
        ({"prefix_cache": "kept", "prefix_caching": False}, set()),
        ({"prefix_cache": "reset", "prefix_caching": True}, set()),
    ],
)
def test_how_it_was_measured_is_a_flag(
    run: Any, drop: Any, record: dict[str, Any], expected: set[str]
) -> None:
    assert run(drop(**record)).status == 0
    assert (
        set(run.flags(run.cells()[0]["cell_id"])) & {"neighbours", "prefix_cache_kept"} == expected
    )


def test_a_baselines_server_that_began_anew_during_the_load_is_told(run: Any, drop: Any) -> None:
    counts = [(-1, 500), (1, 520), (2, 3), (4.5, 40)]
    lines = [json.dumps([START + at, [f"vllm:generation_tokens_total {n}"]]) for at, n in counts]
    assert (
        run(drop(files={"metrics-samples.jsonl": "\n".join(lines)}, spec_method="none")).status == 0
    )
    assert "counters_restarted" in run.flags(run.cells()[0]["cell_id"])


def test_the_machine_during_a_load_becomes_measurements_samples_and_flags(
    run: Any, drop: Any
) -> None:
    names = ["gpu_sm_clock_mhz", "gpu_power_watts", "gpu_throttle_reasons"]
    header = ["at", *(f'{name}{{gpu="{gpu}"}}' for name in names for gpu in (0, 1)), "cpu_mhz"]
    lines = [
        json.dumps(header),
        json.dumps([START - 60, 100, 100, 10, 10, 0, 0, 100]),  # before the measured window
        json.dumps([START + 1, 1900, 1980, 600, 500, 0x20, 0, 2400]),
        json.dumps([START + 2, 1800, 1980, 620, 480, 0x04, 0x48, None]),
        '[179525200, 19',  # cut short when the run was killed
    ]  # fmt: skip
    folder = drop(files={"machine-samples.jsonl": "\n".join(lines)}, evidence="gpu")
    assert run(folder).status == 0
    cell = run.cells()[0]["cell_id"]
    shown = {m["metric"]: m["value"] for m in run.of_cell(queries.cell_measurements, cell)}
    # The slower GPU's clock: (1900 + 1800) / 2; both GPUs' power: 1100 W each time.
    assert (shown["gpu_clock"], shown["gpu_power"], shown["cpu_clock"]) == (1850, 1100, 2400)
    hot = [s["value"] for s in run.of_cell(queries.samples, cell) if s["name"] == "gpu_hot"]
    assert hot == [1, 1]
    told = run.flags(cell)
    assert "throttled" in told
    # Heat in hardware also raises the bit of hardware slowdown: that is no power brake.
    braked = [s["value"] for s in run.of_cell(queries.samples, cell) if s["name"] == "gpu_braked"]
    assert braked == [0, 0]


def test_gpus_that_nobody_watched_are_told(run: Any, drop: Any) -> None:
    environment = {"gpus_unread": "nvidia-ml-py is not installed here"}
    assert run(drop(environment=environment, evidence="gpu")).status == 0
    assert "gpus_unread" in run.flags(run.cells()[0]["cell_id"])


def test_packed_metrics_files_are_the_same_source(run: Any, drop: Any) -> None:
    folder = drop(files=snapshots(exposition(100), exposition(300)), spec_method="ngram")
    assert run(folder).status == 0
    known = acceptances(run)
    for name in ("metrics-before.prom", "metrics-after.prom"):
        packed = zstandard.compress((folder / name).read_bytes())
        (folder / f"{name}.zst").write_bytes(packed)
        (folder / name).unlink()
    again = run(folder)
    assert again.status == 0
    assert len(run.cells()) == 1
    assert acceptances(run) == known


ENGINE = {
    "scheduler_config": {"async_scheduling": False}, "model_config": {"enforce_eager": False},
    "cache_config": {"num_gpu_blocks": 39066, "kv_cache_size_tokens": 625056, "cache_dtype": "auto"},
    "compilation_config": {"mode": 3, "cudagraph_mode": [2, 1], "max_cudagraph_capture_size": 512},
    "attention_config": {"backend": None},
}  # fmt: skip
#: What vLLM 0.26 printed where a draft model made it another engine.
LOG = """\
(APIServer pid=1) WARNING 11-21 14:20:00 [vllm.py:1077] Async scheduling not supported with draft_model-based speculative decoding and will be disabled.
(APIServer pid=1) INFO 11-21 14:20:00 [vllm.py:1109] Asynchronous scheduling is disabled.
(APIServer pid=1) WARNING 11-21 14:20:00 [vllm.py:584] Model Runner V2 does not yet support speculative method 'draft_model'; using the V1 model runner instead.
(EngineCore pid=2) INFO 11-21 14:20:10 [cuda.py:482] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN'].
(EngineCore pid=2) INFO 11-21 14:20:20 [kv_cache_utils.py:2177] GPU KV cache size: 625,056 tokens
"""
SETTINGS = {
    "async_scheduling": False, "model_runner": "V1", "attention_backend": "FLASH_ATTN",
    "cuda_graphs": "FULL_AND_PIECEWISE", "cuda_graph_max": 512, "enforce_eager": False,
    "compile_mode": "VLLM_COMPILE", "kv_cache_tokens": 625056, "kv_cache_blocks": 39066,
    "kv_cache_dtype": "auto", "by_method": ["async_scheduling", "model_runner"],
}  # fmt: skip


def settings_of(run: Any) -> Any:
    return json.loads(run.cells()[0]["engine_settings"] or "null")


def test_what_the_engine_made_of_its_arguments_is_a_fact_of_the_cell(run: Any, drop: Any) -> None:
    assert run(drop(files={"engine.json": json.dumps(ENGINE), "server.log": LOG})).status == 0
    assert settings_of(run) == SETTINGS


@pytest.mark.parametrize(
    ("files", "known"),
    [
        ({"server.log": LOG}, {"async_scheduling", "model_runner", "attention_backend", "kv_cache_tokens", "by_method"}),
        ({"engine.json": json.dumps(ENGINE)}, SETTINGS.keys() - {"model_runner", "attention_backend", "by_method"}),
        ({"engine.json": "{torn", "server.log": "\x00\xff"}, set()),
        ({"engine.json": '{"cache_config": 3, "model_config": {"enforce_eager": null}}'}, set()),
    ],
)  # fmt: skip
def test_what_is_not_said_of_the_engine_stays_unknown(
    run: Any, drop: Any, files: dict[str, str], known: set[str]
) -> None:
    assert run(drop(files=files)).status == 0
    assert (settings_of(run) or {}) == {name: SETTINGS[name] for name in known}


def test_a_record_may_state_the_engines_settings_itself(run: Any, drop: Any) -> None:
    run(drop(files={"server.log": LOG}, engine_settings={"model_runner": "V2"}))
    assert settings_of(run) == {"model_runner": "V2"}


def test_sglang_says_its_settings_in_its_log(run: Any, drop: Any) -> None:
    log = (
        "[2026-01-02 03:04:05] server_args=ServerArgs(model_path='m', attention_backend='fa3', "
        "cuda_graph_max_bs=160, disable_cuda_graph=False, disable_overlap_schedule=True, "
        "enable_torch_compile=False, kv_cache_dtype='auto', speculative_algorithm='EAGLE')\n"
        "[2026-01-02 03:04:06] Overlap scheduler is disabled because of using eagle speculative decoding.\n"
        "[2026-01-02 03:04:09 TP0] max_total_num_tokens=20480, chunked_prefill_size=8192\n"
    )
    run(drop(files={"server.log": log}))
    assert settings_of(run) == {
        "async_scheduling": False, "attention_backend": "fa3", "cuda_graphs": "on",
        "cuda_graph_max": 160, "compile_mode": "none", "kv_cache_tokens": 20480,
        "kv_cache_dtype": "auto", "by_method": ["async_scheduling"],
    }  # fmt: skip


def jit(at: datetime, kernel: str) -> str:
    return (
        f"(EngineCore pid=2) WARNING {at:%m-%d %H:%M:%S} [jit_monitor.py:135] Triton kernel JIT "
        f"compilation during inference: {kernel}. This causes a latency spike.\n"
    )


@pytest.mark.parametrize("zone", [0.0, -8.0, 5.5])
def test_kernels_compiled_during_a_load_are_told_whatever_the_servers_clock(
    run: Any, drop: Any, report: Any, zone: float
) -> None:
    window = report((4,))["benchmarks"][0]
    begun = datetime.fromtimestamp(window["start_time"], UTC) + timedelta(hours=zone)
    ended = datetime.fromtimestamp(window["end_time"] + 3, UTC)
    done = datetime.fromtimestamp(window["end_time"], UTC) + timedelta(hours=zone)
    idle = f"INFO {done:%m-%d %H:%M:%S} [loggers.py:310] Engine 000\n"
    warm_up = jit(begun - timedelta(seconds=30), "in_the_warm_up")
    log = warm_up + jit(begun + timedelta(seconds=1), "_topk_forward") + idle

    run(drop(files={"server.log": log}, ended_at=ended.isoformat()))
    assert sentences(run)["compiled_during_load"].startswith(
        "A kernel was compiled during this load (_topk_forward)"
    )


def test_kernels_compiled_before_a_load_are_no_doubt_about_it(
    run: Any, drop: Any, report: Any
) -> None:
    window = report((4,))["benchmarks"][0]
    before = datetime.fromtimestamp(window["start_time"] - 30, UTC)
    ended = datetime.fromtimestamp(window["end_time"], UTC)
    last = f"INFO {ended:%m-%d %H:%M:%S} [loggers.py:310] Engine 000\n"
    run(drop(files={"server.log": jit(before, "kernel") + last}, ended_at=ended.isoformat()))
    assert "compiled_during_load" not in sentences(run)
