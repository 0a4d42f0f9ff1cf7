"""Whether a launch fits on any node of a Ray cluster: Ray itself would wait for ever."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warehouse.errors import RunnerError

_LOOK_S = 2.0


@dataclass(frozen=True)
class Need:
    """What one launch takes of a node."""

    gpus: int
    cpus: float
    resources: Mapping[str, float]

    def fits(self, node: Mapping[str, float]) -> bool:
        """Return whether a node with these resources could ever run the launch."""
        asked = {"GPU": float(self.gpus), "CPU": self.cpus, **self.resources}
        return all(node.get(name, 0.0) >= amount for name, amount in asked.items())

    def sentence(self) -> str:
        """Return what is needed, in words."""
        parts = [f"{self.gpus} GPUs", f"{self.cpus:g} CPU cores"]
        return ", ".join(parts + [f"{n:g} {name}" for name, n in self.resources.items()])


def homeless(ray: Any, needs: Mapping[str, Need]) -> str | None:
    """Name a launch that fits on no living node, in a sentence, for which Ray itself would wait for
    ever. None where all fit."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for launch_id, need in needs.items():
        if not any(need.fits(node) for node in nodes):
            largest = max((node.get("GPU", 0.0) for node in nodes), default=0.0)
            return (
                f"No node of the Ray cluster can run {launch_id}: it takes {need.sentence()} on one "
                f"node; of {len(nodes)} nodes the largest has {largest:g} GPUs"
            )
    return None


def await_nodes(ray: Any, needs: Mapping[str, Need], seconds: float) -> None:
    """Return once every launch fits on some node. RunnerError where none joins within ``seconds``."""
    until = time.monotonic() + seconds
    while (problem := homeless(ray, needs)) is not None:
        if time.monotonic() >= until:
            raise RunnerError(
                f"{problem}. Add such a node, or let it wait for one (ray: wait_for_nodes_s in the "
                "cluster options)."
            )
        time.sleep(min(_LOOK_S, seconds))
