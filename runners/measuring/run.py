"""A run: what is missing of a study is measured, launch by launch, here or by an executor."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from runners.loads.rates import unknown, with_frozen_rates
from runners.measuring import guidellm, resume
from runners.measuring.cell import Bench
from runners.measuring.guidellm import served_model
from runners.measuring.launch import Failed, find_rates, holding, run_cells, sweeping
from runners.measuring.layout import Layout
from runners.measuring.progress import Progress
from runners.measuring.record import Keep, Setting, local_setting, remote_setting, used_gpus
from runners.planning.plan import Launch, Plan, PlannedCell, make_plan
from runners.planning.study import Study
from runners.serving.engines import engine_of
from runners.serving.processes import end_strays
from runners.serving.server import ServerSpec
from runners.serving.target_url import Foreign, meet
from runners.surroundings.host import PASSING, Host, LocalHost, RemoteHost
from runners.surroundings.machine import near_gpus
from runners.surroundings.provenance import runs_on_gpu
from runners.surroundings.tools import tool
from runners.texts.prompts import PromptFiles, Prompts
from runners.watching.watch import Watch, watching
from warehouse.errors import RunnerError

_LOOPBACK = "127.0.0.1,localhost"


@dataclass(frozen=True)
class Asked:
    """What a run is asked for."""

    plan: Plan
    layout: Layout
    cells: tuple[PlannedCell, ...]
    target_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    """Of the server at ``target_url``; whoever asks it has called ``use_key``."""
    now: resume.Now = resume.Now()
    keep_texts: bool = False
    """Whether each drop keeps the texts of its prompts."""
    given: Prompts | None = None
    """Prompts to take instead of those that the datasets hand out."""

    @property
    def prompts(self) -> Prompts:
        """What gives each cell of the run its prompts."""
        return self.given or PromptFiles(self.plan.study, self.layout)

    def replanned(self) -> "Asked":
        """Return the same run with the rates that sweeps found by now."""
        plan = make_plan(with_frozen_rates(self.plan.study, self.layout.results))
        keys = {cell.key for cell in self.cells}
        return replace(self, plan=plan, cells=tuple(c for c in plan.cells if c.key in keys))

    def look(self) -> resume.Progress:
        """Read what the results folder holds of the cells."""
        return resume.look(self.plan, self.layout, self.cells, self.now)


Launches = Sequence[tuple[Launch, list[PlannedCell]]]


def run_here(asked: Asked, progress: Progress) -> list[Failed]:
    """Measure what is missing, one launch after the other, in this process."""
    end_strays()  # Of a run that was killed together with what watched over its server.
    prompts = asked.prompts
    asked = _with_rates(asked, (prompts, progress))
    launches = by_launch(asked)
    for cell in (cell for _, cells in launches for cell in cells):
        prompts.of(cell)  # Too few prompts are said before any server starts.
    failed = _round(asked, launches, (prompts, progress))
    passing = {one.cell.key for one in failed if one.no_server and one.problem.cause in PASSING}
    again = [(launch, cells) for launch, cells in by_launch(asked)
             if any(cell.key in passing for cell in cells)]  # fmt: skip
    if not again or len(again) == len(launches):
        return failed  # With no other launch in between, nothing can have passed.
    names = ", ".join(launch.launch_id for launch, _ in again)
    progress.say(f"{names}: no server came up; once more, now that the others are done")
    given = {cell.key for _, cells in again for cell in cells}
    left = [one for one in failed if one.cell.key not in given]
    return left + _round(asked, again, (prompts, progress))


def _with_rates(asked: Asked, with_what: tuple[Prompts, Progress]) -> Asked:
    """Find the rates of sweeps that nobody found yet, each on a baseline's server of its own."""
    study, results = asked.plan.study, asked.layout.results
    missing = unknown(study, results)
    if not missing:
        return asked
    if asked.target_url is not None and not by_launch(asked)[0][0].variant.is_baseline:
        raise RunnerError(
            "The rates of the sweep are not known yet: run the cells of the baseline first."
        )
    for size in dict.fromkeys(size for _, size in missing):
        launch = sweeping(asked.plan, size)
        with (
            holding(asked.layout, launch),
            ThreadPoolExecutor(1) as pool,
            _watch(asked, launch) as watch,
        ):
            host, setting = _opened(asked, launch, with_what[1], pool)
            bench = _bench(asked, launch, with_what, (setting, watch))
            try:
                for dataset in (dataset for dataset, n in missing if n == size):
                    find_rates(bench, host, dataset)
            finally:
                host.stop()
    return asked.replanned()


def _round(asked: Asked, launches: Launches, with_what: tuple[Prompts, Progress]) -> list[Failed]:
    return [
        one for launch, cells in launches for one in _run_launch(asked, launch, cells, with_what)
    ]


