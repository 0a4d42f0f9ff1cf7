"""GuideLLM's command line, by release family: 0.5, 0.6, 0.7 and 0.8 each say the same otherwise.

Every family gets the same load: one level, the prompts in the order of their file, the answer's
natural end with a cap, a JSON report and nothing else. A column of output tokens is mapped for a
trace alone, because GuideLLM then forces ``ignore_eos`` unless the body says otherwise; HTML is
never asked for, because it wants the network.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.planning.loads import LoadLevel
from runners.planning.plan import PlannedCell
from runners.planning.study import Study
from runners.serving.agreement import served_model
from runners.serving.endpoint import ROUTES, RequestFormat
from runners.serving.engines import tool
from runners.texts.loads import CONVERSES, LACKS_CONVERSATIONS, LACKS_REPLAY, release_numbers
from runners.texts.prompts import MESSAGES, MOST, PROMPT, WHEN
from warehouse.errors import RunnerError

# --- One load point as its study asks for it, whatever sends it.


@dataclass(frozen=True)
class LoadRequest:
    """One load point: what is sent, how often, how many at a time.

    ``tokenizer``: a name, only for servers that do not count tokens themselves. ``prompts``: path of
    a JSONL file with the column ``prompt`` (``messages``, where ``conversations`` are sent), and of a
    trace with its times. ``sampling``: fields of the request's body: temperature, top_p, seed …
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
    conversations: bool = False


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
        conversations=dataset.conversations,
    )


def sampling(study: Study) -> dict[str, Any]:
    """Return the body fields that the study sets; what it leaves out is not sent."""
    given = study.request
    fields = {"temperature": given.temperature, "top_p": given.top_p, "seed": given.seed}
    body = {name: value for name, value in fields.items() if value is not None}
    # Not every engine knows ignore_eos, so "no" is said by leaving it out.
    return body | ({"ignore_eos": True} if given.ignore_eos else {}) | given.extra_body


# --- GuideLLM's command line, by release family: 0.5, 0.6, 0.7 and 0.8 each say the same otherwise.


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
    if request.conversations and numbers < CONVERSES:
        raise RunnerError(f"{LACKS_CONVERSATIONS.format(version)}.")
    if numbers < OLDEST:
        raise RunnerError(
            f"GuideLLM {version} is older than the oldest release that Draftboard drives "
            f"({'.'.join(map(str, OLDEST))}); install a newer one."
        )
    family = _benchmark_run if numbers < (0, 7) else _run
    return [executable, *family(numbers, request), "--disable-console-interactive"]


def key_environment(version: str, request: LoadRequest, key: str) -> dict[str, str]:
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


def _benchmark_run(numbers: tuple[int, ...], request: LoadRequest) -> list[str]:
    # The words of 0.5 and 0.6. Raises RunnerError for a trace, and for a sweep's rate that
    # nobody found yet.
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


def _run(numbers: tuple[int, ...], request: LoadRequest) -> list[str]:
    # The words of 0.7 and 0.8.
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
    texts = {"raw_messages_column": MESSAGES}
    columns = texts if request.conversations else {"text_column": PROMPT}
    if request.level.trace is None:
        return columns
    return columns | {"relative_timestamp_column": WHEN, "output_tokens_count_column": MOST}


def _body(request: LoadRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"extras": {"body": request.sampling}}
    return body | ({} if request.max_tokens is None else {"max_tokens": request.max_tokens})


def _phases(request: LoadRequest) -> dict[str, Any]:
    # By their shares of the requests: left to itself GuideLLM takes a share of the time limit, which
    # is hours.
    shares = {"warmup": request.warmup, "cooldown": request.cooldown}
    return {name: {"percent": share, "mode": "requests"} for name, share in shares.items() if share}
