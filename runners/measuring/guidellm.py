"""GuideLLM on one load point: what is asked of it, its command line in each release, and what is looked at meanwhile."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from runners.planning.loads import LoadLevel, TextForm
from runners.planning.plan import (
    CONVERSES,
    LACKS_CONVERSATIONS,
    LACKS_REPLAY,
    PlannedCell,
    release_numbers,
)
from runners.planning.study_file import Study
from runners.serving import endpoint
from runners.serving.agreement import served_model
from runners.serving.diagnosis import Diagnosis
from runners.serving.endpoint import ROUTES, RequestFormat
from runners.serving.engines import tool
from runners.texts.conversations import MESSAGES, MOST, PAUSE, PROMPT, SYSTEM, TURN, WHEN
from warehouse.contract import ENGINES, common_name
from warehouse.errors import RunnerError

# --- One load point as its study asks for it, whatever sends it.


@dataclass(frozen=True)
class LoadRequest:
    """One load point: what is sent, how often, how many at a time.

    ``tokenizer``: a name, only for servers that do not count tokens themselves. ``prompts``: path of
    a JSONL file with the column ``prompt`` (``messages`` of conversations, ``turn_0`` … of sessions, by
    ``form``), and of a trace with its times. ``sampling``: fields of the request's body: temperature, top_p, seed …
    ``warmup``, ``cooldown``: shares of the requests that are left out at the ends; 0 for none.
    ``output``: path of the JSON report. ``keyed``: whether the server wants an API key, which comes
    by the environment (``key_environment``).
    """

    url: str
    model: str
    tokenizer: str | None
    request_format: RequestFormat
    prompts: str
    level: LoadLevel
    n_requests: int
    max_seconds: float
    sampling: dict[str, Any]
    max_tokens: int | None
    warmup: float
    cooldown: float
    seed: int
    output: str
    keyed: bool = False
    form: TextForm = "prompt"


def load_request(
    study: Study, cell: PlannedCell, url: str, prompts: str, report: str, keyed: bool = False
) -> LoadRequest:
    """Return the load of a cell, as its study asks for it."""
    dataset, level, tokenizer = study.dataset(cell.dataset), cell.level, study.target.tokenizer
    # GuideLLM forces answers to the length that a trace says, unless the body says otherwise.
    natural = {} if level.trace is None else {"ignore_eos": study.request.ignore_eos}
    # Arrivals at random are others for each repeat, and the same for every arm of it.
    arrivals_seed = cell.repeat if level.profile == "poisson" else 0
    return LoadRequest(
        url=url,
        model=served_model(study),
        tokenizer=None if tokenizer is None else study.located(tokenizer),
        request_format=study.request.format,
        prompts=prompts,
        level=level,
        n_requests=cell.prompts,
        max_seconds=study.limits.cell_s,
        sampling=sampling(study) | natural,
        max_tokens=dataset.max_tokens or study.request.max_tokens,
        warmup=study.window.warm_up,
        cooldown=study.window.cool_down,
        seed=study.order_seed + arrivals_seed,
        output=report,
        keyed=keyed,
        form=dataset.form,
    )


def sampling(study: Study) -> dict[str, Any]:
    """Return the body fields that the study sets; what it leaves out is not sent."""
    request = study.request
    # Not every engine knows ignore_eos, so "no" is said by leaving it out.
    fields = {
        "temperature": request.temperature, "top_p": request.top_p, "seed": request.seed,
        "ignore_eos": request.ignore_eos or None,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None} | request.extra_body


# --- GuideLLM's command line, by release family: 0.5, 0.6, 0.7 and 0.8 each say the same otherwise.
#
# Every family gets the same load: one level, the prompts in the order of their file, the answer's
# natural end with a cap, a JSON report and nothing else. A column of output tokens is mapped for a
# trace alone, because GuideLLM then forces ``ignore_eos`` unless the body says otherwise; HTML is
# never asked for, because it wants the network.


#: The releases that were driven; newer ones get the newest command line.
OLDEST, NEWEST = (0, 5, 3), (0, 8, 1)
#: One by one and all at once; the rates between are offered as cells of their own.
_TWO_ENDS = 2
#: 0.5 gives a request 60 s unless told otherwise; later releases wait.
_TIMEOUT = {"timeout": 86_400.0}


def version(study: Study) -> str:
    """Return the installed GuideLLM's version, as its environment says it. Raises RunnerError."""
    found = tool(study, "guidellm")
    if found.version is None:
        raise RunnerError(
            f"GuideLLM cannot be used: {found.problem or 'its environment does not say its version'}"
            "; install it in an environment of its own and name it under executables.guidellm of "
            "the study. `draftboard doctor STUDY` checks both."
        )
    return found.version


