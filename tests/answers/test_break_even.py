"""From which acceptance on a draft pays: told by what steps cost, held against what real drafts yield."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from answers.decide.answer import decide
from answers.decide.values import DecideQuestion
from answers.predict.break_even import (
    BreakEven,
    PaysFrom,
    break_evens,
    break_evens_json,
    table,
)
from answers.predict.values import RefusedForecast, title
from tests.dashboard.conftest import source
from tests.dashboard.tuning.conftest import LOADS, arm, fill_study, laws, tuned_cell
from warehouse.contract import Facts
from warehouse.filters import Filters
from warehouse.rows import Acceptance, Flag, Measurement
from warehouse.store import Reader, open_writer

#: K -> the acceptance that its arm sets by hand: no draft of ``laws`` has any of them.
RATES = {1: [0.3], 2: [0.9, 0.2], 4: [0.5, 0.4, 0.3, 0.1]}
BY_HAND = Flag("synthetic_acceptance", "error", "Acceptance was set by hand here, not measured.")


def slower(k: int, load: int, length: float) -> tuple[Measurement, ...]:
    """What ``laws`` would measure with other tokens of a step: the same steps yield so many."""
    own = laws("code", k, load)
    itl = own["itl"] * own.get("mean_acceptance_length", 1.0) / length
    latency = (own["ttft"] + (own["output_tokens"] - 1) * itl) / 1000
    changed = {"itl": itl, "request_latency": latency, "mean_acceptance_length": length,
               "output_throughput": load * own["output_tokens"] / latency}  # fmt: skip
    return tuple(Measurement("canonical", m, "mean", v) for m, v in (own | changed).items())


def cells(name: str, ks: tuple[int, ...], loads: tuple[int, ...], **changes: Any) -> Iterator[Any]:
    """The baseline and arms with acceptance set by hand, without noise."""
    base = {"model": "lab/target", "engine": "vllm", "engine_version": "0.32.0", "gpu": "H200",
            "gpu_count": 1, "tensor_parallel_size": 1, "load_profile": "concurrent", "dataset": "code",
            "evidence": "gpu", "precision": "bfloat16", "request_format": "chat_completions"}  # fmt: skip
    for index, (k, load) in enumerate(product(ks, loads)):
        known = (
            base | arm(k) | {"concurrency": load, "repeat": 1, "prompt_set_hash": f"{load:032x}"}
        )
        made: dict[str, Any] = {}
        if k:
            config = {
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_rates": RATES[k],
            }
            known |= {"speculative_config": config, "synthetic_acceptance": True}
            length, accepted = 1 + sum(RATES[k]), round(1000 * sum(RATES[k]))
            made = {
                "flags": (BY_HAND,), "measurements": slower(k, load, length),
                "acceptance": (Acceptance("counters", 1000, 1000 * k, accepted,
                                          accepted / (1000 * k), length, tuple(RATES[k])),),
            }  # fmt: skip
        yield replace(tuned_cell(name, index, Facts(**known | changes), 1.0), **made)


def fill(
    root: Path, ks: tuple[int, ...] = (0, 1, 2, 4), loads: tuple[int, ...] = LOADS,
    name: str = "hand", **changes: Any,
) -> Path:  # fmt: skip
    origin = source(name)
    with open_writer(root) as writer:
        writer.add(origin, cells(name, ks, loads, **changes))
        writer.commit()
    return root


def told(
    root: Path, k: int | None = None, load: int | None = None, **filters: Any
) -> list[BreakEven | RefusedForecast]:
    with Reader(root) as reader:
        return list(break_evens(reader, Filters(**filters), k, load))


def only(root: Path, k: int | None = None, load: int | None = None) -> BreakEven:
    (found,) = told(root, k, load)
    assert isinstance(found, BreakEven), found
    return found


def refusal(root: Path, k: int | None = None, load: int | None = None) -> str:
    (found,) = told(root, k, load)
    assert isinstance(found, RefusedForecast)
    return found.reason


def at(found: BreakEven, k: int, load: int) -> PaysFrom:
    return next(step for step in found.steps if (step.k, step.concurrency) == (k, load))


def worked(k: int, load: int) -> float:
    """By hand: the tokens of a step at which the time of a request is the baseline's."""
    plain, drafted = laws("code", 0, load), laws("code", k, load)
    step = drafted["itl"] * drafted["mean_acceptance_length"]
    return step * 199 / (plain["request_latency"] * 1000 - drafted["ttft"])


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("by-hand"))


