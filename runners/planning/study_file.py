"""What a study says, ``studies/*.yaml`` as pydantic models, and the line on which a file is wrong."""

import shutil
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, model_validator

from runners.planning.loads import (
    SWEEP,
    Dataset,
    LoadLevel,
    Loads,
    Name,
    Positive,
    Seconds,
    Share,
    StudyPart,
    unique,
)
from runners.planning.speculation import RATES, synthetic_problem, table_problem, with_synthetic
from runners.surroundings.models import with_dashes
from warehouse.contract import TABLE, Evidence
from warehouse.errors import StudyError

# --- What a speculative method switches off in an engine by itself, switched off on the baseline as well.


Switch = Literal["async-scheduling", "model-runner"]
#: The arguments of ``vllm serve`` and the variables that switch something off.
SWITCHES: dict[Switch, tuple[dict[str, Any], dict[str, str]]] = {
    "async-scheduling": ({"async-scheduling": False}, {}),
    "model-runner": ({}, {"VLLM_USE_V2_MODEL_RUNNER": "0"}),
}
#: The arm that is served so.
EQUAL_ENGINE_ARM = "baseline-equal-engine"


# --- The parts of a study: model, arms, requests, limits, price, executables.


class TargetModel(StudyPart):
    """The model that is served."""

    model: str = Field(min_length=1, description="Hugging Face id or a local folder")
    revision: str | None = None
    tokenizer: str | None = Field(default=None, description="If it is not the model's own")
    served_name: str | None = Field(default=None, description="--served-model-name")
    precision: str | None = Field(
        default=None, description="What the weights are stored in: mxfp4, bf16 …"
    )
    engine_args: dict[str, Any] = Field(
        default_factory=dict,
        description="Arguments of `vllm serve`, or of the engine, without dashes: max-model-len …",
    )


class StudyArm(StudyPart):
    """One way of serving the target; a list of draft-token counts makes one arm of each."""

    name: Name
    speculative_config: dict[str, Any] | None = Field(
        default=None,
        description="vLLM's --speculative-config, passed through, or translated for another engine; "
        "none for the baseline",
    )
    num_speculative_tokens: Positive | list[Positive] | None = Field(
        default=None, description="K, swept by a list"
    )
    engine_args: dict[str, Any] = Field(default_factory=dict)
    tensor_parallel_sizes: list[Positive] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        k, config = self.num_speculative_tokens, self.speculative_config or {}
        inside = config.get("num_speculative_tokens")
        whole = isinstance(inside, int) and not isinstance(inside, bool)
        if k is not None and self.speculative_config is None:
            raise ValueError("num_speculative_tokens needs a speculative_config beside it")
        if inside is not None and not (whole and inside >= 1):
            raise ValueError(
                f"num_speculative_tokens is {inside!r} in the speculative_config; write 1 or more, or "
                "leave the speculative_config out for a baseline"
            )
        if k is not None and "num_speculative_tokens" in config:
            raise ValueError("num_speculative_tokens stands twice: keep the one of the arm")
        if k is None and (problem := table_problem(config)) is not None:
            raise ValueError(problem)
        if k is not None and config.get(TABLE) is not None:
            raise ValueError(
                f"an arm with {TABLE} has its num_speculative_tokens inside speculative_config"
            )
        if k == []:
            raise ValueError("num_speculative_tokens is an empty list")
        counts = k if isinstance(k, list) else [each for each in (k, inside) if each is not None]
        if (problem := synthetic_problem(config, counts)) is not None:
            raise ValueError(problem)
        unique("draft-token counts", k if isinstance(k, list) else [])
        return self


class Variant(StudyPart):
    """An arm with its number of draft tokens settled: one server configuration per TP size."""

    name: Name
    arm: Name
    speculative_config: dict[str, Any] | None
    engine_args: dict[str, Any]
    tensor_parallel_sizes: tuple[Positive, ...] | None
    environment: dict[str, str] = {}
    equal_engine: bool = False

    @property
    def is_baseline(self) -> bool:
        """Whether the arm drafts nothing and switches nothing off for the sake of those that do."""
        return self.speculative_config is None and not self.equal_engine


class RequestSettings(StudyPart):
    """How each request is made; the end of the text is natural unless asked otherwise.

    What is None is not sent: then the model's own defaults apply, and the record says unknown.
    """

    format: Literal["chat_completions", "text_completions"] = "chat_completions"
    temperature: Annotated[float, Field(ge=0)] | None = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: int | None = None
    max_tokens: Positive | None = 1024
    ignore_eos: bool = False
    extra_body: dict[str, Any] = Field(default_factory=dict, description="reasoning_effort …")


#: Requests that warm up a level, where the study leaves it to its load.
LEAST_WARM_UP, MOST_WARM_UP = 4, 512


