"""What is sent: datasets that can be read here and have prompts enough, loads that can be run."""

from collections.abc import Iterator

from runners.checks.finding import CheckFinding, Situation
from runners.planning.datasets import Dataset, Hub
from runners.planning.plan import Plan
from runners.planning.study import Study
from runners.probes import interpreter
from runners.surroundings.models import hub_cache
from runners.texts.loads import doubts, refusals
from runners.texts.prompts import few_prompts, prompt_sets
from warehouse.errors import RunnerError, StudyError


def loads(situation: Situation, plan: Plan) -> Iterator[CheckFinding]:
    """Yield each load that cannot be run, then each that says less than it seems to."""
    for sentence in refusals(plan, situation.guidellm.version):
        said, _, fix = sentence.partition("; ")
        yield CheckFinding("blocker", f"{said}.", f"{fix[:1].upper()}{fix[1:]}")
    for sentence in doubts(plan):
        said, _, fix = sentence.partition("; ")
        yield CheckFinding("warning", f"{said}.", f"{fix[:1].upper()}{fix[1:]}")


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
    """Say what the cache of this machine has of the dataset, else whether the hub would hand it
    out."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    here = f"{hub.id} is not in the cache of this machine"
    useless = None
    try:
        environment = {**study.environment, **offline}
        return _enough(study.model_copy(update={"environment": environment}), dataset)
    except StudyError as error:
        cache = hub_cache(situation.env) / f"datasets--{hub.id.replace('/', '--')}"
        if cache.is_dir():
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
        interpreter.ask(python, "probe_hub", question, situation.env, timeout_s=30)
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
    sent = [prompt.hash for level in sets.values() for prompt in level.prompts]
    count, levels = len(set(sent)), "1 level" if len(sets) == 1 else f"{len(sets)} levels"
    again = "" if count == len(sent) else f", sent again until there are {len(sent)}"
    return CheckFinding(
        "ok", f"Dataset {dataset.name}: {count} different prompts for {levels}{again}."
    )


def _sentence(error: StudyError) -> str:
    return str(error).partition("; ")[0].rstrip(".") + "."
