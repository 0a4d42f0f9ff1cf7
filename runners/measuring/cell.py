"""One cell: warm-up, an empty prefix cache, counters, the load, counters again, the record.

It is measured in a hidden folder and renamed when it is whole; a failed attempt is renamed too, to
a name of its own. Whatever interrupts this leaves nothing that looks like a result.
"""

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http.client import HTTPException
from itertools import count, islice
from pathlib import Path
from typing import Any, Protocol
from urllib.error import URLError
from urllib.parse import urlsplit

from runners.measuring import load
from runners.measuring.guidellm import (
    ROUTES,
    Places,
    arrival_environment,
    command,
    key_environment,
    load_request,
    sampling,
    served_model,
)
from runners.measuring.layout import (
    AFTER,
    BEFORE,
    MACHINE,
    REPORT,
    SAMPLES,
    Layout,
    fresh_folder,
    put_in_place,
    require_room,
)
from runners.measuring.load import Stall
from runners.measuring.progress import Progress
from runners.measuring.record import Happened, Keep, Keepsakes, Setting, record, write
from runners.measuring.software import Software
from runners.planning.estimate import BYTES_PER_CELL, BYTES_PER_REQUEST
from runners.planning.plan import Launch, PlannedCell
from runners.planning.study import LEAST_WARM_UP, Study
from runners.serving.agreement import wrong_arm
from runners.serving.diagnosis import Diagnosis
from runners.serving.endpoint import BadStatus, empty_prefix_cache, scrub, send
from runners.texts import prompts
from runners.texts.datasets import messages_of, origin
from runners.texts.prompts import PromptFile, Prompts
from runners.watching.watch import MachineSampler, Watch

# --- One try at a cell, before it is known how it goes.


@dataclass(frozen=True)
class Attempt:
    """One try at a cell: which one it is, when it began, how long its server took to start, what
    the server says of itself in short and in whole; ``changed`` tells after the load why the server
    is another one."""

    number: int
    server_start_s: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    changed: Callable[[], Diagnosis | None] = lambda: None
    began: float = field(default_factory=time.monotonic)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))


# --- What a cell wants of a server.


class Serving(Protocol):
    """A server to measure on: started here, or somebody else's."""

    @property
    def url(self) -> str:
        """The server's URL, without a path."""
        ...

    def alive(self) -> bool:
        """Return whether the server answers a real request."""
        ...

    def died(self) -> Diagnosis | None:
        """Say why the server's process ended; None while it runs. Costs nothing."""
        ...

    def log_tail(self, lines: int) -> list[str]:
        """Return the lines that the server printed last."""
        ...


# --- The server's counters before and after a load; before it they must be those of the arm.


def keep_counters(url: str, path: Path) -> str:
    """Keep the counters and return them; an engine without ``/metrics`` leaves no file.

    OSError or HTTPException where the server does not answer.
    """
    try:
        text = load.snapshot(url)
    except BadStatus as error:
        if error.unknown_route:
            return ""
        raise
    path.write_text(text, encoding="utf-8")
    return text


def count_before(url: str, path: Path, launch: Launch) -> Diagnosis | None:
    """Keep the counters, and say why they are not those of this arm; None where they are."""
    return wrong_arm(keep_counters(url, path), launch)


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
    own = () if given.conversations else prompts.read(given.path)
    texts = [*given.warm_up] or [*map(_shuffled, own)] or ["Count upwards in words."]
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


def _shuffled(text: str) -> str:
    words = text.split()
    random.Random(text).shuffle(words)
    return " ".join(words)


# --- One cell: warm-up, an empty prefix cache, counters, the load, counters again, the record.


_LOG_LINES = 40
#: More lines than the megabyte holds that a server's log is read back.
_WHOLE_LOG = 1 << 20
#: Under this there is no room for the rest of a report.
_DISK_FULL_BYTES = 1 << 18
#: What a server that dies or hangs raises at its client; other OSErrors are this machine's.
_SERVER_GONE = (URLError, ConnectionError, TimeoutError, HTTPException)


