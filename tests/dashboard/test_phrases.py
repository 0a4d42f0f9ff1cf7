"""The answer in words."""

import pandas as pd

from dashboard import phrases


def _rows(*rows: tuple[str, str, int, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["arm", "panel", "concurrency", "improvement"])


def test_one_arm_and_one_setting_give_one_number_and_its_levels() -> None:
    rows = _rows(("eagle3 K=3", "code", 1, 0.5), ("eagle3 K=3", "code", 16, 0.5))

    sentence = phrases.headline(rows)

    assert sentence == (
        "eagle3 K=3 serves 50\u202f% more output tokens per second on code, at concurrency 1–16"
    )


def test_a_loss_is_said_as_plainly_as_a_gain() -> None:
    rows = _rows(("ngram K=3", "code", 1, -0.2))

    assert "20\u202f% fewer output tokens" in phrases.headline(rows)
    assert phrases.losses(rows) == (
        "Against it: fewer output tokens per second on code at concurrency 1."
    )


def test_the_mean_over_levels_is_geometric() -> None:
    rows = _rows(("a K=1", "code", 1, 1.0), ("a K=1", "code", 2, -0.5))

    assert "serves as many output tokens per second" in phrases.headline(rows)


def test_many_settings_are_summed_up() -> None:
    rows = _rows(*(("a K=1", f"set {i}", 1, 0.1 * i - 0.1) for i in range(5)))

    assert "in 3 of 5 settings (-10% to +30%)" in phrases.headline(rows)


def test_no_pairs_are_no_answer() -> None:
    assert phrases.headline(_rows()) == phrases.NOTHING
