"""``--set`` says what a bare report cannot, checked against the contract."""

from typing import Any

import pytest

from ingest.settings import parse_settings
from warehouse.errors import UnknownKey


def test_values_take_the_type_that_the_contract_gives_them() -> None:
    given = ["dataset=SWE-bench", "tensor_parallel_size=2", "temperature=0", "prefix_caching=false"]
    assert parse_settings(given) == {
        "dataset": "SWE-bench",
        "tensor_parallel_size": 2,
        "temperature": 0.0,
        "prefix_caching": False,
    }


def test_a_speculative_config_also_says_the_method_k_and_the_draft() -> None:
    config = '{"method": "eagle3", "num_speculative_tokens": 3, "model": "d"}'
    facts = parse_settings([f"speculative_config={config}"])
    assert (facts["spec_method"], facts["num_speculative_tokens"]) == ("eagle3", 3)
    assert facts["draft_model"] == "d"


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("datset=x", "dataset"),
        ("tensor-parallel-size=1", "tensor_parallel_size"),
        ("zzzz=1", "known keys are study"),
        ("dataset", "has no '='"),
        ("num_speculative_tokens=many", "num_speculative_tokens"),
        ("temperature=nan", "temperature"),
        ("server_args=[", "JSON object"),
        ("tensor_parallel_size=0", "a number of at least 1"),
    ],
)
def test_what_does_not_fit_the_contract_is_refused_in_one_sentence(pair: str, said: str) -> None:
    with pytest.raises(UnknownKey) as refused:
        parse_settings([pair])
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_wrong_setting_is_wrong_usage_and_touches_nothing(
    run: Any, write: Any, bench: Any
) -> None:
    done = run(write("bench.json", bench()), "--set", "gpus=H200")
    assert done.status == 2
    assert "gpu" in done.err
    assert run.generation is None


def test_what_was_set_is_what_the_cell_says(run: Any, write: Any, bench: Any) -> None:
    pairs = [
        "--set",
        "gpu=H200",
        "--set",
        "spec_method=eagle3",
        "--set",
        "num_speculative_tokens=2",
    ]
    assert run(write("bench.json", bench()), *pairs).status == 0
    (cell,) = run.cells()
    assert (cell["gpu"], cell["arm_label"]) == ("H200", "eagle3 K=2")
