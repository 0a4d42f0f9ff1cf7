"""The options of ``draftboard run`` that say where it runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from runners.executors import Executor
from runners.executors.local import Local
from runners.executors.settings import read_settings

Command = Callable[..., Any]
#: Places whose launches go on when nobody waits for them.
_WAITED_FOR = ("slurm", "kubernetes")
PLACES = ("local", "slurm", "ray", "kubernetes")

_OPTIONS = (
    click.option(
        "--on",
        "place",
        type=click.Choice(PLACES),
        default="local",
        show_default=True,
        help="This machine, or one Slurm job, Ray task or Kubernetes Job for each server launch.",
    ),
    click.option(
        "--cluster",
        "cluster_file",
        type=click.Path(path_type=Path),
        envvar="DRAFTBOARD_CLUSTER",
        help="YAML file with the options of the cluster [DRAFTBOARD_CLUSTER]; flags override it.",
    ),
    click.option(
        "--parallel",
        "local_parallel",
        type=click.IntRange(min=1),
        help="local: at most so many servers side by side, each on GPUs of its own; 1: one after the "
        "other. Left out: as many as the free GPUs take, where the study allows it.",
    ),
    click.option(
        "--gpus", "local_gpus", metavar="0,1,…", help="local: the GPUs that --parallel may use."
    ),
    click.option("--partition", "slurm_partition", help="slurm: partition."),
    click.option("--account", "slurm_account", help="slurm: account that is charged."),
    click.option("--qos", "slurm_qos", help="slurm: quality of service."),
    click.option("--time", "slurm_time", metavar="LIMIT", help="slurm: limit of one launch."),
    click.option("--gres", "slurm_gres", metavar="gpu:TYPE", help="slurm: which GPUs."),
    click.option(
        "--sbatch",
        "slurm_arguments",
        multiple=True,
        metavar="ARGUMENT",
        help="slurm: one more argument of sbatch, as --sbatch=--exclusive; repeatable.",
    ),
    click.option("--detach", is_flag=True, help="slurm, kubernetes: submit, and do not wait."),
    click.option("--address", "ray_address", help="ray: address of the head [RAY_ADDRESS]."),
    click.option("--namespace", "kubernetes_namespace", help="kubernetes: namespace."),
    click.option("--context", "kubernetes_context", help="kubernetes: context of kubectl."),
    click.option("--image", "kubernetes_image", help="kubernetes: image of the launches."),
    click.option("--claim", "kubernetes_claim", help="kubernetes: claim on which results lie."),
)
#: Names of the parameters that the decorator adds to a command.
PARAMETERS = (
    "place", "cluster_file", "local_parallel", "local_gpus", "slurm_partition", "slurm_account",
    "slurm_qos", "slurm_time", "slurm_gres", "slurm_arguments", "detach", "ray_address",
    "kubernetes_namespace", "kubernetes_context", "kubernetes_image", "kubernetes_claim",
)  # fmt: skip


def executor_options(command: Command) -> Command:
    """Add ``--on`` and what goes with it; ``executor_from`` reads them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def executor_from(
    given: dict[str, Any], unsaid: Callable[[], Executor | None] = lambda: None
) -> Executor | None:
    """Return the executor that the options ask for; None: this process runs one launch after the
    other.

    ``unsaid`` is asked for a run on this machine that nobody said more of. Wrong usage is a
    click.UsageError, settings that cannot be used a RunnerError.
    """
    place = given["place"]
    settings = read_settings(given["cluster_file"], {place: _flags(place, given)})
    if place == "slurm":
        from runners.executors.slurm import Slurm

        return Slurm(settings.slurm, wait=not given["detach"])
    if place == "kubernetes":
        from runners.executors.kubernetes import Kubernetes

        return Kubernetes(settings.kubernetes, wait=not given["detach"])
    if place == "ray":
        from runners.executors.ray import RayTasks

        return RayTasks(settings.ray)
    if settings.local.parallel is None and not given["local_gpus"]:
        return unsaid()
    if settings.local.parallel not in (None, 1):
        return Local(settings.local)
    if given["local_gpus"]:
        raise click.UsageError(
            "--gpus goes with --parallel; one launch after the other takes what "
            "CUDA_VISIBLE_DEVICES leaves."
        )
    return None


def _flags(place: str, given: dict[str, Any]) -> dict[str, Any]:
    flags: dict[str, Any] = {}
    for name in PARAMETERS:
        owner, _, setting = name.partition("_")
        owners = _WAITED_FOR if name == "detach" else (owner,)
        if owners[0] not in PLACES or given[name] in (None, (), False):
            continue
        if place not in owners:
            flag = {"slurm_arguments": "sbatch"}.get(name, setting or name)
            where = " or ".join(f"--on {owner}" for owner in owners)
            raise click.UsageError(f"--{flag} belongs to {where}; this is --on {place}.")
        if setting:
            flags[setting] = given[name]
    if "gpus" in flags:
        flags["gpus"] = tuple(name.strip() for name in flags["gpus"].split(",") if name.strip())
    return flags
