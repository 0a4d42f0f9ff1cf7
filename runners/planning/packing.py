"""Launches side by side on the GPUs of one node: whether a study allows it, and how long it takes."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runners.executors import gpus_needed
from runners.planning.plan import Launch, Plan
from runners.planning.study import Study


@dataclass(frozen=True)
class Node:
    """Where launches may run. ``gpus`` None: unknown, and then one launch follows the other unless
    ``servers`` says how many there may be at a time; None: as many as fit."""

    gpus: int | None = None
    servers: int | None = None


@dataclass(frozen=True)
class Packed:
    """How launches lie on a node: seconds until the last one ends, most servers at a time."""

    seconds: float
    at_once: int


def allowed(study: Study) -> bool:
    """Return whether servers of this study may run side by side: on GPUs of their own, never on a
    CPU."""
    on_cpu = study.cpus is not None or study.evidence in ("cpu", "mock")
    return study.side_by_side == "allow" and not on_cpu


def pack(study: Study, took: Sequence[tuple[Launch, float]], node: Node) -> Packed:
    """Plan the starts of launches (each with its seconds) in their order as room comes, none
    overtaking."""
    most = node.servers or (len(took) if node.gpus is not None and allowed(study) else 1)
    running: list[tuple[float, int]] = []
    now, at_once = 0.0, 0
    for launch, seconds in took:
        size = gpus_needed(study, launch)
        room = None if node.gpus is None else max(node.gpus, size)
        while len(running) >= most or (
            room is not None and sum(taken for _, taken in running) + size > room
        ):
            now = max(now, heapq.heappop(running)[0])
        heapq.heappush(running, (now + seconds, size))
        at_once = max(at_once, len(running))
    return Packed(max((end for end, _ in running), default=0.0), at_once)


def duration_of(plan: Plan, node: Node) -> Callable[[Mapping[str, float]], float]:
    """Return what tells how long cells (seconds by key) take on a node, launch by launch."""

    def lasts(cells: Mapping[str, float]) -> float:
        took = [
            (each, sum(cells[cell.key] for cell in each.cells if cell.key in cells))
            for each in plan.launches
        ]
        return pack(plan.study, [one for one in took if one[1]], node).seconds

    return lasts
