"""What a plan will take: time, GPU-hours, money, disk; from recorded cells where there are some."""

import heapq
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

from runners.planning.plan import (
    Launch,
    Plan,
    PlannedCell,
    configurations,
    draft_key,
    gpus_needed,
    target_key,
    trace_of,
)
from runners.planning.speculation import expected_length
from runners.planning.study_file import Study
from runners.surroundings import models
from runners.surroundings.layout import json_object
from runners.surroundings.machine import Survey, memory_bandwidth, visible
from warehouse.loads import Load, load_of

# --- Launches side by side on the GPUs of one node: whether a study allows it, and how long it takes.


@dataclass(frozen=True)
class Node:
    """Where launches may run. ``gpus`` None: unknown, and then one launch follows the other unless
    ``servers`` says how many there may be at a time; None: as many as fit."""

    gpus: int | None = None
    servers: int | None = None


def pack(study: Study, took: Sequence[tuple[Launch, float]], node: Node) -> tuple[float, int]:
    """Plan the starts of launches (each with its seconds) in their order as room comes, none
    overtaking. Return the seconds until the last one ends, and the most servers at a time."""
    # On GPUs of their own, never on a CPU.
    may = study.side_by_side == "allow" and not study.on_cpu
    most = node.servers or (len(took) if node.gpus is not None and may else 1)
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
    return max((end for end, _ in running), default=0.0), at_once


def duration_of(plan: Plan, node: Node) -> Callable[[Mapping[str, float]], float]:
    """Return what tells how long cells (seconds by key) take on a node, launch by launch."""

    def lasts(cells: Mapping[str, float]) -> float:
        took = []
        for launch in plan.launches:
            seconds = sum(cells[cell.key] for cell in launch.cells if cell.key in cells)
            took += [(launch, seconds)] if seconds else []
        return pack(plan.study, took, node)[0]

    return lasts


# --- A request on a GPU whose memory is known: a step takes as long as its reads, and a little more.
#
# What it takes more was fitted to the 28 cells of examples/h200 (vLLM 0.26): docs/running.md says how well.


#: Seconds that each pass through a model takes beside its reads, and each request in it, its prefill included;
#: how many times as long a byte of a mixture's expert takes (gpt-oss in MXFP4, which Hopper has to unpack).
PASS_S, IN_PASS_S, EXPERT = 0.002, 0.000_035, 3.0
#: Seconds of a cell beside its load, and of a start beside its weights, of which bytes are loaded in a second.
BESIDE_LOAD_S, BESIDE_WEIGHTS_S, LOADED_BYTES = 16.0, 60.0, 1e9
#: Nobody has counted the tokens of the prompts before the first run.
PROMPT_TOKENS = 256


