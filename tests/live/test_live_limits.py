"""``draftboard live`` never says that what runs holds where the decision may not take it, and leaves no figure blank."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.drafts.acceptance import Counters
from analysis.drafts.watched import WatchedTraffic
from answers.decide.answer import decide
from answers.decide.values import DecideQuestion, Decision
from answers.live.answer import live
from answers.live.values import LiveAnswer, LiveQuestion, figures
from warehouse.errors import InvalidInput
from warehouse.filters import Filters
from warehouse.rows import Acceptance, Measurement
from warehouse.store import Reader, open_writer

#: K -> output tokens/s and P95 of the first token (ms) of each launch, beside some noise.
Speeds = Mapping[int, tuple[float, float]]
SLO = "ttft:p95<200ms"
Fill = Callable[..., Path]


@pytest.fixture
def fill(warehouse_path: Path, make_source: Any, make_cell: Any) -> Fill:
    """``fill(speeds, loads, methods, counts)``: three launches of each arm; ``loads``: by K, else 16, ``methods``:
    by K, else eagle3. Half of the drafted tokens are accepted, as the server ``counts``."""

    def build(
        speeds: Speeds, loads: Mapping[int, tuple[int, ...]] | None = None,
        methods: Mapping[int, str] | None = None, counts: bool = True, **facts: Any,
    ) -> Path:  # fmt: skip
        with open_writer(warehouse_path) as writer:
            for k, (speed, first) in speeds.items():
                for launch in range(3):
                    source = make_source(f"{k}-{launch}-{facts}")
                    luck = 1 + 0.0005 * (launch - 1) * (1 if k % 2 else -1)
                    values = (
                        ("output_throughput", "mean", speed * luck),
                        ("ttft", "p95", first / luck),
                    )
                    counted = Acceptance(
                        "counters", 1000, 1000 * k, 500 * k, 0.5, 1 + 0.5 * k, (0.5,) * k
                    )
                    writer.add(source, [
                        make_cell(
                            source, place, flags=(), acceptance=(counted,) if k and counts else (),
                            measurements=tuple(Measurement("canonical", *each) for each in values),
                            facts={"spec_method": (methods or {}).get(k, "eagle3") if k else "none",
                                   "num_speculative_tokens": k or None,
                                   "concurrency": load, "repeat": launch, "launch": f"{k}-{launch}", **facts},
                        )
                        for place, load in enumerate((loads or {}).get(k, (16,)))
                    ])  # fmt: skip
            writer.commit()
        return warehouse_path

    return build


def minute(k: int, accepted: float = 0.5, in_flight: float = 16.0) -> WatchedTraffic:
    """A minute of drafts of K tokens, so many of them accepted."""
    block = Counters(1000, 1000 * k, 1000 * k * accepted, (1000 * accepted,) * k)
    return WatchedTraffic(60, 1, 0, True, (block,) * 12, 1e5, in_flight, in_flight, 0.0, 0.0)


def both(root: Path, seen: WatchedTraffic, **asked: Any) -> tuple[LiveAnswer, Decision]:
    """What is said of the server, and what is decided."""
    question = DecideQuestion(Filters(), **asked)
    with Reader(root) as reader:
        (decided,) = decide(reader, question).decisions
        return live(reader, LiveQuestion(question, ("tiny",), seen)), decided


def test_an_arm_that_misses_the_slo_does_not_hold_where_another_one_meets_it(fill: Fill) -> None:
    root = fill({0: (1000, 100), 1: (1200, 100), 3: (1500, 300)})
    told, decided = both(root, minute(3), slo=SLO)
    assert (decided.answer, decided.operating.arm) == ("yes", "eagle3 K=1")
    assert told.standing == "no longer holds"
    assert told.why == f"at 16 at once eagle3 K=1 is better than eagle3 K=3 under {SLO}"
    assert both(root, minute(3))[0].standing == "holds"


def test_where_no_arm_meets_the_slo_drafting_does_not_hold(fill: Fill) -> None:
    told, decided = both(fill({0: (1000, 100), 3: (1500, 300)}), minute(3), slo=SLO)
    assert not decided.operating.drafts
    assert told.standing == "no longer holds"
    assert told.why.endswith(f"drafting nothing is better than eagle3 K=3 under {SLO}")


def test_where_nothing_meets_the_slo_nothing_is_called_better(fill: Fill) -> None:
    told, _ = both(fill({0: (1000, 250), 3: (1500, 300)}), minute(3), slo=SLO)
    assert told.standing == "cannot say"
    assert "is better than" not in told.why


def test_an_arm_that_gains_nothing_is_not_called_open(fill: Fill) -> None:
    told, decided = both(fill({0: (1000, 100), 3: (999.9, 100)}), minute(3))
    assert decided.answer == "no"
    assert told.standing == "cannot say"
    assert told.why == (
        "at 16 at once eagle3 K=3 is not shown to pay; the decision drafts nothing at 16 at once"
    )


def test_a_gain_that_was_not_measured_is_said_in_words(fill: Fill) -> None:
    root = fill({0: (1000, 100), 3: (1500, 100), 5: (1600, 100)}, {0: (1, 16), 3: (1,), 5: (1, 16)})
    told, _ = both(root, minute(3, accepted=0.1))
    assert told.standing == "no longer holds"
    assert told.why.endswith(": what it gains at this load was not measured")


def test_with_more_accepted_of_the_largest_k_another_method_as_measured_is_not_called_better(
    fill: Fill,
) -> None:
    root = fill({0: (1000, 100), 2: (1700, 100), 3: (1500, 100)}, methods={2: "ngram"})
    assert both(root, minute(3))[0].why.startswith(
        "at 16 at once ngram K=2 is better than eagle3 K=3"
    )
    told, _ = both(root, minute(3, accepted=0.9))
    assert (told.standing, told.takes, told.config) == ("holds", "eagle3 K=3", None)
    # A step yields 3.7 tokens where it yielded 2.5: 1500 x 3.7 / 2.5 = 2220 tok/s.
    assert told.now == pytest.approx(1.22, abs=0.01)
    assert told.why.startswith("a step yields 3.70 tokens where 2.50 were measured on")
    assert told.why.endswith(
        "what the decision takes, +122.0\u202f% with the tokens of now at 16 at once"
    )


def test_no_gain_is_told_of_a_load_beyond_what_was_measured(fill: Fill) -> None:
    root = fill({0: (1000, 100), 3: (1500, 100)})
    for accepted in (0.5, 0.1):
        told, _ = both(root, minute(3, accepted, in_flight=100.0))
        assert told.measured_at == ()
        assert (told.told, told.now, told.takes, told.config) == (None, None, None, None)
        assert figures(told)[1][-1] == ["gain", "unknown", "unknown", "not measured there"]
    assert told.standing == "no longer holds"
    assert told.why.endswith(": what it gains at this load was not measured")


def test_where_acceptance_was_counted_on_other_traffic_alone_nobody_is_told_to_watch_longer(
    fill: Fill,
) -> None:
    for counts, dataset in ((True, "code"), (False, "chat")):
        root = fill({0: (1000, 100), 3: (1500, 100)}, counts=counts, dataset=dataset)
    asked = DecideQuestion(Filters(dataset=("chat",)))
    with Reader(root) as reader:
        told = live(reader, LiveQuestion(asked, ("tiny",), minute(3)))
    assert (told.standing, told.instead) == ("cannot say", "")
    assert told.why == "acceptance of eagle3 K=3 on chat is unknown"


def test_an_arm_that_drafts_other_tokens_than_the_server_is_not_taken_to_run(fill: Fill) -> None:
    root = fill({0: (1000, 100), 1: (1200, 100), 3: (1500, 100)})
    named = Filters(arm=("eagle3 K=3",))
    with Reader(root) as reader, pytest.raises(InvalidInput, match="; the server's K is 1"):
        live(reader, LiveQuestion(DecideQuestion(named), ("tiny",), minute(1)))
    with Reader(root) as reader:
        question = LiveQuestion(DecideQuestion(named), ("tiny",), minute(3))
        assert live(reader, question).running == "eagle3 K=3"
        idle = replace(minute(3), blocks=())
        told = live(reader, LiveQuestion(DecideQuestion(named), ("tiny",), idle))
    assert told.why == "nothing was drafted in 60 s"


def test_of_a_burst_it_is_said_that_it_fills_a_part_of_the_time(fill: Fill) -> None:
    root = fill({0: (1000, 100), 3: (1500, 100)})
    told, _ = both(root, replace(minute(3), blocks=minute(3).blocks[:3]))
    assert told.standing == "cannot say"
    assert told.why.startswith("3,000 drafts in 3 of 12 parts of 60 s are too few")


def test_a_load_that_was_measured_on_several_engines_is_that_of_all(fill: Fill) -> None:
    root = fill({0: (1000, 100), 3: (1500, 100)}, server_args={"data-parallel-size": 4})
    told, _ = both(root, minute(3, in_flight=4.0))
    assert ([load.value for load in told.measured_at], told.standing) == ([16], "holds")
    assert "at 16 at once" in told.why
    assert figures(told)[1][2][1:] == [
        "16.0",
        "16",
        "up to 16 in each replica; 0.0 waiting, 0 preemptions",
    ]