def command(executable: str, version: str, request: LoadRequest) -> list[str]:
    """Return the whole command line for one load point. Raises RunnerError for a release too
    old."""
    numbers = release_numbers(version)
    if request.form != "prompt" and numbers < CONVERSES:
        raise RunnerError(f"{LACKS_CONVERSATIONS.format(version, request.form)}.")
    if numbers < OLDEST:
        raise RunnerError(
            f"GuideLLM {version} is older than the oldest release that Draftboard drives "
            f"({'.'.join(map(str, OLDEST))}); install a newer one."
        )
    words = _words_before_07 if numbers < (0, 7) else _words_since_07
    return [executable, *words(numbers, request), "--disable-console-interactive"]


def key_environment(version: str, key: str) -> dict[str, str]:
    """Return the variables by which a release takes an API key: a command line is seen by
    everybody.

    Raises RunnerError for releases with which that was not tried.
    """
    numbers = release_numbers(version)
    if numbers >= (0, 8):
        return {"GUIDELLM__SPEC__BACKEND__API_KEY": key}
    if numbers < (0, 6):
        return {"GUIDELLM_BACKEND_KWARGS": json.dumps({**_TIMEOUT, "api_key": key})}
    raise RunnerError(
        f"With GuideLLM {version} an API key was not tried; take 0.8, or 0.5.3, for a server that "
        "asks for one."
    )


def arrival_environment(request: LoadRequest) -> dict[str, str]:
    """Return the variables without which requests of an open load would not arrive as they should.

    Each worker process of GuideLLM (0.5.3 to 0.8.1) draws the same random numbers from the seed, so
    that ten of them make each gap ten times in a row; and each reserves a time before it has a
    request for it, so that constant arrivals have holes. One worker keeps to both, the same for
    every arm.
    """
    return {} if request.level.rate is None else {"GUIDELLM__MAX_WORKER_PROCESSES": "1"}


def planned_command(
    study: Study, cell: PlannedCell, url: str, prompts: str, report: str
) -> list[str]:
    """Return the command line of a cell's load.

    It is that of the installed GuideLLM, or of 0.8.1 where none is found.
    """
    executable = study.executable("guidellm") or study.executables.guidellm
    release = tool(study, "guidellm").version or ".".join(map(str, NEWEST))
    return command(executable, release, load_request(study, cell, url, prompts, report))


def _words_before_07(numbers: tuple[int, ...], request: LoadRequest) -> list[str]:
    # Raises RunnerError for a trace, and for a sweep's rate that nobody found yet.
    report, level = Path(request.output), request.level
    if level.profile == "trace":
        raise RunnerError(f"{LACKS_REPLAY.format('0.5 and 0.6')}.")
    # ``throughput`` wants a number, too: all of them.
    rates = {"sweep": _TWO_ENDS, "throughput": request.n_requests}
    rate = rates.get(level.profile) or _stated_rate(level)
    words = [
        *("benchmark", "run", "--target", request.url, "--model", request.model),
        *("--profile", level.profile, "--rate", f"{rate:.15g}"),
        *("--max-requests", str(request.n_requests), "--max-seconds", f"{request.max_seconds:g}"),
        *("--data", request.prompts),
        *("--data-column-mapper", json.dumps(_columns(request))),
        *("--random-seed", str(request.seed)),
        *("--output-dir", str(report.parent), "--outputs", report.name),
    ]
    for name, phase in _phases(request).items():
        words += [f"--{name}", json.dumps(phase)]
    words += ["--processor", request.tokenizer] if request.tokenizer else []
    if numbers >= (0, 6):
        words += ["--backend-kwargs", json.dumps(_body(request))]
        return [*words, "--request-format", ROUTES[request.request_format]]
    # With a key these stand in the environment, and an option would take their place.
    words += [] if request.keyed else ["--backend-kwargs", json.dumps(_TIMEOUT)]
    words += ["--request-type", request.request_format]
    return [*words, "--request-formatter-kwargs", json.dumps(_body(request))]