class MeasuredWindow(StudyPart):
    """What is kept out of the measurement: warm-up and cool-down."""

    warm_up_requests: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="Requests of other prompts, sent before the level; left out: bursts that double "
        "up to what it has in flight, at most 512",
    )
    warm_up: Share = Field(
        default=0.0, description="Share of the level's requests left out at its start"
    )
    cool_down: Share = Field(
        default=0.0, description="Share of the level's requests left out at its end"
    )

    def warm_up_at(self, most_at_once: int) -> int:
        """Return how many requests warm up a level with so many in flight: kernels and graphs of an
        engine are those of a batch size."""
        stated = self.warm_up_requests
        return max(LEAST_WARM_UP, min(most_at_once, MOST_WARM_UP)) if stated is None else stated


class RunLimits(StudyPart):
    """When to give up, and how often to try again."""

    server_ready_s: Seconds = 1800
    cell_s: Seconds = Field(default=3600, description="One load point, after which it is stopped")
    retries: Annotated[int, Field(ge=0)] = 1
    max_error_rate: Share = Field(default=0.01, description="Above it a cell is not good")


class NodePrice(StudyPart):
    """What the node costs."""

    usd_per_hour: Annotated[float, Field(ge=0)]
    gpus_per_instance: Positive
    source: str | None = None
    as_of: date | None = None


class Executables(StudyPart):
    """Engine and GuideLLM, each in an environment of its own; a name is looked up on the PATH."""

    vllm: str = "vllm"
    sglang: str = "sglang"
    llama_server: str = "llama-server"
    guidellm: str = "guidellm"


class Cpus(StudyPart):
    """Cores for the engine and for its clients, where a CPU does the work of a GPU."""

    engine: list[Annotated[int, Field(ge=0)]]
    client: list[Annotated[int, Field(ge=0)]]


def _switches(stated: Any) -> Any:
    return tuple(SWITCHES) if stated is True else stated or ()


# --- The study itself.