def test_three_arms_with_acceptance_set_by_hand_tell_from_when_on_a_draft_pays(
    by_hand: Path,
) -> None:
    found = only(by_hand)

    assert (found.place.synthetic_acceptance, found.ks, found.real) == (True, (1, 2, 4), ())
    assert [(step.k, step.concurrency) for step in found.steps] == list(product((1, 2, 4), LOADS))
    for step in found.steps:
        assert step.length == pytest.approx(worked(step.k, step.concurrency), rel=0.03)
        assert step.low is not None
        assert step.high is not None
        assert step.low < step.length < step.high
    assert title(found.place) == (
        "draft_model (tiny-draft, acceptance set by hand) on code, lab/target, TP 1, H200 "
        "[synthetic acceptance]"
    )
    assert "arms with acceptance set by hand, K = 1, 2 and 4" in found.stands_on
    assert (
        "Not all were launched more than once, and launches may differ by more" in found.stands_on
    )


def test_launches_are_those_of_the_arm_that_has_fewest(tmp_path: Path) -> None:
    fill(tmp_path)
    fill(tmp_path, (0,), name="again", repeat=2)
    found = only(tmp_path)
    assert (found.launches, "Not all were launched more than once" in found.stands_on) == (1, True)


def test_a_k_and_a_load_between_the_measured_ones_are_told_too(by_hand: Path) -> None:
    (step,) = only(by_hand, 3, 32).steps
    assert step.length == pytest.approx(worked(3, 32), rel=0.03)


def test_real_drafts_tell_it_as_well_and_it_is_said_which(tmp_path: Path) -> None:
    fill_study(tmp_path)
    code, chat = sorted(told(tmp_path), key=lambda one: one.place.dataset)[::-1]
    assert isinstance(code, BreakEven)
    assert (code.place.synthetic_acceptance, code.ks) == (None, (1, 2, 3, 4))
    assert "arms with measured acceptance, K = 1, 2, 3 and 4" in code.stands_on
    assert (code.launches, "launched more than once" in code.stands_on) == (3, False)
    for step in code.steps:
        assert step.length == pytest.approx(worked(step.k, step.concurrency), rel=0.05)
    assert isinstance(chat, BreakEven)


def test_a_real_draft_of_another_machine_and_text_is_held_against_it(tmp_path: Path) -> None:
    fill(tmp_path, dataset="summaries")
    # 2.4 tokens a step on chat and 3.7 on code with K = 4, whatever the load.
    fill_study(tmp_path, ks=(4,), gpu="A100", evidence="gpu", draft_model="elsewhere")
    found, *others = sorted(told(tmp_path), key=lambda one: one.place.gpu != "H200")

    assert isinstance(found, BreakEven)
    assert all("No baseline was measured" in other.reason for other in others)
    pays = worked(4, 64)
    assert 2.4 < pays < 3.7
    said = found.sentence(at(found, 4, 64))
    assert said.startswith("At 64 at once a draft of this size pays from ")
    assert "with K = 4; yours yields" in said
    assert "2.39 on chat (A100): it does not" in said
    assert "3.71 on code (A100): it pays" in said
    assert found.sentence(at(found, 2, 128)).endswith("; no real draft with that K was measured.")
    (row,) = [row for row in table(found)[1] if row[:2] == ["4", "64"]]
    assert "2.39 on chat (A100): does not pay" in row[-1]


