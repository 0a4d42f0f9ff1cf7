"""A load: equal where two levels asked the same, named as a person says it."""

import math

import numpy as np
import pandas as pd
import pytest

from warehouse.loads import Load, load_of

NAN = float("nan")


@pytest.mark.parametrize(
    ("facts", "text", "short"),
    [
        (("concurrent", 16, None), "16 at once", "16"),
        (("synchronous", None, None), "1 at once", "1"),
        (("constant", None, 8.0), "8 requests/s", "8/s"),
        (("poisson", None, 0.5), "0.5 requests/s (Poisson)", "0.5/s Poisson"),
        (("gamma (burstiness 0.5)", None, 8), "8 requests/s (gamma (burstiness 0.5))", "8/s gamma (burstiness 0.5)"),
        (("throughput", None, None), "as fast as it takes them", "unbounded"),
        ((None, None, math.inf), "as fast as it takes them", "unbounded"),
        (("replay", None, None, "day.jsonl"), "trace day.jsonl", "day.jsonl"),
    ],
)  # fmt: skip
def test_every_load_has_a_name_of_its_own(facts: tuple[object, ...], text: str, short: str) -> None:
    load = load_of(*facts)  # type: ignore[arg-type]
    assert load is not None
    assert (load.text, load.short) == (text, short)


def test_throughput_with_a_limit_is_that_many_at_once() -> None:
    assert load_of("throughput", 64, None) == load_of("concurrent", 64, None)
    assert load_of(None, 64, math.inf) == load_of(None, 64, None) == Load("concurrency", 64)


def test_an_offered_rate_stays_a_rate_however_its_requests_arrive() -> None:
    words = ("constant", "poisson", "gamma (burstiness 0.5)")
    loads = {load for word in words if (load := load_of(word, None, 8)) is not None}
    assert [load.offered_rate for load in loads] == [8, 8, 8]
    assert all(load.is_rate for load in loads)


def test_a_rate_with_a_limit_is_another_load_than_one_without() -> None:
    limited = load_of("poisson", 64, 8)
    assert limited is not None
    assert limited.text == "8 requests/s (Poisson, at most 64 at once)"
    assert limited != load_of("poisson", None, 8)
    assert limited != load_of("poisson", 32, 8)


def test_a_rate_of_unknown_arrivals_says_so_and_equals_no_known_process() -> None:
    unknown = load_of(None, None, 8)
    assert unknown is not None
    assert unknown.text == "8 requests/s (arrivals unknown)"
    assert unknown not in (load_of("constant", None, 8), load_of("poisson", None, 8))


@pytest.mark.parametrize("nothing", [None, NAN, pd.NA, 0, -1])
def test_a_load_is_unknown_where_nothing_states_it(nothing: object) -> None:
    assert load_of(None, nothing, nothing) is None  # type: ignore[arg-type]
    assert load_of(NAN, nothing, nothing, NAN) is None  # type: ignore[arg-type]
    assert load_of("poisson", 16, nothing) is None  # type: ignore[arg-type]
    assert load_of("concurrent", nothing, 8) is None  # type: ignore[arg-type]
    assert load_of("replay", 16, nothing) is None  # type: ignore[arg-type]


def test_numbers_of_a_frame_make_the_same_load_as_plain_ones() -> None:
    assert load_of("concurrent", np.int64(16), np.nan) == load_of("concurrent", 16, None)
    assert load_of("constant", None, np.float64(8)) == load_of("constant", None, 8)


def test_loads_sort_by_kind_then_value() -> None:
    loads = [load_of("throughput", None, None), load_of("poisson", None, 2), load_of(None, 16, None), load_of(None, 2, None)]  # fmt: skip
    known = sorted((load for load in loads if load is not None), key=lambda load: load.order)
    assert [load.short for load in known] == ["2", "16", "2/s Poisson", "unbounded"]


def test_json_says_kind_value_and_name() -> None:
    assert Load("concurrency", 16).as_json() == {"kind": "concurrency", "value": 16, "name": None}
    assert Load("trace", None, "day").as_json() == {"kind": "trace", "value": None, "name": "day"}
