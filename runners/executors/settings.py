"""What an executor can be told: a YAML file of the cluster, and flags that override it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, field_validator

from runners.planning.loads import Positive, Seconds, StudyPart
from warehouse.errors import RunnerError

Inside = Annotated[str, Field(pattern=r"^/.+")]


class KubernetesSettings(StudyPart):
    """How launches run as Jobs of a Kubernetes cluster."""

    context: str | None = Field(default=None, description="Of kubectl; without it the current one")
    namespace: str | None = Field(default=None, description="Without it that of the context")
    image: str | None = Field(
        default=None, description="With draftboard, vLLM and GuideLLM on its PATH"
    )
    claim: str = Field(default="draftboard-results", description="On which results lie")
    results: Inside = Field(default="/data/results", description="Where the pod has that claim")
    mounts: dict[str, Inside] = Field(
        default_factory=dict, description="More claims, each with its path: models, data"
    )
    study: Inside | None = Field(
        default=None,
        description="Inside of the study on a claim, where files beside it are needed; without it "
        "the study alone is sent along",
    )
    environment: dict[str, str] = Field(default_factory=dict, description="HF_HOME …")
    secrets: tuple[str, ...] = Field(
        default=(), description="Secrets whose keys become variables: HF_TOKEN"
    )
    gpu_resource: str = "nvidia.com/gpu"
    cpus: Positive | None = None
    memory: str | None = Field(default=None, description="Of each launch: 200Gi")
    shared_memory: str = Field(default="16Gi", description="Size of /dev/shm")
    time_s: Positive | None = Field(default=None, description="Limit of one launch, in seconds")
    restarts: Annotated[int, Field(ge=0)] = Field(
        default=2, description="How often a pod that crashed is started again"
    )
    keep_s: Annotated[int, Field(ge=0)] = Field(
        default=7 * 86_400, description="How long a finished Job is remembered"
    )
    pod: dict[str, Any] = Field(
        default_factory=dict,
        description="Anything else of a pod's specification: nodeSelector, tolerations …",
    )
    poll_s: Seconds = Field(default=10.0, description="How often Kubernetes is asked")


_LIMIT = 1 << 20


class LocalSettings(StudyPart):
    """How launches run on this machine."""

    parallel: Positive | None = Field(
        default=None,
        description="At most so many launches side by side, each on GPUs of its own; without it as "
        "many as free GPUs allow, where the study does",
    )
    gpus: tuple[str, ...] | None = Field(
        default=None,
        description="Indices or UUIDs to use; without it CUDA_VISIBLE_DEVICES, else all",
    )


class SlurmSettings(StudyPart):
    """What is asked of Slurm for each launch. Left out: the cluster's own default."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: str | None = Field(
        default=None, description="Limit of one launch as Slurm writes it: 04:00:00"
    )
    gres: str = Field(
        default="gpu", description="Name of the GPU resource, with its type: gpu:h200"
    )
    cpus: Positive | None = Field(default=None, description="CPU cores of each launch")
    memory: str | None = Field(default=None, description="Memory of each launch: 200G")
    constraint: str | None = None
    arguments: tuple[str, ...] = Field(default=(), description="More arguments of sbatch, as given")
    setup: tuple[str, ...] = Field(
        default=(), description="Shell lines before the launch: module load …"
    )
    poll_s: Seconds = Field(default=10.0, description="How often squeue is asked")

    @field_validator("time", mode="before")
    @classmethod
    def _not_a_number(cls, value: object) -> object:
        if isinstance(value, int):
            raise ValueError("put it in quotes, YAML reads 12:00:00 as a number")
        return value


class RaySettings(StudyPart):
    """How launches run on a Ray cluster."""

    address: str | None = Field(
        default=None,
        description="Of its head; without it RAY_ADDRESS, else a cluster of this machine",
    )
    cpus: Annotated[float, Field(ge=0)] = Field(default=1.0, description="CPU cores of each launch")
    resources: dict[str, float] = Field(
        default_factory=dict, description="Custom resources of each"
    )
    wait_for_nodes_s: Annotated[float, Field(ge=0)] = Field(
        default=0.0,
        description="How long a node that is large enough may take to join (autoscaling)",
    )


class ClusterSettings(StudyPart):
    """The whole file; each executor reads its own part."""

    local: LocalSettings = LocalSettings()
    slurm: SlurmSettings = SlurmSettings()
    ray: RaySettings = RaySettings()
    kubernetes: KubernetesSettings = KubernetesSettings()


def read_settings(path: Path | None, executor: str, flags: Mapping[str, Any]) -> ClusterSettings:
    """Read the file's settings, those of one executor each overridden by the flag that was given for
    it: ``{"partition": "gpu"}``. Raises RunnerError.
    """
    stated: Any = None
    if path is not None:
        try:
            if path.stat().st_size > _LIMIT:
                raise RunnerError(
                    f"{path} is larger than 1 MB, so it is no file of cluster options."
                )
            stated = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            words = " ".join(str(error).split())
            raise RunnerError(f"The cluster options {path} cannot be read: {words}.") from None
    stated = {} if stated is None else stated
    if not isinstance(stated, dict):
        raise RunnerError(
            f"{path} holds no cluster options; docs/clusters.md shows what it may say."
        )
    part = stated.get(executor) or {}
    stated[executor] = {**part, **flags} if isinstance(part, dict) else part
    try:
        return ClusterSettings.model_validate(stated)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        source = "The cluster options" if path is None else f"{path}"
        raise RunnerError(f"{source} cannot be used at {where}: {first['msg']}.") from None