def test_what_a_draft_yields_on_another_text_is_left_out_where_it_was_measured_on_this_one(
    tmp_path: Path,
) -> None:
    fill_study(tmp_path)
    found = {one.place.dataset: one for one in told(tmp_path) if isinstance(one, BreakEven)}
    assert {*found} == {"chat", "code"}
    for dataset, one in found.items():
        assert [{*one.yields(step)} for step in one.steps] == [{dataset}] * len(one.steps)


def test_two_drafts_are_told_apart_and_never_averaged(tmp_path: Path) -> None:
    fill(tmp_path, dataset="summaries")
    for draft, gpu in (("org/small", "A100"), ("org/large", "A100")):
        fill_study(tmp_path, ks=(4,), gpu=gpu, evidence="gpu", draft_model=draft)
    found = next(one for one in told(tmp_path) if isinstance(one, BreakEven))
    assert {*found.yields(at(found, 4, 64))} == {
        f"{dataset} (A100, {draft})" for dataset in ("chat", "code") for draft in ("small", "large")
    }


@pytest.mark.parametrize(
    "name", ["synthetic_acceptance", "lossy_verification", "known_defect_shown", "table"]
)
def test_acceptance_that_is_no_draft_s_own_is_not_held_against_it(
    tmp_path: Path, name: str
) -> None:
    fill(tmp_path)
    origin, flag = source(name), Flag(name, "error", "It is not the draft's own.")
    table = {"num_speculative_tokens_per_batch_size": [[1, 8, 4], [9, 64, 2]]}
    known = Facts(
        model="lab/target", engine="vllm", engine_version="0.32.0", gpu="A100", dataset="code",
        evidence="gpu", load_profile="concurrent", concurrency=16, **arm(4),
        speculative_config=table if name == "table" else None,
    )  # fmt: skip
    with open_writer(tmp_path) as writer:
        one = tuned_cell(origin.source_id, 0, known, 1.0)
        writer.add(origin, iter([one if name == "table" else replace(one, flags=(flag,))]))
        writer.commit()
    found = next(one for one in told(tmp_path) if isinstance(one, BreakEven))
    assert found.real == ()


@pytest.mark.parametrize("evidence", ["mock", "dummy_weights"])
def test_what_no_draft_accepted_is_not_held_against_it(tmp_path: Path, evidence: str) -> None:
    fill(tmp_path)
    fill_study(tmp_path, ks=(4,), gpu="A100", evidence=evidence)
    found = [one for one in told(tmp_path) if isinstance(one, BreakEven)]
    assert [one.real for one in found] == [()]


def test_another_method_or_model_is_not_held_against_it(tmp_path: Path) -> None:
    fill(tmp_path)
    fill_study(tmp_path, ks=(4,), gpu="A100", model="other/target")
    fill_study(tmp_path, ks=(4,), gpu="A100", spec_method="eagle3")
    found = [one for one in told(tmp_path) if isinstance(one, BreakEven)]
    assert [one.real for one in found] == [()]


def test_within_the_band_nobody_can_say_whether_it_pays(by_hand: Path) -> None:
    (step,) = only(by_hand, 4, 16).steps
    low, middle, high = step.low or 0.0, step.length or 0.0, step.high or 0.0
    asked = (low - 0.01, (low + middle) / 2, (middle + high) / 2, high + 0.01)
    assert [step.of(length) for length in asked] == [
        "does not pay", "cannot say", "cannot say", "pays",
    ]  # fmt: skip


def test_where_a_step_would_have_to_yield_more_than_it_can_no_draft_pays(by_hand: Path) -> None:
    found = only(by_hand, 4, 128)
    costly = replace(found, steps=(PaysFrom(4, 128, 6.2, 5.9, 6.5),))
    assert costly.sentence(costly.steps[0]) == (
        "At 128 at once no draft of this size pays with K = 4: it would take 6.20 tokens a step "
        "(5.90 to 6.50), and K = 4 yields 5 at most."
    )
    dear = replace(found, steps=(PaysFrom(4, 128, 5.4, 4.6, 6.3),))
    assert dear.sentence(dear.steps[0]).startswith(
        "At 128 at once hardly any draft of this size pays with K = 4: it takes 5.40 tokens a step "
        "(4.60 to 6.30), and K = 4 yields 5 at most; "
    )
    hopeless = replace(found, steps=(PaysFrom(4, 128, None, None, None),))
    assert "its first token alone takes as long as" in hopeless.sentence(hopeless.steps[0])
    assert hopeless.steps[0].of(5.0) == "does not pay"
    assert table(hopeless)[1][0][2:4] == ["never", "–"]


