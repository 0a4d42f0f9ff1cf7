"""A run: what is missing of a study is measured, launch by launch, here or by an executor.

A launch is a server, and its cells one after the other. What fails is recorded, the rest goes on.
"""

import math
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPException
from itertools import count, islice
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from runners.measuring import guidellm, resume
from runners.measuring.guidellm import Sampler, Stall
from runners.measuring.hosts import PASSING, Host, LocalHost, meet
from runners.measuring.loading import Loader, judge
from runners.measuring.progress import FailedCell, Progress
from runners.measuring.record import (
    Attempt,
    LaunchSetting,
    local_setting,
    record,
    remote_setting,
    runs_on_gpu,
    write,
    write_keepsakes,
)
from runners.planning.estimate import BYTES_PER_CELL, BYTES_PER_REQUEST
from runners.planning.loads import SWEEP, Dataset
from runners.planning.plan import Launch, PlannedCell, ends_of_report, freeze, unknown_sweeps
from runners.planning.study_file import LEAST_WARM_UP, Study
from runners.probes.interpreter import named_in
from runners.serving.agreement import served_model, wrong_arm
from runners.serving.diagnosis import Diagnosis
from runners.serving.endpoint import ROUTES, BadStatus, empty_prefix_cache, fetch, scrub, send
from runners.serving.processes import end_strays
from runners.serving.server import (
    LocalServer,
    RemoteServer,
    ServerFailed,
    near_gpus,
    server_spec,
    used_gpus,
)
from runners.surroundings.layout import (
    AFTER,
    BEFORE,
    MACHINE,
    REPORT,
    SAMPLES,
    STUDY,
    Layout,
    fresh_folder,
    rename_durably,
    require_room,
)
from runners.surroundings.machine import placement
from runners.texts import prompts
from runners.texts.conversations import messages_of
from runners.texts.prompts import origin
from runners.watching.watch import MachineSampler, Watch, watching
from warehouse.errors import RunnerError

# --- Requests before a level: they fill kernels and caches of the engine, and are not measured.
#
# An engine compiles kernels for the sizes of batches that it meets. So prompts as long as the level's come
# in bursts that double up to as many as the level has in flight, each prompt with a beginning of its
# own: one that a cache of prefixes remembers would be no prompt to it.


_MAX_TOKENS = 64


def warm_up(url: str, study: Study, cell: PlannedCell, given: prompts.PromptFile) -> list[int]:
    """Send the level's warm-up requests and return how many went out at once, burst by burst. Raises
    OSError or HTTPException.
    The texts belong to no level; where the dataset has none to spare, the words of the level's
    own are shuffled.
    """
    sizes, bodies = bursts(study, cell), _bodies(study, cell, given)
    route = url + ROUTES[study.request.format]
    for size in sizes:
        with ThreadPoolExecutor(size) as pool:
            list(pool.map(lambda body: send(route, body, 600.0), islice(bodies, size)))
    return sizes


def bursts(study: Study, cell: PlannedCell) -> list[int]:
    # 1, 2, 4 … and what the level has in flight; where the study states a number, so many
    # and no more.
    # Where nothing holds requests back, all of a level might be in flight, and hardly ever are.
    stated, bound = study.window.warm_up_requests, cell.concurrency or 128
    most = min(study.window.warm_up_at(bound), bound, cell.most_at_once)
    if stated is not None:
        return [min(most, stated - sent) for sent in range(0, stated, most or 1)]
    smaller = [1 << power for power in range((most - 1).bit_length())]
    return [*smaller, *[most] * math.ceil(LEAST_WARM_UP / most)]