class Study(StudyPart):
    """A whole study. ``variants`` are its arms with K settled.

    Paths that begin with a dot are relative to the study file (``located``): models, datasets and
    executables stay where they are whatever folder a command is called from.
    """

    _folder: Path = PrivateAttr(default_factory=Path.cwd)
    _rates: Mapping[tuple[str, int], Sequence[float]] = PrivateAttr(default_factory=dict)

    name: Name
    description: str | None = None
    evidence: Evidence | None = Field(
        default=None, description="What stands behind the numbers, if the hardware does not say it"
    )
    engine: Literal["vllm", "sglang", "llama.cpp"] = Field(
        default="vllm", description="What is started to serve the arms"
    )
    gpu: str | None = Field(
        default=None,
        min_length=1,
        description="The GPU that time is planned for, if not this one's",
    )
    target: TargetModel
    arms: list[StudyArm] = Field(min_length=1)
    equal_engine: Annotated[tuple[Switch, ...], BeforeValidator(_switches)] = Field(
        default=(),
        description="One more arm: a baseline without what a method switches off in vLLM",
    )
    datasets: list[Dataset] = Field(min_length=1)
    tensor_parallel_sizes: list[Positive] = [1]
    concurrency: list[Positive] | None = Field(
        default=None, min_length=1, description="Short for load: {concurrent: …}"
    )
    load: Loads | None = None
    prompt_tokens: list[Positive] = Field(
        default=[],
        description="Of every dataset that names none: prompts of each length, in tokens",
    )
    repeats: Positive = 1
    side_by_side: Literal["allow", "never"] = Field(
        default="allow", description="Servers on free GPUs of one node at the same time"
    )
    numa: Literal["bind", "leave"] = Field(
        default="bind", description="Keep a server on the cores near its GPUs"
    )
    order_seed: int = Field(default=0, description="Decides the order of the arms in each repeat")
    request: RequestSettings = RequestSettings()
    window: MeasuredWindow = MeasuredWindow()
    prefix_cache: Literal["reset", "keep"] = Field(
        default="reset", description="Emptied before each level, or kept; recorded either way"
    )
    sample_every_s: Seconds = 2.0
    limits: RunLimits = RunLimits()
    price: NodePrice | None = None
    executables: Executables = Executables()
    environment: dict[str, str] = Field(default_factory=dict)
    cpus: Cpus | None = None

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The arms with their draft-token counts settled, in the order of the file; a baseline
        without what a method switches off stands last."""
        variants = []
        for arm in self.arms:
            swept, sizes = arm.num_speculative_tokens, arm.tensor_parallel_sizes
            for k in swept if isinstance(swept, list) else [swept]:
                config = arm.speculative_config
                if config is not None and k is not None:
                    config = config | {"num_speculative_tokens": k}
                variants.append(
                    Variant(
                        name=f"{arm.name}-k{k}" if isinstance(swept, list) else arm.name,
                        arm=arm.name,
                        speculative_config=None if config is None else with_synthetic(config),
                        engine_args=arm.engine_args,
                        tensor_parallel_sizes=None if sizes is None else tuple(sizes),
                    )
                )
        if self.equal_engine:
            switches = [SWITCHES[switch] for switch in self.equal_engine]
            variants.append(
                Variant(
                    name=EQUAL_ENGINE_ARM,
                    arm=EQUAL_ENGINE_ARM,
                    speculative_config=None,
                    engine_args={k: v for arguments, _ in switches for k, v in arguments.items()},
                    tensor_parallel_sizes=None,
                    environment={k: v for _, variables in switches for k, v in variables.items()},
                    equal_engine=True,
                )
            )
        return tuple(variants)

    @property
    def on_cpu(self) -> bool:
        """Whether a CPU does the work of a GPU, as far as the study says it."""
        return self.cpus is not None or self.evidence in ("cpu", "mock")

    @property
    def makes_weights_up(self) -> bool:
        """Whether vLLM makes up the weights itself, the draft's too, and reads none."""
        return with_dashes(self.target.engine_args).get("load-format") == "dummy"

    def engine_arguments(self, variant: Variant) -> dict[str, Any]:
        """Return the arguments of an arm's server by names with dashes, however the study spells
        them."""
        return with_dashes(self.target.engine_args) | with_dashes(variant.engine_args)

    def drafting(self, variant: Variant) -> dict[str, Any] | None:
        """Return what ``--speculative-config`` gets: the study's own, with a local draft where it
        lies."""
        config = variant.speculative_config
        if config is None or "model" not in config:
            return config
        return config | {"model": self.located(str(config["model"]))}

    def dataset(self, name: str) -> Dataset:
        """Return the dataset of that name. KeyError where there is none."""
        return {dataset.name: dataset for dataset in self.measured_on}[name]

    @cached_property
    def measured_on(self) -> tuple[Dataset, ...]:
        """The datasets, those by category or length taken apart, in the order of the file."""
        return tuple(
            part for dataset in self.datasets for part in dataset.parts(self.prompt_tokens)
        )

    def levels(self, dataset: Dataset, size: int | None = None) -> tuple[LoadLevel, ...]:
        """Return the load points of a dataset; at one tensor parallel size with the rates of its
        sweep."""
        return self.loads(dataset).levels(self._rates.get((dataset.name, size or 0), ()))

    def loads(self, dataset: Dataset) -> Loads:
        """Return the loads that hold for a dataset."""
        own = Loads(concurrent=dataset.concurrency) if dataset.concurrency else dataset.load
        return own or self.load or Loads(concurrent=self.concurrency or [])

    def sent_levels(self, dataset: Dataset) -> tuple[LoadLevel, ...]:
        """Return the levels that need prompts: those of the cells, and the sweep that finds
        rates."""
        more = () if self.loads(dataset).sweep is None else (SWEEP,)
        return (*self.levels(dataset), *more)

    def with_rates(self, rates: Mapping[tuple[str, int], Sequence[float]]) -> Self:
        """Set the rates that sweeps found, by dataset and tensor parallel size, and return the
        study."""
        self._rates = rates
        return self

    def placed(self, folder: Path) -> Self:
        """Set the folder of the file that the study was read from, and return the study."""
        self._folder = folder.resolve()
        return self

    def located(self, name: str) -> str:
        """Return a model, file or executable as this machine finds it; ids and plain names as they
        are."""
        path = Path(name).expanduser()
        if path.is_absolute():
            return str(path)
        return str((self._folder / path).resolve()) if name.startswith(".") else name

    def file(self, name: str) -> Path:
        """Return a file that the study names. Plain names lie beside the study, too; for a model
        they would be ids of the hub."""
        return Path(self.located(name if name.startswith(("/", "~", ".")) else f"./{name}"))

    def executable(
        self, which: Literal["vllm", "sglang", "llama_server", "guidellm"]
    ) -> str | None:
        """Return the absolute path of an executable; None where it is not found."""
        return shutil.which(self.located(getattr(self.executables, which)))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        unique("arms", [arm.name for arm in self.arms])
        unique("arms", [variant.name for variant in self.variants])
        unique("datasets", [dataset.name for dataset in self.measured_on])
        unique("concurrency levels", self.concurrency or [])
        if self.engine != "vllm" and (
            self.equal_engine or any(RATES in (arm.speculative_config or {}) for arm in self.arms)
        ):
            raise ValueError(f"equal_engine and {RATES} are known of vLLM alone; leave them out")
        if (self.concurrency is None) == (self.load is None):
            raise ValueError("give the load as concurrency or as load, one of the two")
        unique("tensor parallel sizes", self.tensor_parallel_sizes)
        for dataset in self.datasets:
            if dataset.form != "prompt" and (dataset.prompt_tokens or self.prompt_tokens):
                raise ValueError(
                    f"dataset {dataset.name} holds {dataset.form}s, and prompt_tokens cuts and fills single "
                    "prompts; leave one of the two out"
                )
            if dataset.form != "prompt" and self.request.format != "chat_completions":
                raise ValueError(
                    f"dataset {dataset.name} holds {dataset.form}s, which only chats can be; write "
                    "request: {format: chat_completions}"
                )
            names = {v.name for v in self.variants} | {arm.name for arm in self.arms}
            for name in dataset.arms or ():
                if name not in names:
                    raise ValueError(
                        f"dataset {dataset.name} names the arm {name}, which the study does not have; "
                        f"it has {', '.join(v.name for v in self.variants)}"
                    )
            for level in self.levels(dataset):
                _require_fitting(dataset, level)
        return self


