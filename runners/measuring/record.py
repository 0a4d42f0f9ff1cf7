"""``record.json`` of a cell: what the study said, what this machine is, what happened."""

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from runners.executors import gpus_needed
from runners.executors.placement import placement
from runners.measuring.layout import ENGINE, PROMPTS, RECORD, SERVER_LOG, STUDY, Layout
from runners.planning.plan import Launch, PlannedCell
from runners.planning.study import Study
from runners.planning.vllm_command import PORT
from runners.serving.diagnosis import Diagnosis
from runners.serving.engines import engine_of
from runners.surroundings import gpu, provenance
from runners.surroundings.machine import near_gpus
from runners.surroundings.tools import public, tool
from runners.texts import prompts
from runners.texts.prompts import PromptFile
from warehouse.contract import EQUAL_ENGINE, Record
from warehouse.secrets import scrub

# --- What a drop keeps beside its measurement, so that the cell can be measured again.
#
# The study as it was, the hashes of its prompts (their texts where that was asked for), vLLM's whole
# configuration where it tells it, and what the server printed up to the end of the load. All of it is
# made fit for a record first: no credentials, no user names.


@dataclass(frozen=True)
class Keep:
    """What every drop of a launch keeps: the study's text, and whether prompts keep their texts."""

    study: str = ""
    texts: bool = False

    @staticmethod
    def of(layout: Layout, texts: bool) -> "Keep":
        """Return the study as the run has just put it beside its results."""
        try:
            return Keep((layout.root / STUDY).read_text(encoding="utf-8"), texts)
        except FileNotFoundError:
            return Keep(texts=texts)


