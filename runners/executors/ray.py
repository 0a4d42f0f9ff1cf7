"""Launches as tasks of a Ray cluster, for machines without a scheduler (``draftboard[ray]``).

Ray gives each task its GPUs and runs it again when its node is lost; the launch then goes on with
the cells that are missing. The results folder must be shared, or be collected afterwards.
"""

import importlib
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.executors import Job, Outcome, State, Update, gpus_needed, ray_task
from runners.executors.placement import EXECUTOR
from runners.executors.settings import RaySettings
from runners.measuring.resume import Now, look
from runners.planning.plan import Plan
from runners.surroundings.layout import Layout
from warehouse.errors import RunnerError

# --- Whether a launch fits on any node of a Ray cluster: Ray itself would wait for ever.


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


# --- Launches as tasks of a Ray cluster, for machines without a scheduler (``draftboard[ray]``).


_CONNECT_S = 10.0
#: Ray counts a lost node as lost after some 30 s; then others may take its place.
_NODE_LOST_S = 60.0
#: How often a task whose node was lost is started again; one that failed is not.
_RESTARTS = 5
_CANCEL_S = 90.0


@dataclass(frozen=True)
class RayTasks:
    """The executor for a Ray cluster."""

    settings: RaySettings = RaySettings()

    def run(self, plan: Plan, job: Job) -> Outcome:
        """Run the launches and wait for them; Ctrl-C cancels what still runs.

        RunnerError where Ray is missing or cannot be reached, or where a launch fits on no node.
        """
        with _cluster(self.settings) as ray:
            needs = {
                launch.launch_id: Need(
                    gpus_needed(plan.study, launch), self.settings.cpus, self.settings.resources
                )
                for launch in job.launches
            }
            await_nodes(ray, needs, self.settings.wait_for_nodes_s)
            patience_s = max(self.settings.wait_for_nodes_s, _NODE_LOST_S)
            watch = _Watch(ray, plan, job, needs, patience_s)
            try:
                watch.submit()
                while watch.open:
                    watch.look()
            finally:
                watch.cancel()
        return Outcome(tuple(watch.done), tuple(watch.failed.items()))


@contextmanager
def _cluster(settings: RaySettings) -> Iterator[Any]:
    """Connect to the cluster for the block; a connection that is there already (tests, notebooks)
    is used and kept."""
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
        raise RunnerError(f"No Ray cluster can be used at {where}: {_one_line(error)}.") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_listener(address: str | None) -> None:
    """Raise RunnerError where nothing listens at the address; there ray.init tries for some minutes
    before it gives up."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError as error:
        raise RunnerError(
            f"No Ray cluster can be used at {address}: {error.strerror or error}. `ray status` on "
            "its head says whether it is up."
        ) from None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__


@dataclass
class _Watch:
    """The tasks that are waited for."""

    ray: Any
    plan: Plan
    job: Job
    needs: dict[str, Need]
    patience_s: float
    open: dict[Any, str] = field(default_factory=dict)
    """Task reference to launch."""
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    homeless_since: float | None = None
    seen: dict[str, int] = field(default_factory=dict)
    """Launch to its good cells at the last look; only where the results folder is shared."""

    @property
    def layout(self) -> Layout:
        return Layout(self.job.results.absolute(), self.plan.study.name)

    def submit(self) -> None:
        self.ray.cloudpickle.register_pickle_by_value(ray_task)
        for launch in self.job.launches:
            need = self.needs[launch.launch_id]
            task = self.ray.remote(ray_task.run_command).options(
                name=f"{self.plan.study.name}:{launch.launch_id}",
                num_gpus=need.gpus,
                num_cpus=need.cpus,
                resources=dict(need.resources),
                max_retries=_RESTARTS,
            )
            log = self._log(launch.launch_id)
            reference = task.remote(self.job.command(launch), str(log), {EXECUTOR: "ray"})
            self.open[reference] = launch.launch_id
            self._say(launch.launch_id, "waiting", need.sentence())

    def look(self) -> None:
        """Wait a moment for one task; notice when nothing that is left can run any more."""
        ready, _ = self.ray.wait(list(self.open), num_returns=1, timeout=_LOOK_S)
        for reference in ready:
            self._close(self.open.pop(reference), reference)
        self._count_cells()
        self._give_up_homeless()

    def cancel(self) -> None:
        """End what still runs, and wait until its servers are gone."""
        for reference in self.open:
            self.ray.cancel(reference)
        if self.open:
            self.ray.wait(list(self.open), num_returns=len(self.open), timeout=_CANCEL_S)

    def _log(self, launch_id: str) -> Path:
        return self.layout.root / "logs" / f"{launch_id}.ray.log"

    def _count_cells(self) -> None:
        """Say how far the running launches are, as far as the results folder shows it."""
        running = {name for name in self.open.values() if self._log(name).exists()}
        for launch in self.job.launches:
            name = launch.launch_id
            if name in running:
                now = Now(self.job.software)
                good = len(look(self.plan, self.layout, launch.cells, now).good)
                if self.seen.get(name) != good:
                    self.seen[name] = good
                    self._say(name, "running", f"{good} of {len(launch.cells)} cells")

    def _close(self, launch_id: str, reference: Any) -> None:
        try:
            status, node, printed = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            self._fail(launch_id, f"Ray lost its task: {_one_line(error)}")
            return
        if status == 0:
            self.done.append(launch_id)
            self._say(launch_id, "done", f"on {node}")
        else:
            last = next((line for line in reversed(printed.splitlines()) if line.strip()), "")
            said = last.strip()[:300] or "nothing printed"
            self._fail(
                launch_id, f"it ended on {node} with exit status {status}; last line: {said}"
            )

    def _give_up_homeless(self) -> None:
        """Fail the launches that fit on none of the nodes that are left after one was lost; do not
        wait for them."""
        left = {name: self.needs[name] for name in self.open.values()}
        lost = {name: homeless(self.ray, {name: need}) for name, need in left.items()}
        if not any(lost.values()):
            self.homeless_since = None
            return
        self.homeless_since = self.homeless_since or time.monotonic()
        if time.monotonic() - self.homeless_since < self.patience_s:
            return
        for reference, name in list(self.open.items()):
            if (problem := lost[name]) is not None:
                self.ray.cancel(reference)
                del self.open[reference]
                self._fail(name, problem)

    def _fail(self, launch_id: str, reason: str) -> None:
        self.failed[launch_id] = reason
        self._say(launch_id, "failed", reason)

    def _say(self, launch_id: str, state: State, detail: str) -> None:
        self.job.report(Update(launch_id, state, detail))
