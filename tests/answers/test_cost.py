"""What a decision is worth in money: its own saving, whole GPUs, and what is not known said."""

import json
from dataclasses import replace
from typing import Any

import pytest

from analysis.evidence.words import GAIN, LIKELY_GAIN, LOSS, OPEN, Word
from analysis.money.cost import Demand
from analysis.money.paying import Paying
from answers.cost.answer import cost
from answers.cost.values import DecisionCost, Terms, costs_json
from answers.cost.words import break_evens, costs, demands, steps, with_and_without
from answers.decide.values import (
    ArmAtLoad,
    ArmDifference,
    DecidedTraffic,
    Decision,
    Decisions,
    DecisionSubject,
    MapLevel,
    Saving,
    ThroughputRates,
)
from warehouse.errors import InvalidInput
from warehouse.loads import Load

AT_16 = Load("concurrency", 16.0)
#: 3.6 USD an hour at 1,000 tokens/s: one USD for a million.
PAID = Paying(usd_per_hour=3.6)
RATES = ThroughputRates(1000.0, 3000.0, 1300.0, 3900.0)
SUBJECT = DecisionSubject("s", "m", "B17", 1, "vllm", "0.25", 1, "gpu")


def difference(
    improvement: float, low: float | None, high: float | None, word: Word = GAIN, **changes: Any
) -> ArmDifference:
    """Of the output throughput; the adjusted interval is the plain one."""
    told = ArmDifference("output_throughput", "mean", word, improvement, low, high, low, high)
    return replace(told, **changes)


#: Expected 25 % more, so an output token costs 20 % less.
GAINED = difference(0.25, 0.10, 0.40)


def saved(load: Load, told: ArmDifference) -> Saving:
    """The saving that goes with a difference of throughput."""
    assert told.improvement is not None
    ends = [None if x is None else x / (1 + x) for x in (told.low, told.high)]
    share = told.improvement / (1 + told.improvement)
    return Saving(load, share, ends[0], ends[1], told.word)


def decision(
    told: ArmDifference | None = GAINED,
    load: Load = AT_16,
    rates: ThroughputRates = RATES,
    **changes: Any,
) -> Decision:
    """One arm at one load; ``told`` None: nothing says what it saves."""
    about = told or GAINED
    level = MapLevel(load, 3, "eagle3 K=3", about, 3, rates)
    throughput = told is not None and told.metric == "output_throughput"
    values: dict[str, Any] = {
        "subject": SUBJECT, "traffic": DecidedTraffic("code"), "objective": "throughput",
        "answer": "yes", "arm": "eagle3 K=3", "method": "eagle3", "num_speculative_tokens": 3,
        "k_kind": "fixed", "table": None, "operating": level,
        "levels": (level,), "arms": (ArmAtLoad(load, "eagle3 K=3", "eagle3", 3, about, True, 3, (), rates),),
        "at_stake": 0.0, "rivals": (), "settle": (), "against": (), "excluded": (),
        "saving": saved(load, about) if throughput else None, "forgone": (), "doubts": (),
        "config": None, "serve": None, "headline": "", "paragraph": "",
    }  # fmt: skip
    return Decision(**(values | changes))


def money(one: Decision, terms: Terms | None = None) -> DecisionCost:
    """Of one decision."""
    (found,) = cost(Decisions((one,)), terms or Terms(PAID)).rows
    return found


def test_costs_are_the_baseline_s_and_what_the_decision_saves_of_it() -> None:
    found = money(decision())

    assert found.decision.saving == decision().saving
    assert found.baseline is not None
    assert found.baseline.cost is not None
    assert found.speculative is not None
    assert found.speculative.cost is not None
    assert found.baseline.cost.usd_per_million_output_tokens == pytest.approx(1.0)
    assert found.speculative.cost.usd_per_million_output_tokens == pytest.approx(0.8)
    # Three tokens in all for each output token, with either arm.
    assert found.speculative.cost.usd_per_million_total_tokens == pytest.approx(0.8 / 3)
    assert found.usd_saved_per_million is not None
    assert found.usd_saved_per_million.value == pytest.approx(0.2)
    assert found.usd_saved_per_million.low == pytest.approx(1 - 1 / 1.1)
    assert found.usd_saved_per_million.word == GAIN
    assert "1.000 → 0.8000 USD per million" in found.headline
    assert found.headline.startswith(
        "At 16 at once on code, with eagle3 K=3: An output token costs"
    )


