"""What speculation is worth: operating points, savings, fleets and break-evens of matched arms."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.money.cost import Basis
from analysis.money.demand import Demand
from analysis.money.worth import Terms, Worth, worth
from analysis.money.worth_tables import costs, demands, lines
from analysis.service.operating_point import Rule
from analysis.service.slo import parse
from analysis.significance.comparison import Comparison, compare
from warehouse.errors import UnknownKey

Row = Callable[..., dict[str, Any]]
#: concurrency -> output tokens/s and TTFT P95 (ms) of the baseline and of the other arm.
LOADS = {1: ((100, 20), (180, 25)), 8: ((500, 60), (700, 70)), 32: ((900, 300), (1000, 150))}


def comparison(row: Row, loads: Mapping[int, Any] = LOADS, **facts: Any) -> Comparison:
    cells, measured = [], []
    for concurrency, arms in loads.items():
        for method, arm in zip(("none", "eagle3"), arms, strict=True):
            if arm is None:
                continue
            cell = f"{method}-{concurrency}"
            label = "baseline" if method == "none" else "eagle3 K=3"
            told = {"concurrency": concurrency, "arm_label": label, "reported_definition": "x"}
            cells.append(row(cell, method, **{**told, **facts}))
            rates = {
                ("output_throughput", "mean"): arm[0], ("total_throughput", "mean"): 2 * arm[0],
                ("ttft", "p95"): arm[1],
            }  # fmt: skip
            measured += [(cell, "canonical", *name, float(v)) for name, v in rates.items()]
    columns = ["cell_id", "origin", "metric", "statistic", "value"]
    return compare(pd.DataFrame(cells), pd.DataFrame(measured, columns=columns))


def only(row: Row, rule: Rule, loads: Mapping[int, Any] = LOADS, **terms: Any) -> Worth:
    (found,) = worth(
        comparison(row, loads), Terms(rule, lambda _: Basis(3.6, gpus_used=1), **terms)
    )
    return found


@pytest.mark.parametrize(
    ("rule", "baseline", "speculative", "saved"),
    [
        (Rule(), (32, 900), (32, 1000), 1 - 900 / 1000),
        (Rule(concurrency=8), (8, 500), (8, 700), 1 - 500 / 700),
        # Only the speculative arm holds 200 ms at 32: the baseline is left at 8.
        (Rule(slo=parse("ttft:p95<200ms")), (8, 500), (32, 1000), 1 - 500 / 1000),
    ],
)
def test_each_arm_is_costed_where_the_rule_puts_it(
    row: Row,
    rule: Rule,
    baseline: tuple[int, float],
    speculative: tuple[int, float],
    saved: float,
) -> None:
    found = only(row, rule)

    assert found.baseline is not None
    assert found.speculative is not None
    for side, (concurrency, output) in (
        (found.baseline, baseline), (found.speculative, speculative),
    ):  # fmt: skip
        assert side.point.concurrency == concurrency
        assert side.usd_per_million == pytest.approx(1000 / output)
        assert side.cost.usd_per_million_total_tokens == pytest.approx(500 / output)
    assert found.saving == pytest.approx(saved)
    (line,) = costs([found])[1]
    assert line[9] == (
        "not enough evidence" if baseline[0] == speculative[0] else "at another load"
    )
    assert found.usd_saved_per_million == pytest.approx(1000 / baseline[1] - 1000 / speculative[1])


def test_a_load_that_only_one_arm_has_is_not_its_peak(row: Row) -> None:
    loads = {**LOADS, 64: (None, (5000, 400))}
    found = only(row, Rule(), loads)

    assert found.speculative is not None
    assert found.speculative.point.concurrency == 32


def test_an_arm_without_a_load_within_the_slo_has_no_cost_and_no_saving(row: Row) -> None:
    found = only(row, Rule(slo=parse("ttft:p95<22ms")))

    assert found.baseline is not None
    assert (found.speculative, found.saving) == (None, None)
    assert any("no load of the speculative arm qualifies" in line for line in lines([found]))


def test_a_demand_counts_whole_replicas_and_when_they_have_paid(row: Row) -> None:
    demand = Demand(86_400 * 2600)
    found = only(row, Rule(), demand=demand, investment_usd=360.0)

    assert found.baseline is not None
    assert found.speculative is not None
    assert found.baseline.fleet is not None
    assert found.speculative.fleet is not None
    # 2600 tokens/s: three replicas either way, so nothing is saved and nothing paid back.
    assert (found.baseline.fleet.replicas, found.speculative.fleet.replicas) == (3, 3)
    assert found.usd_saved_per_year == 0.0
    assert found.break_even is not None
    assert found.break_even.hours is None
    assert any("as many GPUs either way" in line for line in lines([found]))


def test_without_a_demand_an_hour_is_that_of_one_busy_replica(row: Row) -> None:
    found = only(row, Rule(), investment_usd=360.0)

    assert found.break_even is not None
    # An hour at 1000 tok/s is worth 1000/900 hours at 3.6 USD of the baseline: 0.40 USD saved.
    assert found.break_even.hours == pytest.approx(360 / 0.4)
    assert found.break_even.tokens == pytest.approx(360 / (1000 / 900 - 1) * 1e6)


def test_the_basis_is_asked_for_each_setting_and_may_refuse(row: Row) -> None:
    seen: list[Mapping[str, Any]] = []

    def basis_of(keys: Mapping[str, Any]) -> Basis:
        seen.append(keys)
        raise UnknownKey("no price")

    with pytest.raises(UnknownKey):
        worth(comparison(row, gpu="H9000", gpu_count=2), Terms(Rule(), basis_of))
    assert (seen[0]["gpu"], seen[0]["gpu_count"]) == ("H9000", 2)


def test_the_tables_show_both_costs_and_say_what_was_not_measured_on_a_gpu(row: Row) -> None:
    found = comparison(row, evidence="cpu", dataset="code")
    rows = worth(found, Terms(Rule(), lambda _: Basis(3.6), Demand(86_400 * 950)))

    sure = ["unknown", "not enough evidence", "per GPU"]
    (line,) = costs(rows)[1]
    assert line == ["eagle3 K=3", "code", "1", "32", "1.111", "32", "1.000", "+10.0 %", *sure]
    (line,) = demands(rows)[1]
    assert line[3] == "2 → 1"
    assert any("measured on cpu" in text for text in lines(rows))


def test_repeats_give_the_saving_an_interval_where_both_run_at_one_load(row: Row) -> None:
    cells, measured = [], []
    for repeat, (old, new) in enumerate(((100, 150), (102, 152), (99, 150))):
        for method, value in (("none", old), ("eagle3", new)):
            cell = f"{method}{repeat}"
            cells.append(
                row(cell, method, repeat=repeat, arm_label=method, reported_definition="x")
            )
            measured.append((cell, "canonical", "output_throughput", "mean", float(value)))
    columns = ["cell_id", "origin", "metric", "statistic", "value"]
    found = compare(pd.DataFrame(cells), pd.DataFrame(measured, columns=columns))

    (one,) = worth(found, Terms(Rule(), lambda _: Basis(3.6)))

    assert one.verdict == "better"
    assert one.saving is not None
    assert one.saving_low is not None
    assert one.saving_high is not None
    assert 0.25 < one.saving_low < one.saving < one.saving_high < 0.40
    # 1 - old / new of the geometric means: (100 x 102 x 99 / (150 x 152 x 150)) ** (1/3).
    assert one.saving == pytest.approx(1 - (1_009_800 / 3_420_000) ** (1 / 3))


relaxed = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@relaxed
@given(st.lists(st.tuples(st.floats(10, 1e4), st.floats(10, 1e4)), min_size=1, max_size=4))
def test_swapping_the_arms_turns_the_saving_around(
    row: Row, rates: list[tuple[float, float]]
) -> None:
    def loads(flip: bool) -> dict[int, Any]:
        return {
            2**n: tuple((rate, 50.0) for rate in (pair[::-1] if flip else pair))
            for n, pair in enumerate(rates)
        }

    one, other = (only(row, Rule(), loads(flip)).saving for flip in (False, True))
    assert one is not None
    assert other is not None
    assert (1 - one) * (1 - other) == pytest.approx(1.0)
