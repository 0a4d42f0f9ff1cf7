"""What a drop keeps: ``record.json`` (what the study said, what this machine is, what happened), and
what the cell can be measured again from.

Every value is what was asked and answered on this machine; what nothing answered is None. No
credentials, no user names, no host name, no path that holds one (``surroundings.machine.public``).
"""

import gzip
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

from runners.planning.plan import Launch, PlannedCell
from runners.planning.study_file import Study, Variant
from runners.serving.agreement import ServerFacts
from runners.serving.diagnosis import Diagnosis
from runners.serving.engines import PORT, Kind, engine_of, tool
from runners.serving.server import near_gpus, used_gpus
from runners.surroundings import machine, models
from runners.surroundings.layout import ENGINE, PROMPTS, RECORD, SERVER_LOG, STUDY, Layout
from runners.texts import conversations, prompts
from warehouse.contract import EQUAL_ENGINE, Evidence, Record
from warehouse.secrets import scrub, scrub_text
from warehouse.secrets.shapes import REMOVED, is_secret_name, may_be_written

# --- What a drop keeps beside its measurement, so that the cell can be measured again.
#
# The study as it was, the hashes of its prompts (their texts where that was asked for), vLLM's whole
# configuration where it tells it, and what the server printed up to the end of the load. All of it is
# made fit for a record first: no credentials, no user names.


def write_study_copy(study: Study, source: Path, layout: Layout) -> None:
    """Keep the study beside its results, without the credentials that it may hold."""
    text = source.read_text(encoding="utf-8")
    for name, value in study.environment.items():
        if value and is_secret_name(name):
            text = text.replace(value, REMOVED)
    layout.root.mkdir(parents=True, exist_ok=True)
    (layout.root / STUDY).write_text(scrub_text(text), encoding="utf-8")


def write_keepsakes(
    folder: Path,
    study: Study,
    study_text: str,
    file: prompts.PromptFile,
    keep_texts: bool = False,
    configuration: Mapping[str, Any] | None = None,
    log: Sequence[str] = (),
) -> None:
    """Write into a drop's folder what its cell can be measured again from. ``keep_texts``: the
    prompts' texts, and not their hashes alone."""

    def kept(row: Mapping[str, Any]) -> dict[str, Any]:
        """A row as the load generator read it."""
        style, text = study.request.format, row[conversations.PROMPT]
        hashed = conversations.prompt_hashes(text, style, file.form)[-1]
        texts = conversations.columns_of(text, file.form)
        rest = {name: value for name, value in row.items() if name not in texts}
        return {"hash": hashed} | ({conversations.PROMPT: text} if keep_texts else {}) | rest

    if study_text:
        (folder / STUDY).write_text(study_text, encoding="utf-8")
    lines = file.path.read_text(encoding="utf-8").splitlines()
    content = {
        "set": file.hash,
        "prompts": [kept(json.loads(line)) for line in lines],
        "warm_up": [kept({conversations.PROMPT: text}) for text in file.warm_up],
    }
    _write_json(content, folder / PROMPTS)
    if configuration:
        _write_json(machine.public(configuration), folder / ENGINE)
    if log:
        text = "\n".join(machine.public(list(log))) + "\n"
        # No time of packing in it: the same log is the same file.
        (folder / SERVER_LOG).write_bytes(gzip.compress(text.encode(), mtime=0))


def _write_json(value: Any, path: Path) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


# --- What a reader needs to trust a number: the software, the hardware and where both came from.


def versions(study: Study) -> dict[str, str | None]:
    """Return what the study's executables run on, as their environments state it. None: unknown;
    ``cuda`` is the one that torch was built for, None for a CPU build."""
    vllm, guidellm = tool(study, "vllm"), tool(study, "guidellm")
    try:
        draftboard = importlib.metadata.version("draftboard")
    except importlib.metadata.PackageNotFoundError:
        draftboard = "unknown"
    return {
        "vllm": vllm.version,
        "guidellm": guidellm.version,
        "torch": vllm.versions.get("torch"),
        "cuda": vllm.torch_cuda,
        "transformers": vllm.versions.get("transformers"),
        "vllm_python": vllm.python_version,
        "guidellm_python": guidellm.python_version,
        "draftboard": draftboard,
    }


def environment(study: Study, gpus: Sequence[machine.Gpu] = ()) -> dict[str, Any]:
    """Return a record's ``environment``: JSON values only. ``gpus``: what the server may use; a CPU build
    of vLLM uses none."""
    survey, root = machine.survey(), Path(__file__).parents[2]
    kinds: tuple[Kind, ...] = (engine_of(study).tool, "guidellm")
    return dict(machine.public({
        "versions": versions(study),
        "packages": {kind: dict(tool(study, kind).versions) for kind in kinds},
        "gpus": [asdict(gpu) for gpu in gpus] if runs_on_gpu(study) else [],
        "driver": survey.driver,
        "cuda_driver": survey.cuda,
        "cpu": machine.cpu(),
        "memory_bytes": machine.memory_bytes(),
        "system": machine.system(),
        "python": platform.python_version(),
        "container": machine.container(),
        "scheduler": machine.scheduler(),
        "git": {
            # A wheel lies in nobody's tree.
            "draftboard": machine.git_state(root) if (root / "pyproject.toml").is_file() else None,
            "study": machine.git_state(Path(study.located("."))),
        },
        "variables": variables(study),
    }))  # fmt: skip