def test_the_point_of_the_curve_where_it_is_costed_says_the_same() -> None:
    found = money(decision())

    base, arm = found.curve
    assert (base.arm, base.usd_per_million_output_tokens) == (None, pytest.approx(1.0))
    assert arm.operating
    assert arm.usd_per_million_output_tokens == pytest.approx(0.8)
    assert (arm.low, arm.high) == (pytest.approx(1 / 1.4), pytest.approx(1 / 1.1))


def test_a_million_tokens_cost_so_much_with_and_without_whatever_is_taken() -> None:
    taken = money(decision())
    lost = difference(-0.2, -0.3, -0.1, LOSS)
    off = MapLevel(AT_16, 0, "eagle3 K=3", lost, 3, RATES)
    left = money(decision(lost, operating=off, saving=None))
    waits = money(decision(difference(0.3, 0.2, 0.4, metric="itl", statistic="p95")))

    start = "A million output tokens cost 1.000 USD without drafts and"
    end = "with eagle3 K=3 at 16 at once on code (3.60 USD an hour for a GPU)."
    # 25 % more tokens for the same money; drafts that are not taken would cost 1 / 0.8.
    assert with_and_without(taken) == f"{start} 0.8000 USD {end}"
    assert with_and_without(left) == f"{start} 1.250 USD {end}"
    assert with_and_without(waits) == f"{start} an unknown amount {end}"


@pytest.mark.parametrize(
    ("terms", "rates"), [(Terms(), RATES), (Terms(PAID), ThroughputRates())], ids=["price", "speed"]
)
def test_what_a_million_tokens_cost_is_not_known_without_a_price_or_a_speed(
    terms: Terms, rates: ThroughputRates
) -> None:
    found = money(decision(rates=rates), terms)

    assert with_and_without(found) == (
        "What a million output tokens cost with drafts and without is not known."
    )


def test_a_demand_takes_whole_gpus_for_its_peak_whatever_the_utilisation() -> None:
    # 10,000 tokens/s at the peak: 10 servers of 1,000, 8 of 1,250; at 1,100 still 10, at 1,400 8.
    demand = Demand(86_400 * 5000, peak_to_mean=2)
    one, other = (
        money(decision(), Terms(replace(PAID, utilisation=busy), demand)) for busy in (1.0, 0.5)
    )

    for found in (one, other):
        assert found.gpus_saved is not None
        assert (found.gpus_saved.value, found.gpus_saved.low, found.gpus_saved.high) == (2, 0, 2)
        assert found.usd_saved_per_year is not None
        assert found.usd_saved_per_year.value == pytest.approx(2 * 3.6 * 8760)
    assert one.baseline is not None
    assert one.baseline.fleet is not None
    assert one.baseline.fleet.busy == pytest.approx(0.5)
    assert other.baseline is not None
    assert other.baseline.cost is not None
    # Utilisation is of the cost of a token alone.
    assert other.baseline.cost.usd_per_million_output_tokens == pytest.approx(2.0)
    assert other.decision.saving == one.decision.saving