def _words_since_07(numbers: tuple[int, ...], request: LoadRequest) -> list[str]:
    backend = {
        "kind": "openai_http",
        "target": request.url,
        "model": request.model,
        "request_format": ROUTES[request.request_format],
        **_body(request),
    }
    profile = _profile(request.level) | _phases(request)
    # Until 0.8.0 a JSONL file is refused unless its split is named.
    split = {"load_kwargs": {"split": "train"}} if numbers < (0, 8) else {}
    mapper = {"kind": "generative_column_mapper", "column_mappings": _columns(request)}
    words = [
        *("run", "--backend", json.dumps(backend), "--profile", json.dumps(profile)),
        *("--constraint", f"kind=max_requests,count={request.n_requests}"),
        *("--constraint", f"kind=max_duration,seconds={request.max_seconds:g}"),
        *("--data", json.dumps({"kind": "json_file", "path": request.prompts, **split})),
        *("--data-column-mapper", json.dumps(mapper)),
        *("--seed", f"kind=static,value={request.seed}"),
        *("--output", json.dumps({"kind": "json", "path": request.output})),
    ]
    if request.tokenizer:
        words += ["--tokenizer", json.dumps({"kind": "hf_auto", "model": request.tokenizer})]
    return words


def _stated_rate(level: LoadLevel) -> float:
    if level.value is None:
        raise RunnerError(
            f"The {level.words} is not known yet: it is found when the baseline is measured."
        )
    return level.value


def _profile(level: LoadLevel) -> dict[str, Any]:
    profiles: dict[str, dict[str, Any]] = {
        "concurrent": {"kind": "concurrent", "streams": [level.at_once]},
        "throughput": {"kind": "throughput", "max_concurrency": None},
        "sweep": {"kind": "sweep", "sweep_size": _TWO_ENDS},
        # The file's times are those of the replay: nothing is left to scale.
        "trace": {"kind": "replay", "time_scale": 1.0},
    }
    return profiles.get(level.profile) or {"kind": level.profile, "rate": [_stated_rate(level)]}


def _columns(request: LoadRequest) -> dict[str, str]:
    times = {"relative_timestamp_column": WHEN, "output_tokens_count_column": MOST}
    texts = {
        "prompt": {"text_column": PROMPT},
        "conversation": {"raw_messages_column": MESSAGES},
        # Columns of turns have their number behind the name; a name that is not there is passed over.
        "session": {"text_column": TURN, "prefix_column": SYSTEM, "requeue_delay_column": PAUSE},
    }[request.form]
    return texts if request.level.trace is None else texts | times


def _body(request: LoadRequest) -> dict[str, Any]:
    cap = {} if request.max_tokens is None else {"max_tokens": request.max_tokens}
    return {"extras": {"body": request.sampling}, **cap}


def _phases(request: LoadRequest) -> dict[str, Any]:
    # By their shares of the requests: left to itself GuideLLM takes a share of the time limit, which
    # is hours.
    shares = {"warmup": request.warmup, "cooldown": request.cooldown}
    return {name: {"percent": share, "mode": "requests"} for name, share in shares.items() if share}


# --- An engine that hangs: requests are running, and nothing is generated any more.


HANGS = "hangs"


