"""The shipped table of published figures: what must be flagged, and that all else reproduces."""

from pathlib import Path

import pytest
import yaml

from analysis.money.cost import Basis, Demand, fleet, saving, usd_per_million
from analysis.prediction.reach import DecodeShare
from analysis.published.claims import Claims, judge
from analysis.published.claims_file import read_claims

FILE = Path(__file__).parents[2] / "examples" / "claims" / "published-study.yaml"
FIGURES = yaml.safe_load(FILE.read_text(encoding="utf-8"))
IMPROVEMENTS = ("geomean_tables", "draft_tokens_compared", "points")


@pytest.fixture(scope="module")
def found() -> Claims:
    return judge(read_claims(FILE.read_text(encoding="utf-8"), FILE.name))


def test_exactly_three_improvements_do_not_follow_from_their_rows(found: Claims) -> None:
    flagged = [
        (f.about["dataset"], f.about["tp"], f.metric, f.kind, round(f.recomputed, 1))
        for f in found.flagged
        if f.section in IMPROVEMENTS
    ]
    assert flagged == [
        ("MLPerf", "1", "itl_p95_ms", "swapped", 3.6),
        ("MLPerf", "1", "tpot_p95_ms", "swapped", 6.6),
        ("MLPerf", "2", "ttft_p95_s", "sign", -9.2),
    ]


def test_the_costs_are_flagged_as_the_two_articles_earn_it(found: Claims) -> None:
    costs = {(f.about["usd_per_hour"], f.metric): f for f in found.findings if f.section == "cost"}

    assert {key: f.kind for key, f in costs.items()} == {
        ("41.62", "baseline_usd"): "basis",
        ("41.62", "speculative_usd"): "basis",
        ("41.62", "saving_usd"): "basis",
        ("41.62", "saving_pct"): None,
        ("5", "usd_per_1k"): "arithmetic",
        ("5", "usd_per_day"): "arithmetic",
        ("5", "speculative_usd_per_1k"): "arithmetic",
        ("5", "speculative_usd_per_day"): "arithmetic",
        ("5", "usd_saved_per_year"): "arithmetic",
        ("5", "saving_pct"): None,
    }
    assert "On the per-GPU basis it is 0.551 USD" in costs["41.62", "baseline_usd"].reason
    assert "On the per-GPU basis it is 0.445 USD" in costs["41.62", "speculative_usd"].reason
    assert costs["5", "usd_per_1k"].recomputed == pytest.approx(0.01389, abs=1e-5)
    assert costs["5", "usd_per_day"].recomputed == pytest.approx(138.89, abs=0.01)
    assert costs["5", "usd_saved_per_year"].recomputed == pytest.approx(30_417, abs=1)


def test_eleven_flagged_figures_come_from_four_errors(found: Claims) -> None:
    assert [(one.kind, len(one.findings)) for one in found.errors] == [
        ("swapped", 2), ("sign", 1), ("basis", 3), ("arithmetic", 5),
    ]  # fmt: skip
    money = found.errors[3]
    assert money.findings[0].metric == "usd_per_1k"
    assert {one.metric for one in money.findings[1:]} == {
        "usd_per_day", "speculative_usd_per_1k", "speculative_usd_per_day", "usd_saved_per_year",
    }  # fmt: skip
    assert "3.6 times what follows, and 4 more figures" in money.sentence
    rows = found.as_json()
    assert [len(error["rows"]) for error in rows["errors"]] == [2, 1, 3, 5]
    assert all(rows["rows"][at]["flagged"] for error in rows["errors"] for at in error["rows"])


def test_everything_else_reproduces_and_nothing_is_passed_over(found: Claims) -> None:
    assert {f.section for f in found.flagged} == {"geomean_tables", "cost"}
    printed = [r for name in IMPROVEMENTS for r in FIGURES[name] if "published_pct" in r]
    assert len([f for f in found.findings if f.section in IMPROVEMENTS]) == len(printed)
    lengths = [f.recomputed for f in found.findings if f.metric == "mean_acceptance_length"]
    assert lengths == pytest.approx([1.908, 2.068, 2.132])
    # Two points print no improvement; the curve has no row to recompute it from.
    assert len(found.unclaimed) == 3


def test_the_cost_reproduces_on_both_bases() -> None:
    told = FIGURES["cost"]["published"]
    for gpus, usd in ((8, (4.41, 3.56)), (1, (0.551, 0.445))):
        basis = Basis(told["usd_per_hour"], told["gpus_per_instance"], gpus)
        costs = [
            usd_per_million(told[f"{arm}_tok_s"], basis) for arm in ("baseline", "speculative")
        ]
        assert costs == pytest.approx(usd, abs=0.005 if gpus == 8 else 0.0005)
        assert 100 * saving(*costs) == pytest.approx(told["saving_pct"], abs=0.05)


def test_the_round_figures_of_the_other_article_with_a_demand() -> None:
    told = FIGURES["cost"]["other_published"]
    old, new = (
        fleet(Demand(told["tokens_per_day"]), told[name], Basis(told["usd_per_hour"]))
        for name in ("tok_s", "speculative_tok_s")
    )
    per_day = [
        told["tokens_per_day"] / 1e6 * usd_per_million(told[name], Basis(told["usd_per_hour"]))
        for name in ("tok_s", "speculative_tok_s")
    ]
    assert per_day == pytest.approx([138.89, 55.56], abs=0.01)
    # With whole servers that run around the clock it is neither figure: 2 and 1 of them.
    assert (old.usd_per_day, new.usd_per_day) == (240.0, 120.0)


def test_the_simulated_curve_is_within_five_percent_of_the_textbook_model() -> None:
    model = DecodeShare()
    for acceptance, gain in FIGURES["what_if"]["points"].items():
        assert model.gain(acceptance) == pytest.approx(gain, rel=0.05)


def test_nothing_in_the_file_says_which_figures_are_wrong() -> None:
    assert "note:" not in FILE.read_text(encoding="utf-8")
