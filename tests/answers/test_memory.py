"""What a draft takes from the KV cache: what fits, what queues, and from where on that costs more than it saves."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.money.cost import at_once, worse_from
from analysis.money.paying import Paying
from answers.cost.answer import cost, with_memory
from answers.cost.values import CacheRoom, DecisionCost, Terms
from answers.cost.words import room, rooms
from answers.decide.answer import decide
from answers.decide.values import DecideQuestion
from warehouse.rows import Cell, Measurement, Source
from warehouse.store import Reader, open_writer

BASELINE = [(64.0, 1000.0), (128.0, 1800.0), (256.0, 3000.0)]
ARM = [(load, 1.3 * made) for load, made in BASELINE]
#: One that is full at 100 at once, which 128 and 256 tell.
FULL = [(64.0, 1300.0), (128.0, 1898.1), (256.0, 1898.1)]


def test_between_two_loads_throughput_lies_on_a_line_of_logarithms() -> None:
    assert at_once(128, BASELINE) == pytest.approx(1800)
    # The middle of the logarithms: 128 / 2 ** 0.5, and 1000 * 1.8 ** 0.5.
    assert at_once(64 * 2**0.5, BASELINE) == pytest.approx(1000 * 1.8**0.5)
    assert at_once(64, BASELINE[:1]) == pytest.approx(1000)
    assert (at_once(63, BASELINE), at_once(257, BASELINE), at_once(1, [])) == (None, None, None)


def test_the_baseline_makes_more_from_the_load_at_which_it_passes_a_full_arm() -> None:
    # The arm is full at 100 and makes 1300 * 1.8 ** log2(100 / 64) = 1,898 there; the baseline makes
    # that with 128 * 2 ** (log(1898 / 1800) / log(3000 / 1800)) = 137.5 at once.
    assert worse_from((200, 100), BASELINE, ARM) == 138
    assert worse_from((137, 100), BASELINE, ARM) is None
    assert worse_from((200, 300), BASELINE, ARM) is None


@pytest.fixture
def measured(
    make_source: Callable[..., Source], make_cell: Callable[..., Cell], warehouse_path: Path
) -> Callable[..., DecisionCost]:
    """What a study costs whose servers hold so many tokens, at loads 64, 128 and 256; requests of 10,000 tokens."""

    def of(
        caches: tuple[float | None, float | None], asked: int | None = None,
        prompts: float | None = 9000.0, arm: list[tuple[float, float]] = ARM, **said: Any,
    ) -> DecisionCost:  # fmt: skip
        with open_writer(warehouse_path) as writer:
            for repeat, (side, (method, k)) in itertools.product(
                range(3), enumerate((("none", None), ("eagle3", 3)))
            ):
                source = make_source(f"{repeat} {method}")
                luck = 1 + repeat / 500
                cells = []
                for index, (load, made) in enumerate(arm if side else BASELINE):
                    facts = said | {
                        "spec_method": method, "num_speculative_tokens": k, "concurrency": int(load),
                        "repeat": repeat, "launch": f"{method}-{repeat}",
                    }  # fmt: skip
                    values = {
                        "output_throughput": made * luck, "total_throughput": 10 * made * luck,
                        "itl": 10 / luck, "prompt_tokens": prompts, "output_tokens": 1000.0,
                        "kv_cache_tokens": caches[side],
                    }  # fmt: skip
                    rows = tuple(
                        Measurement("canonical", name, "mean", value)
                        for name, value in values.items() if value is not None
                    )  # fmt: skip
                    cells.append(make_cell(source, index, 1.0, facts, measurements=rows))
                writer.add(source, cells)
            writer.commit()
        with Reader(warehouse_path) as reader:
            terms = Terms(Paying(usd_per_hour=3.6), request_tokens=asked)
            return with_memory(reader, cost(decide(reader, DecideQuestion()), terms)).rows[0]

    return of


def test_what_queues_and_costs_more_is_said_with_its_load(
    measured: Callable[..., DecisionCost],
) -> None:
    row = measured((2_000_000.0, 1_000_000.0), arm=FULL)

    assert row.memory is not None
    assert (row.memory.fit, row.memory.worse_from, row.memory.why_unknown) == (
        (200, 100),
        138,
        None,
    )
    said = room(row.arm, row.memory)
    assert (
        "leaves 50.0\u202f% less room in the KV cache: 1,000,000 tokens, 2,000,000 without" in said
    )
    assert "Of requests of 10,000 tokens 100 fit at once instead of 200 (computed)" in said
    assert "from 138 at once queueing costs more than the draft saves" in said
    assert row.memory.usd_per_million is not None
    old, new = row.memory.usd_per_million
    assert old < new


def test_what_was_measured_while_requests_waited_stands_before_what_is_computed(
    measured: Callable[..., DecisionCost],
) -> None:
    """Only 100 fit, and yet it makes 30 % more at 256, as the table says. With longer requests nobody measured that."""
    row, longer = (measured((2_000_000.0, 1_000_000.0), asked) for asked in (None, 12_000))

    assert row.decision.operating.difference.improvement == pytest.approx(0.3, abs=0.01)
    assert row.memory is not None
    assert row.memory.worse_from is None
    assert row.memory.throughput is not None
    assert row.memory.throughput[1] / row.memory.throughput[0] == pytest.approx(1.3, abs=0.01)
    assert "makes more all the same" in room(row.arm, row.memory)
    assert longer.memory is not None
    assert (longer.memory.fit, longer.memory.worse_from) == ((166, 83), 114)


def test_a_load_from_which_it_costs_more_is_told_though_the_last_that_fits_was_not_measured(
    measured: Callable[..., DecisionCost],
) -> None:
    row = measured((4_000_000.0, 1_000_000.0), arm=FULL)

    assert row.memory is not None
    assert (row.memory.fit, row.memory.worse_from, row.memory.throughput) == (
        (400, 100),
        138,
        None,
    )
    assert room(row.arm, row.memory).endswith(
        "from 138 at once queueing costs more than the draft saves (means between measured loads, without an interval)."
    )


def test_requests_of_which_no_length_is_known_are_not_taken_for_as_long_as_the_readers(
    measured: Callable[..., DecisionCost],
) -> None:
    row = measured((2_000_000.0, 1_000_000.0), 10_000, prompts=None)

    assert row.memory is not None
    assert row.memory.throughput is None
    assert row.memory.why_unknown == "throughput was measured with requests of unknown tokens"


def test_an_arm_that_makes_more_although_it_queues_is_said_to(
    measured: Callable[..., DecisionCost],
) -> None:
    row = measured((1_050_000.0, 1_000_000.0))

    assert row.memory is not None
    assert row.memory.worse_from is None
    assert "from 101 on it queues, and makes more all the same" in room(row.arm, row.memory)


@pytest.mark.parametrize(
    ("caches", "asked", "why"),
    [
        ((9_000_000.0, 4_000_000.0), None, "throughput was measured at 64 to 256 at once"),
        (
            (2_000_000.0, 1_000_000.0),
            1000,
            "throughput was measured with requests of 10,000 tokens",
        ),
    ],
)
def test_what_was_not_measured_is_unknown(
    measured: Callable[..., DecisionCost], caches: tuple[float, float], asked: int | None, why: str
) -> None:
    row = measured(caches, asked)

    assert row.memory is not None
    assert (row.memory.throughput, row.memory.worse_from, row.memory.why_unknown) == (
        None,
        None,
        why,
    )
    assert f"what that costs is unknown, since {why}." in room(row.arm, row.memory)


def test_an_arm_that_makes_less_before_it_queues_is_not_said_to_save() -> None:
    slow = [(load, 0.7 * made) for load, made in BASELINE]
    assert worse_from((200, 100), BASELINE, slow) == 100
    said = room("k", CacheRoom((2e6, 1e6), 1e4, (200, 100), (2500.0, 1000.0), 100))
    assert "it makes less before any has to wait (1,000 output tokens/s with it, 2,500" in said
    assert "saves" not in said


def test_requests_that_one_server_alone_has_room_for_are_said_to_be_served_by_it_alone(
    measured: Callable[..., DecisionCost],
) -> None:
    row = measured((2_000_000.0, 1_000_000.0), 1_500_000)
    assert row.memory is not None
    said = room(row.arm, row.memory)
    assert said.endswith("0 fit at once instead of 1 (computed): it serves none of them.")


def test_a_server_that_does_not_tell_its_cache_has_no_room_to_speak_of(
    measured: Callable[..., DecisionCost],
) -> None:
    assert measured((2_000_000.0, None)).memory is None


def test_no_more_requests_fit_than_a_server_takes(measured: Callable[..., DecisionCost]) -> None:
    row = measured((2_000_000.0, 1_000_000.0), server_args={"max_num_seqs": 64})

    assert row.memory is not None
    assert row.memory.fit == (64, 64)
    assert room(row.arm, row.memory).endswith("none has to wait for it.")


def test_a_cache_as_large_is_said_to_be_so() -> None:
    said = room("ngram K=3", CacheRoom((1000.0, 995.0), 10.0, (100, 99)))

    assert said.startswith("ngram K=3 takes no room from the KV cache that is worth telling")


def test_of_several_models_each_sentence_names_its_own(
    measured: Callable[..., DecisionCost],
) -> None:
    row = measured((2_000_000.0, 1_000_000.0))
    about = replace(row.decision.subject, model="acme/other", tensor_parallel_size=2)
    other = replace(row, decision=replace(row.decision, subject=about))

    assert [*rooms([row])] == [room(row.arm, row.memory)] if row.memory else False
    first, second = rooms([row, other])
    assert first.startswith(f"{row.decision.subject.model} on ")
    assert second.startswith(f"acme/other on {about.gpu}, TP 2: eagle3 K=3 leaves")