def request_s(
    held: models.MemoryEstimate,
    bandwidth: float,
    config: Mapping[str, Any],
    at_once: int,
    answer: int,
) -> float:
    """Return the seconds of a request with an answer of so many tokens, among so many. ``held``: what lies
    in the memory of each GPU, ``bandwidth``: the bytes that it yields in a second, ``config``: how the arm
    speculates."""
    k = config.get("num_speculative_tokens") or 0
    drafting = 0 if config.get("method") in ("ngram", "suffix") else k
    cache = at_once * (held.cache_bytes(PROMPT_TOKENS + answer // 2) or 0)
    read = held.read_by(at_once * (1 + k), EXPERT) + drafting * (held.draft_bytes or 0) + cache
    beside = (1 + drafting) * (PASS_S + at_once * IN_PASS_S)
    return answer / expected_length(config) * (read / bandwidth + beside)


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

    #: At every load; None: by what a step reads, else as published, longer where more are in flight.
    seconds_per_request: float | None = None
    seconds_per_start: float = SECONDS_PER_START
    #: Bytes a second of a GPU's memory, and what lies in it, by arm and tensor parallel size.
    bandwidth: float = 0.0
    held: Mapping[tuple[str, int], models.MemoryEstimate] = field(default_factory=dict)
    #: How long a request is taken to last, and why.
    words: str = f"{SECONDS_ALONE:g} s a request alone, more among others"

    def on_gpu(
        self, plan: Plan, gpus: Sequence[str], find: Callable[..., models.ModelFiles]
    ) -> "Assumed":
        """Return the same with the steps of every server on the GPU that the study names, else on the
        first of ``gpus``; where they cannot be known, with the reason. ``find``: a model's files by its
        name and revision."""
        study, gpu = plan.study, plan.study.gpu or next(iter(gpus), None)
        launches = [each for each in configurations(plan) if gpus_needed(study, each)]
        if self.seconds_per_request is not None or gpu is None or not launches:
            return self
        bandwidth = memory_bandwidth(gpu)
        if bandwidth is None:
            return replace(
                self, words=f"{self.words}, since the bandwidth of {gpu} is not known here"
            )
        held = {
            (each.variant.name, each.tensor_parallel_size): models.memory_estimate(
                find(*target_key(study)), find(*draft) if (draft := draft_key(study, each)) else None,
                each.tensor_parallel_size, study.engine_arguments(each.variant),
                each.variant.speculative_config,
            )
            for each in launches
        }  # fmt: skip
        if any(None in (each.weights, each.target_cache) for each in held.values()):
            return replace(
                self, words=f"{self.words}, since files that tell a step's bytes are missing"
            )
        first, answer = next(iter(held.values())), study.request.max_tokens or ANSWER_TOKENS
        alone = request_s(first, bandwidth, {}, 1, answer)
        return replace(
            self, bandwidth=bandwidth, held=held,
            words=f"{alone:.2g} s a request alone, by what a step reads at the {bandwidth / 1e12:g} TB/s of {gpu}",
        )  # fmt: skip


def assumed_here(plan: Plan, found: Survey, assumed: Assumed) -> Assumed:
    """Return what is assumed of a study's requests by the GPUs and the model files of this machine."""
    env = {**os.environ, **plan.study.environment}
    return assumed.on_gpu(
        plan,
        [gpu.name for gpu in visible(found, env)],
        lambda model, revision: models.find(model, revision, env),
    )


@dataclass(frozen=True)
class RecordedDurations:
    """Durations of earlier cells: (dataset, load, seconds) and seconds of server starts."""

    cells: tuple[tuple[str | None, Load | None, float], ...] = ()
    starts: tuple[float, ...] = ()


@dataclass(frozen=True)
class PlanEstimate:
    """The cost of a whole plan on one node, launches side by side on its GPUs where that may be."""

    hours: float
    sequential_hours: float
    #: Most servers at a time.
    side_by_side: int
    #: GPUs of the node; None: unknown.
    gpus: int | None
    gpu_hours: float
    #: Of the node's GPU-hours, what one launch after the other would leave idle.
    idle_share: float | None
    usd: float | None
    sequential_usd: float | None
    usd_basis: str
    disk_bytes: int
    #: Whether the durations were recorded, for all cells or for some.
    basis: Literal["recorded", "partly recorded", "assumed"]
    recorded_cells: int
    #: What the durations stand on, in words.
    how: str


def estimate(
    plan: Plan, recorded: RecordedDurations, assumed: Assumed, node: Node | None = None
) -> PlanEstimate:
    """Sum the launches of a plan; cells are timed by what was recorded, else by assumption.

    Without a ``node`` it is the instance whose price the study gives.
    """
    study, price = plan.study, plan.study.price
    node = node or priced_node(study)
    cells = {cell.key: _cell_seconds(study, cell, recorded, assumed) for cell in plan.cells}
    took = [
        (
            launch,
            sum((cells[cell.key][0] for cell in launch.cells), _start_s(launch, recorded, assumed)),
        )
        for launch in plan.launches
    ]
    sequential_hours = sum(seconds for _, seconds in took) / 3600
    gpu_hours = sum(seconds * gpus_needed(study, launch) for launch, seconds in took) / 3600
    packed_s, side_by_side = pack(study, took, node)
    hours, recorded_cells = packed_s / 3600, sum(was_recorded for _, was_recorded in cells.values())
    usd = sequential_usd = None
    usd_basis = "no price in the study"
    if price is not None:
        usd, sequential_usd = hours * price.usd_per_hour, sequential_hours * price.usd_per_hour
        beside = f"up to {side_by_side} servers side by side"
        how = beside if side_by_side > 1 else "launches one after the other"
        usd_basis = (
            f"whole instance of {price.gpus_per_instance} GPUs at {price.usd_per_hour} USD/h, {how}"
        )
    basis: Literal["recorded", "partly recorded", "assumed"] = "assumed"
    if recorded_cells:
        basis = "recorded" if recorded_cells == len(cells) else "partly recorded"
    how = {
        "recorded": f"from {recorded_cells} recorded cells",
        "partly recorded": f"{recorded_cells} cells from recorded durations, the others assumed",
        "assumed": f"assumed: {assumed.words}, nothing recorded yet",
    }[basis]
    alone_gpu_hours = (node.gpus or 0) * sequential_hours
    return PlanEstimate(
        hours=hours,
        sequential_hours=sequential_hours,
        side_by_side=side_by_side,
        gpus=node.gpus,
        gpu_hours=gpu_hours,
        idle_share=1 - gpu_hours / alone_gpu_hours if alone_gpu_hours else None,
        usd=usd,
        sequential_usd=sequential_usd,
        usd_basis=usd_basis,
        disk_bytes=sum(BYTES_PER_CELL + BYTES_PER_REQUEST * cell.prompts for cell in plan.cells),
        basis=basis,
        recorded_cells=recorded_cells,
        how=how,
    )


def priced_node(study: Study) -> Node:
    """Return the instance that the study has a price of."""
    return Node(None if study.price is None else study.price.gpus_per_instance)


def expected_seconds(
    plan: Plan,
    cells: Sequence[PlannedCell],
    recorded: RecordedDurations,
    assumed: Assumed,
) -> dict[str, float]:
    """Return the seconds of each of these cells by its key; the first of a launch carries its
    server's start."""
    chosen, expected = {cell.key for cell in cells}, {}
    for launch in plan.launches:
        before = _start_s(launch, recorded, assumed)
        for cell in (cell for cell in launch.cells if cell.key in chosen):
            seconds, _ = _cell_seconds(plan.study, cell, recorded, assumed)
            expected[cell.key], before = before + seconds, 0.0
    return expected


def read_recorded(records: Iterable[Path]) -> RecordedDurations:
    """Return the durations that the records of good cells tell; one that cannot be read is ingest's
    to report and only says nothing here."""
    cells: list[tuple[str | None, Load | None, float]] = []
    starts: list[float] = []
    for path in sorted(records):
        record = json_object(path)
        if record is None or record.get("status", "good") != "good":
            continue
        timeline = record.get("timeline") or {}
        total, start = timeline.get("total"), timeline.get("server_start") or 0.0
        if isinstance(total, (int, float)):
            load = (record.get(name) for name in ("load_profile", "concurrency", "rate", "trace"))
            cells.append((record.get("dataset"), load_of(*load), total - start))
            starts.extend([start] if start else [])
    return RecordedDurations(tuple(cells), tuple(starts))


def _start_s(launch: Launch, recorded: RecordedDurations, assumed: Assumed) -> float:
    held = assumed.held.get((launch.variant.name, launch.tensor_parallel_size))
    usual = assumed.seconds_per_start
    if held is not None:
        usual = BESIDE_WEIGHTS_S + (held.weights or 0) / LOADED_BYTES
    return median(recorded.starts) if recorded.starts else usual


def _cell_seconds(
    study: Study, cell: PlannedCell, recorded: RecordedDurations, assumed: Assumed
) -> tuple[float, bool]:
    # The seconds of a cell, and whether they were recorded: the mean on this dataset at this load,
    # else at this load; without either they are assumed.
    level, each, wanted = cell.level, assumed.seconds_per_request, cell.level.as_load
    at_load = [(name, seconds) for name, load, seconds in recorded.cells
               if load is not None and load == wanted]  # fmt: skip
    same = [seconds for name, seconds in at_load if name == cell.dataset]
    if known := same or [seconds for _, seconds in at_load]:
        return fmean(known), True
    answer = study.dataset(cell.dataset).max_tokens or study.request.max_tokens or ANSWER_TOKENS
    # Of a rate or a trace nobody knows what is in flight: a server that keeps up is assumed.
    at_once = cell.most_at_once if level.profile in ("concurrent", "throughput") else 1
    held, beside = assumed.held.get((cell.arm, cell.tensor_parallel_size)), SECONDS_PER_CELL
    if held is not None:
        config = cell.identity["speculative_config"] or {}
        each = request_s(held, assumed.bandwidth, config, at_once, answer)
        beside = BESIDE_LOAD_S
    elif each is None:
        each = SECONDS_ALONE * min(1.0, answer / ANSWER_TOKENS) * at_once**GROWTH
    # Of an open load only the last request is waited for; a sweep's unknown rate is taken for one a
    # second.
    waves = math.ceil(cell.prompts / cell.concurrency) if cell.concurrency else 1
    sessions = study.dataset(cell.dataset).sessions
    # While one session thinks others are served; nobody is left to serve in the last one's pauses.
    offered_s = (sessions.turns - 1) * sessions.think_time_s if sessions else 0.0
    if level.trace is not None:
        offered_s = trace_of(study, level).lasts_s
    elif level.profile in ("constant", "poisson"):
        offered_s = cell.prompts / (level.rate or 1.0)
    return beside + offered_s + waves * each, False
