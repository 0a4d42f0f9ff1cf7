"""Can this study run here? Asks everything once, then lets each check say what it found."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from runners.checks import machine, models, software
from runners.checks.finding import (
    Check,
    CheckFinding,
    Situation,
    VllmAbilities,
    of_study,
    of_vllm,
)
from runners.checks.software import datasets, loads
from runners.planning.plan import Plan, configurations, draft_key, make_plan, target_key
from runners.planning.study_file import Study
from runners.probes import interpreter
from runners.serving.engines import PORT, Tool, engine_of, server_command, tool
from runners.surroundings.machine import survey, visible
from runners.surroundings.models import ModelFiles, find
from warehouse.errors import RunnerError

#: By the name under which a check speaks; in the order in which a reader mends things.
CHECKS: dict[str, Check] = {
    "executables": software.executables,
    "GPUs": machine.gpus,
    "cores": machine.cores,
    "engine": of_study(software.engine, ("sglang", "llama.cpp")),
    "methods": of_vllm(software.methods),
    "drafting": of_vllm(software.drafting),
    "engines alike": of_vllm(software.equal_engine),
    "known defects": of_study(software.defects),
    "heads": of_vllm(models.heads),
    "memory": of_vllm(models.memory),
    "lengths": of_vllm(models.lengths),
    "loads": of_study(loads),
    "tokenizers": of_vllm(models.tokenizers),
    "datasets": of_study(datasets),
    "ports": machine.ports,
    "disk": machine.disk,
    "time": of_study(machine.duration),
}
_ENGINE_S, _HUB_S = 300.0, 120.0


def examine(study: Study | None, results: Path) -> tuple[Situation, list[CheckFinding]]:
    """Return the machine as it is and what every check says of it; without a study only the general
    checks.

    Takes seconds, most of them for importing vLLM. Starts no server and downloads no weights.
    """
    situation = look(study, results)
    return situation, [finding for name in CHECKS for finding in run_check(name, situation)]


def run_check(name: str, situation: Situation) -> list[CheckFinding]:
    """Return what one check says of the machine; the same sentence is not said twice."""
    return [replace(finding, check=name) for finding in dict.fromkeys(CHECKS[name](situation))]


def look(study: Study | None, results: Path) -> Situation:
    """Find out everything that the checks need to know."""
    env = {**os.environ, **(study.environment if study is not None else {})}
    plan = None if study is None else make_plan(study, results)
    served = "vllm" if study is None else engine_of(study).tool
    vllm, guidellm = tool(study, served), tool(study, "guidellm")
    node = survey()
    models: list[tuple[str, str | None] | None] = []
    if plan is not None:
        drafts = (draft_key(plan.study, launch) for launch in configurations(plan))
        models = [target_key(plan.study), *drafts]
    python = vllm.python or guidellm.python
    return Situation(
        plan=plan,
        results=results,
        env=env,
        vllm=vllm,
        guidellm=guidellm,
        engine=_engine(vllm, plan, env),
        survey=node,
        gpus=visible(node, env),
        models={key: _model(key, python, env) for key in dict.fromkeys(models) if key is not None},
    )


def _engine(vllm: Tool, plan: Plan | None, env: Mapping[str, str]) -> VllmAbilities:
    """Return what vLLM says of itself, in its own Python; a wrapper without one cannot be asked."""
    if vllm.kind != "vllm" or vllm.python is None or vllm.version is None:
        return VllmAbilities()
    launches = [] if plan is None else configurations(plan)
    # The words after ``vllm serve``, with a port in place of the open one.
    commands = [] if plan is None else [
        [word.replace(PORT, "8000") for word in server_command(
            plan.study, launch.variant, launch.tensor_parallel_size)[2:]]
        for launch in launches
    ]  # fmt: skip
    try:
        said = interpreter.ask(vllm.python, "vllm", {"commands": commands}, env, _ENGINE_S)
    except RunnerError as error:
        return VllmAbilities(problem=str(error).rstrip("."))
    refused = zip(launches, said.pop("refusals"), strict=True)
    return VllmAbilities(
        methods=None if said["methods"] is None else tuple(said["methods"]),
        settings=None if said["settings"] is None else tuple(said["settings"]),
        memory_share=said["memory_share"],
        device=said["device"],
        suffix_decoding=said["suffix_decoding"],
        switches_off={name: tuple(known) for name, known in said["switches_off"].items()},
        choices={name: tuple(known) for name, known in said["choices"].items()},
        refusals={launch.launch_id: words for launch, words in refused if words is not None},
    )


def _model(key: tuple[str, str | None], python: Path | None, env: Mapping[str, str]) -> ModelFiles:
    """Return the model's files on this machine, else the small ones from the hub, where it can be
    reached."""
    model, revision = key
    found = find(model, revision, env)
    # A cache may hold a configuration without weights: this very command puts it there.
    if found.weight_bytes is not None or found.is_local or python is None:
        return found
    question = {"kind": "model", "id": model, "revision": revision}
    try:
        said = interpreter.ask(python, "hub", question, env, _HUB_S)
    except RunnerError as error:
        why = str(error).partition("could not be asked: ")[2] or str(error)
        here = found.reason or f"the weights of {model} are not in the cache of this machine"
        return replace(found, reason=f"{here}, and the hub does not hand them out: {why}")
    return ModelFiles(model, "hub", Path(said["folder"]), said["revision"], said["weight_bytes"])
