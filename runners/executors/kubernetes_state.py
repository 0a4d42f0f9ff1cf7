"""What has become of a launch, by its Job and its pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runners.executors.kubernetes_commands import Objects
from runners.executors.kubernetes_job import LAUNCH

Stage = Literal["waiting", "running", "done", "failed"]
#: Why a container waits for what will not come by itself.
_NEVER = frozenset({"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"})
_REASONS = {
    "DeadlineExceeded": "its Job {job} reached its time limit; run the same command again to go on, "
    "or give it more (kubernetes: time_s)",
    "BackoffLimitExceeded": "the pods of its Job {job} crashed again and again",
    "PodFailurePolicy": "its Job {job} ended with cells missing",
}
_KILLED = {
    "OOMKilled": "its Job {job} took more memory than it was allowed; give it more (kubernetes: memory)",
    "Evicted": "its Job {job} was evicted from its node",
}


@dataclass(frozen=True)
class Seen:
    """One launch as Kubernetes shows it. ``where``: its node, or why it waits or failed."""

    job: str
    stage: Stage
    where: str
    never: bool = False
    """Whether it waits for what cannot come."""

    @property
    def over(self) -> bool:
        """Whether the launch's Job will do nothing more."""
        return self.stage in ("done", "failed")


def seen(found: Objects) -> dict[str, Seen]:
    """Return launch -> what is seen of it: of several Jobs the one at work, else the newest."""
    jobs = sorted(found.jobs, key=lambda job: str(_meta(job).get("creationTimestamp", "")))
    told: dict[str, Seen] = {}
    for job in jobs:
        if _meta(job).get("deletionTimestamp"):
            continue  # It ends; what it measured lies in the results.
        launch = _meta(job).get("annotations", {}).get(LAUNCH)
        one = _seen(job, [pod for pod in found.pods if _owner(pod) == _meta(job).get("name")])
        if launch is not None and (launch not in told or told[launch].over):
            told[launch] = one
    return told


def _seen(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> Seen:
    name, conditions = str(_meta(job)["name"]), _conditions(job)
    if "Complete" in conditions:
        return Seen(name, "done", "")
    if "Failed" in conditions:
        return Seen(name, "failed", _why(name, conditions["Failed"], pods))
    if "Suspended" in conditions:
        return Seen(name, "waiting", "suspended: a queue or somebody holds it")
    newest = max(pods, key=lambda pod: str(_meta(pod).get("creationTimestamp", "")), default=None)
    if newest is None:
        return Seen(name, "waiting", "its pod is not made yet")
    status = newest.get("status", {})
    node = newest.get("spec", {}).get("nodeName")
    if status.get("phase") == "Running":
        return Seen(name, "running", str(node))
    reason, message = _waits(newest)
    return Seen(name, "waiting", f"{reason}: {message}".rstrip(": "), reason in _NEVER)


def _why(name: str, condition: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
    killed = [str(s.get("status", {}).get("reason", "")) for s in pods]
    killed += [
        str(container.get("state", {}).get("terminated", {}).get("reason", ""))
        for pod in pods
        for container in pod.get("status", {}).get("containerStatuses", [])
    ]
    reason = next((word for word in killed if word in _KILLED), None)
    if reason is not None:
        return _KILLED[reason].format(job=name)
    said = str(condition.get("message", "")).rstrip(".") or "no reason given"
    told = _REASONS.get(str(condition.get("reason")), f"its Job {{job}} failed ({said})")
    return told.format(job=name)


def _waits(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Return reason and message of a pod that does not run yet."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return str(waiting.get("reason", "")), str(waiting.get("message", ""))[:200]
    for condition in status.get("conditions", []):
        if condition.get("status") == "False" and condition.get("message"):
            return str(condition.get("reason", "")), str(condition["message"])[:200]
    return str(status.get("phase", "Pending")), ""


def _conditions(job: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found = job.get("status", {}).get("conditions") or []
    return {str(one["type"]): one for one in found if one.get("status") == "True"}


def _meta(thing: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = thing.get("metadata", {})
    return found


def _owner(pod: Mapping[str, Any]) -> str | None:
    owners = _meta(pod).get("ownerReferences") or []
    return next((one.get("name") for one in owners if one.get("kind") == "Job"), None)
