"""Slurm's own commands: what is asked of them, and how their answers read.

Works with Slurm 22.05 and newer, without accounting: only sbatch, squeue and scancel are called.
"""

import shlex
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.executors import Silent
from runners.executors.settings import SlurmSettings
from warehouse.errors import RunnerError

_TIMEOUT_S = 120.0
#: States after which a job does nothing any more (squeue's long names).
_OVER = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
}  # fmt: skip
#: Reasons for waiting that no other job's end will change.
_NEVER = {
    "AccountNotAllowed", "BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionNodeLimit",
    "PartitionTimeLimit", "QOSNotAllowed", "launch failed requeued held",
}  # fmt: skip


@dataclass(frozen=True)
class SlurmJob:
    """One job as squeue shows it."""

    job_id: str
    name: str
    state: str
    nodes: str
    reason: str

    @property
    def over(self) -> bool:
        """Whether the job will do nothing more."""
        return self.state in _OVER

    @property
    def never(self) -> bool:
        """Whether the job waits for something that cannot come."""
        return self.state == "PENDING" and self.reason in _NEVER


@dataclass(frozen=True)
class Submission:
    """One job to submit."""

    name: str
    command: Sequence[str]
    gpus: int
    output: Path
    folder: Path
    """Working directory of the job."""


def submit(job: Submission, settings: SlurmSettings) -> str:
    """Hand a job to Slurm and return its number. RunnerError with Slurm's own words if it is
    refused."""
    try:
        said = _call(sbatch(job, settings), script(job.command, settings.setup))
    except Silent as error:
        raise RunnerError(f"{error}; check the cluster with `sinfo`, then run it again.") from None
    if said.returncode != 0:
        raise RunnerError(
            f"Slurm refused {job.name} ({_gpus(job.gpus)}): {_words(said.stderr)}. Change what is "
            "asked for (--partition, --gres, --time, the study's tensor-parallel size)."
        )
    return said.stdout.strip().splitlines()[-1].partition(";")[0]


def _gpus(count: int) -> str:
    return "no GPU" if count == 0 else "1 GPU" if count == 1 else f"{count} GPUs on one node"


def sbatch(job: Submission, settings: SlurmSettings) -> list[str]:
    """Return the command line that submits a job; its script comes on standard input."""
    asked = {
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "time": settings.time,
        "gres": f"{settings.gres}:{job.gpus}" if job.gpus else None,
        "cpus-per-task": settings.cpus,
        "mem": settings.memory,
        "constraint": settings.constraint,
    }
    return [
        "sbatch", "--parsable", "--requeue", "--open-mode=append", "--nodes=1", "--ntasks=1",
        f"--job-name={job.name}",
        # Slurm reads % in a file name as the start of a pattern.
        f"--output={str(job.output).replace('%', '%%')}",
        f"--chdir={job.folder}",
        *(f"--{name}={value}" for name, value in asked.items() if value is not None),
        *settings.arguments,
    ]  # fmt: skip


def script(command: Sequence[str], setup: Iterable[str]) -> str:
    """Return the batch script. ``exec``: Slurm's signals reach the launch itself."""
    return "\n".join(["#!/bin/bash", *setup, f"exec {shlex.join(command)}", ""])


def jobs_of_mine() -> dict[str, SlurmJob]:
    """Return this user's jobs by number, those that ended a few minutes ago included. Raises
    Silent."""
    said = _call(["squeue", "--me", "--states=all", "--noheader", "--format=%i|%T|%N|%r|%j"])
    if said.returncode != 0:
        raise Silent(f"squeue did not answer: {_words(said.stderr)}")
    found = (_job(line) for line in said.stdout.splitlines() if line.count("|") >= 4)
    return {job.job_id: job for job in found}


def _job(line: str) -> SlurmJob:
    job_id, state, nodes, reason, name = line.split("|", 4)
    return SlurmJob(job_id.strip(), name, state, nodes, reason)


def cancel(job_ids: Sequence[str]) -> None:
    """End jobs; those that are over already are left. RunnerError with Slurm's own words."""
    if not job_ids:
        return
    try:
        said = _call(["scancel", *job_ids])
    except Silent as error:
        raise RunnerError(f"{error}; the jobs go on.") from None
    if said.returncode != 0:
        raise RunnerError(f"Slurm did not cancel {', '.join(job_ids)}: {_words(said.stderr)}.")


def _call(argv: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, input=given, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise RunnerError(
            f"There is no {argv[0]} on this machine; run this on a node of the Slurm cluster from "
            "which jobs are submitted."
        ) from None
    except subprocess.TimeoutExpired:
        raise Silent(f"{argv[0]} did not answer within {_TIMEOUT_S:g} s") from None


def _words(text: str) -> str:
    """Return Slurm's message in one line, without the name of the command and the full stop."""
    lines = (line.partition("error: ")[2] or line for line in text.splitlines())
    return (
        "; ".join(line.strip() for line in lines if line.strip()).rstrip(".") or "no reason given"
    )
