"""What a reader needs to trust a number: the software, the hardware and where both came from.

Every value is what was asked and answered on this machine; what nothing answered is None. No
credentials, no user names, no host name, no path that holds one (``runners/surroundings/tools.py``).
"""

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runners.models import model_files
from runners.planning.study import Study, Variant
from runners.planning.vllm_command import speculative_config
from runners.serving.engines import engine_of
from runners.surroundings import gpu, machine
from runners.surroundings.tools import Kind, public, tool
from warehouse.contract import Evidence
from warehouse.secrets.shapes import REMOVED, is_secret_name, may_be_written


@dataclass(frozen=True)
class Versions:
    """Versions as the environments of the executables state them. None: unknown."""

    vllm: str | None
    guidellm: str | None
    torch: str | None
    cuda: str | None
    """The CUDA that torch was built for; None for a CPU build."""
    transformers: str | None
    vllm_python: str | None
    guidellm_python: str | None
    draftboard: str


@dataclass(frozen=True)
class Revisions:
    """Which content stands behind the models' names: a commit of the hub or a hash of a folder."""

    model: str | None
    draft: str | None


def versions(study: Study) -> Versions:
    """Return what the study's two executables run on. A missing executable gives None, not an
    error."""
    vllm, guidellm = tool(study, "vllm"), tool(study, "guidellm")
    return Versions(
        vllm=vllm.version,
        guidellm=guidellm.version,
        torch=vllm.versions.get("torch"),
        cuda=vllm.torch_cuda,
        transformers=vllm.versions.get("transformers"),
        vllm_python=vllm.python_version,
        guidellm_python=guidellm.python_version,
        draftboard=_draftboard(),
    )


def environment(study: Study, gpus: Sequence[int] = ()) -> dict[str, Any]:
    """Return a record's ``environment``: JSON values only. ``gpus``: NVML indices that the server
    uses.

    An empty ``gpus`` on a machine with GPUs means those that CUDA_VISIBLE_DEVICES leaves; for a CPU
    build of vLLM there are none.
    """
    found = gpu.survey()
    used = _used(found, gpus) if runs_on_gpu(study) else ()
    kinds: tuple[Kind, ...] = (engine_of(study).tool, "guidellm")
    said = {
        "versions": asdict(versions(study)),
        "packages": {kind: dict(tool(study, kind).versions) for kind in kinds},
        "gpus": [asdict(each) for each in used],
        "driver": found.driver,
        "cuda_driver": found.cuda,
        "cpu": machine.cpu(),
        "memory_bytes": machine.memory_bytes(),
        "system": machine.system(),
        "python": platform.python_version(),
        "container": machine.container(),
        "scheduler": machine.scheduler(),
        "git": {"draftboard": _own_tree(), "study": machine.git_state(Path(study.located(".")))},
        "variables": variables(study),
    }
    fit_to_publish: dict[str, Any] = public(said)
    return fit_to_publish


def hardware(study: Study, gpus: Sequence[int] = ()) -> tuple[str | None, int | None]:
    """Return (model, count) of the GPUs that a server uses; for a CPU server the processor, and
    None."""
    if not runs_on_gpu(study):
        return machine.cpu_model(), None
    used = _used(gpu.survey(), gpus)
    names = sorted({each.name for each in used})
    return " + ".join(names) or None, len(used) or None


def runs_on_gpu(study: Study) -> bool:
    """Return whether the study's vLLM is built for GPUs; a build that does not say counts as one.
    Another engine is taken to use the GPUs that there are."""
    if study.engine != "vllm":
        return bool(gpu.survey().gpus)
    return not tool(study, "vllm").for_cpu


def evidence(study: Study) -> Evidence | None:
    """Return what stands behind the numbers; None where an engine may compute on GPUs or beside
    them."""
    if not runs_on_gpu(study):
        return "cpu"
    return "gpu" if study.engine == "vllm" else None


def revisions(study: Study, variant: Variant) -> Revisions:
    """Return what the names of target and draft stand for on this machine; None where unknown."""
    config = speculative_config(study, variant) or {}
    draft = config.get("model")
    target = study.target
    return Revisions(
        model=_revision(study, study.located(target.model), target.revision),
        draft=None if draft is None else _revision(study, str(draft), config.get("revision")),
    )


def variables(study: Study) -> dict[str, str]:
    """Return the environment variables that the server gets and that change what it does, no
    credentials.

    Of those that only the study sets and that are on no list the names stay, not the values.
    """
    merged = {**engine_of(study).always, **os.environ, **study.environment}
    # What a container's image requires of a driver is long, and changes nothing once it runs.
    listed = {
        name: value for name, value in merged.items()
        if may_be_written(name) and not name.startswith("NVIDIA_REQUIRE_")
    }  # fmt: skip
    unlisted = {
        name: REMOVED
        for name in study.environment
        if name not in listed and not is_secret_name(name)
    }
    return dict(sorted({**unlisted, **listed}.items()))


def _revision(study: Study, model: str, revision: str | None) -> str | None:
    return model_files.find(model, revision, study.environment).revision


def _used(found: gpu.Survey, gpus: Sequence[int]) -> tuple[gpu.Gpu, ...]:
    if not gpus:
        return gpu.visible(found, os.environ)
    return tuple(each for each in found.gpus if each.index in gpus)


def _draftboard() -> str:
    try:
        return importlib.metadata.version("draftboard")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _own_tree() -> dict[str, Any] | None:
    """Return the git state of an installation from a working tree; None for a wheel, which lies in
    nobody's tree."""
    root = Path(__file__).parents[2]
    return machine.git_state(root) if (root / "pyproject.toml").is_file() else None
