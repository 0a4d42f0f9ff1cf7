"""What ``--on kubernetes`` can be told."""

from typing import Annotated, Any

from pydantic import Field

from runners.planning.part import Part, Positive

Seconds = Annotated[float, Field(gt=0)]
Path = Annotated[str, Field(pattern=r"^/.+")]


class KubernetesSettings(Part):
    """How launches run as Jobs of a Kubernetes cluster."""

    context: str | None = Field(default=None, description="Of kubectl; without it the current one")
    namespace: str | None = Field(default=None, description="Without it that of the context")
    image: str | None = Field(
        default=None, description="With draftboard, vLLM and GuideLLM on its PATH"
    )
    claim: str = Field(default="draftboard-results", description="On which results lie")
    results: Path = Field(default="/data/results", description="Where the pod has that claim")
    mounts: dict[str, Path] = Field(
        default_factory=dict, description="More claims, each with its path: models, data"
    )
    study: Path | None = Field(
        default=None,
        description="Path of the study on a claim, where files beside it are needed; without it "
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
