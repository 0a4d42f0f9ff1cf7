"""What names say of arms: which method, how many draft tokens, and what they do not say."""

import pytest

from analysis.matching.guess import SOME_METHOD, Guess, from_name, together, unexplained
from analysis.matching.guess_paths import datasets, named


@pytest.mark.parametrize(
    ("name", "method", "k"),
    [
        ("eagle3k5", "eagle3", 5),
        ("eagle3k_5", "eagle3", 5),
        ("eagle-3k5", "eagle3", 5),
        ("eagle3_k5", "eagle3", 5),
        ("k5", SOME_METHOD, 5),
        ("spec5", SOME_METHOD, 5),
        ("spec5tp2", SOME_METHOD, 5),
        ("spec_tokens=3", SOME_METHOD, 3),
        ("draft-tokens-4", "draft_model", 4),
        ("tp2-k3-c8", SOME_METHOD, 3),
        ("c8k3", SOME_METHOD, 3),
        ("k3a", SOME_METHOD, 3),
        ("1k1k/eagle3_k3/c8.json", "eagle3", 3),
        ("8k1k/eagle3_k5/c8.json", "eagle3", 5),
        ("8k-1k/k3/c8.json", SOME_METHOD, 3),
        ("sweep-k3-k5/eagle3-k5.json", "eagle3", 5),
        ("k8s/eagle3-k5.json", "eagle3", 5),
        ("spec2/k5.json", SOME_METHOD, 5),
        ("mtp3/c8.json", "mtp", 3),
        ("num_spec_tokens_3.json", SOME_METHOD, 3),
        ("eagle3-5tok/c8.json", "eagle3", 5),
        ("eagle3_2_tokens.json", "eagle3", 2),
    ],
)
def test_a_name_says_method_and_draft_tokens(name: str, method: str, k: int) -> None:
    found = named(name)
    assert (found.method, found.num_speculative_tokens) == (method, k)


@pytest.mark.parametrize(
    "name",
    ["1k1k", "8k1k", "1k8k", "8k-1k", "1k1k_3", "1k64", "isl1k-8", "top_k_20", "top-k=5", "k8s",
     "k0"],
)  # fmt: skip
def test_lengths_and_other_ks_are_no_draft_tokens(name: str) -> None:
    assert named(f"{name}/c8.json") == Guess()


@pytest.mark.parametrize("name", ["spec-1b", "spec-1.5b", "spec-68m", "spec-4bit"])
def test_the_size_of_a_draft_model_is_not_its_draft_tokens(name: str) -> None:
    assert named(f"{name}.json") == Guess(SOME_METHOD)


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("eagle3-without-cudagraph/c8.json", "eagle3"),
        ("eagle3/without-cudagraph/c8.json", "eagle3"),
        ("vanilla-llama/eagle3/c8.json", "eagle3"),
        ("eagle3-vanilla/c8.json", "eagle3"),
        ("eagle3-no-draft-quant/c8.json", "eagle3"),
        ("spec-without-cudagraph/c8.json", SOME_METHOD),
        ("eagle3/qwen-base-c8.json", "eagle3"),
        ("eagle3-h100/vanilla/c8.json", "none"),
        ("spec-study/without/c8.json", "none"),
        ("eagle3-h100/no-eagle3/c8.json", "none"),
        ("no-mtp/c8.json", "none"),
        ("without-spec/c8.json", "none"),
        ("spec-h100/baseline/c8.json", "none"),
        ("without.json", "none"),
        ("vanilla/c8.json", "none"),
        ("base/c8.json", "none"),
        ("none-c8.json", "none"),
        ("plain/c8.json", "none"),
        ("target_only/c8.json", "none"),
        ("mtp-off/c8.json", "none"),
        ("sd-off/c8.json", "none"),
        ("wo_spec/c8.json", "none"),
        ("non-spec/c8.json", "none"),
        ("spec0/c8.json", "none"),
        ("mtp0.json", "none"),
        ("num_spec_tokens=0.json", "none"),
        ("sd-on/c8.json", SOME_METHOD),
        ("w_spec/c8.json", SOME_METHOD),
        ("mtp-off-study/eagle3/c8.json", "eagle3"),
        # Perhaps the first of several repeats.
        ("spec_0/c8.json", SOME_METHOD),
        ("dflash/c8.json", "dflash"),
        ("p-eagle/c8.json", "p-eagle"),
    ],
)
def test_a_word_for_a_baseline_is_no_more_than_that_of_its_place(path: str, method: str) -> None:
    assert named(path).method == method


@pytest.mark.parametrize(
    "name",
    ["eagle3k5", "eagle3_k5", "k5h200", "spec5tp2", "tp2k3", "no-mtp", "without", "h100k3", "mtp-on",
     "mtp-off", "with-sd", "wo_spec", "spec0", "mtp3", "eagle3-5tok"],
)  # fmt: skip
def test_what_a_name_says_is_no_word_that_is_left(name: str) -> None:
    assert not any(map(str.isalnum, unexplained(name)))


def test_what_says_nothing_is_left() -> None:
    for name in ("1k1k", "8k-1k", "top_k_20", "k8s"):
        assert unexplained(name) == name
    paths = [f"{length}/{arm}/c8" for length in ("1k1k", "8k1k") for arm in ("base", "eagle3k3")]
    assert datasets(paths, ["none", "eagle3"] * 2) == ("1k1k", "1k1k", "8k1k", "8k1k")


def test_contents_that_name_no_method_leave_it_to_the_name() -> None:
    drafts = Guess(SOME_METHOD)
    names = [Guess("eagle3", 3), Guess("none"), Guess()]
    found = together(names, [drafts] * 3)
    assert [one.method for one in found] == ["eagle3", SOME_METHOD, SOME_METHOD]
    assert from_name("h100x8-k3c8.json") == Guess(SOME_METHOD, 3, "H100", gpu_count=8)
