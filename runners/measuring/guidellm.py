"""GuideLLM's command line, by release family: 0.5, 0.6, 0.7 and 0.8 each say the same otherwise.

Every family gets the same load: one concurrent level, the prompts in the order of their file, the
answer's natural end with a cap, a JSON report and nothing else. No column of output tokens is ever
mapped, because GuideLLM then forces ``ignore_eos``; HTML is never asked for, because it wants the
network.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.planning.plan import PlannedCell
from runners.planning.study import Study
from runners.surroundings.tools import tool
from warehouse.errors import RunnerError

#: The releases that were driven; newer ones get the newest command line.
OLDEST, NEWEST = (0, 5, 3), (0, 8, 1)
PROMPT_COLUMN = "prompt"
ROUTES = {"chat_completions": "/v1/chat/completions", "text_completions": "/v1/completions"}
#: 0.5 gives a request 60 s unless told otherwise; later releases wait.
_UNLIMITED_S = 86_400.0


@dataclass(frozen=True)
class LoadRequest:
    """One load point: what is sent, how often, how many at a time."""

    url: str
    model: str
    tokenizer: str | None
    """The tokenizer's name; only for servers that do not count tokens themselves."""
    request_format: str
    prompts: str
    """Path of a JSONL file with the column ``prompt``."""
    concurrency: int
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


def version(study: Study) -> str:
    """The installed GuideLLM's version, as its environment says it. Raises RunnerError."""
    found = tool(study, "guidellm")
    if found.version is None:
        raise RunnerError(
            f"GuideLLM cannot be used: {found.problem or 'its environment does not say its version'}"
            "; install it in an environment of its own and name it under executables.guidellm of "
            "the study. `draftboard doctor STUDY` checks both."
        )
    return found.version


def command(executable: str, version: str, request: LoadRequest) -> list[str]:
    """The whole command line for one load point. Raises RunnerError for a release too old."""
    return [executable, *_family(version)(request), *_quiet()]


def planned_command(study: Study, cell: PlannedCell) -> list[str]:
    """What a cell's load will be, with ``{url}``, ``{prompts}`` and ``{report}`` still open.

    The command line is that of the installed GuideLLM, or of 0.8.1 where none is found.
    """
    executable = study.executable("guidellm")
    known = tool(study, "guidellm").version or ".".join(map(str, NEWEST))
    request = load_request(study, cell, Places("{url}", "{prompts}", "{report}"))
    return command(executable or study.executables.guidellm, known, request)


@dataclass(frozen=True)
class Places:
    """Where a load point's server, prompts and report are."""

    url: str
    prompts: str
    report: str


def load_request(study: Study, cell: PlannedCell, places: Places) -> LoadRequest:
    """The load of a cell, as its study asks for it."""
    dataset = study.dataset(cell.dataset)
    tokenizer = study.target.tokenizer
    return LoadRequest(
        url=places.url,
        model=served_model(study),
        tokenizer=None if tokenizer is None else study.located(tokenizer),
        request_format=study.request.format,
        prompts=places.prompts,
        concurrency=cell.concurrency,
        n_requests=cell.prompts,
        max_seconds=study.limits.cell_s,
        sampling=sampling(study),
        max_tokens=dataset.max_tokens or study.request.max_tokens,
        warmup=study.window.warm_up,
        cooldown=study.window.cool_down,
        seed=study.order_seed,
        output=places.report,
    )


def served_model(study: Study) -> str:
    """The name by which requests ask for the model."""
    return study.target.served_name or study.located(study.target.model)


def sampling(study: Study) -> dict[str, Any]:
    """The body fields that the study sets; what it leaves out is not sent."""
    said = study.request
    fields = {"temperature": said.temperature, "top_p": said.top_p, "seed": said.seed}
    body = {name: value for name, value in fields.items() if value is not None}
    # Not every engine knows ignore_eos, so "no" is said by leaving it out.
    return body | ({"ignore_eos": True} if said.ignore_eos else {}) | said.extra_body


def _family(version: str) -> Callable[[LoadRequest], list[str]]:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
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


def _v05(request: LoadRequest) -> list[str]:
    formatter: dict[str, Any] = {"extras": {"body": request.sampling}}
    if request.max_tokens is not None:
        formatter["max_tokens"] = request.max_tokens
    return [
        *_benchmark_run(request),
        *("--backend-kwargs", json.dumps({"timeout": _UNLIMITED_S})),
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
        *("--profile", "concurrent", "--rate", str(request.concurrency)),
        *("--max-requests", str(request.n_requests), "--max-seconds", f"{request.max_seconds:g}"),
        *("--data", request.prompts),
        *("--data-column-mapper", json.dumps({"text_column": PROMPT_COLUMN})),
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
    profile: dict[str, Any] = {"kind": "concurrent", "streams": [request.concurrency]}
    for name, share in (("warmup", request.warmup), ("cooldown", request.cooldown)):
        profile |= {name: _phase(share)} if share else {}
    mapper = {
        "kind": "generative_column_mapper",
        "column_mappings": {"text_column": PROMPT_COLUMN},
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


def _body(request: LoadRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"extras": {"body": request.sampling}}
    return body | ({} if request.max_tokens is None else {"max_tokens": request.max_tokens})


def _phase(share: float) -> dict[str, Any]:
    """Return the setting of a phase by its share of the requests. Left to itself GuideLLM takes a
    share of the time limit, which is hours."""
    return {"percent": share, "mode": "requests"}


def _quiet() -> list[str]:
    return ["--disable-console-interactive"]