@pytest.mark.parametrize(
    ("told", "tokens_per_second", "word"),
    [
        # 100 servers or 91 even at the low end: as settled as the throughput.
        (difference(0.25, 0.10, 0.40), 100_000, GAIN),
        # 5 servers become 4 as expected and within 90 %, but not at the low end.
        (difference(0.25, 0.15, 0.36), 4_700, LIKELY_GAIN),
        # 5 become 4 as expected, but not even at the 90 % end.
        (difference(0.25, 0.10, 0.40), 4_800, OPEN),
        # One server either way.
        (difference(0.25, 0.10, 0.40), 900, OPEN),
        # A gain that is likely is never surer in money.
        (difference(0.25, 0.10, 0.40, LIKELY_GAIN), 100_000, LIKELY_GAIN),
        (difference(0.25, -0.10, 0.60, OPEN), 100_000, OPEN),
        (difference(-0.2, -0.25, -0.15, LOSS), 100_000, LOSS),
    ],
)
def test_a_year_is_as_sure_as_the_whole_gpus_that_it_takes(
    told: ArmDifference, tokens_per_second: float, word: Word
) -> None:
    found = money(decision(told), Terms(PAID, Demand(86_400 * tokens_per_second)))

    assert found.usd_saved_per_year is not None
    assert found.usd_saved_per_year.word == word


def test_as_many_gpus_either_way_is_said() -> None:
    found = money(decision(), Terms(PAID, Demand(86_400), investment_usd=100.0))

    assert "both take 1 GPU, so nothing is saved a year" in found.headline
    assert found.break_even is not None
    assert found.break_even.hours is None
    told = break_evens([found])[1][0]
    assert "100 USD are never paid back: the demand takes as much hardware either way" in told


def test_what_costs_more_never_pays_an_investment_back() -> None:
    lost = money(decision(difference(-0.2, -0.25, -0.15, LOSS)), Terms(PAID, investment_usd=100.0))
    row = break_evens([lost])[1][0]
    assert any(text.endswith("100 USD are never paid back") for text in row), row


def test_an_investment_is_paid_back_by_tokens_and_hours() -> None:
    found = money(decision(), Terms(PAID, investment_usd=90.0))

    assert found.break_even is not None
    assert found.break_even.tokens == pytest.approx(450e6)
    # An hour of the one arm does what takes the other 1.25 hours: 0.9 USD saved.
    assert found.break_even.hours == pytest.approx(100.0)
    told = break_evens([found])[1][0]
    assert "90 USD are paid back after 450 million output tokens, or 100 hours" in told


def test_at_a_rate_that_all_keep_up_with_nothing_is_saved_and_that_is_said() -> None:
    waits = difference(0.3, 0.2, 0.4, metric="request_latency", statistic="p50")
    found = money(decision(waits, Load("poisson", 8.0)), Terms(PAID, Demand(9e9)))

    assert found.decision.saving is None
    assert found.usd_saved_per_year is None
    assert "At 8 requests/s (Poisson) on code every arm keeps up" in found.headline
    assert "what differs is latency" in found.missing[0]
    assert found.baseline == found.speculative
    assert found.curve == ()


def test_at_a_rate_that_an_arm_misses_throughput_is_money_again() -> None:
    found = money(decision(load=Load("constant", 8.0)))

    assert found.decision.saving is not None
    assert found.headline.startswith("At 8 requests/s on code")


def test_between_two_measured_loads_only_the_share_is_said() -> None:
    load, below = Load("concurrency", 12.0), Load("concurrency", 8.0)
    between = MapLevel(load, 3, "eagle3 K=3", GAINED, 3, stands_for=below)
    found = money(decision(operating=between, saving=saved(between.load, GAINED)))

    assert found.decision.saving is not None
    assert found.baseline is None
    assert found.headline.startswith(
        "At 12 at once (not measured: the figures are those of 8 at once) on code, with eagle3 K=3: An output token"
    )
    assert "costs 20.0\u202f% less" in found.headline
    assert "USD per million" not in found.headline
    assert "output throughput was not measured" in found.missing[0]


def test_a_throughput_that_nobody_measured_has_no_price() -> None:
    found = money(decision(rates=ThroughputRates()))

    assert found.baseline is None
    assert found.usd_saved_per_million is None
    assert "output throughput was not measured" in found.missing[0]


def test_where_another_metric_judges_no_saving_is_said() -> None:
    waits = difference(0.3, 0.2, 0.4, metric="itl", statistic="p95")
    found = money(decision(waits))

    assert found.decision.saving is None
    assert "judged by another metric" in found.missing[0]
    assert found.speculative is None
    assert found.baseline is not None


