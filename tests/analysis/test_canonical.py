"""The canonical measurements of two requests, worked by hand.

Window 100-110 s. A: sent 100, first token 101, last 103, end 103, 5 tokens out, 10 in.
B: sent 104, first 104.5, last 108.5, end 109, 9 tokens out, 20 in.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.canonical import Window, canonical, with_latencies

WINDOW = Window(100.0, 110.0)
TIMES = ("start", "first_token", "last_token", "end")
NAMES = (*TIMES, "prompt_tokens", "output_tokens")
A = (100.0, 101.0, 103.0, 103.0, 10.0, 5.0)
B = (104.0, 104.5, 108.5, 109.0, 20.0, 9.0)
NAN = float("nan")


def columns(*rows: tuple[float, ...], status: tuple[str, ...] = ()) -> dict[str, Any]:
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(NAMES))
    said = status or ("completed",) * len(rows)
    return {"status": np.array(said, dtype=object), **dict(zip(NAMES, table.T, strict=True))}


def values(
    table: dict[str, Any], window: Window = WINDOW, errored: int = 0, completed: int = 2
) -> dict[str, float]:
    found = canonical(table, window, errored, completed)
    assert {m.origin for m in found} <= {"canonical"}
    return {f"{m.metric}.{m.statistic}": m.value for m in found}


def test_the_latencies_of_a_request() -> None:
    full = with_latencies(columns(A, B), WINDOW)
    # TTFT 101 - 100 and 104.5 - 104 s; ITL 2 s / 4 and 4 s / 8; TPOT 3 s / 5 and 4.5 s / 9.
    assert full["ttft"].tolist() == [1000, 500]
    assert full["itl"].tolist() == [500, 500]
    assert full["tpot"] == pytest.approx([600, 500])
    assert full["request_latency"].tolist() == [3, 5]
    assert full["in_window"].tolist() == [True, True]


def test_rates_count_what_happened_inside_the_window() -> None:
    found = values(columns(A, B))
    # 5 + 9 tokens out, 10 + 20 in, 2 requests, all in 10 s; in flight 3 s + 5 s of 10 s.
    assert found["output_throughput.mean"] == pytest.approx(1.4)
    assert found["total_throughput.mean"] == pytest.approx(4.4)
    assert found["request_throughput.mean"] == pytest.approx(0.2)
    assert found["achieved_concurrency.mean"] == pytest.approx(0.8)


def test_a_request_cut_by_the_window_counts_only_its_tokens_inside() -> None:
    # A's tokens fall at 101, 101.5, 102, 102.5, 103 (from 101.75: three). B's at 104.5, 105 ...
    # 108.5 (to 106.25: 104.5, 105, 105.5, 106: four). Prompt: only B's 20 (A's first is before).
    found = values(columns(A, B), Window(101.75, 106.25))
    assert found["output_throughput.mean"] == pytest.approx(7 / 4.5)
    assert found["total_throughput.mean"] == pytest.approx(27 / 4.5)
    assert found["request_throughput.mean"] == pytest.approx(1 / 4.5)
    assert found["achieved_concurrency.mean"] == pytest.approx((1.25 + 2.25) / 4.5)


def test_tokens_of_one_chunk_arrive_together() -> None:
    # A in 3 chunks: 1 token at 101, then 2 at 102 and 2 at 103. Up to 102.5: three.
    table = {**columns(A), "iterations": np.array([3.0])}
    found = values(table, Window(100.0, 102.5))
    assert found["output_throughput.mean"] == pytest.approx(3 / 2.5)


def test_itl_and_tpot_are_weighted_by_tokens() -> None:
    found = values(columns(A, (104.0, 104.5, 106.1, 106.1, 20.0, 9.0)))
    # ITL 500 ms x 4 and 200 ms x 8: (2000 + 1600) / 12 = 300; the median is 200.
    assert found["itl.mean"] == pytest.approx(300)
    assert found["itl.p50"] == pytest.approx(200)
    # TPOT 600 ms x 5 and 2.1 s / 9 x 9: (3000 + 2100) / 14.
    assert found["tpot.mean"] == pytest.approx(5100 / 14)
    # Weighted spread of ITL: (4 x 200^2 + 8 x 100^2) / 12 = 20000.
    assert found["itl.std"] == pytest.approx(20000**0.5)


def test_ttft_and_request_latency_are_means_over_requests() -> None:
    found = values(columns(A, B))
    assert found["ttft.mean"] == pytest.approx(750)
    assert (found["ttft.min"], found["ttft.p50"], found["ttft.max"]) == (500, 500, 1000)
    assert found["ttft.std"] == pytest.approx(250)
    assert found["request_latency.mean"] == pytest.approx(4)
    assert found["prompt_tokens.mean"] == pytest.approx(15)
    assert found["output_tokens.p50"] == pytest.approx(5)


def test_a_request_outside_the_window_counts_for_nothing() -> None:
    early = (90.0, 91.0, 93.0, 93.0, 10.0, 500.0)
    assert not with_latencies(columns(early), WINDOW)["in_window"][0]
    assert values(columns(early, A, B)) == pytest.approx(values(columns(A, B)))


def test_a_first_token_before_the_window_leaves_ttft_but_not_itl() -> None:
    found = values(columns(A), Window(102.0, 110.0))
    assert "ttft.mean" not in found
    assert found["itl.mean"] == pytest.approx(500)


def test_errored_requests_are_left_out_of_everything_but_the_error_rate() -> None:
    table = columns(
        A, B, (105.0, 106.0, NAN, 107.0, 5.0, 3.0), status=("completed",) * 2 + ("errored",)
    )
    full = with_latencies(table, WINDOW)
    assert np.isnan(full["request_latency"][2])
    assert np.isnan(full["tpot"][2])
    found = values(table, errored=1)
    assert found["output_throughput.mean"] == pytest.approx(1.4)
    assert found["ttft.mean"] == pytest.approx(750)
    assert found["error_rate.mean"] == pytest.approx(1 / 3)


def test_a_single_token_has_no_gap_between_tokens() -> None:
    found = values(columns((100.0, 101.0, 101.0, 101.0, 10.0, 1.0)))
    assert not any(name.startswith("itl") for name in found)
    assert found["tpot.mean"] == pytest.approx(1000)


def test_a_window_of_unknown_bounds_is_the_extent_of_the_requests() -> None:
    assert values(columns(A, B), Window(None, None)) == values(columns(A, B), Window(100, 109))


def test_what_cannot_be_computed_is_left_out() -> None:
    assert values(columns(), Window(None, None), completed=0) == {}
    unknown = values(columns((NAN,) * 6), Window(None, None), completed=1)
    assert unknown == {"error_rate.mean": 0}
    assert all(np.isfinite(v) for v in values(columns((100.0, NAN, NAN, 103.0, NAN, 5.0))).values())


@given(st.floats(-50, 50), st.permutations([A, B, (101.0, 102.0, 109.0, 109.0, 7.0, 15.0)]))
def test_neither_the_clock_nor_the_order_of_requests_matters(
    shift: float, rows: list[tuple[float, ...]]
) -> None:
    moved = [tuple(v + shift for v in r[:4]) + r[4:] for r in rows]
    there = values(columns(*moved), Window(100 + shift, 110 + shift))
    assert there == pytest.approx(values(columns(*sorted(rows))), rel=1e-6, abs=1e-6)


@given(st.integers(1, 50))
def test_times_twice_as_long_halve_the_rates_and_double_the_latencies(factor: int) -> None:
    stretched = [tuple(v * factor for v in r[:4]) + r[4:] for r in (A, B)]
    one = values(columns(A, B))
    other = values(columns(*stretched), Window(100.0 * factor, 110.0 * factor))
    for name in ("output_throughput.mean", "total_throughput.mean", "request_throughput.mean"):
        assert other[name] == pytest.approx(one[name] / factor)
    for name in ("ttft.p50", "itl.mean", "tpot.p99", "request_latency.mean"):
        assert other[name] == pytest.approx(one[name] * factor)
