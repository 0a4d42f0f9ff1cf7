"""Launches over the GPUs that are free: which ones, and when there is nothing to spread."""

from collections.abc import Callable
from typing import Any

import pytest

from runners.executors.local import fitting, spread
from runners.planning.plan import make_plan
from runners.planning.study_file import Study
from runners.surroundings.machine import Gpu, Survey

_ALL = 150 << 30


def node(*gpus: dict[str, Any]) -> Survey:
    """A node of these GPUs, idle unless said otherwise."""
    idle = {"memory_bytes": _ALL, "free_bytes": _ALL - (600 << 20), "processes": 0}
    return Survey(tuple(Gpu(i, "H200", **(idle | told)) for i, told in enumerate(gpus)))


BUSY, FULL, GONE = {"processes": 1}, {"free_bytes": _ALL // 2}, {"memory_bytes": None}


def test_launches_take_the_gpus_that_nobody_uses(study_of: Callable[..., Study]) -> None:
    study = study_of()
    found = spread(study, make_plan(study).launches, node({}, BUSY, {}, FULL, GONE, {}, {}), {})
    assert found is not None
    # Three launches of one GPU each; memory may be taken by whom a container does not show.
    assert (found.settings.gpus, found.settings.parallel) == (("0", "2", "5", "6"), 3)


def test_only_gpus_that_are_visible_here_are_taken(study_of: Callable[..., Study]) -> None:
    study = study_of()
    visible = {"CUDA_VISIBLE_DEVICES": "3,1"}
    found = spread(study, make_plan(study).launches, node({}, {}, {}, {}), visible)
    assert found is not None
    assert found.settings.gpus == ("3", "1")


@pytest.mark.parametrize(
    ("changes", "gpus"),
    [
        ({}, [{}]),
        ({}, [{}, BUSY]),
        ({"side_by_side": "never"}, [{}] * 8),
        ({"evidence": "cpu"}, [{}] * 8),
        ({"cpus": {"engine": [0], "client": [1]}}, [{}] * 8),
        ({"tensor_parallel_sizes": [8]}, [{}] * 8),
        # One that fits nowhere is left to the plain run, which says so.
        ({"tensor_parallel_sizes": [1, 16]}, [{}] * 8),
        ({}, []),
    ],
)
def test_where_only_one_fits_or_servers_are_kept_apart_nothing_is_spread(
    study_of: Callable[..., Study], changes: dict[str, Any], gpus: list[dict[str, Any]]
) -> None:
    study = study_of(**changes)
    assert spread(study, make_plan(study).launches, node(*gpus), {}) is None


def test_a_single_launch_is_not_spread(study_of: Callable[..., Study]) -> None:
    study = study_of()
    assert spread(study, make_plan(study).launches[:1], node({}, {}), {}) is None


@pytest.mark.parametrize(("gpus", "most"), [([{}] * 4, 3), ([{}, BUSY, {}], 2), ([{}], 1), ([], 1)])
def test_it_is_known_beforehand_how_many_fit(
    study_of: Callable[..., Study], gpus: list[dict[str, Any]], most: int
) -> None:
    study = study_of()
    assert fitting(study, make_plan(study).launches, node(*gpus), {}) == most