def _bodies(study: Study, cell: PlannedCell, given: prompts.PromptFile) -> Iterator[dict[str, Any]]:
    texts = [*given.warm_up]
    if given.form == "session":  # As one request, as long as all that its user says.
        texts = [" ".join(one["content"] for one in messages_of(text)) for text in texts]
    if not texts and given.form == "prompt":
        for text in prompts.read(given.path):
            words = text.split()
            texts.append(" ".join(random.Random(text).sample(words, len(words))))
    texts = texts or ["Count upwards in words."]
    most = study.dataset(cell.dataset).max_tokens or study.request.max_tokens or _MAX_TOKENS
    shared = {
        "model": served_model(study), "max_tokens": min(most, _MAX_TOKENS), **guidellm.sampling(study),
    }  # fmt: skip
    chat = study.request.format == "chat_completions"
    spoken = given.form == "conversation" and given.warm_up
    for number in count():
        text = texts[number % len(texts)]
        first, *rest = messages_of(text) if spoken else [{"role": "user", "content": text}]
        # As long as it was, and nowhere cached.
        mark = f"{cell.dataset} {cell.load} {number}: "
        marked = mark + first["content"][len(mark) :]
        messages = [first | {"content": marked}, *rest]
        yield shared | ({"messages": messages} if chat else {"prompt": marked})


# --- One cell: warm-up, an empty prefix cache, counters, the load, counters again, the record.
#
# It is measured in a hidden folder and renamed when it is whole; a failed attempt is renamed too, to
# a name of its own. Whatever interrupts this leaves nothing that looks like a result.


#: What a server that dies or hangs raises at its client; other OSErrors are this machine's.
_SERVER_GONE = (URLError, ConnectionError, TimeoutError, HTTPException)

Server = LocalServer | RemoteServer


@dataclass(frozen=True)
class LaunchBench:
    """What all cells of a launch are measured with.

    ``setting``: what the machine is, which is found out while the server starts. ``guidellm``:
    executable and version. ``loader``: what runs it. ``watch``: the machine, looked at during each load. ``study_text``: as the run has put it beside
    its results.
    """

    run: resume.StudyRun
    launch: Launch
    progress: Progress
    watch: Watch
    setting: Future[LaunchSetting]
    guidellm: tuple[str, str]
    loader: Loader
    study_text: str = ""

    @property
    def study(self) -> Study:
        """The study that the launch belongs to."""
        return self.run.plan.study

    def load(
        self, url: str, cell: PlannedCell, report: Path, watch: Callable[[], Diagnosis | None],
        limit_s: float,
    ) -> tuple[tuple[str, ...], Diagnosis | None]:  # fmt: skip
        """Drive a server with the load of a cell. Return the command line, and what went wrong."""
        (executable, version), key = self.guidellm, self.run.api_key
        file = str(self.run.prompts.of(cell).path)
        request = guidellm.load_request(self.study, cell, url, file, str(report), key is not None)
        argv = guidellm.command(executable, version, request)
        env = guidellm.arrival_environment(request)
        env |= {} if key is None else guidellm.key_environment(version, key)
        try:
            return tuple(argv), self.loader.run(argv, env, limit_s, watch)
        finally:
            if key is not None:
                scrub((report, self.loader.log), key)


def run_cell(bench: LaunchBench, host: Host, cell: PlannedCell) -> Diagnosis | None:
    """Try a cell once and put its folder in place. Return None if it is good, else what is wrong.
    OSError where this machine fails, e.g. a full disk; nothing is left of the attempt then.
    """
    layout, number = bench.run.layout, bench.run.layout.attempts(cell.key) + 1
    try:
        server = host.up()
    except ServerFailed as error:
        bench.watch.beside.begin()  # Whom the cell before met is no news of this one.
        attempt = Attempt(number, notes={"warm_up": []})
        with fresh_folder(layout.partial(cell.key)) as folder:
            attempt.end(error.diagnosis, error.log_tail)
            _keep(bench, cell, folder, attempt)
        return error.diagnosis
    bench.progress.measuring(cell, number)
    attempt = Attempt(number, host.start_s(), host.notes() | {"warm_up": []})
    with fresh_folder(layout.partial(cell.key)) as folder:
        require_room(folder, BYTES_PER_CELL + BYTES_PER_REQUEST * cell.prompts)
        problem = _measure(bench, server, cell, folder, attempt) or host.changed()
        if problem is not None:
            problem = _cause(bench, server, problem, folder)
        # More lines than the megabyte holds that a server's log is read back.
        write_keepsakes(
            folder, bench.study, bench.study_text, bench.run.prompts.of(cell), bench.run.keep_texts,
            {} if host.resolved is None else host.resolved.whole, server.log_tail(1 << 20),
        )  # fmt: skip
        attempt.end(problem, () if problem is None else server.log_tail())
        _keep(bench, cell, folder, attempt)
    return problem


