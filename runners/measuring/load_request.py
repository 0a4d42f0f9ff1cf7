"""One load point as its study asks for it, whatever sends it."""

from dataclasses import dataclass
from typing import Any

from runners.planning.loads import LoadLevel
from runners.planning.plan import PlannedCell
from runners.planning.study import Study

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
