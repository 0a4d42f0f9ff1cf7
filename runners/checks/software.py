"""Engine and GuideLLM: what is installed, whether it knows what the study asks of it, what is sent."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runners.checks.finding import (
    CheckFinding,
    Situation,
    Status,
    method_of,
    name_of,
)
from runners.measuring.guidellm import NEWEST, OLDEST
from runners.measuring.record import server_args
from runners.planning.loads import Dataset, Hub
from runners.planning.plan import (
    Launch,
    Plan,
    configurations,
    doubts,
    refusals,
    release_numbers,
)
from runners.planning.speculation import RATES
from runners.planning.study_file import SWITCHES, Study, Switch
from runners.probes import interpreter
from runners.serving.engines import Kind, Tool, engine_of
from runners.surroundings.models import hub_cache
from runners.texts.prompts import few_prompts, prompt_sets
from warehouse.contract import TABLE, Facts
from warehouse.defects import KnownDefect, known_defects
from warehouse.errors import RunnerError, StudyError

# --- Executables: there, of a release that was tried, and fitting each other and the driver.

_NAMES: dict[Kind, str] = {
    "vllm": "vLLM", "sglang": "SGLang", "llama_server": "llama.cpp", "guidellm": "GuideLLM",
}  # fmt: skip
#: The published study's release, which nobody ran here, and the newest that was run here.
OLDEST_VLLM, NEWEST_VLLM = (0, 13), (0, 32)
#: From here on vLLM can put acceptance into each response, and GuideLLM keeps it.
_PER_REQUEST = {"vllm": (0, 32), "guidellm": (0, 8)}


def executables(situation: Situation) -> Iterator[CheckFinding]:
    """Check each executable by itself, then both together."""
    yield from map(_present, (situation.vllm, situation.guidellm))
    if situation.engine.problem is not None:
        yield CheckFinding(
            "blocker",
            f"vLLM cannot be imported: {situation.engine.problem}",
            "Run the vllm executable by hand with --version and mend its environment.",
        )
    if situation.vllm.kind != "vllm":
        return
    # Empty where unknown.
    vllm = release_numbers(situation.vllm.version or "")
    load = release_numbers(situation.guidellm.version or "")
    if load and load < OLDEST:
        yield CheckFinding(
            "blocker",
            f"GuideLLM {situation.guidellm.version} is older than {_dotted(OLDEST)}, the oldest "
            "that is driven.",
            f"Install one from {_dotted(OLDEST)} to {_dotted(NEWEST)}.",
        )
    for tool, release, newest in (
        (situation.guidellm, load, NEWEST), (situation.vllm, vllm, NEWEST_VLLM),
    ):  # fmt: skip
        if release[:2] > newest[:2]:
            yield CheckFinding(
                "warning",
                f"{_NAMES[tool.kind]} {tool.version} is newer than {_dotted(newest)}, the newest "
                "that was tried here.",
                "Try a small study first and look whether its cells are good.",
            )
    if vllm and vllm[:2] < OLDEST_VLLM:
        yield CheckFinding(
            "warning",
            f"vLLM {situation.vllm.version} is older than {_dotted(OLDEST_VLLM)}; its arguments "
            "and counters may be others.",
            f"Install vLLM {_dotted(NEWEST_VLLM)}.",
        )
    if not (vllm and load):
        return
    how = "acceptance is read from the server's counters alone"
    if vllm[:2] >= _PER_REQUEST["vllm"] and load[:2] >= _PER_REQUEST["guidellm"]:
        how = "acceptance is read from the counters and from each request"
    # Before this one GuideLLM divided tokens by another time span.
    if load < (0, 7, 4):
        how += (
            ", and the throughput that this GuideLLM prints has another definition than since "
            "0.7.4 (ours is computed from the requests)"
        )
    yield CheckFinding(
        "ok",
        f"vLLM {situation.vllm.version} and GuideLLM {situation.guidellm.version} work together: "
        f"{how}.",
    )


def _present(tool: Tool) -> CheckFinding:
    name = _NAMES[tool.kind]
    install = (
        f"Make an environment for it (python3 -m venv NAME, NAME/bin/pip install "
        f"'draftboard[{tool.kind}]') and name NAME/bin/{tool.kind} under executables.{tool.kind} "
        "of the study, or put it on the PATH."
    )
    if tool.kind in ("sglang", "llama_server"):
        install = f"Install it and name its executable under executables.{tool.kind} of the study."
    if tool.path is None:
        return CheckFinding("blocker", f"{name}: {tool.problem}.", install)
    if tool.version is None:
        reason = tool.problem or f"the environment of {tool.path} has no package {tool.kind}"
        return CheckFinding(
            "unknown" if tool.python is None else "blocker",
            f"{name} is {tool.path}, of unknown version: {reason.rstrip('.')}.",
            install,
        )
    python = "" if tool.python_version is None else f", Python {tool.python_version}"
    torch = tool.versions.get("torch") if tool.kind == "vllm" else None
    more = "" if torch is None else f", torch {torch}"
    return CheckFinding("ok", f"{name} {tool.version} is {tool.path}{python}{more}.")


def _dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


# --- Whether an engine other than vLLM can be asked for what the study wants of it.


def engine(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Check that the engine can be asked for each arm: each server command is put together. More is
    known of vLLM alone."""
    chosen = engine_of(plan.study)
    for launch in configurations(plan):
        try:
            chosen.command(plan.study, launch.variant, launch.tensor_parallel_size)
        except RunnerError as error:
            yield CheckFinding("blocker", str(error), "Correct the arm or the study's sizes.")
    yield CheckFinding(
        "unknown",
        f"Methods, settings, heads, memory, lengths and vocabularies are looked at for vLLM alone; "
        f"{chosen.title} says at its start what it refuses.",
        "Try the study with one dataset and one load first.",
    )


