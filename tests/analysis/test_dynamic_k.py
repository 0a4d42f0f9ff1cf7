"""K by load as vLLM's table: by hand, as a property, and read back by vLLM's own code where it is."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.drafts.dynamic_k import dynamic_table
from warehouse.errors import InvalidInput

VLLM = Path(__file__).parents[2] / ".lab/vllm/lib/python3.11/site-packages/vllm"
SCHEDULE = VLLM / "v1/spec_decode/dynamic/utils.py"


def candidates(worth: dict[int, dict[int, float]]) -> pd.DataFrame:
    rows = [(load, k, value) for load, at in worth.items() for k, value in at.items()]
    return pd.DataFrame(rows, columns=["concurrency", "k", "worth"])


def test_k_falls_with_the_load_and_changes_where_the_two_cross() -> None:
    # From load 4 to 16, K = 3 goes from 10 % ahead of K = 1 to 10 % behind: they cross at 8.
    found = dynamic_table(candidates({4: {1: 100, 3: 110}, 16: {1: 110, 3: 100}}))
    assert found.entries == ((1, 8, 3), (9, 16, 1))
    assert found.by_load == ((4, 3), (16, 1))
    assert found.largest == 3


def test_a_crossing_lies_nearer_to_the_load_where_less_is_at_stake() -> None:
    # +30 % at 10, -10 % at 1000: log(1.3) / (log(1.3) + log(1.1)) = 0.7335 of the way in log load.
    found = dynamic_table(candidates({10: {1: 100, 3: 130}, 1000: {1: 110, 3: 100}}))
    assert found.entries == ((1, int(10 ** (1 + 2 * 0.7335)), 3), (294, 1000, 1))


def test_a_change_that_gains_less_than_the_margin_is_not_made() -> None:
    one_off = {1: {2: 100, 3: 110}, 4: {2: 101, 3: 100}, 16: {2: 100, 3: 110}}
    assert dynamic_table(candidates(one_off)).entries == ((1, 16, 3),)
    assert dynamic_table(candidates(one_off), margin=0.001).entries == (
        (1, 3, 3),
        (4, 4, 2),
        (5, 16, 3),
    )


def test_of_k_worth_the_same_the_smaller_is_taken() -> None:
    assert dynamic_table(candidates({1: {1: 100, 2: 100, 5: 100}})).entries == ((1, 1, 1),)


def test_ties_do_not_make_the_table_change() -> None:
    # At load 1 K = 2 and 3 are tied; at 8 only 3 is good: 3 throughout beats the smaller K at 1.
    found = dynamic_table(candidates({1: {2: 100, 3: 100}, 8: {2: 80, 3: 100}}))
    assert found.entries == ((1, 8, 3),)


def test_no_drafts_above_a_load_where_they_cost_more_than_they_gain() -> None:
    found = dynamic_table(candidates({1: {0: 100, 3: 150}, 64: {0: 100, 3: 80}}))
    assert found.entries[-1][2] == 0
    assert found.largest == 3


def test_a_k_that_was_not_measured_at_a_load_is_not_chosen_there() -> None:
    found = dynamic_table(candidates({1: {2: 100, 3: 500}, 4: {2: 100}}))
    assert found.entries == ((1, 2, 3), (3, 4, 2))


@pytest.mark.parametrize("worth", [{}, {1: {2: 0.0}}, {1: {2: -1.0}}])
def test_nothing_to_choose_from_is_refused(worth: dict[int, dict[int, float]]) -> None:
    with pytest.raises(InvalidInput, match="above 0"):
        dynamic_table(candidates(worth))


measured = st.dictionaries(
    st.integers(1, 300),
    st.dictionaries(st.integers(0, 6), st.floats(1, 1000), min_size=1),
    min_size=1,
    max_size=7,
)


@settings(max_examples=100)
@given(worth=measured, margin=st.floats(0, 0.3))
def test_a_table_covers_every_batch_once_and_changes_k_at_every_entry(
    worth: dict[int, dict[int, float]], margin: float
) -> None:
    found = dynamic_table(candidates(worth), margin)
    starts = [start for start, _, _ in found.entries]
    ends = [end for _, end, _ in found.entries]
    assert starts == [1, *(end + 1 for end in ends[:-1])]
    assert all(start <= end for start, end, _ in found.entries)
    ks = [k for _, _, k in found.entries]
    assert all(a != b for a, b in zip(ks, ks[1:], strict=False))
    for load, k in found.by_load:
        assert k in worth[load]
        assert next(at for start, end, at in found.entries if start <= load <= end) == k


@settings(max_examples=100)
@given(worth=measured, unit=st.sampled_from([0.001, 1000.0]))
def test_the_unit_of_the_worth_does_not_matter(
    worth: dict[int, dict[int, float]], unit: float
) -> None:
    scaled = {load: {k: v * unit for k, v in at.items()} for load, at in worth.items()}
    assert len(dynamic_table(candidates(scaled)).entries) == len(
        dynamic_table(candidates(worth)).entries
    )


def schedule_of_vllm() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vllm_schedule", SCHEDULE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.skipif(not SCHEDULE.exists(), reason="vLLM is not installed in the lab")
@settings(max_examples=100)
@given(worth=measured)
def test_vllm_reads_the_table_as_it_was_meant(worth: dict[int, dict[int, float]]) -> None:
    found = dynamic_table(candidates(worth))
    if found.largest == 0:
        return
    lookup = schedule_of_vllm().build_dynamic_sd_schedule_lookup(
        [list(entry) for entry in found.entries], 400, found.largest
    )
    assert [lookup[load] for load, _ in found.by_load] == [k for _, k in found.by_load]