@pytest.mark.parametrize(
    ("ks", "loads", "asked", "words"),
    [
        ((1, 2, 4), LOADS, (None, None), "No baseline was measured"),
        ((0, 1, 2), LOADS, (None, None), "3 draft lengths K of one draft tell what its steps cost, and 2 were measured"),
        ((0, 1, 2, 4), LOADS, (2, 256), "Concurrency of 256 is outside what was measured (1 to 128)."),
        ((0, 1, 2, 4), LOADS, (5, 16), "K of 5 is outside what was measured (1 to 4)."),
        ((0, 1, 2, 4), LOADS, (9, 16), "K of 9 is too far from what was measured"),
    ],
)  # fmt: skip
def test_where_it_cannot_be_said_that_is_said_in_one_sentence(
    tmp_path: Path, ks: tuple[int, ...], loads: tuple[int, ...], asked: Any, words: str
) -> None:
    reason = refusal(fill(tmp_path, ks, loads), *asked)
    assert words in reason
    assert reason.count(". ") == 0


def test_arms_that_differ_in_what_they_set_are_one_family_and_no_real_draft_is_of_it(
    tmp_path: Path,
) -> None:
    fill(tmp_path)
    origin = source("real")
    known = {"model": "lab/target", "engine": "vllm", "engine_version": "0.32.0", "gpu": "H200",
             "gpu_count": 1, "tensor_parallel_size": 1, "load_profile": "concurrent",
             "dataset": "code", "evidence": "gpu", "precision": "bfloat16", "repeat": 1,
             "request_format": "chat_completions", "concurrency": 16,
             "prompt_set_hash": f"{16:032x}"}  # fmt: skip
    with open_writer(tmp_path) as writer:
        writer.add(origin, iter([tuned_cell(origin.source_id, 0, Facts(**known | arm(4)), 1.0)]))
        writer.commit()

    found, refused = sorted(told(tmp_path, 4, 16), key=lambda one: isinstance(one, RefusedForecast))

    assert isinstance(found, BreakEven)
    assert isinstance(refused, RefusedForecast)
    assert (found.ks, refused.place.synthetic_acceptance) == ((1, 2, 4), None)
    assert found.sentence(at(found, 4, 16)).endswith("yours yields 3.71 on code: it pays.")
    # What it stands on decides nothing: one launch of one real arm does.
    with Reader(tmp_path) as reader:
        decided = decide(reader, DecideQuestion(Filters())).decisions
    assert {arm.arm for one in decided for arm in one.arms} == {"draft_model K=4"}


def test_as_json_every_number_stands_with_what_it_stands_on(tmp_path: Path) -> None:
    fill(tmp_path, dataset="summaries")
    fill_study(tmp_path, ks=(4,), gpu="A100", evidence="gpu")
    found = break_evens_json(told(tmp_path))

    (one,) = found["break_even"]
    assert (one["stands_on"], one["launches"]) == ([1, 2, 4], 1)
    assert (one["level"], one["synthetic_acceptance"], one["dataset"]) == (0.9, True, "summaries")
    assert {(step["k"], step["concurrency"]) for step in one["pays_from"]} == set(
        product((1, 2, 4), LOADS)
    )
    last = next(step for step in one["pays_from"] if (step["k"], step["concurrency"]) == (4, 64))
    assert last["headline"].startswith("At 64 at once a draft of this size pays from ")
    assert last["low"] < last["length"] < last["high"]
    assert {row["where"]: row["says"] for row in last["measured"]} == {
        "chat (A100)": "does not pay", "code (A100)": "pays",
    }  # fmt: skip
    assert [row["dataset"] for row in found["refused"]] == ["chat", "code"]
