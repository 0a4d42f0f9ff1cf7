"""What a plan will take: time, GPU-hours, money, disk; from recorded cells where there are some."""

import heapq
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

from runners.planning.asked import trace_of
from runners.planning.plan import Launch, Plan, PlannedCell, gpus_needed
from runners.planning.study import Study
from runners.surroundings.layout import records_under
from warehouse.loads import Load, load_of

# --- Launches side by side on the GPUs of one node: whether a study allows it, and how long it takes.


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


# --- What a plan will take: time, GPU-hours, money, disk; from recorded cells where there are some.


#: Assumed where nothing was recorded, and said wherever the figures are shown: a request of 1000
#: answered tokens alone, and how its time grows with those beside it. From the latencies and
#: throughputs that were published for gpt-oss-120b on an H200, 7 s alone and 51 s among 100.
SECONDS_ALONE, GROWTH, ANSWER_TOKENS = 7.0, 0.43, 1000
SECONDS_PER_START = 180.0
SECONDS_PER_CELL = 30.0

#: A report of GuideLLM 0.8 and its samples, measured; texts of a thousand tokens included.
BYTES_PER_CELL = 300_000
BYTES_PER_REQUEST = 9_000


@dataclass(frozen=True)
class Assumed:
    """What is taken for granted where no cell was recorded."""

    seconds_per_request: float | None = None
    """At every load; None: as published, longer where more are in flight."""
    seconds_per_start: float = SECONDS_PER_START


