"""What charts have alike: the ends of axes, how numbers stand on them, room for names."""

import pandas as pd
import pytest

from dashboard import charts as axes
from dashboard.charts import LoadPlaces, arm_colour, compare, cost, load_places
from warehouse.loads import Load


def test_loads_keep_a_twelfth_free_at_the_left_and_the_asked_room_at_the_right() -> None:
    x = axes.loads([16, 4, 1], room=3.0).to_dict()

    assert x["scale"]["domain"] == pytest.approx([1 / 1.12, 48.0])
    assert x["axis"]["values"] == [16, 4, 1]


def test_named_loads_stand_at_whole_places() -> None:
    x = axes.named_loads(["4", "2/s"], 0.0).to_dict()

    assert x["axis"]["values"] == [1, 2]
    assert x["scale"]["domain"] == [0.8, 2.2]
    assert axes.named_loads(["4", "2/s"], 1.5).to_dict()["scale"]["domain"] == [0.8, 3.5]


@pytest.mark.parametrize(("high", "number"), [(9_999.0, ",~r"), (10_000.0, "~s"), (1e6, "~s")])
def test_from_ten_thousand_on_numbers_are_shortened(high: float, number: str) -> None:
    y = axes.amounts("value", high).to_dict()

    assert (y["axis"]["format"], y["scale"]["domain"]) == (number, [0, high])


def test_shares_are_in_percent() -> None:
    assert axes.amounts("value", 1.0, share=True).to_dict()["axis"]["format"] == ".0%"


@pytest.mark.parametrize("channel", ["color", "stroke", "fill"])
def test_each_arm_has_its_own_colour_in_every_channel(channel: axes.Channel) -> None:
    arms = ["ngram K=2", "baseline", "eagle3 K=3", "baseline"]

    scale = axes.colour(pd.DataFrame({"arm": arms}), channel).to_dict()["scale"]

    found = dict(zip(scale["domain"], scale["range"], strict=True))
    assert found == {arm: arm_colour(arm) for arm in arms}


def right_end(places: LoadPlaces, *labels: str) -> float:
    """Where the axis of loads ends beside lines with these names at their ends."""
    x = compare._axis(places, pd.DataFrame({"end_label": labels})).to_dict()
    end: float = x["scale"]["domain"][1]
    return end


def at_once(*levels: float) -> LoadPlaces:
    return load_places(Load("concurrency", level) for level in levels)


def test_names_at_the_ends_get_their_share_of_the_plot_and_no_more() -> None:
    # 10 letters of 6.6 px and 12 px of 300: 0.26 of the plot, so 0.26 / 0.74 of the loads beside it.
    part = (78 / 300) / (1 - 78 / 300)
    assert right_end(at_once(1, 16), "x", "x" * 10) == pytest.approx(16 * 16**part)
    # However long a name is, the lines keep 58 % of the width.
    most = 0.42 / 0.58
    assert right_end(at_once(1, 16), "x" * 90) == pytest.approx(16 * 16**most)


def test_a_single_load_has_room_for_its_name_as_if_there_were_its_double() -> None:
    part = (78 / 300) / (1 - 78 / 300)
    assert right_end(at_once(8), "x" * 10) == pytest.approx(8 * 2**part)
    assert right_end(load_places([None]), "x" * 10) == pytest.approx(1 + part)


def spread(*values: float) -> pd.DataFrame:
    """Values whose intervals reach a tenth below and above."""
    frame = pd.DataFrame({"value": values})
    return frame.assign(low=frame["value"] - 0.1, high=frame["value"] + 0.1)


def test_amounts_start_at_zero_and_end_above_the_highest_interval() -> None:
    assert compare._scale(spread(3.0, 4.9), absolute=True) == pytest.approx((0.0, 5.6))
    nothing = pd.DataFrame({"value": [0.0], "low": [0.0], "high": [0.0]})
    assert compare._scale(nothing, absolute=True) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [((0.2, 0.4), 0.0, 0.5), ((-0.4, -0.2), -0.5, 0.0), ((-0.2, 0.4), -0.3, 0.5)],
)
def test_improvements_have_zero_and_every_interval_inside(
    values: tuple[float, ...], low: float, high: float
) -> None:
    room = 0.12 * (high - low)

    assert compare._scale(spread(*values), absolute=False) == pytest.approx(
        (low - room, high + room)
    )


def test_improvements_of_nearly_nothing_are_not_blown_up() -> None:
    tiny = pd.DataFrame({"value": [0.001], "low": [0.0], "high": [0.002]})

    assert compare._scale(tiny, absolute=False) == pytest.approx((-0.006, 0.008))


def test_money_is_ticked_at_one_two_and_five_up_to_both_ends() -> None:
    assert cost._ticks(0.2, 5.0) == pytest.approx([0.2, 0.5, 1.0, 2.0, 5.0])
    assert cost._ticks(0.21, 4.9) == pytest.approx([0.5, 1.0, 2.0])
