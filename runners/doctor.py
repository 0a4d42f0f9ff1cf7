"""Can this study run here? Asks everything once, then lets each check say what it found."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from runners.checks import (
    cores,
    datasets,
    disk,
    drafting,
    engines,
    equal_engine,
    executables,
    gpus,
    heads,
    lengths,
    loads,
    memory,
    methods,
    ports,
    tokenizers,
)
from runners.checks.finding import (
    Engine,
    Finding,
    Situation,
    configurations,
    draft_key,
    target_key,
)
from runners.planning.plan import Launch, Plan, make_plan
from runners.planning.study import Study
from runners.planning.vllm_command import server_command
from runners.probes import interpreter
from runners.serving.engines import Tool, engine_of, tool
from runners.surroundings import machine, models
from runners.surroundings.models import ModelFiles
from runners.texts.loads import with_frozen_rates
from warehouse.errors import RunnerError

#: In the order in which a reader mends things.
CHECKS: tuple[Callable[[Situation], Iterator[Finding]], ...] = (
    executables.check,
    gpus.check,
    cores.check,
    engines.check,
    methods.check,
    drafting.check,
    equal_engine.check,
    heads.check,
    memory.check,
    lengths.check,
    loads.check,
    tokenizers.check,
    datasets.check,
    ports.check,
    disk.check,
)
#: They know how vLLM reads its arguments and what it needs.
_OF_VLLM = frozenset(
    {
        methods.check,
        drafting.check,
        equal_engine.check,
        heads.check,
        memory.check,
        lengths.check,
        tokenizers.check,
    }  # fmt: skip
)
_ENGINE_S, _HUB_S = 300.0, 120.0


def examine(study: Study | None, results: Path) -> tuple[Situation, list[Finding]]:
    """Return the machine as it is and what every check says of it; without a study only the general
    checks.

    Takes seconds, most of them for importing vLLM. Starts no server and downloads no weights.
    """
    situation = look(study, results)
    other = study is not None and study.engine != "vllm"
    checks = [check for check in CHECKS if not (other and check in _OF_VLLM)]
    return situation, [finding for check in checks for finding in check(situation)]


def look(study: Study | None, results: Path) -> Situation:
    """Find out everything that the checks need to know."""
    env = {**os.environ, **(study.environment if study is not None else {})}
    plan = None if study is None else make_plan(with_frozen_rates(study, results))
    served = "vllm" if study is None else engine_of(study).tool
    vllm, load = tool(study, served), tool(study, "guidellm")
    found = machine.survey()
    return Situation(
        plan=plan,
        results=results,
        env=env,
        vllm=vllm,
        guidellm=load,
        engine=_engine(vllm, plan, env),
        survey=found,
        gpus=machine.visible(found, env),
        models={} if plan is None else _models(plan, vllm.python or load.python, env),
    )


def _engine(vllm: Tool, plan: Plan | None, env: Mapping[str, str]) -> Engine:
    """Return what vLLM says of itself, in its own Python; a wrapper without one cannot be asked."""
    if vllm.kind != "vllm" or vllm.python is None or vllm.version is None:
        return Engine()
    launches = [] if plan is None else configurations(plan)
    commands = [] if plan is None else [_words(plan.study, launch) for launch in launches]
    try:
        said = interpreter.ask(vllm.python, "probe_vllm", {"commands": commands}, env, _ENGINE_S)
    except RunnerError as error:
        return Engine(problem=str(error).rstrip("."))
    refused = zip(launches, said.pop("refusals"), strict=True)
    return Engine(
        methods=_tuple(said["methods"]),
        settings=_tuple(said["settings"]),
        memory_share=said["memory_share"],
        device=said["device"],
        suffix_decoding=said["suffix_decoding"],
        switches_off={name: tuple(known) for name, known in said["switches_off"].items()},
        choices={name: tuple(known) for name, known in said["choices"].items()},
        refusals={launch.launch_id: words for launch, words in refused if words is not None},
    )


def _words(study: Study, launch: Launch) -> list[str]:
    """Return the words after ``vllm serve``, with a port in place of the open one."""
    command = server_command(study, launch.variant, launch.tensor_parallel_size)
    return [word.replace("{port}", "8000") for word in command[2:]]


def _models(
    plan: Plan, python: Path | None, env: Mapping[str, str]
) -> dict[tuple[str, str | None], ModelFiles]:
    keys = [target_key(plan.study)]
    keys += [key for launch in configurations(plan) if (key := draft_key(plan.study, launch))]
    return {key: _model(key, python, env) for key in dict.fromkeys(keys)}


def _model(key: tuple[str, str | None], python: Path | None, env: Mapping[str, str]) -> ModelFiles:
    """Return the model's files on this machine, else the small ones from the hub, where it can be
    reached."""
    model, revision = key
    found = models.find(model, revision, env)
    # A cache may hold a configuration without weights: this very command puts it there.
    if found.weight_bytes is not None or found.is_local or python is None:
        return found
    question = {"kind": "model", "id": model, "revision": revision}
    try:
        said = interpreter.ask(python, "probe_hub", question, env, _HUB_S)
    except RunnerError as error:
        why = str(error).partition("could not be asked: ")[2] or str(error)
        here = found.reason or f"the weights of {model} are not in the cache of this machine"
        return replace(found, reason=f"{here}, and the hub does not hand them out: {why}")
    folder = Path(said["folder"])
    return ModelFiles(model, "hub", folder, said["revision"], said["weight_bytes"])


def _tuple(words: list[str] | None) -> tuple[str, ...] | None:
    return None if words is None else tuple(words)
