"""The Pareto front: what nobody should run, and who does better."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.matching.arms import ArmLevels, arm_levels, means
from analysis.service.slo import dominators, points, unplaced

Row = Callable[..., dict[str, Any]]
positive = st.integers(1, 8).map(float)


def rates(cell: str, output: float | None, itl: float | None) -> list[tuple[Any, ...]]:
    both = (("output_throughput", output), ("itl", itl))
    return [(cell, name, "mean", value) for name, value in both if value is not None]


def levels(
    row: Row, cells: list[tuple[str, dict[str, Any], float | None, float | None]]
) -> ArmLevels:
    """cell id, facts, output tokens/s, ITL (ms)."""
    told = [
        row(cell, **{"arm_label": facts.get("method", "none"), "comparable_as": "x", **facts})
        for cell, facts, _, _ in cells
    ]
    measured = [line for cell, _, output, itl in cells for line in rates(cell, output, itl)]
    columns = ["cell_id", "metric", "statistic", "value"]
    return arm_levels(pd.DataFrame(told), pd.DataFrame(measured, columns=columns))


def test_a_point_is_the_speed_of_a_user_and_of_a_gpu(row: Row) -> None:
    found = points(levels(row, [("a", {"gpu_count": 4, "concurrency": 8}, 2000.0, 20.0)]))

    (point,) = found.to_dict("records")
    assert point["tokens_per_second_per_user"] == pytest.approx(50.0)
    assert point["tokens_per_second_per_gpu"] == pytest.approx(500.0)
    assert (point["gpus"], point["dominated"]) == (4, False)


def test_a_dominated_point_names_who_does_better(row: Row) -> None:
    spec = {"method": "eagle3", "concurrency": 8}
    found = points(
        levels(
            row,
            [
                ("a", {"concurrency": 8}, 1000.0, 20.0),
                ("b", spec, 1200.0, 10.0),
                ("c", {"concurrency": 16}, 1500.0, 40.0),
                # Two GPUs give the user more, and each GPU less.
                ("d", {"gpu_count": 2, "tensor_parallel_size": 2, "concurrency": 8}, 1400.0, 8.0),
            ],
        )
    ).set_index(["arm_label", "load_short", "gpus"])

    assert found["dominated"].to_dict() == {
        ("none", "8", 2): False, ("eagle3", "8", 1): False, ("none", "8", 1): True, ("none", "16", 1): False,
    }  # fmt: skip
    assert found.loc[("none", "8", 1), "dominated_by"] == "eagle3 TP 1 at 8"


def test_points_of_other_datasets_do_not_compete(row: Row) -> None:
    found = points(
        levels(row, [("a", {"dataset": "x"}, 1000.0, 20.0), ("b", {"dataset": "y"}, 2000.0, 10.0)])
    )
    assert not found["dominated"].any()
    assert found["group"].nunique() == 2


def test_what_cannot_be_placed_is_counted(row: Row) -> None:
    found = levels(
        row,
        [
            ("a", {}, 1000.0, None),
            ("b", {"gpu_count": None, "tensor_parallel_size": None, "gpu": "x"}, 900.0, 9.0),
            ("c", {"concurrency": 16}, 1000.0, 20.0),
        ],
    )
    assert len(points(found)) == 1
    assert unplaced(found) == 2


def test_repeats_are_one_point_at_their_geometric_mean(row: Row) -> None:
    found = points(
        levels(row, [("a", {"repeat": 0}, 1000.0, 20.0), ("b", {"repeat": 1}, 4000.0, 5.0)])
    )
    (point,) = found.to_dict("records")
    assert point["repeats"] == 2
    assert point["tokens_per_second_per_gpu"] == pytest.approx(2000.0)
    assert point["tokens_per_second_per_user"] == pytest.approx(100.0)


def test_failed_cells_and_cells_without_a_load_are_no_levels(row: Row) -> None:
    found = levels(
        row, [("a", {"status": "failed"}, 1.0, 1.0), ("b", {"concurrency": None}, 1.0, 1.0)]
    )
    assert found.values.empty
    assert points(found).empty
    assert means(found.values).empty


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=12), st.randoms())
def test_the_front_is_what_no_point_beats(xy: list[tuple[float, float]], random: Any) -> None:
    x, y = (np.array(values) for values in zip(*xy, strict=True))
    by = dominators(x, y)
    beaten = [any((a >= c and b >= d) and (a > c or b > d) for a, b in xy) for c, d in xy]
    assert (by >= 0).tolist() == beaten
    # Whoever is named is on the front, and better in fact.
    for place, at in enumerate(by.tolist()):
        if at >= 0:
            assert by[at] == -1
            assert x[at] >= x[place]
            assert y[at] >= y[place]
    # Neither units nor the order of the points play a part.
    assert (dominators(x * 7, y / 3) == by).all()
    order = list(range(len(xy)))
    random.shuffle(order)
    assert ((dominators(x[order], y[order]) >= 0) == (by >= 0)[order]).all()


def test_a_rate_and_a_concurrency_are_no_one_ladder(row: Row) -> None:
    rate = {"load_profile": "constant", "rate": 8.0, "concurrency": None}
    found = levels(
        row, [("a", {"load_profile": "concurrent"}, 1000.0, 20.0), ("b", rate, 900.0, 9.0)]
    )

    assert len(found.keys) == 2
    assert set(points(found)["load_short"]) == {"8", "8/s"}
