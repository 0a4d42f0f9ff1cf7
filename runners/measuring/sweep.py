"""A sweep: what the baseline serves one by one and all at once, before any cell is measured."""

from dataclasses import replace
from pathlib import Path

from runners.loads.rates import freeze, of_report
from runners.measuring import load
from runners.measuring.cell import Bench
from runners.measuring.guidellm import command, key_environment
from runners.measuring.layout import REPORT, fresh_folder
from runners.measuring.load_request import Places, load_request
from runners.measuring.serving import Serving
from runners.measuring.warm_up import warm_up
from runners.planning.datasets import Dataset
from runners.planning.loads import SWEEP
from runners.planning.plan import Launch, Plan, PlannedCell
from runners.serving.endpoint import scrub
from runners.serving.server import ServerFailed
from runners.surroundings.host import Host
from warehouse.errors import RunnerError


def sweeping(plan: Plan, size: int) -> Launch:
    """Return the launch of the baseline on which rates are found. Raises RunnerError where there is
    none."""
    for launch in plan.launches:
        if launch.variant.is_baseline and launch.tensor_parallel_size == size:
            return launch
    raise RunnerError(
        f"The rates of a sweep are found on the baseline, and the study measures none at tensor "
        f"parallel size {size}; add an arm without speculative_config, or name rates yourself."
    )


def find_rates(bench: Bench, host: Host, dataset: Dataset) -> None:
    """Sweep the launch's server over a dataset and freeze what was found. Raises RunnerError."""
    one = bench.launch.cells[0]
    cell = replace(
        one, key=f"rates/{dataset.name}-tp{one.tensor_parallel_size}", dataset=dataset.name,
        level=SWEEP, prompts=dataset.prompts_at(SWEEP),
    )  # fmt: skip
    try:
        server = host.up()
    except ServerFailed as error:
        raise RunnerError(f"No server for the sweep: {error.diagnosis.sentence}") from None
    with fresh_folder(bench.layout.partial(cell.key)) as folder:
        _measure(bench, server, cell, folder)
        found = of_report(folder / REPORT, cell.arm, bench.software.name)
    freeze(bench.study, bench.layout.results, (dataset.name, cell.tensor_parallel_size), found)
    bench.progress.say(
        f"{dataset.name} at TP {cell.tensor_parallel_size}: {cell.arm} serves {found.one_by_one:.3g} "
        f"requests/s one by one and {found.all_at_once:.3g} all at once; rates are frozen between"
    )


def _measure(bench: Bench, server: Serving, cell: PlannedCell, folder: Path) -> None:
    study, prompts = bench.study, bench.prompts.of(cell)
    warm_up(server.url, study, cell, prompts)
    executable, version = bench.guidellm
    key = bench.api_key
    places = Places(server.url, str(prompts.path), str(folder / REPORT), key is not None)
    request = load_request(study, cell, places)
    argv = command(executable, version, request)
    env = bench.env if key is None else {**bench.env, **key_environment(version, request, key)}
    cpus = None if study.cpus is None else frozenset(study.cpus.client)
    log = bench.layout.load_log(bench.launch.launch_id)
    what = load.Invocation(argv, env, log, 2 * study.limits.cell_s, cpus)
    problem = load.run_load(what, server.died)
    if key is not None:
        scrub((log,), key)
    if problem is not None:
        raise RunnerError(f"The sweep on {cell.arm} failed: {problem.sentence}")
