"""Names at the ends of lines: each can be read, and none stands further off than it must."""

import pandas as pd
import pytest

from dashboard.charts import ends_apart

#: From one end of the axis to the other; the distance that names keep is 8.5 % of it: 0.85.
SPAN = 10.0


def placed(*ends: tuple[str, float]) -> dict[str, float]:
    """The name at a line's end -> the height at which it stands."""
    marks = pd.DataFrame(ends, columns=["end_label", "value"])
    found = ends_apart(marks, SPAN).set_index("end_label")["end_y"]
    return {str(name): float(height) for name, height in found.items()}


def test_names_that_are_far_enough_apart_stand_where_their_lines_end() -> None:
    assert placed(("a", 18.0), ("b", 11.0), ("c", 14.0)) == {"a": 18.0, "b": 11.0, "c": 14.0}
    assert placed(("a", 15.0)) == {"a": 15.0}


def test_names_that_are_too_near_part_in_their_order_around_the_same_middle() -> None:
    found = placed(("upper", 15.2), ("top", 19.0), ("lower", 15.0))

    # 15.0, 15.85 and 19.0 would do; all three move down by a third of what the second went up.
    shift = 0.65 / 3
    assert found == pytest.approx(
        {"lower": 15.0 - shift, "upper": 15.85 - shift, "top": 19.0 - shift}
    )
    assert sum(found.values()) == pytest.approx(15.0 + 15.2 + 19.0)


def test_equal_ends_stand_a_line_apart() -> None:
    found = sorted(placed(("a", 15.0), ("b", 15.0), ("c", 15.0)).values())

    assert found == pytest.approx([14.15, 15.0, 15.85])


def test_only_named_ends_are_placed() -> None:
    marks = pd.DataFrame({"end_label": ["", "a", ""], "value": [15.0, 15.1, 15.2]})

    found = ends_apart(marks, SPAN)

    assert list(found["value"]) == [15.0, 15.1, 15.2]
    assert found["end_y"].isna().tolist() == [True, False, True]
    assert found["end_y"].dropna().tolist() == [15.1]
    assert "end_y" not in marks
