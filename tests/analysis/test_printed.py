"""Numbers as printed, and what their rounding hides."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.published.printed import (
    PrintedRange,
    decimals,
    exactly,
    printed,
    propagated,
    yaml_as_printed,
)
from warehouse.errors import InvalidInput


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("9.10", 9.095, 9.105), ("9.1", 9.05, 9.15), ("17", 16.5, 17.5), (Decimal("20.7"), 20.65, 20.75),
        ("+20.7 %", 20.65, 20.75), ("1,171.7", 1171.65, 1171.75), ("−0.3%", -0.35, -0.25),
        ("2.5e3", 2450.0, 2550.0),
    ],
)  # fmt: skip
def test_a_number_hides_half_of_its_last_digit(value: object, low: float, high: float) -> None:
    found = printed(value)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize("value", ["", "abc", None, True, "nan", "inf", "1e99", "20 percent"])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="number"):
        printed(value)


def test_yaml_keeps_the_digits() -> None:
    found = yaml_as_printed("{a: 9.10, b: 17, c: 35.30, d: 0x1F, e: 1:30, f: .nan, g: text}", "f")

    assert [decimals(found[name]) for name in "abc"] == [2, 0, 2]
    assert found["f"] == ".nan"
    assert found["g"] == "text"


@pytest.mark.parametrize(
    "text", ["a: [1, 2", "a: !!python/object/apply:os.system ['true']", "\t- x", "a: *missing"]
)
def test_broken_or_hostile_yaml_is_one_sentence(text: str) -> None:
    with pytest.raises(InvalidInput, match="claims.yaml is no YAML at line 1") as caught:
        yaml_as_printed(text, "claims.yaml")
    assert "\n" not in str(caught.value)


def test_a_formula_spreads_to_the_corners_of_its_inputs() -> None:
    found = propagated(lambda a, b: a / b, PrintedRange(4.0, 3.0, 5.0), PrintedRange(2.0, 1.0, 4.0))
    assert found == PrintedRange(2.0, 0.75, 5.0)


def test_ranges_meet_at_their_edges_and_not_beyond() -> None:
    assert printed("1.2").meets(PrintedRange(1.3, 1.25, 1.3))
    assert not printed("1.2").meets(exactly(1.2500001))
    assert printed("5").scaled(-1) == PrintedRange(-5.0, -5.5, -4.5)


@given(st.decimals(-1000, 1000, places=4), st.integers(0, 4))
def test_rounding_in_print_is_always_within_the_range(number: Decimal, digits: int) -> None:
    assert printed(f"{number:.{digits}f}").meets(exactly(float(number)))
