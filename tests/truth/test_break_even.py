"""The reduced form of ``tests/truth/break_even.py``: verdicts are right, and the count can fail."""

from tests.truth.break_even import rows


def test_a_draft_pays_where_it_is_said_to() -> None:
    found = rows(60)
    assert not [row for row in found if not row.passed]
    said = next(row for row in found if row.what == "all: something is said")
    assert 0.4 < said.value < 1


def test_bands_that_are_a_quarter_as_wide_are_found_out() -> None:
    assert [row for row in rows(60, width=0.25) if not row.passed]