def test_where_drafting_nothing_is_best_that_is_said() -> None:
    level = MapLevel(AT_16, 0, "eagle3 K=3", difference(-0.1, -0.2, -0.05, LOSS), 3, RATES)
    found = money(decision(difference(-0.1, -0.2, -0.05, LOSS), operating=level, saving=None))

    assert (
        "nothing is drafted, so nothing is saved. Left on there, an output token would"
        in found.headline
    )


@pytest.mark.parametrize(
    ("about", "paying", "words"),
    [
        (SUBJECT, Paying(), "No price is known for B17; give --usd-per-hour"),
        (replace(SUBJECT, gpu=None), Paying(), "No price is known for an unknown GPU"),
        (
            replace(SUBJECT, gpu_count=None, tensor_parallel_size=None),
            Paying(usd_per_hour=10.0, gpus_per_instance=8),
            "give --gpus-used",
        ),
    ],
)
def test_without_a_basis_the_share_is_said_and_what_to_give(
    about: DecisionSubject, paying: Paying, words: str
) -> None:
    terms = Terms(paying, Demand(1e9), investment_usd=5.0)
    found = cost(Decisions((decision(subject=about),)), terms)

    (row,) = found.rows
    assert row.basis is None
    assert row.usd_saved_per_year is None
    assert row.break_even is None
    assert any(words in note for note in found.notes)
    assert "costs 20.0\u202f% less" in found.headline
    assert steps(row, terms)[1] == []
    for header, rows in (costs(found.rows), demands(found.rows)):
        assert len(rows[0]) == len(header)
        assert "unknown" in rows[0]


def test_json_holds_null_for_what_is_unknown_and_never_nan() -> None:
    nothing = replace(SUBJECT, gpu=None, model=None, gpu_count=None, tensor_parallel_size=None)
    one_launch = difference(0.25, None, None, OPEN)
    told = cost(Decisions((decision(one_launch, subject=nothing), decision(None))), Terms(Paying()))

    first, second = json.loads(json.dumps(costs_json(told), allow_nan=False))["costs"]
    assert (first["model"], first["basis"], first["saving"]["low"]) == (None, None, None)
    assert first["baseline"]["usd_per_million_output_tokens"] is None
    assert second["saving"] is None


def test_fewer_tokens_in_all_than_output_tokens_is_no_price() -> None:
    found = money(decision(rates=ThroughputRates(1000.0, 900.0, 1300.0, 1200.0)))

    assert found.baseline is not None
    assert found.baseline.cost is not None
    assert found.baseline.total_throughput is None
    assert found.baseline.cost.usd_per_million_total_tokens is None


def test_the_steps_end_in_the_figures_of_the_table() -> None:
    terms = Terms(PAID, Demand(86_400 * 5000, peak_to_mean=2))
    found = money(decision(), terms)

    told = {what: both for what, _, *both in steps(found, terms)[1]}
    assert told["cost of a million output tokens"][1].endswith("= 0.8000 USD")
    assert told["saved"][1] == "+20.0\u202f%"
    assert told["GPUs"] == ["10 × 1 = 10", "8 × 1 = 8"]
    assert told["busy"][0] == "50%"
    assert told["saved a year"][1] == f"{2 * 3.6 * 8760:,.0f} USD"


def test_numbers_of_no_gpu_are_said_to_be_none() -> None:
    about = replace(SUBJECT, evidence="cpu")

    notes = cost(Decisions((decision(subject=about),)), Terms(PAID)).notes

    assert "Measured on a CPU: this is no price of a GPU's work." in notes


def test_without_a_decision_the_reason_stands_there() -> None:
    found = cost(Decisions((), "No pair of cells can be compared."), Terms())

    assert found.rows == ()
    assert found.why_none == "No pair of cells can be compared."


@pytest.mark.parametrize("spent", [-1.0, float("nan")])
def test_an_investment_that_cannot_be_is_refused(spent: float) -> None:
    with pytest.raises(InvalidInput, match="investment"):
        money(decision(), Terms(PAID, investment_usd=spent))
