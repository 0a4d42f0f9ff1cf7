"""GuideLLM's command line, by release family: 0.5, 0.6, 0.7 and 0.8 each say the same otherwise.

Every family gets the same load: one level, the prompts in the order of their file, the answer's
natural end with a cap, a JSON report and nothing else. A column of output tokens is mapped for a
trace alone, because GuideLLM then forces ``ignore_eos`` unless the body says otherwise; HTML is
never asked for, because it wants the network.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.loads.problems import CONVERSES, lacks_conversations, lacks_replay
from runners.planning.loads import LoadLevel
from runners.planning.plan import PlannedCell
from runners.planning.study import Study
from runners.surroundings.tools import tool
from runners.texts.prompts import MESSAGES, MOST, PROMPT, WHEN
from warehouse.errors import RunnerError

# --- One load point as its study asks for it, whatever sends it.


ROUTES = {"chat_completions": "/v1/chat/completions", "text_completions": "/v1/completions"}


@dataclass(frozen=True)
class LoadRequest:
    """One load point: what is sent, how often, how many at a time."""

    url: str
    model: str
    tokenizer: str | None
    """The tokenizer's name; only for servers that do not count tokens themselves."""
    request_format: str
    prompts: str
    """Path of a JSONL file with the column ``prompt``, and of a trace with its times."""
    level: LoadLevel
    n_requests: int
    max_seconds: float
    sampling: dict[str, Any]
    """Fields of the request's body: temperature, top_p, seed …"""
    max_tokens: int | None
    warmup: float
    """Share of the requests left out at the start; 0 for none."""
    cooldown: float
    seed: int
    output: str
    """Path of the JSON report."""
    keyed: bool = False
    """Whether the server wants an API key, which comes by the environment (``key_environment``)."""
    conversations: bool = False
    """Whether the file's column ``messages`` is sent, and not its ``prompt``."""


@dataclass(frozen=True)
class Places:
    """Where a load point's server, prompts and report are."""

    url: str
    prompts: str
    report: str
    keyed: bool = False


def load_request(study: Study, cell: PlannedCell, places: Places) -> LoadRequest:
    """Return the load of a cell, as its study asks for it."""
    dataset = study.dataset(cell.dataset)
    tokenizer = study.target.tokenizer
    return LoadRequest(
        url=places.url,
        model=served_model(study),
        tokenizer=None if tokenizer is None else study.located(tokenizer),
        request_format=study.request.format,
        prompts=places.prompts,
        level=cell.level,
        n_requests=cell.prompts,
        max_seconds=study.limits.cell_s,
        sampling=sampling(study) | _natural(study, cell),
        max_tokens=dataset.max_tokens or study.request.max_tokens,
        warmup=study.window.warm_up,
        cooldown=study.window.cool_down,
        seed=study.order_seed + _arrivals_seed(cell),
        output=places.report,
        keyed=places.keyed,
        conversations=dataset.conversations,
    )


def _natural(study: Study, cell: PlannedCell) -> dict[str, Any]:
    """Return the body field that leaves the end of an answer to the model: GuideLLM forces answers
    to the length that a trace says, unless the body says otherwise."""
    return {} if cell.level.trace is None else {"ignore_eos": study.request.ignore_eos}


def _arrivals_seed(cell: PlannedCell) -> int:
    """Return the seed of arrivals at random: another one for each repeat, the same for every arm of
    it."""
    return cell.repeat if cell.level.profile == "poisson" else 0


def served_model(study: Study) -> str:
    """Return the name by which requests ask for the model."""
    return study.target.served_name or study.located(study.target.model)


def sampling(study: Study) -> dict[str, Any]:
    """Return the body fields that the study sets; what it leaves out is not sent."""
    said = study.request
    fields = {"temperature": said.temperature, "top_p": said.top_p, "seed": said.seed}
    body = {name: value for name, value in fields.items() if value is not None}
    # Not every engine knows ignore_eos, so "no" is said by leaving it out.
    return body | ({"ignore_eos": True} if said.ignore_eos else {}) | said.extra_body


# --- GuideLLM's command line, by release family: 0.5, 0.6, 0.7 and 0.8 each say the same otherwise.


#: The releases that were driven; newer ones get the newest command line.
OLDEST, NEWEST = (0, 5, 3), (0, 8, 1)
#: One by one and all at once; the rates between are offered as cells of their own.
_TWO_ENDS = 2
#: 0.5 gives a request 60 s unless told otherwise; later releases wait.
_UNLIMITED_S = 86_400.0


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
    if request.conversations and _numbers(version) < CONVERSES:
        raise RunnerError(f"{lacks_conversations(version)}.")
    return [executable, *_family(version)(request), "--disable-console-interactive"]


def key_environment(version: str, request: LoadRequest, key: str) -> dict[str, str]:
    """Return the variables by which a release takes an API key: a command line is seen by
    everybody.

    Raises RunnerError for releases with which that was not tried.
    """
    numbers = _numbers(version)
    if numbers >= (0, 8):
        return {"GUIDELLM__SPEC__BACKEND__API_KEY": key}
    if numbers < (0, 6):
        return {"GUIDELLM_BACKEND_KWARGS": json.dumps({**_timeout(), "api_key": key})}
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


def planned_command(study: Study, cell: PlannedCell, places: Places) -> list[str]:
    """Return the command line of a cell's load.

    It is that of the installed GuideLLM, or of 0.8.1 where none is found.
    """
    executable = study.executable("guidellm")
    known = tool(study, "guidellm").version or ".".join(map(str, NEWEST))
    request = load_request(study, cell, places)
    return command(executable or study.executables.guidellm, known, request)