def _measure(
    bench: LaunchBench, server: Server, cell: PlannedCell, folder: Path, attempt: Attempt
) -> Diagnosis | None:
    study, file = bench.study, bench.run.prompts.of(cell)
    attempt.prompt_set_hash, attempt.port = file.hash, urlsplit(server.url).port
    attempt.kinds = file.kinds(study.request.format)
    try:
        with attempt.phase("warm_up"):
            attempt.notes["warm_up"] = warm_up(server.url, study, cell, file)
        attempt.prefix_cache = empty_prefix_cache(server.url, study.prefix_cache)
        counters = keep_counters(server.url, folder / BEFORE)
        problem = wrong_arm(counters, bench.launch) or _load(bench, server, cell, folder, attempt)
        if problem is None:
            keep_counters(server.url, folder / AFTER)
    except BadStatus as error:
        return Diagnosis("request_refused", f"The server refuses a request: {error.reason}")
    except _SERVER_GONE as error:
        return Diagnosis("server_silent", f"The server stopped answering: {error}.")
    return problem or judge(folder / REPORT, cell.prompts, study.limits.max_error_rate)


def keep_counters(url: str, path: Path) -> str:
    """Keep the whole of ``/metrics`` and return it; an engine without one leaves no file."""
    try:
        text = fetch(f"{url}/metrics", 30.0)
    except BadStatus as error:
        # The server has no such address, or does not show it to us.
        if error.denied or error.status in (404, 405, 501):
            return ""
        raise
    path.write_text(text, encoding="utf-8")
    return text


def _load(
    bench: LaunchBench, server: Server, cell: PlannedCell, folder: Path, attempt: Attempt
) -> Diagnosis | None:
    study = bench.study
    sampling = Sampler(server.url, folder / SAMPLES, study.sample_every_s)
    machine = MachineSampler(folder / MACHINE, bench.watch.look())
    stall = Stall(study.limits.cell_s)

    def watch() -> Diagnosis | None:
        bench.progress.live(sampling.latest)
        return bench.watch.problem() or server.died() or stall.look(sampling.latest)

    with machine, sampling, attempt.phase("load"):
        attempt.load_command, problem = bench.load(
            server.url, cell, folder / REPORT, watch, study.limits.cell_s
        )
    return problem


def _cause(bench: LaunchBench, server: Server, problem: Diagnosis, folder: Path) -> Diagnosis:
    # The cause behind the problem: a GPU that is gone, the server's own where it is dead.
    # Raises OSError where the disk is full: that is nobody's fault but must stop the run.
    # Under this there is no room for the rest of a report.
    require_room(folder, 1 << 18)
    bench.watch.gpus.ask_again()
    died = bench.watch.problem() or server.died()
    if died is None or died == problem:
        return problem
    return Diagnosis(died.cause, f"{died.sentence.rstrip('.')}. {problem.sentence}")


def _keep(bench: LaunchBench, cell: PlannedCell, folder: Path, attempt: Attempt) -> None:
    # Write the record and rename the folder: from here on the attempt exists.
    study, layout, software = bench.study, bench.run.layout, bench.run.software
    attempt.notes |= {
        "software": software.as_json(),
        "asked": dict(cell.identity),
        # Where the prompts come from, and the folder from which paths in the study count.
        "dataset": origin(study, study.dataset(cell.dataset)),
        "folder": study.located("."),
        **bench.watch.notes(),
    }
    write(record(bench.setting.result(), cell, attempt), folder)
    good = attempt.problem is None
    final = layout.failed(cell.key, attempt.number)
    rename_durably(folder, layout.cell(cell.key, software.name) if good else final)


