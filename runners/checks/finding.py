"""What a check says, and what it looks at."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from runners.planning.plan import Launch, Plan, draft_key, target_key
from runners.serving.engines import Tool
from runners.surroundings.machine import Gpu, Survey
from runners.surroundings.models import ModelFiles

Status = Literal["ok", "warning", "unknown", "blocker"]


@dataclass(frozen=True)
class CheckFinding:
    """One sentence about one subject; ``fix`` says how to get rid of it."""

    #: The check that found it, by its name in ``CHECKS``.
    check: str = field(default="", kw_only=True)
    status: Status
    said: str
    fix: str | None = None


@dataclass(frozen=True)
class VllmAbilities:
    """What the installed vLLM says of itself. None: it was not asked, or this release cannot say."""

    methods: tuple[str, ...] | None = None
    settings: tuple[str, ...] | None = None
    memory_share: float | None = None
    device: str | None = None
    suffix_decoding: bool | None = None
    #: the words that a speculative setting takes, where it takes few
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: what a speculative method switches off, by ``runners.planning.study_file``: those methods
    switches_off: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: its argument parser's words about each launch's command line, by launch
    refusals: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True)
class Situation:
    """Everything that the checks look at, asked once. Without a study there is no plan either."""

    plan: Plan | None
    results: Path
    env: Mapping[str, str]
    #: The engine's executable: vLLM's, or that of the study's own engine.
    vllm: Tool
    guidellm: Tool
    engine: VllmAbilities
    survey: Survey
    gpus: tuple[Gpu, ...]
    models: Mapping[tuple[str, str | None], ModelFiles] = field(default_factory=dict)

    @property
    def on_gpu(self) -> bool | None:
        """Whether this vLLM computes on a GPU; None where nothing tells."""
        if self.engine.device is not None:
            return self.engine.device != "cpu"
        for_cpu = self.vllm.for_cpu
        return None if for_cpu is None else not for_cpu

    def target(self, plan: Plan) -> ModelFiles:
        return self.models[target_key(plan.study)]

    def draft(self, plan: Plan, launch: Launch) -> ModelFiles | None:
        """Return the files of a launch's draft; None where it has none of its own."""
        key = draft_key(plan.study, launch)
        return None if key is None else self.models.get(key)


Check = Callable[[Situation], Iterator[CheckFinding]]
StudyCheck = Callable[[Situation, Plan], Iterator[CheckFinding]]


def of_study(find: StudyCheck, engines: tuple[str, ...] = ()) -> Check:
    """Make a check that says nothing without a study."""

    def check(situation: Situation) -> Iterator[CheckFinding]:
        plan = situation.plan
        if plan is not None and (not engines or plan.study.engine in engines):
            yield from find(situation, plan)

    return check


def of_vllm(find: StudyCheck) -> Check:
    """Make a check of studies for vLLM alone, by how it reads its arguments and what it needs."""
    return of_study(find, ("vllm",))


def name_of(launch: Launch) -> str:
    """Return an arm as a reader knows it: "eagle3-k3 at TP 2"."""
    return f"{launch.variant.name} at TP {launch.tensor_parallel_size}"


def method_of(launch: Launch) -> str | None:
    """Return the method that an arm names; vLLM derives it from the draft where it is left out."""
    named = (launch.variant.speculative_config or {}).get("method")
    return None if named is None else str(named)
