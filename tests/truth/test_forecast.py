"""The reduced form of ``tests/truth/forecast.py``: bands keep their level, and the count can fail."""

from tests.truth.forecast import INSIDE, NEXT_K, NEXT_LOAD, rows


def test_bands_keep_their_level_inside_and_one_step_beyond() -> None:
    found = rows(40)
    assert not [row for row in found if not row.passed]
    places = {row.what.partition(":")[0] for row in found}
    assert places == {INSIDE, NEXT_LOAD, NEXT_K}


def test_bands_that_are_half_as_wide_are_found_out() -> None:
    assert [row for row in rows(40, width=0.5) if not row.passed]
