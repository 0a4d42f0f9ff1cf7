"""The arithmetic of a cost in words: numbers worked by hand."""

from analysis.money.cost import Basis, Cost
from analysis.money.demand import Demand, fleet
from analysis.money.worth import Costed, Worth
from analysis.money.worth_steps import steps
from analysis.service.operating_point import Point

#: 8 USD an hour for 4 GPUs, 2 of them charged: 4 USD an hour, half of it used.
BASIS = Basis(8.0, 4, 2, 0.5)
#: A million tokens at the busiest moment of ten seconds: 100,000 tok/s.
DEMAND = Demand(8_640_000_000, 1.0)


def _arm(rate: float) -> Costed:
    per_million = 1e6 / (rate * 3600 * 0.5) * 4
    point = Point(8, rate, None, ())
    return Costed(point, per_million, Cost(per_million, None, None), fleet(DEMAND, rate, BASIS))


def _row(new: Costed | None) -> Worth:
    nothing = dict.fromkeys(
        ("saving_low", "saving_high", "verdict", "usd_saved_per_million", "break_even")
    )
    saved = None if new is None else 0.5
    yearly = None if new is None else 1234.4
    return Worth(0, 0, {}, BASIS, _arm(1000.0), new, saved, usd_saved_per_year=yearly, **nothing)  # type: ignore[arg-type]


def test_each_step_shows_its_numbers_and_its_result() -> None:
    told = {step.what: step for step in steps(_row(_arm(2000.0)), DEMAND)}

    assert told["price of one GPU"].baseline == "8.00 USD / 4 = 2.0000 USD/h"
    assert told["GPUs charged"].speculative == "2.0000 × 2 = 4.0000 USD/h"
    assert told["tokens an hour"].baseline == "1,000.00 × 3,600 × 50% = 1,800,000"
    cost = told["cost of a million output tokens"]
    assert cost.baseline == "1,000,000 / 1,800,000 × 4.0000 = 2.2222 USD"
    assert cost.speculative == "1,000,000 / 3,600,000 × 4.0000 = 1.1111 USD"
    assert told["saved"].speculative == "1 − 1.1111 / 2.2222 = 50.0%"
    assert told["replicas"].baseline == "100,000.0 / (1,000.00 × 50%) → 200"
    assert told["GPUs"].speculative == "100 × 2 = 200"
    assert told["fleet an hour"].speculative == "400.00 USD"
    assert told["fleet a year"].speculative == "3,504,000 USD"
    assert told["saved a year"].speculative == "1,234 USD"


def test_an_arm_without_a_load_is_unknown_and_without_a_demand_there_is_no_fleet() -> None:
    told = {step.what: step for step in steps(_row(None))}

    assert told["tokens an hour"].speculative == "unknown"
    assert told["saved"].speculative == "unknown"
    assert "replicas" not in told
