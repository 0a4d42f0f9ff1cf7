"""Speed with broken answers decides nothing: from files to the verdict, and what Compare flags."""

import json
from pathlib import Path
from typing import Any

import pytest

from answers.compare.uploaded import told as told_of
from answers.compare.values import Question
from dashboard.upload import Report, take_in
from tests.commands.asking import run, told

PROMPTS, SAME = 160, ("--set", "gpu=H100", "--set", "dataset=code")
FACTS = {
    "base": ("spec_method=none",),
    "mtp": ("spec_method=mtp", "num_speculative_tokens=2"),
    "idle": ("spec_method=mtp", "num_speculative_tokens=2"),
    "eagle3": ("spec_method=eagle3", "num_speculative_tokens=3"),
}
BROKEN = "12.5\u202f% of the answers end after one token, none of the baseline's"


def bench(arm: str, launch: int, every: int, ends: int, pace: float) -> bytes:
    """A result of vllm bench serve: each answer takes ``pace`` s a token; every ``every``-th has ``ends``
    tokens, the others 216 to 295."""
    lengths = [ends if every and at % every == 0 else 216 + at * 37 % 80 for at in range(PROMPTS)]
    spans = [0.06 + (n - 1) * pace for n in lengths]
    at = [0.0] * 16
    starts = []
    for span in spans:
        at.sort()
        starts.append(at[0])
        at[0] += span * (1 + 0.004 * launch)
    says: dict[str, Any] = {
        "date": f"2026102{launch}-1{len(arm)}1500", "backend": "vllm", "model_id": "acme/chat-8b",
        "tokenizer_id": "acme/chat-8b",
        "num_prompts": PROMPTS, "request_rate": "inf", "max_concurrency": 16, "duration": max(at),
        "completed": PROMPTS, "failed": 0, "total_output_tokens": sum(lengths),
        "output_throughput": sum(lengths) / max(at), "request_throughput": PROMPTS / max(at),
        "total_input_tokens": 512 * PROMPTS, "input_lens": [512] * PROMPTS, "output_lens": lengths,
        "ttfts": [0.06] * PROMPTS, "latencies": spans, "start_times": starts, "errors": [""] * PROMPTS,
    }  # fmt: skip
    if arm != "base":
        accepted = 400 if arm == "idle" else 14_000
        says |= {
            "spec_decode_num_drafts": 10_000, "spec_decode_draft_tokens": 20_000,
            "spec_decode_accepted_tokens": accepted,
            "spec_decode_acceptance_rate": accepted / 200,
            "spec_decode_acceptance_length": 1 + accepted / 10_000,
        }  # fmt: skip
    return json.dumps(says).encode()


def taken(place: Path, arms: dict[str, tuple[int, int, float]], *more: str) -> tuple[str, str]:
    """A warehouse of three launches of each arm, through ingest."""
    root = ("--warehouse", str(place / "warehouse"))
    for arm, how in arms.items():
        for launch in range(3):
            (place / arm).mkdir(exist_ok=True)
            (place / arm / f"r{launch}.json").write_bytes(bench(arm, launch, *how))
        stated = [part for fact in (*FACTS[arm], *more) for part in ("--set", fact)]
        run("ingest", str(place / arm), *SAME, *stated, *root)
    return root


def verdict(root: tuple[str, str]) -> dict[str, Any]:
    (one,) = told("verdict", *root)["decisions"]
    return dict(one)


def test_an_arm_that_breaks_one_answer_in_eight_is_no_candidate(tmp_path: Path) -> None:
    root = taken(tmp_path, {"base": (0, 0, 0.01), "mtp": (8, 1, 0.007)})
    one = verdict(root)

    assert one["answer"] == "no"
    assert one["headline"].startswith(
        f"No at 16 at once: mtp K=2 breaks answers: at 16 at once {BROKEN}"
    )
    assert (one["serve"], one["saving"]) == (None, None)
    assert "pays" not in one["paragraph"]
    assert f"error: broken_answers at 16: {BROKEN}." in run("compare", *root).stdout


def test_another_arm_is_taken_and_the_broken_one_named_first(tmp_path: Path) -> None:
    arms = {"base": (0, 0, 0.01), "mtp": (8, 1, 0.005), "eagle3": (0, 0, 0.008)}
    one = verdict(taken(tmp_path, arms))

    assert one["arm"] == "eagle3 K=3"
    assert one["paragraph"].startswith(
        f"acme/chat-8b on code: mtp K=2 breaks answers: at 16 at once {BROKEN}, so it is no candidate. "
    )


@pytest.mark.parametrize("ends", [0, 20, 4096])
def test_empty_answers_short_ones_and_endless_ones_are_broken_alike(
    tmp_path: Path, ends: int
) -> None:
    words = {
        0: "are empty",
        20: "end after 20 tokens or fewer",
        4096: "run into the limit of 4,096 tokens",
    }
    one = verdict(taken(tmp_path, {"base": (0, 0, 0.01), "mtp": (8, ends, 0.0005)}))

    assert f"12.5\u202f% of the answers {words[ends]}, none of the baseline's" in one["headline"]


def test_a_few_broken_answers_are_likely_and_stand_against_it(tmp_path: Path) -> None:
    one = verdict(taken(tmp_path, {"base": (0, 0, 0.01), "mtp": (40, 1, 0.007)}))

    assert one["arm"] == "mtp K=2"
    assert one["against"][0]["sentence"] == (
        "mtp K=2 breaks answers: at 16 at once 2.5\u202f% of the answers end after one token, none of the "
        "baseline's: likely"
    )


def test_answers_that_the_baseline_ends_at_once_too_are_nobodys_fault(tmp_path: Path) -> None:
    one = verdict(taken(tmp_path, {"base": (8, 1, 0.01), "mtp": (8, 1, 0.007)}))

    assert "breaks" not in one["paragraph"]


def test_made_up_prompts_forced_answers_and_idle_drafts_are_doubts(tmp_path: Path) -> None:
    arms = {"base": (0, 0, 0.01), "idle": (0, 0, 0.007)}
    one = verdict(taken(tmp_path, arms, "ignore_eos=true", "dataset=random 512/256"))

    assert "The drafts of mtp K=2 do nothing: a step yields 1.04 tokens" in one["paragraph"]
    assert "The prompts (random 512/256) were made by the load generator" in one["paragraph"]
    assert "forced past their end (ignore_eos)" in one["paragraph"]


def test_dropped_files_are_decided_alike() -> None:
    arms = {"base": (0, 0, 0.01), "mtp": (8, 1, 0.007)}
    same = ("gpu=H100", "dataset=code")
    mine = take_in([
        Report(f"{arm}-{launch}.json", bench(arm, launch, *how), (*same, *FACTS[arm]))
        for arm, how in arms.items() for launch in range(3)
    ])  # fmt: skip
    assert mine.held is not None
    (one,) = told_of(mine.held, None, Question()).decisions.decisions

    assert one.headline.startswith(
        f"No at 16 at once: mtp K=2 breaks answers: at 16 at once {BROKEN}"
    )
