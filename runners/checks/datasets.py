"""Whether each dataset can be read here and has prompts enough. Nothing is downloaded for it."""

from collections.abc import Iterator

from runners.checks.finding import Finding, Situation
from runners.planning.datasets import Dataset, Hub
from runners.planning.plan import Plan
from runners.planning.study import Study
from runners.probes import interpreter
from runners.surroundings.models import hub_cache
from runners.texts.prompts import few_prompts, prompt_sets
from warehouse.errors import RunnerError, StudyError

CHECK = "datasets"


def check(situation: Situation) -> Iterator[Finding]:
    """Check each dataset that a cell needs; then levels whose prompts are few."""
    plan = situation.plan
    if plan is None:
        return
    needed = {cell.dataset for cell in plan.cells}
    for dataset in plan.study.measured_on:
        if dataset.name in needed:
            yield _one(situation, plan.study, dataset)
    yield from _few(plan)


def _one(situation: Situation, study: Study, dataset: Dataset) -> Finding:
    if dataset.hub is not None:
        return _of_hub(situation, study, dataset, dataset.hub)
    try:
        return _enough(study, dataset)
    except StudyError as error:
        return Finding(CHECK, "blocker", _sentence(error), "Correct the dataset in the study.")


def _of_hub(situation: Situation, study: Study, dataset: Dataset, hub: Hub) -> Finding:
    """Say what the cache of this machine has of the dataset, else whether the hub would hand it
    out."""
    try:
        return _enough(_offline(study), dataset)
    except StudyError as error:
        cached = (
            error
            if (hub_cache(situation.env) / f"datasets--{hub.id.replace('/', '--')}").is_dir()
            else None
        )
    python = situation.guidellm.python or situation.vllm.python
    if python is None:
        return Finding(
            CHECK,
            "unknown",
            f"Dataset {dataset.name}: whether {hub.id} can be had is unknown without the "
            "environment of GuideLLM or vLLM.",
            "Name the executables in the study.",
        )
    question = {"kind": "dataset", "id": hub.id, "revision": hub.revision}
    try:
        interpreter.ask(python, "probe_hub", question, situation.env, timeout_s=30)
    except RunnerError as error:
        return _not_to_be_had(
            dataset, hub, cached, str(error).partition("could not be asked: ")[2] or str(error)
        )
    if cached is not None:
        return Finding(
            CHECK,
            "warning",
            f"The copy in the cache is of no use: {_sentence(cached)}",
            "Correct the dataset in the study, or fetch it again.",
        )
    return Finding(
        CHECK,
        "ok",
        f"Dataset {dataset.name}: the hub has {hub.id}; it is fetched by the first run.",
    )


def _not_to_be_had(dataset: Dataset, hub: Hub, cached: StudyError | None, why: str) -> Finding:
    here = (
        "is not in the cache of this machine"
        if cached is None
        else f"in the cache is of no use ({_sentence(cached).rstrip('.')})"
    )
    return Finding(
        CHECK,
        "blocker",
        f"Dataset {dataset.name}: {hub.id} {here} and the hub does not hand it out: {why}",
        f"Run `hf download --repo-type dataset {hub.id}` where the hub can be reached, copy that "
        "cache here and set HF_HOME; or name a local file instead of hub.",
    )


def _enough(study: Study, dataset: Dataset) -> Finding:
    sets = prompt_sets(study, dataset.name)
    sent = [prompt.hash for level in sets.values() for prompt in level.prompts]
    count, levels = len(set(sent)), "1 level" if len(sets) == 1 else f"{len(sets)} levels"
    again = "" if count == len(sent) else f", sent again until there are {len(sent)}"
    said = f"Dataset {dataset.name}: {count} different prompts for {levels}{again}."
    return Finding(CHECK, "ok", said)


def _few(plan: Plan) -> Iterator[Finding]:
    for sentence in few_prompts(plan):
        said, _, fix = sentence.rpartition("; ")
        yield Finding(CHECK, "warning", f"{said}.", f"{fix[:1].upper()}{fix[1:]}")


def _offline(study: Study) -> Study:
    """Return the study with an environment in which libraries look at the cache alone."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return study.model_copy(update={"environment": {**study.environment, **offline}})


def _sentence(error: StudyError) -> str:
    return str(error).partition("; ")[0].rstrip(".") + "."