def by_launch(asked: Asked) -> list[tuple[Launch, list[PlannedCell]]]:
    """Return the launches that have asked cells which are not good, each with those cells."""
    missing = {cell.key for cell in asked.look().to_run}
    grouped = [
        (launch, [cell for cell in launch.cells if cell.key in missing])
        for launch in asked.plan.launches
    ]
    return [(launch, cells) for launch, cells in grouped if cells]


def _run_launch(
    asked: Asked,
    launch: Launch,
    cells: Sequence[PlannedCell],
    with_what: tuple[Prompts, Progress],
) -> list[Failed]:
    layout = asked.layout
    with holding(layout, launch), ThreadPoolExecutor(1) as pool, _watch(asked, launch) as watch:
        # Another run may have measured some of them while this one waited for its turn.
        found = resume.look(asked.plan, layout, cells, asked.now)
        resume.set_aside((found.found[cell.key].folder for cell in found.changed), layout)
        host, setting = _opened(asked, launch, with_what[1], pool)
        bench = _bench(asked, launch, with_what, (setting, watch))
        try:
            return run_cells(bench, host, found.to_run)
        finally:
            host.stop()


def _watch(asked: Asked, launch: Launch) -> AbstractContextManager[Watch]:
    """Watch the GPUs that the server gets, and the machine. Those of somebody else's server are not
    here; where it is not known which it gets, all are watched."""
    study = asked.plan.study
    elsewhere = asked.target_url is not None or not runs_on_gpu(study)
    gpus = () if elsewhere else used_gpus(study, launch) or None
    layout = asked.layout
    return watching(layout.nodes, layout.study, launch.launch_id, gpus)


def _opened(
    asked: Asked, launch: Launch, progress: Progress, pool: ThreadPoolExecutor
) -> tuple[Host, Future[Setting]]:
    """Open the server, and ask what this machine is while the server starts."""
    study, url = asked.plan.study, asked.target_url
    if url is not None:
        foreign = meet(url, study, launch)
        return RemoteHost(foreign), pool.submit(_remote, foreign)
    spec = server_spec(study, launch, asked.layout)
    host = LocalHost(spec, launch, study, progress)
    return host, pool.submit(local_setting, study, launch, spec.argv)


def _remote(foreign: Foreign) -> Setting:
    return remote_setting(foreign.study, foreign.launch, foreign.facts())


def _bench(
    asked: Asked,
    launch: Launch,
    with_what: tuple[Prompts, Progress],
    known: tuple[Future[Setting], Watch],
) -> Bench:
    study = asked.plan.study
    executable = study.executable("guidellm") or study.executables.guidellm
    return Bench(
        study=study,
        launch=launch,
        told=known[0],
        layout=asked.layout,
        prompts=with_what[0],
        progress=with_what[1],
        guidellm=(executable, guidellm.version(study)),
        env=_load_env(study),
        watch=known[1],
        cpus=_client_cores(asked, launch),
        api_key=asked.api_key,
        software=asked.now.software,
        keep=Keep.of(asked.layout, asked.keep_texts),
    )


def _client_cores(asked: Asked, launch: Launch) -> frozenset[int] | None:
    """Return the cores of the load generator: the study's, else those of the server that it talks
    to."""
    study = asked.plan.study
    if study.cpus is not None:
        return frozenset(study.cpus.client)
    near = None if asked.target_url is not None else near_gpus(study, launch)
    return None if near is None else near.cores


def _load_env(study: Study) -> dict[str, str]:
    """Return GuideLLM's environment; a proxy must not stand between it and a server on this
    machine."""
    env = {**os.environ, **study.environment}
    direct = ",".join(filter(None, [env.get("NO_PROXY") or env.get("no_proxy"), _LOOPBACK]))
    return env | {"NO_PROXY": direct, "no_proxy": direct}


def server_spec(study: Study, launch: Launch, layout: Layout) -> ServerSpec:
    """Return how a launch's server is started. Raises RunnerError where there is no such engine."""
    engine = engine_of(study)
    found = tool(study, engine.tool)
    if found.path is None:
        raise RunnerError(
            f"{engine.title} cannot be started: {found.problem}; install it in an environment of its "
            f"own and name it under executables.{engine.tool} of the study."
        )
    argv = engine.command(study, launch.variant, launch.tensor_parallel_size)
    cpus = None if study.cpus is None else frozenset(study.cpus.engine)
    clients = None if study.cpus is None else frozenset(study.cpus.client)
    near = near_gpus(study, launch)
    return ServerSpec(
        argv=tuple(argv),
        env={**engine.always, **os.environ, **study.environment, **launch.variant.environment},
        model=served_model(study),
        log=layout.server_log(launch.launch_id).absolute(),
        ready_timeout_s=study.limits.server_ready_s,
        engine_cpus=cpus,
        api_cpus=clients,
        cpus=None if near is None else near.cores,
        request_format=study.request.format,
    )