# --- A run: what is missing of a study is measured, launch by launch.


_LOOPBACK = "127.0.0.1,localhost"


def run_here(run: resume.StudyRun, progress: Progress) -> list[FailedCell]:
    """Measure what is missing, one launch after the other, in this process."""
    end_strays()  # Of a run that was killed together with what watched over its server.
    run = _with_rates(run, progress)
    launches = [*run.missing_launches()]
    for cell in (cell for launch in launches for cell in launch.cells):
        run.prompts.of(cell)  # Too few prompts are said before any server starts.
    failed = _run_launches(run, launches, progress)
    passing = {each.cell.key for each in failed
               if each.no_server and each.problem.cause in PASSING}  # fmt: skip
    again = [launch for launch in run.missing_launches()
             if any(cell.key in passing for cell in launch.cells)]  # fmt: skip
    if len(again) in (0, len(launches)):
        return failed  # With no other launch in between, nothing can have passed.
    names = ", ".join(launch.launch_id for launch in again)
    progress.say(f"{names}: no server came up; once more, now that the others are done")
    retried = {cell.key for launch in again for cell in launch.cells}
    left = [each for each in failed if each.cell.key not in retried]
    return left + _run_launches(run, again, progress)


def _run_launches(
    run: resume.StudyRun, launches: Sequence[Launch], progress: Progress
) -> list[FailedCell]:
    # Measure the cells of these launches, each as often as the study allows. Return those
    # that failed.
    failed = []
    for launch in launches:
        with _launched(run, launch, progress) as (bench, host):
            # Another run may have measured some of them while this one waited for its turn.
            held = resume.look(run.plan, run.layout, launch.cells, run.now)
            changed = (held.states[cell.key].folder for cell in held.changed)
            resume.set_aside(changed, run.layout)
            for cell in held.to_run:
                problem = _try_cell(bench, host, cell)
                if problem is not None:
                    no_server = host.given_up is not None
                    failed.append(FailedCell(launch.launch_id, cell, problem, no_server))
    return failed


def _try_cell(bench: LaunchBench, host: Host, cell: PlannedCell) -> Diagnosis | None:
    # As often as the study allows. Return what is wrong in the end.
    problem = None
    for tries_left in reversed(range(bench.study.limits.retries + 1)):
        began = time.monotonic()
        problem = run_cell(bench, host, cell)
        if problem is not None:
            host.doubt(problem)
        last = problem is None or tries_left == 0 or host.given_up is not None
        sentence = None if problem is None else problem.sentence
        bench.progress.measured(cell, time.monotonic() - began, sentence, last)
        if last:
            break
    return problem


@contextmanager
def _launched(
    run: resume.StudyRun, launch: Launch, progress: Progress
) -> Iterator[tuple[LaunchBench, Host]]:
    # Hold a launch, watch the machine, and ask what it is while the server starts.
    study, url, layout = run.plan.study, run.target_url, run.layout
    # GPUs of somebody else's server are not here; where it is not known which it gets, all count.
    elsewhere = url is not None or not runs_on_gpu(study)
    gpus = () if elsewhere else [gpu.index for gpu in used_gpus(study, launch)] or None
    near = None if url is not None else near_gpus(study, launch)
    cores = None if near is None else near.cores
    copy = layout.root / STUDY
    with (
        _holding(layout, launch),
        ThreadPoolExecutor(1) as pool,
        watching(layout.nodes, layout.study, launch.launch_id, gpus) as watch,
    ):
        setting: Future[LaunchSetting]
        if url is None:
            spec = server_spec(study, launch, layout)
            host: Host = LocalHost(spec, launch, study, progress)
            setting = pool.submit(local_setting, study, launch, spec.argv)
        else:
            host = remote = meet(url, study, launch)
            setting = pool.submit(remote_setting, study, launch, remote.facts)
        # A proxy must not stand between the load generator and a server on this machine.
        env = {**os.environ, **study.environment}
        direct = ",".join(filter(None, [env.get("NO_PROXY") or env.get("no_proxy"), _LOOPBACK]))
        executable = study.executable("guidellm") or study.executables.guidellm
        loader = Loader(
            named_in(Path(executable)), env | {"NO_PROXY": direct, "no_proxy": direct},
            layout.log(launch.launch_id, "guidellm"),
            # The study's, else those of the server that it talks to.
            cores if study.cpus is None else frozenset(study.cpus.client),
        )  # fmt: skip
        try:
            with loader:
                yield LaunchBench(
                    run, launch, progress, watch, setting, (executable, guidellm.version(study)),
                    loader, copy.read_text(encoding="utf-8") if copy.exists() else "",
                ), host  # fmt: skip
        finally:
            host.stop()