@dataclass(frozen=True)
class Bench:
    """What all cells of a launch are measured with."""

    study: Study
    launch: Launch
    told: Future[Setting]
    """What the machine is; it is found out while the server starts."""
    layout: Layout
    prompts: Prompts
    progress: Progress
    guidellm: tuple[str, str]
    """Executable and version."""
    env: Mapping[str, str]
    watch: Watch
    """The machine, looked at during each load."""
    cpus: frozenset[int] | None = None
    """Cores for the load generator; None: any."""
    api_key: str | None = field(default=None, repr=False)
    """What a foreign server asks for."""
    software: Software = Software()
    keep: Keep = Keep()

    @property
    def setting(self) -> Setting:
        """What the machine is; waits until that is known."""
        return self.told.result()


@dataclass
class _Notes:
    """What an attempt at a cell notes for its record: times, command, cache, prompts, port, and how
    many requests warmed up at once, burst by burst."""

    seconds: dict[str, float] = field(default_factory=dict)
    load_command: tuple[str, ...] = ()
    prefix_cache: str | None = None
    prompt_set_hash: str | None = None
    port: int | None = None
    warm_up: list[int] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = time.monotonic() - began


def run_cell(
    bench: Bench, server: Serving, cell: PlannedCell, attempt: Attempt
) -> Diagnosis | None:
    """Measure one cell and put its folder in place. Return None if it is good, else what is wrong.

    OSError where this machine fails, e.g. a full disk; nothing is left of the attempt then.
    """
    notes = _Notes()
    with fresh_folder(bench.layout.partial(cell.key)) as folder:
        require_room(folder, BYTES_PER_CELL + BYTES_PER_REQUEST * cell.prompts)
        problem = _measure(bench, server, (cell, folder), notes) or attempt.changed()
        if problem is not None:
            problem = _blamed(bench, server, problem, folder)
        _keepsakes(bench, server, cell, attempt).write(folder)
        excerpt = () if problem is None else tuple(server.log_tail(_LOG_LINES))
        _keep(bench, (cell, folder), _happened(attempt, notes, problem, excerpt))
    return problem


def _keepsakes(bench: Bench, server: Serving, cell: PlannedCell, attempt: Attempt) -> Keepsakes:
    prompts, log = bench.prompts.of(cell), server.log_tail(_WHOLE_LOG)
    return Keepsakes(bench.keep, bench.study, prompts, attempt.configuration, log)


def record_unstarted(
    bench: Bench, cell: PlannedCell, attempt: Attempt, problem: Diagnosis, excerpt: list[str]
) -> None:
    """Record a failed attempt at a cell whose server did not come up."""
    bench.watch.beside.begin()  # Whom the cell before met is no news of this one.
    with fresh_folder(bench.layout.partial(cell.key)) as folder:
        happened = _happened(attempt, _Notes(), problem, tuple(excerpt))
        _keep(bench, (cell, folder), happened)


def _measure(
    bench: Bench, server: Serving, where: tuple[PlannedCell, Path], notes: _Notes
) -> Diagnosis | None:
    cell, folder = where
    study = bench.study
    prompts = bench.prompts.of(cell)
    notes.prompt_set_hash, notes.port = prompts.hash, urlsplit(server.url).port
    try:
        with notes.phase("warm_up"):
            notes.warm_up = warm_up(server.url, study, cell, prompts)
        notes.prefix_cache = empty_prefix_cache(server.url, study.prefix_cache)
        problem = count_before(server.url, folder / BEFORE, bench.launch)
        places = Places(
            server.url, str(prompts.path), str(folder / REPORT), bench.api_key is not None
        )
        problem = problem or _load(bench, server, cell, places, notes)
        if problem is None:
            keep_counters(server.url, folder / AFTER)
    except BadStatus as error:
        return Diagnosis("request_refused", f"The server refuses a request: {error.reason}")
    except _SERVER_GONE as error:
        return Diagnosis("server_silent", f"The server stopped answering: {error}.")
    return problem or _judged(bench, cell, folder)