@dataclass(frozen=True)
class Recorded:
    """Durations of earlier cells: (dataset, load, seconds) and seconds of server starts."""

    cells: tuple[tuple[str | None, Load | None, float], ...] = ()
    starts: tuple[float, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """The cost of a whole plan on one node, launches side by side on its GPUs where that may be."""

    hours: float
    sequential_hours: float
    side_by_side: int
    """Most servers at a time."""
    gpus: int | None
    """GPUs of the node; None: unknown."""
    gpu_hours: float
    idle_share: float | None
    """Of the node's GPU-hours, what one launch after the other would leave idle."""
    usd: float | None
    sequential_usd: float | None
    usd_basis: str
    disk_bytes: int
    basis: Literal["recorded", "partly recorded", "assumed"]
    """Whether the durations were recorded, for all cells or for some."""
    recorded_cells: int

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON."""
        return asdict(self)


def estimate(
    plan: Plan, recorded: Recorded, assumed: Assumed, node: Node | None = None
) -> Estimate:
    """Sum the launches of a plan; cells are timed by what was recorded, else by assumption.

    Without a ``node`` it is the instance whose price the study gives.
    """
    seconds_of = {cell.key: _cell_seconds(cell, recorded) for cell in plan.cells}
    start = median(recorded.starts) if recorded.starts else assumed.seconds_per_start

    def lasts(cell: PlannedCell) -> float:
        known = seconds_of[cell.key]
        return _assumed_seconds(plan.study, cell, assumed) if known is None else known

    took = [(each, start + sum(lasts(cell) for cell in each.cells)) for each in plan.launches]
    hours = sum(seconds for _, seconds in took) / 3600
    gpu_hours = sum(seconds * gpus_needed(plan.study, each) for each, seconds in took) / 3600
    node = node or priced_node(plan.study)
    packed = pack(plan.study, took, node)
    known = sum(seconds is not None for seconds in seconds_of.values())
    usd, basis = _money(plan, packed.seconds / 3600, packed.at_once)
    return Estimate(
        hours=packed.seconds / 3600,
        sequential_hours=hours,
        side_by_side=packed.at_once,
        gpus=node.gpus,
        gpu_hours=gpu_hours,
        idle_share=1 - gpu_hours / (node.gpus * hours) if node.gpus and hours else None,
        usd=usd,
        sequential_usd=_money(plan, hours, 1)[0],
        usd_basis=basis,
        disk_bytes=sum(BYTES_PER_CELL + BYTES_PER_REQUEST * cell.prompts for cell in plan.cells),
        basis=_basis(known, len(seconds_of)),
        recorded_cells=known,
    )


def priced_node(study: Study, servers: int | None = None) -> Node:
    """Return the instance that the study has a price of."""
    return Node(None if study.price is None else study.price.gpus_per_instance, servers)


def expected_seconds(
    plan: Plan, cells: Sequence[PlannedCell], recorded: Recorded
) -> dict[str, float]:
    """Return the seconds of each of these cells by its key; the first of a launch carries its
    server's start."""
    start = median(recorded.starts) if recorded.starts else SECONDS_PER_START
    wanted, found = {cell.key for cell in cells}, {}
    for launch in plan.launches:
        before = start
        for cell in (cell for cell in launch.cells if cell.key in wanted):
            known = _cell_seconds(cell, recorded)
            each = _assumed_seconds(plan.study, cell, Assumed()) if known is None else known
            found[cell.key], before = before + each, 0.0
    return found


def read_recorded(results: Path | None) -> Recorded:
    """Return the durations of the good cells under a results folder; nothing where there is
    none."""
    cells, starts = [], []
    for record in _records(results):
        timeline = record.get("timeline") or {}
        total, start = timeline.get("total"), timeline.get("server_start") or 0.0
        if record.get("status", "good") == "good" and isinstance(total, (int, float)):
            cells.append((record.get("dataset"), _load(record), total - start))
            starts.extend([start] if start else [])
    return Recorded(tuple(cells), tuple(starts))


def _records(results: Path | None) -> Iterator[dict[str, Any]]:
    for path in sorted(records_under(results)) if results is not None else ():
        try:
            said = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue  # A record that cannot be read is ingest's to report; here it only says nothing.
        if isinstance(said, dict):
            yield said


def _load(record: dict[str, Any]) -> Load | None:
    return load_of(*(record.get(name) for name in ("load_profile", "concurrency", "rate", "trace")))


def _cell_seconds(cell: PlannedCell, recorded: Recorded) -> float | None:
    """Return the mean of what was recorded on this dataset at this load, else at this load, else
    None."""
    wanted = cell.level.as_load
    at_load = [(name, seconds) for name, load, seconds in recorded.cells
               if load is not None and load == wanted]  # fmt: skip
    same = [seconds for name, seconds in at_load if name == cell.dataset]
    found = same or [seconds for _, seconds in at_load]
    return fmean(found) if found else None


def _assumed_seconds(study: Study, cell: PlannedCell, assumed: Assumed) -> float:
    each = assumed.seconds_per_request
    if each is None:
        tokens = study.dataset(cell.dataset).max_tokens or study.request.max_tokens
        share = min(1.0, (tokens or ANSWER_TOKENS) / ANSWER_TOKENS)
        each = SECONDS_ALONE * share * _beside(cell) ** GROWTH
    return SECONDS_PER_CELL + _offered_s(study, cell) + _waves(cell) * each


def _beside(cell: PlannedCell) -> int:
    """Return the requests in flight; of a rate or a trace nobody knows, so a server that keeps up
    is assumed."""
    return cell.most_at_once if cell.level.profile in ("concurrent", "throughput") else 1


def _waves(cell: PlannedCell) -> int:
    """Return how many requests follow one another; of an open load only the last one is waited
    for."""
    return math.ceil(cell.prompts / cell.concurrency) if cell.concurrency else 1


def _offered_s(study: Study, cell: PlannedCell) -> float:
    """Return how long an open load sends requests, s; a sweep's unknown rate is taken for one a
    second."""
    if cell.level.trace is not None:
        return trace_of(study, cell.level).lasts_s
    open_loop = cell.level.profile in ("constant", "poisson")
    return cell.prompts / (cell.level.rate or 1.0) if open_loop else 0.0


def _money(plan: Plan, hours: float, side_by_side: int) -> tuple[float | None, str]:
    price = plan.study.price
    if price is None:
        return None, "no price in the study"
    return hours * price.usd_per_hour, (
        f"whole instance of {price.gpus_per_instance} GPUs at {price.usd_per_hour} USD/h, "
        + (
            f"up to {side_by_side} servers side by side"
            if side_by_side > 1
            else "launches one after the other"
        )
    )


def _basis(known: int, cells: int) -> Literal["recorded", "partly recorded", "assumed"]:
    if known == 0:
        return "assumed"
    return "recorded" if known == cells else "partly recorded"
