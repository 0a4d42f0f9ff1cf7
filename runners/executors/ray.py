"""Launches as tasks of a Ray cluster, for machines without a scheduler (``draftboard[ray]``).

Ray gives each task its GPUs and runs it again when its node is lost; the launch then goes on with
the cells that are missing. The results folder must be shared, or be collected afterwards.
"""

import importlib
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.executors import (
    ExecutorJob,
    ExecutorOutcome,
    Scheduler,
    Update,
    good_cells,
    last_printed,
    ray_task,
    run_launches,
)
from runners.executors.settings import RaySettings
from runners.planning.plan import Launch, Plan, gpus_needed
from runners.surroundings.layout import Layout
from runners.surroundings.machine import EXECUTOR
from warehouse.errors import RunnerError

_LOOK_S = 2.0


@dataclass(frozen=True)
class RayTasks:
    """The executor for a Ray cluster."""

    settings: RaySettings = RaySettings()

    def run(self, plan: Plan, job: ExecutorJob) -> ExecutorOutcome:
        """Run the launches and wait for them; Ctrl-C cancels what still runs.

        RunnerError where Ray is missing or cannot be reached, or where a launch fits on no node.
        """
        with _cluster(self.settings) as ray:
            scheduler = _RayScheduler(ray, plan, job, self.settings)
            scheduler.await_nodes()
            return run_launches(scheduler, job, poll_s=0.0)  # Ray itself waits for a moment.


@contextmanager
def _cluster(settings: RaySettings) -> Iterator[Any]:
    """Connect to the cluster for the block; a connection that is there already (tests, notebooks) is
    used and kept.
    """
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise RunnerError(
            'Ray is not installed here: pip install "draftboard[ray]", in the release that the '
            "cluster runs."
        ) from None
    if ray.is_initialized():
        yield ray
        return
    address = settings.address or os.environ.get("RAY_ADDRESS")
    _require_listener(address)
    try:
        ray.init(address=address, log_to_driver=False, include_dashboard=False)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        where = address or "this machine"
        raise RunnerError(f"No Ray cluster can be used at {where}: {_shortened(error)}.") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_listener(address: str | None) -> None:
    """Raise RunnerError where nothing listens at the address; there ray.init tries for some minutes
    before it gives up.
    """
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), 10.0).close()
    except OSError as error:
        raise RunnerError(
            f"No Ray cluster can be used at {address}: {error.strerror or error}. `ray status` on "
            "its head says whether it is up."
        ) from None


def _shortened(error: BaseException) -> str:
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__


@dataclass
class _RayScheduler(Scheduler):
    ray: Any
    plan: Plan
    job: ExecutorJob
    settings: RaySettings
    #: Launch to the reference of its task.
    tasks: dict[str, Any] = field(default_factory=dict)
    homeless_since: float | None = None

    def needs(self, launch: Launch) -> dict[str, float]:
        """Return what one launch takes of a node."""
        gpus = float(gpus_needed(self.plan.study, launch))
        return {"GPU": gpus, "CPU": self.settings.cpus, **self.settings.resources}

    def homeless(self, launches: Iterable[Launch]) -> dict[str, str]:
        """Name the launches that fit on no living node, each with a sentence: Ray itself would wait
        for ever.
        """
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        largest = max((node.get("GPU", 0.0) for node in nodes), default=0.0)
        found = {}
        for launch in launches:
            needs = self.needs(launch)
            if not any(all(node.get(k, 0.0) >= n for k, n in needs.items()) for node in nodes):
                found[launch.launch_id] = (
                    f"No node of the Ray cluster can run {launch.launch_id}: it takes "
                    f"{_in_words(needs)} on one node; of {len(nodes)} nodes the largest has "
                    f"{largest:g} GPUs"
                )
        return found

    def await_nodes(self) -> None:
        """Return once every launch fits on some node. RunnerError where none joins in time."""
        seconds = self.settings.wait_for_nodes_s
        until = time.monotonic() + seconds
        while problems := self.homeless(self.job.launches):
            if time.monotonic() >= until:
                raise RunnerError(
                    f"{next(iter(problems.values()))}. Add such a node, or let it wait for one (ray: "
                    "wait_for_nodes_s in the cluster options)."
                )
            time.sleep(min(_LOOK_S, seconds))

    def submit(self, launch: Launch) -> str:
        name, needs = launch.launch_id, self.needs(launch)
        self.ray.cloudpickle.register_pickle_by_value(ray_task)
        # How often a task whose node was lost is started again; one that failed is not.
        task = self.ray.remote(ray_task.run_command).options(
            name=f"{self.plan.study.name}:{name}",
            num_gpus=int(needs["GPU"]),
            num_cpus=needs["CPU"],
            resources=dict(self.settings.resources),
            max_retries=5,
        )
        log, marks = str(self.log(name)), {EXECUTOR: "ray"}
        self.tasks[name] = task.remote(self.job.command(launch), log, marks)
        self.job.report(Update(name, "waiting", _in_words(needs)))
        return name

    def states(self, jobs: Mapping[str, str]) -> Iterator[Update]:
        open_tasks = {reference: name for name, reference in self.tasks.items() if name in jobs}
        ready, _ = self.ray.wait(list(open_tasks), num_returns=1, timeout=_LOOK_S)
        for reference in ready:
            yield self._closed(open_tasks.pop(reference), reference)
        left = [each for each in self.job.launches if each.launch_id in open_tasks.values()]
        lost = self._given_up(left)
        for launch in left:
            name = launch.launch_id
            if name in lost:
                self.ray.cancel(self.tasks[name])
                yield Update(name, "failed", lost[name])
            elif self.log(name).exists():
                good, total = good_cells(self.plan, self.job, name)
                yield Update(name, "running", f"{good} of {total} cells")

    def cancel(self, jobs: Sequence[str]) -> None:
        """End what still runs, and wait until its servers are gone."""
        references = [self.tasks[name] for name in jobs]
        for reference in references:
            self.ray.cancel(reference)
        if references:
            self.ray.wait(references, num_returns=len(references), timeout=90.0)

    def log(self, launch_id: str) -> Path:
        """Return the file with what a launch printed, where the results folder is shared."""
        return Layout(self.job.results.absolute(), self.plan.study.name).log(launch_id, "ray")

    def _closed(self, launch_id: str, reference: Any) -> Update:
        try:
            status, node, printed = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return Update(launch_id, "failed", f"Ray lost its task: {_shortened(error)}")
        if status == 0:
            return Update(launch_id, "done", f"on {node}")
        last = last_printed(printed.splitlines())
        why = f"it ended on {node} with exit status {status}; last line: {last}"
        return Update(launch_id, "failed", why)

    def _given_up(self, left: Sequence[Launch]) -> Mapping[str, str]:
        """Return the launches that fit on none of the nodes that are left after one was lost, with
        the reason, once others had time to join."""
        lost = self.homeless(left)
        if not lost:
            self.homeless_since = None
            return {}
        self.homeless_since = self.homeless_since or time.monotonic()
        # Ray counts a lost node as lost after some 30 s; then others may take its place.
        patience_s = max(self.settings.wait_for_nodes_s, 60.0)
        return lost if time.monotonic() - self.homeless_since >= patience_s else {}


def _in_words(needs: Mapping[str, float]) -> str:
    words = {"GPU": "GPUs", "CPU": "CPU cores"}
    return ", ".join(f"{n:g} {words.get(name, name)}" for name, n in needs.items())