def _require_fitting(dataset: Dataset, level: LoadLevel) -> None:
    """Raise ValueError where a dataset cannot be sent so, or does not say how much of it."""
    if dataset.sessions and level.profile not in ("concurrent", "throughput"):
        raise ValueError(
            f"dataset {dataset.name} is sent as sessions, whose turns wait for answers and come at no "
            f"rate of their own; give it requests at once (concurrency) instead of {level.words}"
        )
    if level.profile == "trace":
        return
    try:
        dataset.prompts_at(level)
    except KeyError:
        more = "" if level.at_once else "; write one number for all, or seconds in the load"
        raise ValueError(
            f"dataset {dataset.name} says no prompts_per_level for {level.words}{more}"
        ) from None


# --- Reading a study file: what is wrong with it is said with the line on which it stands.


_LIMIT = 1 << 20
#: Keys and items that a study may come to with its aliases written out.
_MOST_NODES = 50_000
Where = tuple[str | int, ...]


def read_study(path: Path) -> Study:
    """Read the study in a YAML file. Raises StudyError: file, line, what is wrong there."""
    try:
        if path.stat().st_size > _LIMIT:
            raise StudyError(f"{path} is larger than 1 MB, so it is no study file.")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StudyError(
            f"There is no study file {path}; studies/ has some to start from."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"The study file {path} cannot be read: {error}.") from None
    lines: dict[Where, int] = {}
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _note_lines(path, node, (), lines)
        # yaml.safe_load reads the same text again: its constructors know dates and numbers.
        written = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" line {mark.line + 1}"
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise StudyError(f"{path}{line} is not YAML: {problem}.") from None
    except RecursionError:
        raise StudyError(f"{path}{_TOO_MUCH}") from None
    if not isinstance(written, dict):
        raise StudyError(f"{path} holds no study; start from one of the files in studies/.")
    try:
        return Study.model_validate(written).placed(path.parent)
    except ValidationError as error:
        raise StudyError(_sentence(path, error, lines)) from None


#: A few lines of aliases can unfold into more than any memory holds.
_TOO_MUCH = (
    f" comes to more than {_MOST_NODES} values once its aliases are written out, or holds itself; "
    "write it without aliases (*name)."
)


def _note_lines(path: Path, node: yaml.Node, where: Where, lines: dict[Where, int]) -> None:
    """Note the line, from 1, on which each key or item stands."""
    lines.setdefault(where, node.start_mark.line + 1)
    if len(lines) > _MOST_NODES:
        raise StudyError(f"{path}{_TOO_MUCH}")
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner, line = (*where, str(key.value)), key.start_mark.line + 1
            if inner in lines:
                raise StudyError(f"{path} line {line}: {key.value} stands twice; keep one.")
            lines[inner] = line
            _note_lines(path, value, inner, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note_lines(path, item, (*where, index), lines)


def _sentence(path: Path, error: ValidationError, lines: dict[Where, int]) -> str:
    errors = error.errors(include_url=False, include_input=False)
    # A misspelt key is two errors; the one that stands in the file helps.
    first, *others = sorted(errors, key=lambda each: each["type"] != "extra_forbidden")
    where: Where = ()
    for part in first["loc"]:  # Unions add names of their own, which do not stand in the file.
        where = next(((*where, key) for key in (part, str(part)) if (*where, key) in lines), where)
    name = ".".join(str(part) for part in where) or "the study"
    wrong = {
        "extra_forbidden": "a study has no such key; docs/studies.md lists them",
        "missing": f"{first['loc'][-1]} is missing" if first["loc"] else "",
    }.get(first["type"], str(first["msg"]).removeprefix("Value error, ").rstrip("."))
    more = f" ({len(others)} more after that)" if others else ""
    return f"{path} line {lines.get(where, 1)}: {name}: {wrong}{more}."
