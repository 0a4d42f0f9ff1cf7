"""One method is best at low loads, another at high ones: strangers' files through every face."""

from pathlib import Path
from typing import Any

import pytest

from answers.compare.answer import answer_uploads as told_of
from answers.compare.values import CompareQuestion
from dashboard.upload import Report, take_in
from tests.commands.asking import run, told

FOLDER = Path(__file__).parents[1] / "fixtures" / "cases" / "03-one-arm-below-another-above"
SAME = ("gpu=H100", "gpu_count=1", "tensor_parallel_size=1", "dataset=codeset")
ARMS = {
    "baseline": ("spec_method=none",),
    "mtp-k2": ("spec_method=mtp", "num_speculative_tokens=2"),
    "dspark-k7": ("spec_method=dspark", "num_speculative_tokens=7"),
}


def facts(arm: str, repeat: int) -> tuple[str, ...]:
    return (*SAME, *ARMS[arm], f"repeat={repeat}", f"launch={arm}-{repeat}")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    root = ("--warehouse", str(tmp_path_factory.mktemp("case") / "warehouse"))
    for repeat in range(3):
        for arm in ARMS:
            said = [part for fact in facts(arm, repeat) for part in ("--set", fact)]
            run("ingest", str(FOLDER / f"r{repeat}" / arm), *said, *root)
    return root


def decided(place: tuple[str, str], *asked: str) -> dict[str, Any]:
    (one,) = told("verdict", *asked, *place)["decisions"]
    return dict(one)


def test_the_method_that_is_best_at_the_largest_load_is_taken_and_the_other_is_named(
    place: tuple[str, str],
) -> None:
    one = decided(place)

    assert (one["answer"], one["arm"], one["operating_load"]["value"]) == ("yes", "mtp K=2", 128)
    assert one["operating"]["improvement"] == pytest.approx(0.15, abs=0.01)
    assert [level["arm"] for level in one["loads"]] == ["dspark K=7"] * 2 + ["mtp K=2"] * 3
    assert one["loads"][0]["served"]["arm"] == "mtp K=2"
    assert "At 1 and 8 at once dspark K=7 is better" in one["paragraph"]
    assert one == decided(place, "--load", "128")


def test_money_the_table_of_k_and_the_slo_tell_the_same(place: tuple[str, str]) -> None:
    (money,) = told("cost", *place)["costs"]
    (tuned,) = told("tune", *place)["decisions"]

    assert money["headline"].startswith("At 128 at once on codeset, with mtp K=2: An output token")
    assert "0.3626 → 0.3153 USD per million" in money["headline"]
    assert tuned["num_speculative_tokens_per_batch_size"] is None
    assert '"num_speculative_tokens": 2' in tuned["serve"]


def test_shares_of_loads_weigh_the_time_of_their_tokens(place: tuple[str, str]) -> None:
    one = decided(place, "--load", "1=0.2,8=0.5,64=0.3")

    assert one["operating_load"]["kind"] == "shares"
    # Of a token at 1, 8 and 64 at once: the baseline's time, and that with DSpark.
    old = 0.2 / 90 + 0.5 / 660 + 0.3 / 3600
    new = 0.2 / 243 + 0.5 / 1600 + 0.3 / 3960
    assert one["operating"]["improvement"] == pytest.approx(old / new - 1, abs=0.05)
    assert one["method"] == "dspark"
    missing = decided(place, "--load", "1=0.5,256=0.5")
    assert missing["answer"] == "open"
    assert "nothing is known of 256 at once" in missing["headline"]


def test_files_that_are_dropped_on_decide_say_what_one_launch_of_them_showed() -> None:
    mine = take_in([
        Report(f"{arm}-{load}.json", (FOLDER / "r0" / arm / f"{load}.json").read_bytes(), facts(arm, 0))
        for arm in ARMS
        for load in ("c8", "c128")
    ])  # fmt: skip

    assert mine.held is not None
    (one,) = told_of(mine.held, None, CompareQuestion()).decisions.decisions
    assert one.arm == "mtp K=2"
    assert one.headline.startswith(
        "Open (one launch) at 128 at once: multi-token prediction with 2 draft tokens gives 1"
    )
    assert "At 8 at once dspark K=7 gave +14" in one.details
