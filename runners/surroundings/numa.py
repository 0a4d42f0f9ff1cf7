"""Which cores lie near which GPUs: a machine with two sockets has two memories (NUMA).

A server whose processes run beside the other socket's GPUs moves every batch across the machine,
and where they run is chance. So they are kept on the cores of the memory that its GPUs hang on.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runners.executors import gpus_needed
from runners.planning.plan import Launch
from runners.planning.study import Study
from runners.surroundings import gpu, machine

_NODES = Path("/sys/devices/system/node")


@dataclass(frozen=True)
class Near:
    """The cores near some GPUs, and the numbers of the memories (NUMA nodes) that those GPUs hang
    on."""

    nodes: tuple[int, ...]
    cores: frozenset[int]


def near_gpus(study: Study, launch: Launch) -> Near | None:
    """Return the cores near the GPUs that a launch gets on this machine; None where nothing is to
    be kept apart, or where study or engine see to it themselves."""
    if study.numa == "leave" or study.cpus is not None or _engine_binds(study, launch):
        return None
    seen = gpu.visible(gpu.survey(), {**os.environ, **study.environment})
    used = seen[: gpus_needed(study, launch)]
    return near([each.numa_node for each in used], machine.usable_cores())


def near(nodes: Iterable[int | None], usable: frozenset[int], root: Path = _NODES) -> Near | None:
    """Return the usable cores of these memories; None where one is unknown, or where those are all
    cores."""
    wanted = sorted(set(nodes), key=lambda node: -1 if node is None else node)
    cores: set[int] = set()
    known: list[int] = []
    for node in wanted:
        text = "" if node is None else _text(root / f"node{node}" / "cpulist")
        if node is None or not text:
            return None
        known.append(node)
        cores |= listed(text)
    left = usable.intersection(cores)
    return Near(tuple(known), left) if left and left != usable else None


def listed(text: str) -> frozenset[int]:
    """Return cores from the text in which Linux writes them: "0-3,8" as {0, 1, 2, 3, 8}."""
    found = re.findall(r"(\d+)(?:-(\d+))?", text)
    ranges = (range(int(first), int(last or first) + 1) for first, last in found)
    return frozenset(core for cores in ranges for core in cores)


def _engine_binds(study: Study, launch: Launch) -> bool:
    """Return whether vLLM is told to bind its workers itself (``--numa-bind``)."""
    given = {**study.target.engine_args, **launch.variant.engine_args}
    return any(name.lstrip("-").replace("_", "-").startswith("numa-bind") for name in given)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