# --- Whether this vLLM knows the study's speculative methods, their settings and its arguments.
#
# vLLM takes ``--speculative-config`` as it is and refuses a misspelt method only once the engine
# starts, which may be after minutes of loading.

#: What others call methods that vLLM has under another name.
_ELSEWHERE = {
    "pard": "method: draft_model with parallel_drafting: true",
    "parallel_draft": "method: draft_model with parallel_drafting: true",
    "prompt_lookup": "method: ngram",
    "lookahead": "method: ngram",
    "pld": "method: ngram",
    "assisted": "method: draft_model",
    "standalone": "method: draft_model",
    "eagle2": "method: eagle",
    "nextn": "method: mtp",
}


def methods(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Check the methods, settings and command lines of every server configuration."""
    launches = configurations(plan)
    if situation.engine.methods is None:
        yield CheckFinding(
            "unknown",
            "vLLM could not be asked which speculative methods it knows.",
            "Name the vllm of a Python environment under executables.vllm.",
        )
    else:
        drafting = [each for each in launches if each.variant.speculative_config is not None]
        problems = [finding for each in drafting for finding in _unknown(situation, each)]
        yield from problems
        used = sorted({method_of(launch) or "the draft's own" for launch in drafting})
        if not problems:
            yield CheckFinding(
                "ok",
                f"This vLLM knows {', '.join(used)}."
                if used
                else "The study speculates in no arm.",
            )
    for launch in launches:
        refusal = situation.engine.refusals.get(launch.launch_id)
        if refusal is not None:
            yield CheckFinding(
                "blocker",
                f"vLLM's own parser refuses the command of {name_of(launch)}: {refusal}.",
                "Correct engine_args of the target or the arm; `vllm serve --help=all` lists them.",
            )


def _unknown(situation: Situation, launch: Launch) -> Iterator[CheckFinding]:
    engine, method, arm = situation.engine, method_of(launch), launch.variant.arm
    if method is not None and method not in (engine.methods or ()):
        yield _misspelt(arm, f"the speculative method {method}", method, engine.methods)
    for setting in launch.variant.speculative_config or ():
        if engine.settings is not None and setting not in engine.settings:
            yield _misspelt(arm, f"the speculative setting {setting}", setting, engine.settings)
    if method == "suffix" and engine.suffix_decoding is False:
        yield CheckFinding(
            "blocker",
            f"The arm {arm} needs the package arctic-inference, which vLLM's environment lacks.",
            "Install arctic-inference into the environment of vLLM.",
        )


def _misspelt(arm: str, what: str, word: str, known: Iterable[str] | None) -> CheckFinding:
    have = sorted(known or ())
    # Below this two words share letters by chance ("pard", "dspark").
    near = difflib.get_close_matches(word, have, n=3, cutoff=0.75)
    fix = f"Write {' or '.join(near)}" if near else f"It has {', '.join(have)}; write one of these"
    fix = f"Write {_ELSEWHERE[word.lower()]}" if word.lower() in _ELSEWHERE else fix
    return CheckFinding(
        "blocker",
        f"The arm {arm} asks for {what}, which this vLLM does not have.",
        f"{fix}, or install the vLLM that has it.",
    )


# --- Settings of a draft that vLLM takes and then drops, refuses or reads otherwise than one thinks.

_HIDDEN_STATES = ("eagle", "eagle3", "mtp", "dflash", "dspark")
_PARALLEL = ("eagle", "eagle3", "draft_model", "dflash", "dspark")
#: A draft that was trained to draft in parallel names the token that it drafts over.
_MASKS = ("mask_token_id", "dflash_config", "dspark_noise_token_id", "pard_token", "ptd_token_id")


def drafting(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Check the drafting settings of each arm."""
    for launch in configurations(plan):
        config = launch.variant.speculative_config
        if config is not None:
            for status, said, fix in _dropped(situation, plan, launch, config):
                yield CheckFinding(status, f"The arm {launch.variant.arm} {said}.", fix)


def _dropped(
    situation: Situation, plan: Plan, launch: Launch, config: Mapping[str, Any]
) -> Iterator[tuple[Status, str, str]]:
    method, arguments = method_of(launch), plan.study.engine_arguments(launch.variant)
    for setting, known in situation.engine.choices.items():
        word = config.get(setting)
        if word is not None and word not in known:
            yield (
                "blocker",
                f"asks for {setting}: {word}, which this vLLM does not have",
                f"Write one of {', '.join(known)}, or install the vLLM that has it.",
            )
    if config.get(TABLE) is not None:
        yield from _table(plan.study, arguments, situation.on_gpu is True)
    if config.get(RATES) is not None and situation.on_gpu is False:
        yield (
            "warning",
            "sets its acceptance by hand, which vLLM's CPU build refuses at the first request",
            "Measure on a GPU, or with the lab's vLLM (make lab-envs), which has a plugin for it.",
        )
    if config.get("parallel_drafting") is True:
        yield from _parallel(situation, plan, launch)
    if config.get("enable_adaptive_verification") is True and method != "dspark":
        yield (
            "blocker",
            "asks for adaptive verification, which vLLM has for dspark alone",
            "Leave enable_adaptive_verification out, or draft by dspark.",
        )
    cached = arguments.get("enable-prefix-caching") is not False
    effect = cached and (method is None or method in _HIDDEN_STATES)
    if config.get("disable_eagle_block_drop") is True and not effect:
        why = f"drafts by {method}" if cached else "keeps no prefixes"
        yield (
            "warning",
            f"sets disable_eagle_block_drop and {why}: it has no effect",
            "Leave it out.",
        )


def _table(
    study: Study, arguments: Mapping[str, Any], on_gpu: bool
) -> Iterator[tuple[Status, str, str]]:
    ranks = arguments.get("data-parallel-size", 1)
    if isinstance(ranks, int) and ranks > 1:
        yield (
            "blocker",
            f"has a table of K, which vLLM takes away beside data parallelism ({ranks} ranks)",
            "Leave data-parallel-size out, or measure one K for all loads.",
        )
    second = study.environment.get("VLLM_USE_V2_MODEL_RUNNER") == "1"
    if on_gpu and arguments.get("enforce-eager") is not True and not second:
        yield (
            "warning",
            "has a table of K, with which vLLM's first model runner leaves full CUDA graphs: it "
            "differs from one K in more than K",
            "Set VLLM_USE_V2_MODEL_RUNNER: '1' in the study's environment where the model allows it.",
        )


def _parallel(
    situation: Situation, plan: Plan, launch: Launch
) -> Iterator[tuple[Status, str, str]]:
    method, draft = method_of(launch), situation.draft(plan, launch)
    if method is not None and method not in _PARALLEL:
        yield (
            "blocker",
            f"drafts by {method}, which cannot draft in parallel",
            f"Leave parallel_drafting out, or draft by one of {', '.join(_PARALLEL)}.",
        )
    elif draft is not None and draft.config and not any(name in draft.config for name in _MASKS):
        yield (
            "blocker",
            f"drafts in parallel, and {draft.model} was not trained for it: its configuration names "
            "no token to draft over",
            "Take a draft that was (PARD, P-EAGLE), or leave parallel_drafting out.",
        )


# --- What a speculative method switches off in the installed vLLM, so that two engines are compared.

_WORDS: dict[Switch, str] = {
    "async-scheduling": "asynchronous scheduling", "model-runner": "the second model runner",
}  # fmt: skip


def equal_engine(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Name each arm whose method switches off another part of vLLM than the study does for a
    baseline with equal engine."""
    wanted = plan.study.equal_engine
    for launch in configurations(plan):
        # What the study says itself is left to it; without a GPU there is but the first model
        # runner.
        stated = plan.study.engine_arguments(launch.variant) | plan.study.environment
        off = [
            switch for switch, parts in SWITCHES.items()
            if not any(name in stated for part in parts for name in part)
            and (switch != "model-runner" or situation.on_gpu is True)
            and method_of(launch) in situation.engine.switches_off.get(switch, ())
        ]  # fmt: skip
        if not off or set(off) == set(wanted):
            continue
        kept = f"equal_engine switches off {_named(wanted)}" if wanted else "the baseline keeps it"
        every = "true" if len(off) == len(SWITCHES) else f"[{', '.join(off)}]"
        yield CheckFinding(
            "warning",
            f"The arm {launch.variant.name} drafts by {method_of(launch)}, with which this vLLM "
            f"switches off {_named(off)}; {kept}: two engines are compared.",
            f"Write equal_engine: {every} in the study: a baseline without it is measured as well.",
        )


def _named(switches: Iterable[Switch]) -> str:
    return " and ".join(_WORDS[switch] for switch in switches)


# --- Defects of the installed engine that others found with what an arm asks for.

#: Fields of a request that ask for answers of a structure.
_STRUCTURED = frozenset({
    "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice",
    "guided_grammar",
})  # fmt: skip


def defects(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Name each known defect once, with the arms that have it; it keeps nothing from running."""
    found: dict[str, tuple[KnownDefect, list[str]]] = {}
    for launch in configurations(plan):
        facts = _facts(situation, plan.study, launch)
        for defect in known_defects():
            if defect.concerns(facts):
                found.setdefault(defect.source, (defect, []))[1].append(launch.variant.name)
    engine = engine_of(plan.study).title
    for defect, arms in found.values():
        yield CheckFinding(
            "warning",
            f"{engine} {situation.vllm.version} has a known defect ({defect.when}) with "
            f"{', '.join(dict.fromkeys(arms))}: {defect.effect}.",
            f"{defect.do} See {defect.source}.",
        )


def _facts(situation: Situation, study: Study, launch: Launch) -> Facts:
    config = launch.variant.speculative_config
    # A draft without a method is a draft model to vLLM.
    method = "none" if config is None else method_of(launch) or "draft_model"
    runner = study.environment.get("VLLM_USE_V2_MODEL_RUNNER")
    made: dict[str, Any] = {
        "structured_output": not _STRUCTURED.isdisjoint(study.request.extra_body),
        # Unknown where the study leaves it to the engine.
        "model_runner": None if runner is None else "V2" if runner == "1" else "V1",
    }
    return Facts(
        model=study.target.model, engine=study.engine, engine_version=situation.vllm.version,
        spec_method=method, speculative_config=config, engine_settings=made,
        **server_args(study, launch),
    )  # fmt: skip


# --- What is sent: datasets that can be read here and have prompts enough, loads that can be run.


def loads(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Yield each load that cannot be run, then each that says less than it seems to."""
    refused = refusals(plan, situation.guidellm.version)
    told: list[tuple[Status, str]] = [("blocker", sentence) for sentence in refused]
    told += [("warning", sentence) for sentence in doubts(plan)]
    for status, sentence in told:
        said, _, fix = sentence.partition("; ")
        yield CheckFinding(status, f"{said}.", f"{fix[:1].upper()}{fix[1:]}")


def datasets(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Check each dataset that a cell needs, downloading nothing; then levels whose prompts are few."""
    needed = {cell.dataset for cell in plan.cells}
    for dataset in plan.study.measured_on:
        if dataset.name in needed and dataset.hub is not None:
            yield _of_hub(situation, plan.study, dataset, dataset.hub)
        elif dataset.name in needed:
            try:
                yield _enough(plan.study, dataset)
            except StudyError as error:
                yield CheckFinding("blocker", _sentence(error), "Correct the dataset in the study.")
    for sentence in few_prompts(plan):
        said, _, fix = sentence.rpartition("; ")
        yield CheckFinding("warning", f"{said}.", f"{fix[:1].upper()}{fix[1:]}")


def _of_hub(situation: Situation, study: Study, dataset: Dataset, hub: Hub) -> CheckFinding:
    """Say what the cache of this machine has of the dataset, else whether the hub would hand it out."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    here = f"{hub.id} is not in the cache of this machine"
    useless = None
    try:
        environment = {**study.environment, **offline}
        return _enough(study.model_copy(update={"environment": environment}), dataset)
    except StudyError as error:
        if (hub_cache(situation.env) / f"datasets--{hub.id.replace('/', '--')}").is_dir():
            useless = _sentence(error)
            here = f"{hub.id} in the cache is of no use ({useless.rstrip('.')})"
    python = situation.guidellm.python or situation.vllm.python
    if python is None:
        return CheckFinding(
            "unknown",
            f"Dataset {dataset.name}: whether {hub.id} can be had is unknown without the "
            "environment of GuideLLM or vLLM.",
            "Name the executables in the study.",
        )
    question = {"kind": "dataset", "id": hub.id, "revision": hub.revision}
    try:
        interpreter.ask(python, "hub", question, situation.env, timeout_s=30)
    except RunnerError as error:
        why = str(error).partition("could not be asked: ")[2] or str(error)
        return CheckFinding(
            "blocker",
            f"Dataset {dataset.name}: {here} and the hub does not hand it out: {why}",
            f"Run `hf download --repo-type dataset {hub.id}` where the hub can be reached, copy that "
            "cache here and set HF_HOME; or name a local file instead of hub.",
        )
    if useless is not None:
        return CheckFinding(
            "warning",
            f"The copy in the cache is of no use: {useless}",
            "Correct the dataset in the study, or fetch it again.",
        )
    return CheckFinding(
        "ok", f"Dataset {dataset.name}: the hub has {hub.id}; it is fetched by the first run."
    )


def _enough(study: Study, dataset: Dataset) -> CheckFinding:
    sets = prompt_sets(study, dataset.name)
    sent = [prompt for level in sets.values() for prompt in level.prompts]
    count, levels = len(set(sent)), "1 level" if len(sets) == 1 else f"{len(sets)} levels"
    again = "" if count == len(sent) else f", sent again until there are {len(sent)}"
    return CheckFinding(
        "ok", f"Dataset {dataset.name}: {count} different prompts for {levels}{again}."
    )


def _sentence(error: StudyError) -> str:
    return str(error).partition("; ")[0].rstrip(".") + "."
