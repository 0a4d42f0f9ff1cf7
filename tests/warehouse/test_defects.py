"""Known defects of engines: each row whole, and there for the arm that the thread describes alone."""

from typing import Any

import pytest

from warehouse.contract import Facts
from warehouse.defects import KnownDefect, known_defects, release_of, rows_of
from warehouse.errors import InvalidInput

QWEN, GEMMA, CACHED = "Qwen/Qwen3.6-27B-FP8", "google/gemma-4-31B-it", {"prefix_caching": True}
#: Number of the thread -> an arm as it is described there; its version is added.
ARMS: dict[int, dict[str, Any]] = {
    37150: {"spec_method": "ngram_gpu", "server_args": {"async-scheduling": True}},
    49694: {"spec_method": "ngram_gpu", "engine_settings": {"structured_output": True}},
    27969: {"spec_method": "eagle3", "engine_settings": {"structured_output": True}},
    53912: {"spec_method": "qwen3_5_mtp", "model": QWEN, **CACHED},
    52873: {"spec_method": "mtp", "model": "acme/qwen3.8-27b-awq"},
    54360: {"spec_method": "dflash", "model": "unsloth/Qwen3.8-27B-NVFP4", **CACHED},
    40756: {"spec_method": "qwen3_5_mtp", "model": QWEN},
    42781: {"spec_method": "dflash", "model": GEMMA, "server_args": {"reasoning_parser": "gemma4"}},
    41789: {"spec_method": "mtp", "model": "cyankiwi/gemma-4-31B-it-AWQ-4bit"},
    46088: {"spec_method": "mtp", "model": "acme/gemma-4-31B-it-W4A16"},
    48848: {"spec_method": "mtp", "model": GEMMA, "engine_settings": {"model_runner": "V1"}},
    49559: {"spec_method": "dflash", "model": "Qwen/Qwen3.6-35B-A3B",
            "engine_settings": {"model_runner": "V2"}},
    52069: {"spec_method": "mtp", "server_args": {"--pipeline-parallel-size": 4}},
    52071: {"spec_method": "eagle3",
            "server_args": {"pipeline_parallel_size": "2", "async_scheduling": False}},
    55605: {"spec_method": "mtp", "model": "zai-org/GLM-5.3-FP8"},
    51009: {"spec_method": "dspark", "model": "deepseek-ai/DeepSeek-V4-Flash-0731"},
    24795: {"spec_method": "eagle", "model": "zai-org/GLM-4.5-Air-FP8"},
    25725: {"spec_method": "dflash", "speculative_config": {"cache-type-k-draft": "q8_0"}},
    27106: {"spec_method": "mtp", "model": "Qwen3.8-27B-Q4_K_M.gguf"},
    23544: {"spec_method": "draft_model", "model": "gemma-4-31B-it-Q6_K.gguf"},
}  # fmt: skip
#: Arms that differ from one of these in the one thing that the thread says matters.
OTHERS: list[tuple[int, dict[str, Any]]] = [
    (37150, {"server_args": {"async_scheduling": False}}),
    (37150, {"engine_settings": {"async_scheduling": False}}),
    (37150, {"spec_method": "ngram"}),
    (49694, {"engine_settings": {}}),
    (53912, {"prefix_caching": False}),
    (53912, {"prefix_caching": None}),
    (53912, {"model": "Qwen/Qwen3-8B"}),
    (42781, {"model": "google/medgemma-4b-it"}),
    (46088, {"engine_settings": {"kv_cache_dtype": "fp8"}}),
    (48848, {"engine_settings": {"model_runner": "V2"}}),
    (49559, {"engine_settings": {"model_runner": "V1"}}),
    (52069, {"server_args": {"pipeline_parallel_size": 1}}),
    (55605, {"model": "zai-org/GLM-5.3-Flash"}),
    (25725, {"speculative_config": {"cache-type-k-draft": "f16"}}),
]


def number(row: KnownDefect) -> int:
    return int(row.source.rpartition("/")[2])


ROWS = {number(row): row for row in known_defects()}


def arm(thread: int, version: str | None, **changes: Any) -> Facts:
    told = {"engine": ROWS[thread].engine, "engine_version": version, **ARMS[thread], **changes}
    return Facts(**told)


def test_every_row_has_an_arm_here_and_every_thread_one_row() -> None:
    assert sorted(ROWS) == sorted(ARMS)
    assert len(known_defects()) == len(ROWS) >= 12


@pytest.mark.parametrize("thread", sorted(ROWS))
def test_a_row_is_there_in_the_versions_of_its_thread_and_in_no_other(thread: int) -> None:
    row = ROWS[thread]
    first = [*release_of(row.since)]
    earlier = ".".join(str(part) for part in [*first[:-1], first[-1] - 1])
    assert row.concerns(arm(thread, row.since))
    assert row.concerns(arm(thread, f"{row.since}rc1+cu130"))
    assert not row.concerns(arm(thread, earlier))
    assert not row.concerns(arm(thread, None))
    assert row.until is None or not row.concerns(arm(thread, row.until))
    assert not row.concerns(arm(thread, row.since, spec_method="none"))
    assert not row.concerns(arm(thread, row.since, spec_method="medusa")) or not row.methods
    assert not row.concerns(arm(thread, row.since, engine="acme"))


@pytest.mark.parametrize(("thread", "changes"), OTHERS)
def test_another_setting_method_or_model_does_not_have_it(
    thread: int, changes: dict[str, Any]
) -> None:
    row = ROWS[thread]
    assert not row.concerns(arm(thread, row.since, **changes))


def test_a_mended_defect_is_gone_and_an_open_one_stays() -> None:
    assert ROWS[42781].when == "from 0.21.0 to before 0.22.1"
    assert ROWS[42781].concerns(arm(42781, "0.22"))
    assert not ROWS[42781].concerns(arm(42781, "0.23.0"))
    assert ROWS[37150].when == "from 0.17.0 on, and no fix is recorded"
    assert ROWS[37150].concerns(arm(37150, "0.33.0"))


def test_builds_are_versions_too() -> None:
    assert release_of("b10015-12127defd") == (10015,)
    assert release_of("0.17.0rc1") == release_of("0.17") == (0, 17)
    assert release_of(None) == release_of("main") == ()


WHOLE = """
[[defect]]
engine = "vllm"
since = "1.0"
effect = "no draft is ever accepted by anybody"
do = "Measure another method."
source = "https://github.com/acme/engine/issues/1"
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('do = "Measure another method."', "", "row 1 (https://github.com/acme/engine/issues/1), do: Field required"),
        ('"1.0"', '"v1"', "since: String should match"),
        ('"1.0"', "1.0", "since: Input should be a valid string"),
        ('"vllm"', '"vLLM"', "engine: String"),
        ("/issues/1", "", "source: String"),
        ("anybody", "anybody.", "effect: String"),
        ("since", 'methds = ["mtp"]\nsince', "methds: Extra inputs"),
    ],
)  # fmt: skip
def test_a_row_that_is_not_whole_is_refused_by_name(old: str, new: str, said: str) -> None:
    (row,) = rows_of(WHOLE)
    assert row.methods == []
    with pytest.raises(InvalidInput) as error:
        rows_of(WHOLE.replace(old, new))
    assert said in str(error.value)
