"""The answer in words."""

import pandas as pd

from dashboard import phrases


def _totals(*rows: tuple[str, str, tuple[int, ...], float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["arm", "panel", "concurrencies", "improvement"])


def _levels(*rows: tuple[str, str, int, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["arm", "panel", "concurrency", "improvement"])


def test_one_arm_and_one_setting_give_one_number_and_its_levels() -> None:
    sentence = phrases.headline(_totals(("eagle3 K=3", "code", (1, 16), 0.207)))

    assert sentence == (
        "eagle3 K=3 serves 20.7\u202f% more output tokens per second on code, at concurrency 1–16"
    )


def test_a_loss_is_said_as_plainly_as_a_gain() -> None:
    totals = _totals(("ngram K=3", "code", (1,), -0.2))

    assert "20.0\u202f% fewer output tokens" in phrases.headline(totals)
    assert phrases.losses(totals, _levels(("ngram K=3", "code", 1, -0.2))) == (
        "Against it: fewer output tokens per second on code at concurrency 1."
    )


def test_the_best_of_several_arms_answers() -> None:
    totals = _totals(("a K=1", "code", (1,), 0.1), ("b K=1", "code", (1,), 0.3))

    assert phrases.headline(totals).startswith("b K=1 (the best of several arms) serves 30.0")


def test_many_settings_are_summed_up() -> None:
    totals = _totals(*(("a K=1", f"set {i}", (1,), 0.1 * i - 0.1) for i in range(5)))

    assert "in 3 of 5 settings (-10.0\u202f% to +30.0\u202f%)" in phrases.headline(totals)


def test_what_is_traded_is_named_with_its_worst_setting() -> None:
    totals = _totals(("a K=1", "code", (1,), 0.1))
    lines = pd.DataFrame(
        [("a K=1", "code", "ttft", "p95", -0.09), ("a K=1", "chat", "ttft", "p95", -0.2)],
        columns=["arm", "panel", "metric", "statistic", "improvement"],
    )

    assert phrases.trades(totals, lines) == (
        " In total worse: Time to first token (TTFT), P95 -20.0\u202f% on chat."
    )


def test_no_pairs_are_no_answer() -> None:
    assert phrases.headline(_totals()) == phrases.NOTHING


def test_one_is_singular_and_many_are_grouped() -> None:
    assert phrases.counted(1, "cell") == "1 cell"
    assert phrases.counted(2000, "cell") == "2,000 cells"


def test_the_evidence_names_the_flags_of_the_pairs() -> None:
    sentence = phrases.evidence(pd.Series([2, 1]), [["short_run"], ["short_run", "x"], []])

    assert sentence == (
        "Evidence: 3 pairs, at most 2 repeats per level. Flags: short run (2 pairs), x (1 pair)."
    )