def _family(version: str) -> Callable[[LoadRequest], list[str]]:
    numbers = _numbers(version)
    if numbers < OLDEST:
        raise RunnerError(
            f"GuideLLM {version} is older than the oldest release that Draftboard drives "
            f"({'.'.join(map(str, OLDEST))}); install a newer one."
        )
    if numbers < (0, 6):
        return _v05
    if numbers < (0, 7):
        return _v06
    return _v07 if numbers < (0, 8) else _v08


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _timeout() -> dict[str, Any]:
    return {"timeout": _UNLIMITED_S}


def _v05(request: LoadRequest) -> list[str]:
    formatter: dict[str, Any] = {"extras": {"body": request.sampling}}
    if request.max_tokens is not None:
        formatter["max_tokens"] = request.max_tokens
    # With a key these stand in the environment, and an option would take their place.
    backend = () if request.keyed else ("--backend-kwargs", json.dumps(_timeout()))
    return [
        *_benchmark_run(request),
        *backend,
        *("--request-type", request.request_format),
        *("--request-formatter-kwargs", json.dumps(formatter)),
    ]


def _v06(request: LoadRequest) -> list[str]:
    return [
        *_benchmark_run(request),
        *("--backend-kwargs", json.dumps(_body(request))),
        *("--request-format", ROUTES[request.request_format]),
    ]


def _benchmark_run(request: LoadRequest) -> list[str]:
    """Return the words that 0.5 and 0.6 have in common."""
    report = Path(request.output)
    words = [
        *("benchmark", "run", "--target", request.url, "--model", request.model),
        *("--profile", request.level.profile, "--rate", f"{_rate_of(request):.15g}"),
        *("--max-requests", str(request.n_requests), "--max-seconds", f"{request.max_seconds:g}"),
        *("--data", request.prompts),
        *("--data-column-mapper", json.dumps(_columns(request))),
        *("--random-seed", str(request.seed)),
        *("--output-dir", str(report.parent), "--outputs", report.name),
    ]
    for name, share in (("--warmup", request.warmup), ("--cooldown", request.cooldown)):
        words += [name, json.dumps(_phase(share))] if share else []
    return words + (["--processor", request.tokenizer] if request.tokenizer else [])


def _v07(request: LoadRequest) -> list[str]:
    # Until 0.8.0 a JSONL file is refused unless its split is named.
    return _run(request, {"load_kwargs": {"split": "train"}})


def _v08(request: LoadRequest) -> list[str]:
    return _run(request, {})


def _run(request: LoadRequest, data_more: dict[str, Any]) -> list[str]:
    backend = {
        "kind": "openai_http",
        "target": request.url,
        "model": request.model,
        "request_format": ROUTES[request.request_format],
        **_body(request),
    }
    profile = _profile(request)
    for name, share in (("warmup", request.warmup), ("cooldown", request.cooldown)):
        profile |= {name: _phase(share)} if share else {}
    mapper = {
        "kind": "generative_column_mapper",
        "column_mappings": _columns(request),
    }
    words = [
        *("run", "--backend", json.dumps(backend), "--profile", json.dumps(profile)),
        *("--constraint", f"kind=max_requests,count={request.n_requests}"),
        *("--constraint", f"kind=max_duration,seconds={request.max_seconds:g}"),
        *("--data", json.dumps({"kind": "json_file", "path": request.prompts, **data_more})),
        *("--data-column-mapper", json.dumps(mapper)),
        *("--seed", f"kind=static,value={request.seed}"),
        *("--output", json.dumps({"kind": "json", "path": request.output})),
    ]
    if request.tokenizer:
        words += ["--tokenizer", json.dumps({"kind": "hf_auto", "model": request.tokenizer})]
    return words


def _rate_of(request: LoadRequest) -> float:
    """Return requests at once or a second. ``throughput`` of 0.5 and 0.6 wants a number, too: all
    of them.

    Raises RunnerError for a trace, and for a sweep's rate that nobody found yet.
    """
    level = request.level
    if level.profile == "trace":
        raise RunnerError(f"{lacks_replay('0.5 and 0.6')}.")
    if level.profile == "sweep":
        return _TWO_ENDS
    return request.n_requests if level.profile == "throughput" else _known(level)


def _known(level: LoadLevel) -> float:
    if level.value is None:
        raise RunnerError(
            f"The {level.words} is not known yet: it is found when the baseline is measured."
        )
    return level.value


def _profile(request: LoadRequest) -> dict[str, Any]:
    level = request.level
    if level.profile == "concurrent":
        return {"kind": "concurrent", "streams": [level.at_once]}
    if level.profile == "throughput":
        return {"kind": "throughput", "max_concurrency": None}
    if level.profile == "sweep":
        return {"kind": "sweep", "sweep_size": _TWO_ENDS}
    if level.profile == "trace":
        # The file's times are those of the replay: nothing is left to scale.
        return {"kind": "replay", "time_scale": 1.0}
    return {"kind": level.profile, "rate": [_known(level)]}


def _columns(request: LoadRequest) -> dict[str, str]:
    texts = {"raw_messages_column": MESSAGES}
    columns = texts if request.conversations else {"text_column": PROMPT}
    if request.level.trace is None:
        return columns
    return columns | {"relative_timestamp_column": WHEN, "output_tokens_count_column": MOST}


def _body(request: LoadRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"extras": {"body": request.sampling}}
    return body | ({} if request.max_tokens is None else {"max_tokens": request.max_tokens})


def _phase(share: float) -> dict[str, Any]:
    """Return the setting of a phase by its share of the requests. Left to itself GuideLLM takes a
    share of the time limit, which is hours."""
    return {"percent": share, "mode": "requests"}
