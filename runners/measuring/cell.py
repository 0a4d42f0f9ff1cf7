"""One cell: warm-up, an empty prefix cache, counters, the load, counters again, the record.

It is measured in a hidden folder and renamed when it is whole; a failed attempt is renamed too, to
a name of its own. Whatever interrupts this leaves nothing that looks like a result.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from itertools import count, islice
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

from runners.measuring import load
from runners.measuring.guidellm import (
    arrival_environment,
    command,
    key_environment,
    load_request,
    sampling,
)
from runners.measuring.hosts import Host
from runners.measuring.progress import Progress
from runners.measuring.record import Attempt, LaunchSetting, record, write, write_keepsakes
from runners.measuring.resume import StudyRun
from runners.planning.estimate import BYTES_PER_CELL, BYTES_PER_REQUEST
from runners.planning.plan import Launch, PlannedCell
from runners.planning.study import LEAST_WARM_UP, Study
from runners.serving.agreement import served_model, wrong_arm
from runners.serving.diagnosis import Diagnosis
from runners.serving.endpoint import ROUTES, BadStatus, empty_prefix_cache, fetch, scrub, send
from runners.serving.server import LocalServer, RemoteServer, ServerFailed
from runners.surroundings.layout import (
    AFTER,
    BEFORE,
    MACHINE,
    REPORT,
    SAMPLES,
    fresh_folder,
    put_in_place,
    require_room,
)
from runners.texts import prompts
from runners.texts.datasets import messages_of, origin
from runners.texts.prompts import PromptFile
from runners.watching.watch import MachineSampler, Watch

# --- Requests before a level: they fill kernels and caches of the engine, and are not measured.
#
# An engine compiles kernels for the sizes of batches that it meets. So prompts as long as the level's come
# in bursts that double up to as many as the level has in flight, each prompt with a beginning of its
# own: one that a cache of prefixes remembers would be no prompt to it.


_LIMIT_S = 600.0
_MAX_TOKENS = 64
#: Where nothing holds requests back, all of a level might be in flight, and hardly ever are.
_MOST_UNBOUND = 128


def warm_up(url: str, study: Study, cell: PlannedCell, given: PromptFile) -> list[int]:
    """Send the level's warm-up requests and return how many went out at once, burst by burst. Raises
    OSError or HTTPException.

    The texts belong to no level; where the dataset has none to spare, the words of the level's own
    are shuffled.
    """
    sizes, bodies = bursts(study, cell), _bodies(study, cell, given)
    route = url + ROUTES[study.request.format]
    for size in sizes:
        with ThreadPoolExecutor(size) as pool:
            list(pool.map(lambda body: send(route, body, _LIMIT_S), islice(bodies, size)))
    return sizes


def bursts(study: Study, cell: PlannedCell) -> list[int]:
    """Return 1, 2, 4 … and what the level has in flight; where the study states a number, so many
    and no more."""
    stated, bound = study.window.warm_up_requests, cell.concurrency or _MOST_UNBOUND
    most = min(study.window.warm_up_at(bound), bound, cell.most_at_once)
    if stated is not None:
        return [min(most, stated - sent) for sent in range(0, stated, most or 1)]
    smaller = [1 << power for power in range((most - 1).bit_length())]
    return [*smaller, *[most] * math.ceil(LEAST_WARM_UP / most)]


def _bodies(study: Study, cell: PlannedCell, given: PromptFile) -> Iterator[dict[str, Any]]:
    texts = [*given.warm_up]
    if not texts and not given.conversations:
        for text in prompts.read(given.path):
            words = text.split()
            random.Random(text).shuffle(words)
            texts.append(" ".join(words))
    texts = texts or ["Count upwards in words."]
    most = study.dataset(cell.dataset).max_tokens or study.request.max_tokens or _MAX_TOKENS
    shared = {
        "model": served_model(study), "max_tokens": min(most, _MAX_TOKENS), **sampling(study),
    }  # fmt: skip
    chat, spoken = study.request.format == "chat_completions", given.conversations and given.warm_up
    for number in count():
        text = texts[number % len(texts)]
        first, *rest = messages_of(text) if spoken else [{"role": "user", "content": text}]
        # As long as it was, and nowhere cached.
        mark = f"{cell.dataset} {cell.load} {number}: "
        marked = mark + first["content"][len(mark) :]
        messages = [first | {"content": marked}, *rest]
        yield shared | ({"messages": messages} if chat else {"prompt": marked})


# --- One cell: warm-up, an empty prefix cache, counters, the load, counters again, the record.


_LOG_LINES = 40
#: More lines than the megabyte holds that a server's log is read back.
_WHOLE_LOG = 1 << 20
#: Under this there is no room for the rest of a report.
_DISK_FULL_BYTES = 1 << 18
_METRICS_S = 30.0
#: What a server that dies or hangs raises at its client; other OSErrors are this machine's.
_SERVER_GONE = (URLError, ConnectionError, TimeoutError, HTTPException)

Server = LocalServer | RemoteServer


@dataclass(frozen=True)
class LaunchBench:
    """What all cells of a launch are measured with.

    ``setting``: what the machine is, which is found out while the server starts. ``guidellm``:
    executable and version. ``env``: the load generator's environment; ``cpus``: its cores, None: any.
    ``watch``: the machine, looked at during each load. ``study_text``: as the run has put it beside
    its results.
    """

    run: StudyRun
    launch: Launch
    progress: Progress
    watch: Watch
    setting: Future[LaunchSetting]
    guidellm: tuple[str, str]
    env: Mapping[str, str]
    cpus: frozenset[int] | None = None
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
        request = load_request(self.study, cell, url, file, str(report), key is not None)
        argv = command(executable, version, request)
        env = {**self.env, **arrival_environment(request)}
        log = self.run.layout.load_log(self.launch.launch_id)
        env |= {} if key is None else key_environment(version, request, key)
        try:
            return tuple(argv), load.run_load(argv, env, log, limit_s, self.cpus, watch)
        finally:
            if key is not None:
                scrub((report, log), key)


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
        write_keepsakes(
            folder, bench.study, bench.study_text, bench.run.prompts.of(cell), bench.run.keep_texts,
            {} if host.resolved is None else host.resolved.whole, server.log_tail(_WHOLE_LOG),
        )  # fmt: skip
        attempt.end(problem, () if problem is None else server.log_tail(_LOG_LINES))
        _keep(bench, cell, folder, attempt)
    return problem


def _measure(
    bench: LaunchBench, server: Server, cell: PlannedCell, folder: Path, attempt: Attempt
) -> Diagnosis | None:
    study, file = bench.study, bench.run.prompts.of(cell)
    attempt.prompt_set_hash, attempt.port = file.hash, urlsplit(server.url).port
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
    limits = study.limits
    return problem or load.judge(folder / REPORT, cell.prompts, limits.max_error_rate)


def keep_counters(url: str, path: Path) -> str:
    """Keep the whole of ``/metrics`` and return it; an engine without one leaves no file."""
    try:
        text = fetch(f"{url}/metrics", _METRICS_S)
    except BadStatus as error:
        if error.unknown_route:
            return ""
        raise
    path.write_text(text, encoding="utf-8")
    return text


def _load(
    bench: LaunchBench, server: Server, cell: PlannedCell, folder: Path, attempt: Attempt
) -> Diagnosis | None:
    study = bench.study
    sampling = load.Sampler(server.url, folder / SAMPLES, study.sample_every_s)
    machine = MachineSampler(folder / MACHINE, bench.watch.look())
    stall = load.Stall(study.limits.cell_s)

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
    require_room(folder, _DISK_FULL_BYTES)
    bench.watch.gpus.ask_again()
    died = bench.watch.problem() or server.died()
    if died is None or died == problem:
        return problem
    return Diagnosis(died.cause, f"{died.sentence.rstrip('.')}. {problem.sentence}")


def _keep(bench: LaunchBench, cell: PlannedCell, folder: Path, attempt: Attempt) -> None:
    # Write the record and rename the folder: from here on the attempt exists.
    study, layout, software = bench.study, bench.run.layout, bench.run.now.software
    attempt.notes |= {
        "software": software.as_json(),
        "asked": dict(cell.asked),
        # Where the prompts come from, and the folder from which paths in the study count.
        "dataset": origin(study, study.dataset(cell.dataset)),
        "folder": study.located("."),
        **bench.watch.notes(),
    }
    write(record(bench.setting.result(), cell, attempt), folder)
    good = attempt.problem is None
    final = layout.failed(cell.key, attempt.number)
    put_in_place(folder, layout.cell(cell.key, software.name) if good else final)
