"""What a study says: models, arms, datasets, load. ``studies/*.yaml`` as pydantic models."""

import shutil
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from warehouse.contract import Evidence

Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=80,
        description="Letters, digits, dot, dash and underscore: it becomes a folder name",
    ),
]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


def _unique(what: str, values: list[Any]) -> None:
    twice = sorted({str(value) for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"{what} named twice: {', '.join(twice)}")


class Part(BaseModel):
    """Every part of a study: unknown keys are refused, nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Target(Part):
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
        description="Arguments of `vllm serve` without dashes: max-model-len …",
    )


class Arm(Part):
    """One way of serving the target; a list of draft-token counts makes one arm of each."""

    name: Name
    speculative_config: dict[str, Any] | None = Field(
        default=None,
        description="vLLM's --speculative-config, passed through; none for the baseline",
    )
    num_speculative_tokens: Positive | list[Positive] | None = Field(
        default=None, description="K, swept by a list"
    )
    engine_args: dict[str, Any] = Field(default_factory=dict)
    tensor_parallel_sizes: list[Positive] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.speculative_config is None and self.num_speculative_tokens is not None:
            raise ValueError("num_speculative_tokens needs a speculative_config beside it")
        stated = self.speculative_config or {}
        count = stated.get("num_speculative_tokens")
        whole = isinstance(count, int) and not isinstance(count, bool)
        if count is not None and not (whole and count >= 1):
            raise ValueError(
                f"num_speculative_tokens is {count!r} in the speculative_config; write 1 or more, or "
                "leave the speculative_config out for a baseline"
            )
        if "num_speculative_tokens" in stated and self.num_speculative_tokens is not None:
            raise ValueError("num_speculative_tokens stands twice: keep the one of the arm")
        if isinstance(self.num_speculative_tokens, list):
            if not self.num_speculative_tokens:
                raise ValueError("num_speculative_tokens is an empty list")
            _unique("draft-token counts", self.num_speculative_tokens)
        return self


class Variant(Part):
    """An arm with its number of draft tokens settled: one server configuration per TP size."""

    name: Name
    arm: Name
    speculative_config: dict[str, Any] | None
    engine_args: dict[str, Any]
    tensor_parallel_sizes: tuple[Positive, ...] | None

    @property
    def is_baseline(self) -> bool:
        """Whether nothing is drafted."""
        return self.speculative_config is None


class Hub(Part):
    """A dataset of the Hugging Face hub."""

    id: str = Field(min_length=1)
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    file: str | None = Field(
        default=None, description="One file of the repository, where it has no loader"
    )


class Generator(Part):
    """Prompts that the project makes itself."""

    kind: Literal["code", "structured", "prose"]
    min_chars: Positive = 150
    max_chars: Positive = 320


class Filter(Part):
    """Which rows of a dataset are used."""

    min_chars: Positive | None = None
    max_chars: Positive | None = None
    where: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Columns that must equal a value"
    )


class Dataset(Part):
    """Where the prompts come from, and what of the study they are used for."""

    name: Name
    hub: Hub | None = None
    file: str | None = Field(
        default=None, description="Local JSONL, CSV or Parquet, relative to the study"
    )
    generator: Generator | None = None
    field: str = Field(default="prompt", description="Column or dotted path: conversations.0.value")
    filter: Filter = Filter()
    prompts_per_level: Positive | dict[Positive, Positive] = Field(
        default=100, description="Prompts of each concurrency level, one number or one per level"
    )
    shuffle_seed: int = 0
    arms: list[Name] | None = Field(default=None, description="Arms to run on it; all if left out")
    tensor_parallel_sizes: list[Positive] | None = None
    concurrency: list[Positive] | None = None
    max_tokens: Positive | None = Field(default=None, description="Instead of the request's own")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [s for s in ("hub", "file", "generator") if getattr(self, s) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of hub, file and generator")
        return self

    def prompts_at(self, concurrency: int) -> int:
        """How many prompts one level sends."""
        if isinstance(self.prompts_per_level, int):
            return self.prompts_per_level
        return self.prompts_per_level[concurrency]


class Request(Part):
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


class Window(Part):
    """What is kept out of the measurement."""

    warm_up_requests: Annotated[int, Field(ge=0)] = Field(
        default=4, description="Requests of other prompts, sent before the level"
    )
    warm_up: Share = Field(
        default=0.0, description="Share of the level's requests left out at its start"
    )
    cool_down: Share = Field(
        default=0.0, description="Share of the level's requests left out at its end"
    )


class Limits(Part):
    """When to give up, and how often to try again."""

    server_ready_s: Seconds = 1800
    cell_s: Seconds = Field(default=3600, description="One load point, after which it is stopped")
    retries: Annotated[int, Field(ge=0)] = 1
    max_error_rate: Share = Field(default=0.01, description="Above it a cell is not good")


class Price(Part):
    """What the node costs."""

    usd_per_hour: Annotated[float, Field(ge=0)]
    gpus_per_instance: Positive
    source: str | None = None
    as_of: date | None = None


class Executables(Part):
    """vLLM and GuideLLM, each in an environment of its own; a name is looked up on the PATH."""

    vllm: str = "vllm"
    guidellm: str = "guidellm"


class Cpus(Part):
    """Cores for the engine and for its clients, where a CPU does the work of a GPU."""

    engine: list[Annotated[int, Field(ge=0)]]
    client: list[Annotated[int, Field(ge=0)]]


class Study(Part):
    """A whole study. ``variants`` are its arms with K settled.

    Paths that begin with a dot are relative to the study file (``located``): models, datasets and
    executables stay where they are whatever folder a command is called from.
    """

    _folder: Path = PrivateAttr(default_factory=Path.cwd)

    name: Name
    description: str | None = None
    evidence: Evidence | None = Field(
        default=None, description="What stands behind the numbers, if the hardware does not say it"
    )
    target: Target
    arms: list[Arm] = Field(min_length=1)
    datasets: list[Dataset] = Field(min_length=1)
    tensor_parallel_sizes: list[Positive] = [1]
    concurrency: list[Positive] = Field(min_length=1)
    repeats: Positive = 1
    order_seed: int = Field(default=0, description="Decides the order of the arms in each repeat")
    request: Request = Request()
    window: Window = Window()
    prefix_cache: Literal["reset", "keep"] = Field(
        default="reset", description="Emptied before each level, or kept; recorded either way"
    )
    sample_every_s: Seconds = 2.0
    limits: Limits = Limits()
    price: Price | None = None
    executables: Executables = Executables()
    environment: dict[str, str] = Field(default_factory=dict)
    cpus: Cpus | None = None

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The arms with their draft-token counts settled, in the order of the file."""
        return tuple(variant for arm in self.arms for variant in _variants(arm))

    def dataset(self, name: str) -> Dataset:
        """The dataset of that name. KeyError where there is none."""
        return {dataset.name: dataset for dataset in self.datasets}[name]

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

    def executable(self, which: Literal["vllm", "guidellm"]) -> str | None:
        """Absolute path of an executable; None where it is not found."""
        return shutil.which(self.located(getattr(self.executables, which)))

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _unique("arms", [arm.name for arm in self.arms])
        _unique("arms", [variant.name for variant in self.variants])
        _unique("datasets", [dataset.name for dataset in self.datasets])
        _unique("concurrency levels", self.concurrency)
        _unique("tensor parallel sizes", self.tensor_parallel_sizes)
        for dataset in self.datasets:
            self._restrictions_exist(dataset)
        return self

    def _restrictions_exist(self, dataset: Dataset) -> None:
        known = {v.name for v in self.variants} | {arm.name for arm in self.arms}
        for name in dataset.arms or ():
            if name not in known:
                raise ValueError(
                    f"dataset {dataset.name} names the arm {name}, which the study does not have; "
                    f"it has {', '.join(v.name for v in self.variants)}"
                )
        levels = dataset.concurrency or self.concurrency
        if isinstance(dataset.prompts_per_level, dict):
            missing = [level for level in levels if level not in dataset.prompts_per_level]
            if missing:
                raise ValueError(
                    f"dataset {dataset.name} says no prompts_per_level for concurrency {missing[0]}"
                )


def _variants(arm: Arm) -> list[Variant]:
    swept = arm.num_speculative_tokens
    counts: list[int | None] = list(swept) if isinstance(swept, list) else [swept]
    return [
        Variant(
            name=f"{arm.name}-k{k}" if isinstance(swept, list) else arm.name,
            arm=arm.name,
            speculative_config=_with_k(arm.speculative_config, k),
            engine_args=arm.engine_args,
            tensor_parallel_sizes=(
                None if arm.tensor_parallel_sizes is None else tuple(arm.tensor_parallel_sizes)
            ),
        )
        for k in counts
    ]


def _with_k(config: dict[str, Any] | None, k: int | None) -> dict[str, Any] | None:
    return config if config is None or k is None else config | {"num_speculative_tokens": k}
