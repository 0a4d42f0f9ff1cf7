"""Cores near GPUs, from a copy of what Linux says of a machine with two memories."""

from collections.abc import Callable
from pathlib import Path

import pytest

from runners.planning.plan import make_plan
from runners.planning.study_file import Study
from runners.serving.server import near_gpus
from runners.surroundings.machine import Near, listed, near

ALL = frozenset(range(16))


@pytest.fixture
def two_sockets(tmp_path: Path) -> Path:
    """Eight cores with two threads each, four cores to a memory."""
    for node, cores in enumerate(("0-3,8-11\n", "4-7,12-15\n")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(cores)
    return tmp_path


def test_a_server_stays_on_the_cores_of_its_gpus_memory(two_sockets: Path) -> None:
    assert near([1, 1], ALL, two_sockets) == Near((1,), frozenset({4, 5, 6, 7, 12, 13, 14, 15}))


def test_only_cores_that_may_be_used_here_are_taken(two_sockets: Path) -> None:
    assert near([0], frozenset({2, 3, 4, 5}), two_sockets) == Near((0,), frozenset({2, 3}))


@pytest.mark.parametrize(
    ("nodes", "usable"),
    [([0, 1], ALL), ([None], ALL), ([0, None], ALL), ([7], ALL), ([], ALL), ([0], frozenset({5}))],
)
def test_where_nothing_can_be_kept_apart_nothing_is_bound(
    two_sockets: Path, nodes: list[int | None], usable: frozenset[int]
) -> None:
    assert near(nodes, usable, two_sockets) is None


def test_lists_of_cores_read_as_linux_writes_them() -> None:
    assert listed("0-2,5,7-8") == {0, 1, 2, 5, 7, 8}
    assert listed("") == frozenset()


@pytest.mark.parametrize(
    "changes",
    [
        {"numa": "leave"},
        {"cpus": {"engine": [0], "client": [1]}},
        {"target": {"model": "m", "engine_args": {"numa-bind": True}}},
    ],
)
def test_a_study_or_its_engine_may_see_to_it_themselves(
    study_of: Callable[..., Study], changes: dict[str, object]
) -> None:
    study = study_of(**changes)
    assert near_gpus(study, make_plan(study).launches[0]) is None