def hardware(study: Study, gpus: Sequence[machine.Gpu]) -> tuple[str | None, int | None]:
    """Return (model, count) of the GPUs that a server uses; for a CPU server the processor, and
    None."""
    if not runs_on_gpu(study):
        return machine.cpu_model(), None
    return " + ".join(sorted({gpu.name for gpu in gpus})) or None, len(gpus) or None


def runs_on_gpu(study: Study) -> bool:
    """Return whether the study's vLLM is built for GPUs; a build that does not say counts as one.
    Another engine is taken to use the GPUs that there are."""
    if study.engine != "vllm":
        return bool(machine.survey().gpus)
    return not tool(study, "vllm").for_cpu


def revisions(study: Study, variant: Variant) -> dict[str, str | None]:
    """Return which content the names of target and draft stand for on this machine: a commit of the
    hub or a hash of a folder; None where unknown."""
    config, target = study.drafting(variant) or {}, study.target
    wanted = {
        "model_revision": (study.located(target.model), target.revision),
        "draft_revision": (config.get("model"), config.get("revision")),
    }
    return {
        name: None if model is None else models.find(model, revision, study.environment).revision
        for name, (model, revision) in wanted.items()
    }


def variables(study: Study) -> dict[str, str]:
    """Return the environment variables that the server gets and that change what it does, no
    credentials.

    Of those that only the study sets and that are on no list the names stay, not the values."""
    merged = {**engine_of(study).always, **os.environ, **study.environment}
    # What a container's image requires of a driver is long, and changes nothing once it runs.
    listed = {
        name: value for name, value in merged.items()
        if may_be_written(name) and not name.startswith("NVIDIA_REQUIRE_")
    }  # fmt: skip
    unlisted = {name: REMOVED for name in study.environment if not is_secret_name(name)}
    return dict(sorted({**unlisted, **listed}.items()))


# --- ``record.json`` of a cell: what the study said, what this machine is, what happened.


#: Engine arguments that say whether prefixes are cached; vLLM knows both spellings.
_CACHING = "enable_prefix_caching"


@dataclass(frozen=True)
class LaunchSetting:
    """What all cells of a launch share. ``facts``: those that only this machine tells."""

    study: Study
    launch: Launch
    facts: Mapping[str, Any]
    environment: dict[str, Any]
    server_command: tuple[str, ...] = ()


@dataclass
class Attempt:
    """One try at a cell, and what happened in it.

    ``kinds``: the category of each prompt by its hash. ``notes`` are added to the record's environment, beside what the machine is; ``port`` is that of
    a server which was started here; ``seconds`` are those of each phase.
    """

    number: int
    server_start_s: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    seconds: dict[str, float] = field(default_factory=dict)
    timeline: dict[str, float] = field(default_factory=dict)
    prompt_set_hash: str | None = None
    kinds: dict[str, str] = field(default_factory=dict)
    prefix_cache: str | None = None
    load_command: tuple[str, ...] = ()
    port: int | None = None
    problem: Diagnosis | None = None
    log_excerpt: tuple[str, ...] = ()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Take down how long the block takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = time.monotonic() - began

    def end(self, problem: Diagnosis | None, log_excerpt: Sequence[str]) -> None:
        """Take down when it ended, where its time went, and why it is not good."""
        self.ended_at, spent = datetime.now(UTC), time.monotonic() - self.began
        self.timeline = {
            "server_start": self.server_start_s,
            **self.seconds,
            "overhead": max(0.0, spent - sum(self.seconds.values())),
            "total": self.server_start_s + spent,
        }
        self.problem, self.log_excerpt = problem, tuple(log_excerpt)


def local_setting(study: Study, launch: Launch, server_command: tuple[str, ...]) -> LaunchSetting:
    """Return the setting of a server that is started here. It asks the executables and the
    hardware, so call it once a launch."""
    near = near_gpus(study, launch)
    # A server that is given none may use all that CUDA_VISIBLE_DEVICES leaves.
    used = sorted(used_gpus(study, launch), key=attrgetter("index"))
    gpus = used or machine.visible(machine.survey(), os.environ)
    model, count = hardware(study, gpus)
    # Another engine than vLLM may compute on GPUs or beside them.
    on_gpu: Evidence | None = "gpu" if study.engine == "vllm" else None
    facts = {
        "engine": study.engine,
        "engine_version": tool(study, engine_of(study).tool).version,
        "gpu": model,
        "gpu_count": count,
        **revisions(study, launch.variant),
        "evidence": study.evidence or (on_gpu if runs_on_gpu(study) else "cpu"),
        **server_args(study, launch),
    }
    bound = {} if near is None else {"numa_nodes": list(near.nodes), "cores": len(near.cores)}
    around = environment(study, gpus) | {"placement": {**machine.placement(), **bound}}
    around["variables"] |= launch.variant.environment
    return LaunchSetting(study, launch, facts, around, server_command)


