"""Goodput: requests that meet every bound themselves, per second of the window."""

from collections.abc import Callable

import pandas as pd
import pyarrow as pa
import pytest

from analysis.service.slo import COLUMNS, goodput, parse, per_request, pooled
from warehouse.errors import InvalidInput

NAN = float("nan")


def requests(*rows: tuple[str, float, float, float, int]) -> pd.DataFrame:
    """status, end, ttft, itl, output tokens; all start at 0 and take 2 s."""
    table = pd.DataFrame(rows, columns=["status", "end", "ttft", "itl", "output_tokens"])
    return table.assign(start=0.0, last_token=table["end"], tpot=20.0, request_latency=2.0)


FIVE = requests(
    ("completed", 1.0, 100.0, 8.0, 50),
    ("completed", 2.0, 250.0, 8.0, 50),
    ("completed", 3.0, 150.0, 12.0, 50),
    ("errored", 4.0, 10.0, 1.0, 7),
    ("incomplete", 5.0, 10.0, 1.0, 9),
)


def test_good_requests_meet_every_bound_and_errors_never_do() -> None:
    found = goodput(FIVE, parse("ttft:p95<200ms; itl:p99<10ms"), (0.0, 10.0))

    assert found is not None
    assert (found.ended, found.good, pooled([found]).good_share) == (4, 1, 0.25)
    assert found.requests_per_second == pytest.approx(0.1)
    assert found.output_tokens_per_second == pytest.approx(5.0)


def test_only_requests_that_ended_in_the_window_count() -> None:
    found = goodput(FIVE, parse("ttft:p95<1s"), (1.5, 3.5))

    assert found is not None
    assert (found.ended, found.good) == (2, 2)
    assert found.requests_per_second == pytest.approx(1.0)


def test_without_a_window_the_requests_span_it() -> None:
    found = goodput(FIVE, parse("ttft:p95<1s"))

    assert found is not None
    assert found.requests_per_second == pytest.approx(3 / 5)


@pytest.mark.parametrize(
    ("row", "good"),
    [
        (("completed", 1.0, 100.0, NAN, 1), 1),
        (("completed", 1.0, 100.0, NAN, 5), 0),
        (("completed", 1.0, NAN, 5.0, 5), 0),
    ],
)
def test_an_unknown_value_is_not_good_except_the_gap_of_a_single_token(
    row: tuple[str, float, float, float, int], good: int
) -> None:
    found = goodput(requests(row), parse("ttft:p95<1s; itl:p95<10ms"), (0.0, 2.0))
    assert found is not None
    assert found.good == good


@pytest.mark.parametrize("window", [(5.0, 5.0), (9.0, 2.0)])
def test_no_window_no_rate(window: tuple[float, float]) -> None:
    assert goodput(FIVE, parse("ttft:p95<1s"), window) is None


def test_no_request_in_the_window_is_no_share() -> None:
    found = goodput(FIVE, parse("ttft:p95<1s"), (20.0, 30.0))
    assert found is not None
    assert (found.ended, pooled([found]).good_share, found.requests_per_second) == (0, None, 0.0)


def test_a_bound_on_the_whole_server_is_not_one_of_a_request() -> None:
    asked = parse("ttft:p95<1s; error_rate<1%")
    with pytest.raises(InvalidInput, match="not a property of one request"):
        goodput(FIVE, asked)

    kept = per_request(asked)
    assert kept is not None
    assert kept.text == "ttft:p95<1s"
    assert per_request(parse("error_rate<1%")) is None


def test_the_rows_of_the_warehouse_are_read_as_they_come(
    make_requests: Callable[..., pa.Table],
) -> None:
    # Requests 0.1 s apart with a first token after 100 + i ms: the first 11 are in time.
    rows = make_requests("c" * 20).select(COLUMNS).to_pandas()

    found = goodput(rows, parse("ttft:p95<=110.5ms"))

    assert found is not None
    assert (found.ended, found.good) == (20, 11)
    shuffled = goodput(rows.sample(frac=1, random_state=3), parse("ttft:p95<=110.5ms"))
    assert shuffled == found
