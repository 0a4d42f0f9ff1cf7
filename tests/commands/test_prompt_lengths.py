"""Which K for long prompts: what is known of each length is told right, and what is not known is said so."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.commands.asking import refused, run, told
from tests.commands.lengths import CROSSING, LEVEL, LengthStudy, write

#: Studies with known answers, of each sort.
STUDIES = 16


class Kept:
    """A place with results and a warehouse."""

    def __init__(self, place: Path) -> None:
        self.results = place / "results"
        self.root = ("--warehouse", str(place / "warehouse"))

    def take_in(self, *studies: LengthStudy) -> None:
        for study in studies:
            write(study, self.results)
        done = run("ingest", str(self.results), *self.root, "--json")
        assert json.loads(done.stdout)["rejected"] == [], done.output

    def by_context(self, *more: str) -> dict[str, dict[str, Any]]:
        """Study -> what is told of it."""
        answer = told("tune", "--by", "context", *self.root, *more)
        return {one["contexts"][0]["decision"]["study"]: one for one in answer["subjects"]}

    def printed(self, *more: str) -> str:
        return " ".join(run("tune", "--by", "context", *self.root, *more).output.split())


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def worth(found: Mapping[str, Any]) -> float:
    """How many more output tokens a second the split makes, as a ratio."""
    one, split = found["tokens_per_s"]
    return float(split / one - 1)


def reach(found: Mapping[str, Any], k: int) -> dict[str, Any]:
    (one,) = [each for each in found["arms"] if each["arm"] == f"draft_model K={k}"]
    return dict(one)


def test_each_length_has_its_decision_and_each_arm_the_length_from_which_it_no_longer_pays(
    kept: Kept,
) -> None:
    study = LengthStudy("crossing", CROSSING, loads=(1, 8))
    kept.take_in(study)
    found = kept.by_context()["crossing"]
    assert found["load"]["value"] == 8
    for each, tokens in zip(found["contexts"], CROSSING, strict=True):
        assert each["shortest"] == each["longest"] == tokens
        assert each["datasets"] == [f"code-{tokens}t"]
        best = max((1, 5), key=lambda k: study.gain(tokens, k))
        decision = each["decision"]
        assert decision["num_speculative_tokens"] == best
        assert len(decision["loads"]) == 2
    assert reach(found, 5) == {
        "arm": "draft_model K=5", "no_longer_from": 65536,
        "sentence": "draft_model K=5 pays up to 8,192 tokens, no longer pays from 65,536 tokens on.",
    }  # fmt: skip
    assert reach(found, 1)["no_longer_from"] is None
    assert reach(found, 1)["sentence"].endswith("pays up to 65,536 tokens.")


def test_a_split_says_what_it_is_worth_on_which_traffic(kept: Kept) -> None:
    study = LengthStudy("crossing", CROSSING)
    kept.take_in(study)
    found = kept.by_context()["crossing"]
    assert found["servers"] == "split"
    assert found["split"] == ["draft_model K=5", "draft_model K=5", "draft_model K=1"]
    rates = [[1 + study.gain(n, k) for n, k in zip(CROSSING, ks, strict=True)]
             for ks in ((5, 5, 5), (5, 5, 1))]  # fmt: skip
    one, split = (3 / sum(1 / rate for rate in each) for each in rates)
    assert worth(found) == pytest.approx(split / one - 1, abs=0.02)
    said = kept.printed()
    assert (
        "Two servers, up to 8,192 tokens with draft_model K=5, above with draft_model K=1" in said
    )
    assert "at 8 at once, on equal shares of all lengths: likely worth 15" in said
    # One and five draft tokens are as good over all three.
    assert f"servers in proportion to the traffic) than all with {found['arm']}." in said
    assert "No engine takes K by the length of a prompt" in said
    # Mostly short prompts: the split is worth less, and the words say of which traffic.
    mostly = ("--mix", "code-512t=0.8,code-8192t=0.19,code-65536t=0.01")
    short = kept.by_context(*mostly)["crossing"]
    assert worth(short) < 0.02 < worth(found)
    assert "on 80 % code-512t + 1 % code-65536t + 19 % code-8192t" in kept.printed(*mostly)


def test_a_reader_of_two_lengths_alone_is_told_of_these(kept: Kept) -> None:
    kept.take_in(LengthStudy("crossing", CROSSING))
    both = ("--dataset", "code-512t", "--dataset", "code-8192t")
    for more in (both, ("--mix", "code-512t=0.5,code-8192t=0.5")):
        found = kept.by_context(*more)["crossing"]
        assert [each["longest"] for each in found["contexts"]] == [512, 8192]
        assert found["servers"] == "one"


def test_one_arm_as_good_at_every_length_needs_one_server(kept: Kept) -> None:
    kept.take_in(LengthStudy("level", LEVEL))
    found = kept.by_context()["level"]
    assert (found["servers"], found["arm"], worth(found)) == ("one", "draft_model K=5", 0)
    assert "One server suffices at 8 at once, on equal shares of all lengths: " in kept.printed()


def test_of_an_arm_that_was_chosen_it_is_not_said_that_nothing_is_better(kept: Kept) -> None:
    """K = 5 gains twice as much as the arm that the reader asks about."""
    kept.take_in(LengthStudy("level", LEVEL))
    said = kept.printed("--arm", "draft_model K=1")
    assert "with draft_model K=1, nothing else that is compared is better by more than 2" in said


def test_no_drafts_are_an_arm_too(kept: Kept) -> None:
    """Both arms lose with long prompts, and long ones are most of the traffic."""
    kept.take_in(LengthStudy("dear", {512: 0.05, 65536: 1.2}))
    found = kept.by_context("--mix", "code-512t=0.05,code-65536t=0.95")["dear"]
    assert found["split"] == ["draft_model K=5", "baseline"]
    assert "up to 512 tokens with draft_model K=5, above without drafts" in found["sentence"]


def test_intervals_that_do_not_tell_are_said_to_tell_nothing(kept: Kept) -> None:
    noisy = LengthStudy("noisy", LEVEL, chance=0.5, of_launch=0.15, launches=2, seed=3)
    once = LengthStudy("once", CROSSING, launches=1)
    kept.take_in(noisy, once)
    found = kept.by_context()
    for name in ("noisy", "once"):
        assert found[name]["servers"] == "unknown"
        assert "cannot be said" in found[name]["sentence"]
    assert [each["at_stake"] for each in found["once"]["contexts"]] == [None] * 3
    assert "at 512 tokens it is open which" in found["once"]["sentence"]
    assert reach(found["once"], 5)["sentence"] == ("draft_model K=5 is open up to 65,536 tokens.")


def test_lengths_of_different_texts_are_a_doubt(kept: Kept) -> None:
    kept.take_in(
        LengthStudy("texts", CROSSING, datasets={512: "chat", 8192: "code-8k", 65536: "code-64k"})
    )
    (doubt,) = kept.by_context()["texts"]["doubts"]
    assert "different texts (chat at 512 tokens, code-8k at 8,192 tokens and code-64k" in doubt
    assert "what looks like length may be the text" in kept.printed()


def test_prompts_of_one_length_are_refused_with_what_to_do(kept: Kept) -> None:
    kept.take_in(LengthStudy("one", {512: 0.05, 700: 0.05}))
    said = str(refused("tune", "--by", "context", *kept.root))
    assert "of prompts of two lengths at one load (512 tokens and 700 tokens)" in said
    assert "state prompt_tokens in the study" in said


def test_datasets_of_about_one_length_are_one_context(kept: Kept) -> None:
    edge = LengthStudy("edge", {700: 0.05, 1049: 0.05, 1050: 0.05})
    kept.take_in(LengthStudy("three", {512: 0.05, 600: 0.05, 8192: 0.2}), edge)
    at_edge = kept.by_context()["edge"]["contexts"]
    assert [each["longest"] for each in at_edge] == [1049, 1050]
    found = kept.by_context()["three"]["contexts"]
    assert [(each["shortest"], each["longest"]) for each in found] == [(512, 600), (8192, 8192)]
    assert found[0]["share"] == pytest.approx(2 / 3)
    assert found[0]["decision"]["traffic"] == {"dataset": "512 to 600 tokens"}


@pytest.mark.slow
def test_of_studies_with_known_answers_hardly_any_is_told_wrong(kept: Kept) -> None:
    """A split is right where no arm is within 2 % of the best at every length, one server where an arm is; the length
    from which an arm no longer pays is that of the first with less than 2 % of gain, after one with more."""
    random, studies = np.random.default_rng(11), {}
    slopes: tuple[Callable[[], tuple[float, float]], ...] = (
        lambda: (1.0, 1.0), lambda: (random.uniform(2, 4), random.uniform(5, 12)),
    )  # fmt: skip
    for number in range(2 * STUDIES):
        first, more = random.uniform(0.03, 0.15), slopes[number % 2]()
        costs = dict(
            zip((512, 8192, 65536), (first, *(first * each for each in more)), strict=True)
        )
        study = LengthStudy(f"s{number}", costs, float(random.uniform(0.5, 0.8)), number,
                            arms=(0, 1, 3, 5), of_launch=0.01)  # fmt: skip
        studies[study.name] = study
    kept.take_in(*studies.values())
    answers, lengths = Counter[tuple[bool, str]](), Counter[str]()
    for name, found in kept.by_context().items():
        study = studies[name]
        answers[study.one_suffices, found["servers"]] += 1
        for k in study.arms[1:]:
            lost = next((n for n in study.costs if not study.pays(n, k)), None)
            truth, said = lost if study.pays(512, k) else None, reach(found, k)
            right = (said["no_longer_from"] or 0) == pytest.approx(truth or 0)
            lengths["right" if right else "open" if "open" in said["sentence"] else "wrong"] += 1
    wrong = answers[True, "split"] + answers[False, "one"]
    assert wrong <= 1
    assert answers[True, "one"] >= 12
    assert answers[False, "split"] >= 12
    assert lengths["wrong"] <= 1
    assert lengths["right"] >= 90