def remote_setting(study: Study, launch: Launch, told: ServerFacts) -> LaunchSetting:
    """Return the setting of a server that somebody else runs: ``told`` is what it says of itself."""
    facts = {
        "model_revision": study.target.revision,
        "evidence": study.evidence,
        "engine": told.engine,
        "engine_version": told.version,
        "prefix_caching": told.prefix_caching,
    }
    guidellm = {"versions": {"guidellm": tool(study, "guidellm").version}}
    return LaunchSetting(study, launch, facts, guidellm)


def server_args(study: Study, launch: Launch) -> dict[str, Any]:
    """Return engine arguments by their names with underscores, and whether prefixes are cached."""
    variant = launch.variant
    named = models.with_underscores(
        {**study.target.engine_args, **variant.engine_args, **variant.environment}
    )
    caching = named.pop(_CACHING, None)
    denied = named.pop(f"no_{_CACHING}", False)
    # What llama.cpp and SGLang call keeping none.
    if denied or any(
        named.get(name) is True for name in ("no_cache_prompt", "disable_radix_cache")
    ):
        caching = False
    return {"server_args": machine.public(named), "prefix_caching": caching}


def record(setting: LaunchSetting, cell: PlannedCell, attempt: Attempt) -> Record:
    study, problem, facts = setting.study, attempt.problem, setting.facts
    if setting.server_command and facts.get("model_revision") is None:
        # Unknown until the server's own start fetched the models.
        facts = {**facts, **revisions(study, setting.launch.variant)}
    server = (word.replace(PORT, str(attempt.port or PORT)) for word in setting.server_command)
    commands = {study.engine: list(server), "guidellm": list(attempt.load_command)}
    content = {
        **study_facts(study, cell),
        **_speculation(setting.launch),
        **{name: value for name, value in facts.items() if value is not None},
        "schema_version": 1,
        "prompt_set_hash": attempt.prompt_set_hash,
        "prompt_categories": attempt.kinds or None,
        "run_id": f"{study.name}/{cell.key}#{attempt.number}",
        "status": "good" if problem is None else "failed",
        "failure": None if problem is None else machine.public(problem.sentence),
        "failure_cause": None if problem is None else problem.cause,
        "log_excerpt": machine.public(list(attempt.log_excerpt)),
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "order": cell.order,
        "launch": setting.launch.launch_id,
        "attempt": attempt.number,
        "fingerprint": cell.fingerprint,
        "planned_requests": cell.prompts,
        "prefix_cache": attempt.prefix_cache,
        "timeline": {name: round(seconds, 3) for name, seconds in attempt.timeline.items()},
        "commands": {name: machine.public(words) for name, words in commands.items() if words},
        "environment": setting.environment | machine.public(attempt.notes),
    }
    # The parser of reasoning that vLLM took by itself, e.g. for gpt-oss: a load generator that does
    # not know reasoning counts its first token late then.
    parser = attempt.notes.get("resolved", {}).get("reasoning_parser")
    if parser is not None:
        content["server_args"] = {
            "reasoning_parser": parser, **(content.get("server_args") or {})
        }  # fmt: skip
    return Record.model_validate(scrub(content))


def study_facts(study: Study, cell: PlannedCell) -> dict[str, Any]:
    """Return what the study asks for: the model, the requests, the load."""
    request, target = study.request, study.target
    return {
        "study": study.name,
        "arm": cell.arm,
        "repeat": cell.repeat,
        "model": machine.public(target.served_name or target.model),
        "precision": target.precision,
        "tensor_parallel_size": cell.tensor_parallel_size,
        "dataset": cell.dataset,
        "request_format": request.format,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "max_tokens": study.dataset(cell.dataset).max_tokens or request.max_tokens,
        "ignore_eos": request.ignore_eos,
        "load_profile": cell.level.profile,
        "concurrency": cell.concurrency,
        "rate": cell.level.rate,
        "trace": cell.level.replayed_as,
    }


def _speculation(launch: Launch) -> dict[str, Any]:
    variant = launch.variant
    config = variant.speculative_config
    if config is None:
        switched = [*models.with_underscores(variant.engine_args), *variant.environment]
        equal = {"speculative_config": {EQUAL_ENGINE: switched}} if variant.equal_engine else {}
        return {"spec_method": "none", **equal}
    return {
        # vLLM takes a draft model where no method is named.
        "spec_method": config.get("method", "draft_model" if "model" in config else None),
        "num_speculative_tokens": config.get("num_speculative_tokens"),
        "draft_model": machine.public(config.get("model")),
        "draft_revision": config.get("revision"),
        "speculative_config": machine.public(config),
        "synthetic_acceptance": config.get("rejection_sample_method") == "synthetic",
    }


def write(content: Record, folder: Path) -> None:
    """Put the record into a cell's folder."""
    text = content.model_dump_json(indent=1, exclude_none=True) + "\n"
    (folder / RECORD).write_text(text, encoding="utf-8")
