"""What is said of a minute of recorded counters where load, K or acceptance is another than was measured."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.drafts.acceptance import Counters
from answers.decide.answer import decide_on, grounds
from answers.decide.values import DecideQuestion, RunningServer
from answers.live.answer import live
from answers.live.values import LiveQuestion, figures
from tests.truth.standing import TRAFFIC, answered, seen
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.store import Reader

pytestmark = pytest.mark.slow
STRUCTURED, _, PROSE, _, CODE, CODE_16 = TRAFFIC
SAME = seen(STRUCTURED.recorded, 1)


@pytest.fixture(scope="module")
def reader(examples: Path) -> Iterator[Reader]:
    with Reader(examples) as opened:
        yield opened


def blocks(k: int, accepted: tuple[float, ...]) -> tuple[Counters, ...]:
    """A minute in which so many of 1,000 drafts of K tokens are accepted at each position."""
    return (Counters(1000, 1000 * k, sum(accepted), accepted),) * 12


def test_more_in_flight_than_was_measured_cannot_be_said(reader: Reader) -> None:
    told = answered(reader, STRUCTURED, replace(SAME, in_flight=21.0))
    assert told.standing == "cannot say"
    assert told.why == "at 21 at once nothing was measured, only at 1 to 16 at once"
    assert told.takes is None
    assert answered(reader, STRUCTURED, replace(SAME, in_flight=19.0)).standing == "holds"


def test_an_idle_server_cannot_be_judged_with_drafts_or_without(reader: Reader) -> None:
    for at_all, made in ((True, "drafted"), (False, "generated")):
        idle = replace(SAME, blocks=(), drafts_at_all=at_all, generated=100.0 * at_all)
        told = answered(reader, STRUCTURED, idle)
        assert (told.standing, told.why) == ("cannot say", f"nothing was {made} in 3 min")


def test_between_two_loads_it_has_to_be_right_at_both(reader: Reader) -> None:
    code = seen(CODE.recorded, 3)
    told = answered(reader, CODE, replace(code, in_flight=8.0))
    assert (told.standing, [load.value for load in told.measured_at]) == ("cannot say", [4, 16])
    assert "at 16 at once draft_model K=2 is better than draft_model K=5" in told.why
    structured = answered(reader, STRUCTURED, replace(SAME, in_flight=8.0))
    assert (structured.standing, len(structured.measured_at)) == ("holds", 2)


def test_between_two_loads_the_smaller_gain_is_told(reader: Reader) -> None:
    four, sixteen, between = (
        answered(reader, STRUCTURED, replace(SAME, in_flight=load)) for load in (4.0, 16.0, 8.0)
    )
    assert None not in (four.told, sixteen.told)
    assert between.told == pytest.approx(min(four.told or 0, sixteen.told or 0))
    assert four.told != pytest.approx(sixteen.told)
    assert (
        figures(between)[1][-1][-1] == "measured at 4 at once and 16 at once, the smaller of both"
    )
    less = 4 if (four.told or 0) < (sixteen.told or 0) else 16
    assert between.why.endswith(f"as measured at {less} at once")


def test_a_k_that_another_one_beats_at_this_load_does_not_hold(reader: Reader) -> None:
    three = replace(SAME, blocks=blocks(3, (950, 900, 850)))
    told = answered(reader, STRUCTURED, three)
    assert (told.standing, told.running, told.takes) == (
        "no longer holds", "draft_model K=3", "draft_model K=5",
    )  # fmt: skip
    assert told.why == "at 1 at once draft_model K=5 is better than draft_model K=3"


def test_where_a_smaller_k_is_better_at_the_load_seen_it_is_named_with_its_flag(
    reader: Reader,
) -> None:
    told = answered(reader, CODE_16, seen(CODE_16.recorded, 1))
    assert told.standing == "no longer holds"
    assert told.takes == "draft_model K=2"
    assert told.config is not None
    assert '"num_speculative_tokens": 2' in told.config or "per_batch_size" in told.config


def test_a_k_that_was_not_measured_cannot_be_judged(reader: Reader) -> None:
    four = replace(seen(CODE.recorded, 1), blocks=blocks(4, (600, 400, 300, 200)))
    told = answered(reader, CODE, four)
    assert (told.standing, told.running) == ("cannot say", None)
    assert told.why.startswith("it drafts 4 tokens, which was not measured; the decision takes")


def test_more_accepted_holds_where_the_traffic_that_has_it_says_so(reader: Reader) -> None:
    on_prose = replace(STRUCTURED, dataset="prose")
    told = answered(reader, on_prose, SAME)
    assert told.standing == "holds"
    assert "as on structured" in told.why
    assert told.acceptance is not None
    assert (told.acceptance.moved, told.acceptance.like) == ("more", "structured")


def test_more_accepted_than_on_any_traffic_is_open_where_a_larger_k_was_measured(
    reader: Reader,
) -> None:
    on_prose = answered(
        reader, replace(CODE, dataset="prose"), replace(SAME, blocks=blocks(2, (990, 985)))
    )
    assert on_prose.standing == "cannot say"
    assert (
        "whether draft_model K=3 and draft_model K=5 gains more now was not measured"
        in on_prose.why
    )


def test_fewer_accepted_than_on_any_traffic_is_judged_with_the_tokens_of_now(
    reader: Reader,
) -> None:
    little = replace(SAME, blocks=blocks(5, (300, 60, 10, 2, 0)))
    told = answered(reader, STRUCTURED, little)
    assert told.standing == "no longer holds"
    assert told.instead.startswith(
        "With the tokens of now, of K up to 5, the decision drafts nothing"
    )
    assert told.takes == "baseline"
    assert told.told is not None
    assert told.now is not None
    assert told.now == pytest.approx((1 + told.told) * 1.372 / 5.0, abs=1.08)


def test_the_arm_that_runs_can_be_named(reader: Reader) -> None:
    three = replace(SAME, blocks=blocks(3, (900, 850, 800)))
    asked = DecideQuestion(Filters(study=("laptop-lab",), dataset=("structured",)), load=1)
    known = live(reader, LiveQuestion(asked, ("lab-target",), three))
    assert known.running == "draft_model K=3"
    named = replace(asked, filters=replace(asked.filters, arm=("ngram K=3",)))
    assert live(reader, LiveQuestion(named, ("lab-target",), three)).running == "ngram K=3"
    wrong = replace(asked, filters=replace(asked.filters, arm=("eagle3 K=3",)))
    with pytest.raises(
        InvalidInput, match="--arm names the arm that runs, one of: draft_model K=1"
    ):
        live(reader, LiveQuestion(wrong, ("lab-target",), three))


def test_of_several_subjects_one_has_to_be_named(reader: Reader) -> None:
    with pytest.raises(InvalidInput, match="name the one in production with --study"):
        live(reader, LiveQuestion(DecideQuestion(), ("lab-target", "lab-target-costly"), SAME))


def test_a_mix_is_held_against_its_shares(reader: Reader) -> None:
    asked = DecideQuestion(
        Filters(study=("laptop-lab",)), load=1, mix=(("prose", 0.1), ("structured", 0.9))
    )
    told = live(reader, LiveQuestion(asked, ("org/lab-target",), SAME))
    assert told.acceptance is not None
    assert told.traffic == "10 % prose + 90 % structured"
    # Of 100 tokens 10 take 4.0 steps and 90 take 17.8.
    assert told.acceptance.change.measured == pytest.approx(4.60, abs=0.03)
    assert [row[0] for row in figures(told)[1]] == ["arm", "tokens a step", "in flight", "gain"]


def test_with_other_tokens_a_step_the_decision_scales_the_gains_that_were_measured(
    reader: Reader,
) -> None:
    asked = DecideQuestion(Filters(study=("laptop-lab",)), load=1.0)
    known = grounds(reader, asked)

    def gains(lengths: tuple[float, ...]) -> dict[str, float]:
        family = next(x.method for x in plain.arms if x.arm == "draft_model K=2")
        found = decide_on(known, asked, RunningServer("draft_model K=2", family, lengths))
        (one,) = (x for x in found.decisions if x.traffic == plain.traffic)
        taken.append(one.operating.arm)
        return {x.arm: x.difference.improvement or 0 for x in one.arms if x.load.value == 1}

    taken: list[str] = []
    plain = next(x for x in decide_on(known, asked).decisions if x.traffic.dataset == "structured")
    full, half = gains((2.0, 2.8)), gains((1.0, 1.4))
    for arm in ("draft_model K=1", "draft_model K=2"):
        assert 1 + half[arm] == pytest.approx((1 + full[arm]) / 2, rel=1e-6)
    # Of larger K and other methods nothing is known then: none is taken.
    assert half["draft_model K=5"] == full["draft_model K=5"] > full["draft_model K=2"]
    assert set(taken) <= {"draft_model K=1", "draft_model K=2"}