@dataclass(frozen=True)
class Keepsakes:
    """What one attempt keeps beside its measurement."""

    keep: Keep
    study: Study
    prompts: PromptFile
    configuration: Mapping[str, Any] = field(default_factory=dict)
    log: Sequence[str] = ()

    def write(self, folder: Path) -> None:
        """Write the keepsakes into the folder of a drop."""
        if self.keep.study:
            (folder / STUDY).write_text(self.keep.study, encoding="utf-8")
        _write_json(self._prompts(), folder / PROMPTS)
        if self.configuration:
            _write_json(public(self.configuration), folder / ENGINE)
        if self.log:
            text = "\n".join(public(list(self.log))) + "\n"
            # No time of packing in it: the same log is the same file.
            (folder / SERVER_LOG).write_bytes(gzip.compress(text.encode(), mtime=0))

    def _prompts(self) -> dict[str, Any]:
        lines = self.prompts.path.read_text(encoding="utf-8").splitlines()
        return {
            "set": self.prompts.hash,
            "prompts": [self._kept(json.loads(line)) for line in lines],
            "warm_up": [self._kept({prompts.PROMPT: text}) for text in self.prompts.warm_up],
        }

    def _kept(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row as the load generator read it, its text as a hash unless texts are kept."""
        style, spoken = self.study.request.format, self.prompts.conversations
        found = prompts.prompt_of(row[prompts.PROMPT], style, conversation=spoken)
        texts = (prompts.PROMPT, prompts.MESSAGES)
        kept = {name: value for name, value in row.items() if name not in texts}
        text = {prompts.PROMPT: found.text} if self.keep.texts else {}
        return {"hash": found.hash} | text | kept


def _write_json(value: Any, path: Path) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


# --- ``record.json`` of a cell: what the study said, what this machine is, what happened.


_LOG_LINES = 40
#: Engine arguments that say whether prefixes are cached; vLLM knows both spellings.
_CACHING = "enable_prefix_caching"
#: What llama.cpp and SGLang call keeping none.
_WITHOUT_CACHE = ("no_cache_prompt", "disable_radix_cache")


@dataclass(frozen=True)
class Setting:
    """What all cells of a launch share. ``known`` are the facts that only this machine tells."""

    study: Study
    launch: Launch
    known: dict[str, Any]
    environment: dict[str, Any]
    server_command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Happened:
    """What happened in one attempt at a cell."""

    attempt: int
    started_at: datetime
    ended_at: datetime
    timeline: dict[str, float]
    prompt_set_hash: str | None = None
    prefix_cache: str | None = None
    load_command: tuple[str, ...] = ()
    port: int | None = None
    """Port of the server, where it was started here."""
    problem: Diagnosis | None = None
    log_excerpt: tuple[str, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)
    """What is added to the record's environment, beside what the machine is."""


def local_setting(study: Study, launch: Launch, server_command: tuple[str, ...]) -> Setting:
    """Return the setting of a server that is started here. It asks the executables and the
    hardware, so call it once a launch."""
    gpus = used_gpus(study, launch)
    model, count = provenance.hardware(study, gpus)
    found = provenance.revisions(study, launch.variant)
    known = {
        "engine": study.engine,
        "engine_version": tool(study, engine_of(study).tool).version,
        "gpu": model,
        "gpu_count": count,
        "model_revision": found.model,
        "draft_revision": found.draft,
        "evidence": study.evidence or provenance.evidence(study),
        **server_args(study, launch),
    }
    near = near_gpus(study, launch)
    bound = {} if near is None else {"numa_nodes": list(near.nodes), "cores": len(near.cores)}
    environment = provenance.environment(study, gpus) | {"placement": {**placement(), **bound}}
    environment["variables"] |= launch.variant.environment
    return Setting(study, launch, known, environment, server_command)


def remote_setting(study: Study, launch: Launch, facts: dict[str, Any]) -> Setting:
    """Return the setting of a server that somebody else runs: ``facts`` is what it says of itself."""
    revisions = {"model_revision": study.target.revision, "evidence": study.evidence}
    guidellm = {"versions": {"guidellm": tool(study, "guidellm").version}}
    return Setting(study, launch, revisions | facts, guidellm)


def used_gpus(study: Study, launch: Launch) -> list[int]:
    """Return NVML indices of the GPUs that a server started here gets: the first that are
    visible."""
    visible = gpu.visible(gpu.survey(), {**os.environ, **study.environment})
    return [each.index for each in visible][: gpus_needed(study, launch)]


def server_args(study: Study, launch: Launch) -> dict[str, Any]:
    """Return engine arguments by their names with underscores, and whether prefixes are cached."""
    variant = launch.variant
    given = {**study.target.engine_args, **variant.engine_args, **variant.environment}
    named = _named(given)
    caching = named.pop(_CACHING, None)
    if named.pop(f"no_{_CACHING}", False):
        caching = False
    if any(named.get(name) is True for name in _WITHOUT_CACHE):
        caching = False
    return {"server_args": public(named), "prefix_caching": caching}


def _named(given: dict[str, Any]) -> dict[str, Any]:
    return {name.lstrip("-").replace("-", "_"): value for name, value in given.items()}


def record(setting: Setting, cell: PlannedCell, happened: Happened) -> Record:
    """Return the record of one attempt at a cell."""
    study = setting.study
    problem = happened.problem
    server = (word.replace(PORT, str(happened.port or PORT)) for word in setting.server_command)
    commands = {study.engine: list(server), "guidellm": list(happened.load_command)}
    said = {
        **asked_for(study, cell),
        **_speculation(setting.launch),
        **{name: value for name, value in setting.known.items() if value is not None},
        **_fetched(setting),
        "schema_version": 1,
        "prompt_set_hash": happened.prompt_set_hash,
        "run_id": f"{study.name}/{cell.key}#{happened.attempt}",
        "status": "good" if problem is None else "failed",
        "failure": None if problem is None else public(problem.sentence),
        "failure_cause": None if problem is None else problem.cause,
        "log_excerpt": public(list(happened.log_excerpt[-_LOG_LINES:])),
        "started_at": happened.started_at,
        "ended_at": happened.ended_at,
        "order": cell.order,
        "launch": setting.launch.launch_id,
        "attempt": happened.attempt,
        "fingerprint": cell.fingerprint,
        "planned_requests": cell.prompts,
        "prefix_cache": happened.prefix_cache,
        "timeline": {name: round(seconds, 3) for name, seconds in happened.timeline.items()},
        "commands": {name: public(words) for name, words in commands.items() if words},
        "environment": setting.environment | public(happened.notes),
    }
    said |= _parsed_reasoning(said, happened)
    return Record.model_validate(scrub(said))


def _fetched(setting: Setting) -> dict[str, Any]:
    """Return revisions that were unknown until the server's own start fetched the models."""
    started_here = bool(setting.server_command)
    if not started_here or setting.known.get("model_revision") is not None:
        return {}
    found = provenance.revisions(setting.study, setting.launch.variant)
    return {"model_revision": found.model, "draft_revision": found.draft}


def _parsed_reasoning(said: dict[str, Any], happened: Happened) -> dict[str, Any]:
    """Return server arguments with the parser of reasoning that vLLM took by itself, e.g. for
    gpt-oss.

    A load generator that does not know reasoning counts its first token late then.
    """
    parser = happened.notes.get("resolved", {}).get("reasoning_parser")
    given = said.get("server_args") or {}
    return {} if parser is None else {"server_args": {"reasoning_parser": parser} | given}


def asked_for(study: Study, cell: PlannedCell) -> dict[str, Any]:
    """Return what the study asks for: the model, the requests, the load."""
    request, target = study.request, study.target
    return {
        "study": study.name,
        "arm": cell.arm,
        "repeat": cell.repeat,
        "model": public(target.served_name or target.model),
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
        switched = [*_named(variant.engine_args), *variant.environment]
        told = {"speculative_config": {EQUAL_ENGINE: switched}} if variant.equal_engine else {}
        return {"spec_method": "none", **told}
    return {
        # vLLM takes a draft model where no method is named.
        "spec_method": config.get("method", "draft_model" if "model" in config else None),
        "num_speculative_tokens": config.get("num_speculative_tokens"),
        "draft_model": public(config.get("model")),
        "draft_revision": config.get("revision"),
        "speculative_config": public(config),
        "synthetic_acceptance": config.get("rejection_sample_method") == "synthetic",
    }


def write(found: Record, folder: Path) -> None:
    """Put the record into a cell's folder."""
    text = found.model_dump_json(indent=1, exclude_none=True) + "\n"
    (folder / RECORD).write_text(text, encoding="utf-8")