class Stall:
    """Watches the sampler's latest figures. An engine that shows none is never taken to hang."""

    def __init__(self, cell_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        # At most, however long a cell may take; the prefill of a long prompt takes far less.
        self._limit_s = min(300.0, cell_s / 2)
        self._clock = clock
        self._moved_at = clock()
        self._seen: Mapping[str, float] = {}

    def look(self, latest: Mapping[str, float]) -> Diagnosis | None:
        """Say what is wrong, once nothing moved for too long; None until then. ``latest`` is a new
        object each sample."""
        fresh = latest is not self._seen
        self._seen = latest
        # An engine moves that has nothing to do; the first sample, which has no rate yet, counts.
        moves = not latest.get("running") or latest.get("tokens_per_s", 1.0) > 0
        if not latest or (fresh and moves):
            self._moved_at = self._clock()
        silent_s = self._clock() - self._moved_at
        if silent_s < self._limit_s:
            return None
        return Diagnosis(
            HANGS,
            f"The engine hangs: {latest.get('running', 0):.0f} requests were running and for "
            f"{silent_s:.0f} s it generated nothing, or did not say.",
        )


# --- The server's ``/metrics``: whole, before and after a load, and every few seconds during it.
#
# A sample is one line of ``metrics-samples.jsonl``: ``[unix_time, ["name{labels} value", …]]``.


_RUNNING, _WAITING = "num_requests_running", "num_requests_waiting"
_GENERATED = "generation_tokens"
#: Series that are kept of each sample, whatever the engine calls them; histograms and cache details
#: stay in the two snapshots.
_KEPT = frozenset({
    *(_RUNNING, _WAITING, _GENERATED, "kv_cache_usage_perc", "num_preemptions", "prompt_tokens"),
    *("spec_decode_num_drafts", "spec_decode_num_draft_tokens"),
    *("spec_decode_num_accepted_tokens", "spec_decode_num_accepted_tokens_per_pos"),
})  # fmt: skip
#: Seconds to wait for the thread at the end: a sample that hangs is not waited for.
_LEAVE_S = 5.0


class Sampler:
    """Samples a server from ``with`` on, in a thread of its own, until the block is left.

    A sample that fails is left out: the load itself shows whether the server lives. ``latest`` has
    ``running``, ``waiting`` (requests) and ``tokens_per_s`` (generated, since the sample before), as
    far as they are known.
    """

    def __init__(self, url: str, path: Path, every_s: float) -> None:
        self.latest: dict[str, float] = {}
        self._url, self._path, self._every_s = url, path, every_s
        self._generated: tuple[float, float] | None = None
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The last sample comes after the block has ended, so that the series spans it.
        self._left.set()
        self._thread.join(_LEAVE_S)
        if not self._thread.is_alive():
            self._sample()

    def _run(self) -> None:
        next_at = time.monotonic() + self._every_s
        while not self._left.wait(max(0.0, next_at - time.monotonic())):
            try:
                self._sample()
            except OSError:
                return  # It cannot be written: the last sample, on leaving, says so.
            # A server that answers slowly must not be asked twice in a row to catch up.
            next_at = max(next_at, time.monotonic()) + self._every_s

    def _sample(self) -> None:
        try:
            lines = kept_lines(endpoint.fetch(f"{self._url}/metrics", _LEAVE_S))
        except endpoint.SILENT:
            return
        at, totals = time.time(), _totals(lines)
        shown = {"running": totals.get(_RUNNING), "waiting": totals.get(_WAITING)}
        if (generated := totals.get(_GENERATED)) is not None:
            if self._generated is not None and at > self._generated[0]:
                then, before = self._generated
                shown["tokens_per_s"] = max(0.0, generated - before) / (at - then)
            self._generated = (at, generated)
        self.latest = {name: value for name, value in shown.items() if value is not None}
        with self._path.open("a", encoding="utf-8") as samples:
            samples.write(json.dumps([at, lines]) + "\n")


def kept_lines(metrics: str) -> list[str]:
    """Return the lines of ``/metrics`` that a sample keeps."""
    return [line for line in metrics.splitlines() if _name(line) in _KEPT]


def _name(line: str) -> str:
    engine, _, name = line.partition("{")[0].partition(" ")[0].partition(":")
    return common_name(engine, name) if engine in ENGINES else ""


def _totals(lines: Iterable[str]) -> dict[str, float]:
    # The value of each metric by name, summed over engines. A value that is no number is
    # passed over.
    totals: dict[str, float] = {}
    for line in lines:
        with contextlib.suppress(ValueError):
            totals[_name(line)] = totals.get(_name(line), 0.0) + float(line.rpartition(" ")[2])
    return totals
