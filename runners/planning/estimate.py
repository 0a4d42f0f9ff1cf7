"""What a plan will take: time, GPU-hours, money, disk; from recorded cells where there are some."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

from runners.measuring.layout import records_under
from runners.planning.plan import Launch, Plan, PlannedCell

#: Assumed where nothing was recorded, and said wherever the figures are shown.
SECONDS_PER_REQUEST = 20.0
SECONDS_PER_START = 180.0
SECONDS_PER_CELL = 30.0

#: A report of GuideLLM 0.8 and its samples, measured; texts of a thousand tokens included.
BYTES_PER_CELL = 300_000
BYTES_PER_REQUEST = 9_000


@dataclass(frozen=True)
class Assumed:
    """What is taken for granted where no cell was recorded."""

    seconds_per_request: float = SECONDS_PER_REQUEST
    seconds_per_start: float = SECONDS_PER_START


@dataclass(frozen=True)
class Recorded:
    """Durations of earlier cells: (dataset, concurrency, seconds) and seconds of server starts."""

    cells: tuple[tuple[str | None, int | None, float], ...] = ()
    starts: tuple[float, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """The cost of a whole plan whose launches run one after the other on one node."""

    hours: float
    gpu_hours: float
    usd: float | None
    usd_basis: str
    disk_bytes: int
    basis: Literal["recorded", "partly recorded", "assumed"]
    """Whether the durations were recorded, for all cells or for some."""
    recorded_cells: int

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON."""
        return asdict(self)


def estimate(plan: Plan, recorded: Recorded, assumed: Assumed) -> Estimate:
    """Sum the launches of a plan; cells are timed by what was recorded, else by assumption."""
    seconds_of = {cell.key: _cell_seconds(cell, recorded) for cell in plan.cells}
    start = median(recorded.starts) if recorded.starts else assumed.seconds_per_start

    def lasts(cell: PlannedCell) -> float:
        known = seconds_of[cell.key]
        return _assumed_seconds(cell, assumed) if known is None else known

    hours = sum(_launch_seconds(launch, start, lasts) for launch in plan.launches) / 3600
    gpu_hours = (
        sum(
            _launch_seconds(launch, start, lasts) * launch.tensor_parallel_size
            for launch in plan.launches
        )
        / 3600
    )
    known = sum(seconds is not None for seconds in seconds_of.values())
    usd, basis = _money(plan, hours)
    disk = sum(BYTES_PER_CELL + BYTES_PER_REQUEST * cell.prompts for cell in plan.cells)
    return Estimate(hours, gpu_hours, usd, basis, disk, _basis(known, len(seconds_of)), known)


def read_recorded(results: Path | None) -> Recorded:
    """Durations of the good cells under a results folder; nothing where there is none."""
    cells, starts = [], []
    for record in _records(results):
        timeline = record.get("timeline") or {}
        total, start = timeline.get("total"), timeline.get("server_start") or 0.0
        if record.get("status", "good") == "good" and isinstance(total, (int, float)):
            cells.append((record.get("dataset"), record.get("concurrency"), total - start))
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


def _cell_seconds(cell: PlannedCell, recorded: Recorded) -> float | None:
    """Mean of what was recorded on this dataset at this load, else at this load, else None."""
    at_load = [(name, seconds) for name, c, seconds in recorded.cells if c == cell.concurrency]
    same = [seconds for name, seconds in at_load if name == cell.dataset]
    found = same or [seconds for _, seconds in at_load]
    return fmean(found) if found else None


def _assumed_seconds(cell: PlannedCell, assumed: Assumed) -> float:
    waves = math.ceil(cell.prompts / cell.concurrency)
    return SECONDS_PER_CELL + waves * assumed.seconds_per_request


def _launch_seconds(launch: Launch, start: float, lasts: Callable[[PlannedCell], float]) -> float:
    return start + sum(lasts(cell) for cell in launch.cells)


def _money(plan: Plan, hours: float) -> tuple[float | None, str]:
    price = plan.study.price
    if price is None:
        return None, "no price in the study"
    return hours * price.usd_per_hour, (
        f"whole instance of {price.gpus_per_instance} GPUs at {price.usd_per_hour} USD/h, "
        "launches one after the other"
    )


def _basis(known: int, cells: int) -> Literal["recorded", "partly recorded", "assumed"]:
    if known == 0:
        return "assumed"
    return "recorded" if known == cells else "partly recorded"
