"""What a decision says of two arms' engines, and of what was compared by leave."""

from pathlib import Path
from typing import Any

import pytest

from answers.decide.doubts import EngineDifference, allowed_words, engine_differences, engine_words
from answers.ground import ground
from warehouse.errors import UnknownKey
from warehouse.rows import Measurement
from warehouse.store import Reader, open_writer

ARM = "draft_model K=2"
TODAY = {"max_model_len": 512, "max_num_seqs": 128}
V2 = {
    "async_scheduling": True,
    "model_runner": "V2",
    "kv_cache_tokens": 800_080,
    "cuda_graph_max": 256,
}
V1 = {"async_scheduling": False, "model_runner": "V1", "kv_cache_tokens": 625_056, "cuda_graph_max": 512,
      "by_method": ["async_scheduling", "model_runner"]}  # fmt: skip


@pytest.fixture
def two(warehouse_path: Path, make_source: Any, make_cell: Any) -> Any:
    """``two(baseline={…}, arm={…}, allow=(…))``: what differs between two arms with these facts."""

    def differ(
        baseline: dict[str, Any], arm: dict[str, Any], allow: tuple[str, ...] = ()
    ) -> tuple[EngineDifference, ...]:
        own = {"spec_method": "draft_model", "num_speculative_tokens": 2}
        with open_writer(warehouse_path) as writer:
            for name, facts in (("b", {"spec_method": "none"} | baseline), ("s", own | arm)):
                source = make_source(f"{name} {facts}")
                speed = (Measurement("canonical", "output_throughput", "mean", 100.0),)
                facts = {"server_args": TODAY, "study": "h200"} | facts
                writer.add(source, [make_cell(source, facts=facts, measurements=speed, flags=())])
            writer.commit()
        with Reader(warehouse_path) as reader:
            known = ground(reader, allow=allow)
        setting, arm_id = known.found.pairs[["setting", "arm_id"]].iloc[0]
        return engine_differences(known, int(setting), int(arm_id))

    return differ


def test_two_arms_on_different_engines_are_said_to_be_so(two: Any) -> None:
    found = two({"engine_settings": V2}, {"engine_settings": V1})
    assert {one.field: one.matters for one in found} == {
        "async_scheduling": True, "model_runner": True, "kv_cache_tokens": False,
        "cuda_graph_max": False,
    }  # fmt: skip
    assert engine_words(found, ARM) == (
        "The two arms ran different engines: asynchronous scheduling on in the baseline, off in "
        "draft_model K=2 (the method switches it off); model runner V2 against V1 (the method's "
        "choice); KV cache in tokens 800,080 against 625,056; largest CUDA graph 256 against 512."
    )
    assert allowed_words(found, ARM) == ""


def test_one_engine_in_other_sizes_would_be_the_baselines_without_its_drafts(two: Any) -> None:
    found = two({"engine_settings": V2}, {"engine_settings": V2 | {"kv_cache_tokens": 625_056}})
    assert [(one.field, one.matters) for one in found] == [("kv_cache_tokens", False)]
    assert engine_words(found, ARM).startswith(
        "The two arms ran one engine in other sizes: KV cache"
    )


def test_engines_of_which_nothing_is_known_do_not_differ(two: Any) -> None:
    found = two({}, {"engine_settings": V1})
    assert found == ()
    assert engine_words(found, ARM) == allowed_words(found, ARM) == ""


def test_settings_of_any_kind_that_somebody_stated_break_nothing(two: Any) -> None:
    odd = {"kv_cache_tokens": "many", "by_method": 3, "model_runner": ["V1"]}
    found = two({"engine_settings": V2}, {"engine_settings": odd})
    assert [one.field for one in found] == ["model_runner", "kv_cache_tokens"]


def test_an_argument_that_differs_by_leave_is_marked_and_makes_no_baseline(two: Any) -> None:
    arm = {
        "server_args": TODAY | {"async_scheduling": False},
        "engine_settings": V2 | {"async_scheduling": False},
    }
    found = two({"engine_settings": V2}, arm, ("server_args.async-scheduling",))
    assert [(one.field, one.matters) for one in found] == [
        ("server_args.async-scheduling", True), ("async_scheduling", True),
    ]  # fmt: skip
    assert allowed_words(found, ARM) == (
        "Compared by leave although server_args.async-scheduling differs: not stated in the "
        "baseline, false in draft_model K=2."
    )
    assert "by the method, or by the arguments that differ by leave" in engine_words(found, ARM)


def test_all_arguments_by_leave_are_named_one_by_one(two: Any) -> None:
    arm = {"server_args": {"max_model_len": 256, "max_num_seqs": 64}, "temperature": 0.6}
    found = two({}, arm, ("server_args", "temperature"))
    assert {one.field: one.matters for one in found} == {
        "server_args.max-model-len": True, "server_args.max-num-seqs": True, "temperature": False,
    }  # fmt: skip
    assert "512 in the baseline, 256 in draft_model K=2" in allowed_words(found, ARM)


def test_a_version_by_leave_is_another_engine(two: Any) -> None:
    found = two({"engine_version": "0.26.0"}, {"engine_version": "0.32.0"}, ("engine_version",))
    assert [(one.field, one.baseline, one.arm, one.matters) for one in found] == [
        ("engine_version", "0.26.0", "0.32.0", True)
    ]


def test_what_names_nothing_is_refused_with_what_may_be_named(two: Any) -> None:
    with pytest.raises(UnknownKey, match="or one server argument alone: server_args.max-model-len"):
        two({}, {}, ("async-scheduling",))
