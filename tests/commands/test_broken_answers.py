"""Speed with broken answers decides nothing: from files to the verdict, and what Compare flags."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from answers.compare.answer import answer_uploads as told_of
from answers.compare.values import CompareQuestion
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


def taken(
    place: Path,
    arms: dict[str, tuple[int, int, float]],
    *more: str,
    texts: Mapping[str, Callable[[int], str]] | None = None,
) -> tuple[str, str]:
    """A warehouse of three launches of each arm, through ingest; ``texts``: arm -> the text of the
    n-th answer."""
    root = ("--warehouse", str(place / "warehouse"))
    for arm, how in arms.items():
        for launch in range(3):
            (place / arm).mkdir(exist_ok=True)
            data = bench(arm, launch, *how)
            if texts and arm in texts:
                said = list(map(texts[arm], range(PROMPTS)))
                data = json.dumps(json.loads(data) | {"generated_texts": said}).encode()
            (place / arm / f"r{launch}.json").write_bytes(data)
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
    assert "none (mtp K=2 breaks answers)" in run("verdict", *root).output
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


def prose(n: int) -> str:
    """An answer in words: the places of a walk, no two answers alike."""
    return " ".join(f"{('over', 'under', 'near')[at % 3]} hill {(n + 1) * at}" for at in range(60))


def looping(n: int) -> str:
    """Prose, of which every eighth answer gets caught in one sentence."""
    return prose(n)[:400] + " and so it goes on," * 40 if n % 8 == 0 else prose(n)


def record(n: int) -> str:
    """An answer in JSON, as chat models write it: some in a fence, some as a call of a tool."""
    call = json.dumps({"name": "find", "arguments": {"place": n, "rows": [{"at": n, "of": 0}] * 9}})
    return (call, f"```json\n{call}\n```", f"\n<tool_call>\n{call}\n</tool_call>")[n % 3]


def cut(n: int) -> str:
    """JSON, of which every eighth answer lacks a brace."""
    return record(n).replace("}}", "}") if n % 8 == 0 else record(n)


def code(n: int) -> str:
    """A program as models write it: one line after the other looks like the last."""
    tests = "\n".join(f"    assert add({n}, {at}) == {n + at}" for at in range(60))
    return f"```python\ndef test_add():\n{tests}\n```"


PLAIN: dict[str, tuple[int, int, float]] = {"base": (0, 0, 0.01), "mtp": (0, 0, 0.007)}


@pytest.mark.parametrize(
    ("healthy", "broken", "said"),
    [(prose, looping, "repeat themselves"), (record, cut, "are no JSON")],
)
def test_an_arm_whose_texts_break_is_no_candidate(
    tmp_path: Path, healthy: Callable[[int], str], broken: Callable[[int], str], said: str
) -> None:
    root = taken(tmp_path, PLAIN, texts={"base": healthy, "mtp": broken})
    one = verdict(root)

    sentence = f"12.5\u202f% of the answers {said}, none of the baseline's"
    assert one["headline"].startswith(
        f"No at 16 at once: mtp K=2 breaks answers: at 16 at once {sentence}"
    )
    assert f"error: broken_answers at 16: {sentence}." in run("compare", *root).stdout


@pytest.mark.parametrize(
    "texts",
    [
        {"base": prose, "mtp": prose},
        {"base": code, "mtp": code},
        {"base": looping, "mtp": looping},
        {"base": cut, "mtp": cut},
        # Of prose nobody expects that it parses; and of one arm's texts nothing follows.
        {"base": prose, "mtp": code},
        {"mtp": looping},
        {"base": record},
    ],
)
def test_texts_alike_in_both_arms_or_known_of_one_break_nothing(
    tmp_path: Path, texts: Mapping[str, Callable[[int], str]]
) -> None:
    one = verdict(taken(tmp_path, PLAIN, texts=texts))

    assert one["arm"] == "mtp K=2"
    assert "breaks" not in one["paragraph"]


def test_shares_of_texts_are_told_where_they_are_asked_for_and_nowhere_else(tmp_path: Path) -> None:
    root = taken(tmp_path, PLAIN, texts={"base": record, "mtp": cut})

    assert "JSON" not in run("compare", *root, "--metric", "output_throughput").stdout.replace(
        "are no JSON", ""
    )
    asked = run("compare", *root, "--metric", "json_answers").stdout
    assert "1.000" in asked
    assert "0.875" in asked


def test_dropped_files_are_decided_alike() -> None:
    arms = {"base": (0, 0, 0.01), "mtp": (8, 1, 0.007)}
    same = ("gpu=H100", "dataset=code")
    mine = take_in([
        Report(f"{arm}-{launch}.json", bench(arm, launch, *how), (*same, *FACTS[arm]))
        for arm, how in arms.items() for launch in range(3)
    ])  # fmt: skip
    assert mine.held is not None
    (one,) = told_of(mine.held, None, CompareQuestion()).decisions.decisions

    assert one.headline.startswith(
        f"No at 16 at once: mtp K=2 breaks answers: at 16 at once {BROKEN}"
    )
