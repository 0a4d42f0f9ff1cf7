"""What tells decisions apart that are named alike."""

from typing import Any

import pandas as pd

from answers.decide.overview import configurations

SAID = {"study": "nights", "model": "m", "gpu": "H200", "tensor_parallel_size": 1}


def keys(*settings: dict[str, Any]) -> pd.DataFrame:
    """The facts of settings, two arms each."""
    rows = [SAID | facts for facts in settings for _ in range(2)]
    at = [(setting, arm) for setting in range(len(settings)) for arm in (0, 1)]
    return pd.DataFrame(rows, index=pd.MultiIndex.from_tuples(at, names=["setting", "arm_id"]))


def test_server_arguments_that_differ_within_a_dataset_are_said() -> None:
    found = configurations(keys(
        {"dataset": "code", "server_args": '{"max_num_seqs": 32, "max_model_len": 512}'},
        {"dataset": "code", "server_args": '{"max_num_seqs": 2, "max_model_len": 512}'},
        {"dataset": "prose", "server_args": '{"max_num_seqs": 2, "max_model_len": 512}'},
    ))  # fmt: skip

    assert found == {0: "max_num_seqs 32", 1: "max_num_seqs 2", 2: "max_num_seqs 2"}


def test_what_one_does_not_state_is_said_to_be_not_stated() -> None:
    found = configurations(keys(
        {"dataset": "code", "server_args": "{}", "prefix_caching": True},
        {"dataset": "code", "server_args": '{"async_scheduling": false}', "prefix_caching": True},
    ))  # fmt: skip

    assert found == {0: "async_scheduling not stated", 1: "async_scheduling False"}


def test_datasets_with_limits_of_their_own_need_no_words() -> None:
    found = configurations(keys(
        {"dataset": "code", "max_tokens": 64}, {"dataset": "prose", "max_tokens": 128}
    ))  # fmt: skip

    assert found == {}


def test_names_that_differ_anyway_need_no_words() -> None:
    found = configurations(keys(
        {"dataset": "code", "engine_version": "1", "max_tokens": 64},
        {"dataset": "code", "engine_version": "2", "max_tokens": 128},
    ))  # fmt: skip

    assert found == {}