def _load(
    bench: Bench, server: Serving, cell: PlannedCell, places: Places, notes: _Notes
) -> Diagnosis | None:
    study = bench.study
    executable, version = bench.guidellm
    request, key = load_request(study, cell, places), bench.api_key
    argv = command(executable, version, request)
    notes.load_command = tuple(argv)
    keyed = {} if key is None else key_environment(version, request, key)
    env = {**bench.env, **arrival_environment(request), **keyed}
    log = bench.layout.load_log(bench.launch.launch_id)
    invocation = load.Invocation(argv, env, log, study.limits.cell_s, bench.cpus)
    folder = Path(places.report).parent
    sampling = load.Sampler(server.url, folder / SAMPLES, study.sample_every_s)
    machine = MachineSampler(folder / MACHINE, bench.watch.look())
    stall = Stall(study.limits.cell_s)
    with machine, sampling, notes.phase("load"):

        def watch() -> Diagnosis | None:
            bench.progress.live(sampling.latest)
            return bench.watch.problem() or server.died() or stall.look(sampling.latest)

        try:
            return load.run_load(invocation, watch)
        finally:
            if key is not None:
                scrub((Path(places.report), log), key)


def _judged(bench: Bench, cell: PlannedCell, folder: Path) -> Diagnosis | None:
    counted = load.count(folder / REPORT)
    if isinstance(counted, Diagnosis):
        return counted
    return load.judge(counted, cell.prompts, bench.study.limits.max_error_rate)


def _blamed(bench: Bench, server: Serving, problem: Diagnosis, folder: Path) -> Diagnosis:
    """Return the cause behind the problem: a GPU that is gone, the server's own where it is dead.
    Raises OSError where the disk is full: that is nobody's fault but must stop the run."""
    require_room(folder, _DISK_FULL_BYTES)
    bench.watch.gpus.ask_again()
    died = bench.watch.problem() or server.died()
    if died is None or died == problem:
        return problem
    return Diagnosis(died.cause, f"{died.sentence.rstrip('.')}. {problem.sentence}")


def _happened(
    attempt: Attempt, notes: _Notes, problem: Diagnosis | None, excerpt: tuple[str, ...]
) -> Happened:
    start, inside = attempt.server_start_s, sum(notes.seconds.values())
    spent = time.monotonic() - attempt.began
    return Happened(
        attempt=attempt.number,
        started_at=attempt.started_at,
        ended_at=datetime.now(UTC),
        timeline={
            "server_start": start,
            **notes.seconds,
            "overhead": max(0.0, spent - inside),
            "total": start + spent,
        },
        prompt_set_hash=notes.prompt_set_hash,
        prefix_cache=notes.prefix_cache,
        load_command=notes.load_command,
        port=notes.port,
        problem=problem,
        log_excerpt=excerpt,
        notes={**attempt.notes, "warm_up": notes.warm_up},
    )


def _keep(bench: Bench, where: tuple[PlannedCell, Path], happened: Happened) -> None:
    """Write the record and rename the folder: from here on the attempt exists."""
    cell, folder = where
    told = {"software": bench.software.as_json(), "asked": dict(cell.asked)} | _origin(bench, cell)
    happened = replace(happened, notes=happened.notes | told | bench.watch.notes())
    write(record(bench.setting, cell, happened), folder)
    layout = bench.layout
    good = happened.problem is None
    final = (
        layout.cell(cell.key, bench.software.name)
        if good
        else layout.failed(cell.key, happened.attempt)
    )
    put_in_place(folder, final)


def _origin(bench: Bench, cell: PlannedCell) -> dict[str, Any]:
    """Return where the prompts come from, and the folder from which paths in the study count."""
    study = bench.study
    return {"dataset": origin(study, study.dataset(cell.dataset)), "folder": study.located(".")}