@contextmanager
def _holding(layout: Layout, launch: Launch) -> Iterator[None]:
    # Hold the launch's lock, so that only one command at a time measures it. Raises
    # RunnerError. On a cluster a launch that is started again can meet the one still ending
    # on a lost node.
    # How long a launch on a cluster waits for one that is still ending on a lost node.
    patience = 0 if placement()["executor"] == "local" else 180
    path = layout.lock(launch.launch_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=patience):
            yield
    except Timeout:
        raise RunnerError(
            f"Another run is measuring {launch.launch_id} in {layout.root}; wait for it or end it."
        ) from None


# --- A sweep: what the baseline serves one by one and all at once, before any cell is measured.


def _with_rates(run: resume.StudyRun, progress: Progress) -> resume.StudyRun:
    # Find the rates of sweeps that nobody found yet, each on a baseline's server of its own.
    missing = unknown_sweeps(run.plan.study, run.layout.results)
    if not missing:
        return run
    if run.target_url is not None:
        first = next(run.missing_launches(), None)
        if first is None or not first.variant.is_baseline:
            raise RunnerError(
                "The rates of the sweep are not known yet: run the cells of the baseline first."
            )
    for size in dict.fromkeys(size for _, size in missing):
        baseline = next((launch for launch in run.plan.launches if launch.variant.is_baseline
                         and launch.tensor_parallel_size == size), None)  # fmt: skip
        if baseline is None:
            raise RunnerError(
                "The rates of a sweep are found on the baseline, and the study measures none at "
                f"tensor parallel size {size}; add an arm without speculative_config, or name rates "
                "yourself."
            )
        with _launched(run, baseline, progress) as (bench, host):
            for dataset in (dataset for dataset, n in missing if n == size):
                _find_rates(bench, host, dataset)
    return run.replanned()


def _find_rates(bench: LaunchBench, host: Host, dataset: Dataset) -> None:
    # Sweep the launch's server over a dataset and freeze what was found. Raises RunnerError.
    first, run, study = bench.launch.cells[0], bench.run, bench.study
    size = first.tensor_parallel_size
    cell = replace(
        first, key=f"rates/{dataset.name}-tp{size}", dataset=dataset.name, level=SWEEP,
        prompts=dataset.prompts_at(SWEEP),
    )  # fmt: skip
    try:
        server = host.up()
    except ServerFailed as error:
        raise RunnerError(f"No server for the sweep: {error.diagnosis.sentence}") from None
    with fresh_folder(run.layout.partial(cell.key)) as folder:
        try:
            warm_up(server.url, study, cell, run.prompts.of(cell))
        except _SERVER_GONE as error:
            why = getattr(error, "reason", error)
            raise RunnerError(f"The sweep on {cell.arm} failed in its warm-up: {why}.") from None
        report, limit_s = folder / REPORT, 2 * study.limits.cell_s
        _, problem = bench.load(server.url, cell, report, server.died, limit_s)
        if problem is not None:
            raise RunnerError(f"The sweep on {cell.arm} failed: {problem.sentence}")
        ends = ends_of_report(report, cell.arm, run.software.name)
    freeze(study, run.layout.results, dataset.name, size, ends)
    bench.progress.say(
        f"{dataset.name} at TP {size}: {cell.arm} serves {ends.one_by_one:.3g} requests/s one by one "
        f"and {ends.all_at_once:.3g} all at once; rates are frozen between"
    )
