"""The Job of one launch, as Kubernetes takes it, and what Kubernetes says of one."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from runners.executors import Submitted
from runners.executors.settings import KubernetesSettings
from runners.surroundings.machine import EXECUTOR

# --- The Job of one launch, as Kubernetes takes it: one object, nothing beside it.
#
# The study travels in an annotation of the pod and is a file there (downward API); results lie on a
# claim. The pod keeps the restricted standard of pod security.


APP, INSTANCE, LAUNCH = "app.kubernetes.io/name", "app.kubernetes.io/instance", "draftboard/launch"
NAME = "draftboard-launch"
CONTAINER = "launch"
_STUDY = "draftboard/study"
#: All annotations of an object together may have 256 KiB.
MOST_STUDY_BYTES = 200 * 1024
_USER = 10001  # of the image, see the Dockerfile
_FOLDER = "/study"
#: A launch that is asked to end stops its server first.
_GRACE_S = 120
_LONGEST = 63


def instance(study: str, settings: KubernetesSettings) -> str:
    """Return the label that all Jobs of a study in one results folder share."""
    results = json.dumps([study, settings.claim, settings.results])
    return f"{_slug(study)[:40].strip('-')}-{_hash(results)}"


def manifest(
    study: str,
    launch_id: str,
    text: str,
    gpus: int,
    arguments: Sequence[str],
    settings: KubernetesSettings,
) -> dict[str, Any]:
    """Return the Job of a study's launch. ``text``: the study file; empty where the pod finds it on
    one of its volumes. Its name follows from all that it is: another study or image is another
    Job."""
    labels = {APP: NAME, INSTANCE: instance(study, settings), LAUNCH: label(launch_id)}
    spec = {
        # A launch that failed says why and is not repeated; one whose node was lost or that was
        # evicted is replaced and goes on with the cells that are missing.
        "backoffLimit": settings.restarts,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "FailJob", "onExitCodes": {
                    "containerName": CONTAINER, "operator": "In", "values": [1, 2]}},
            ]
        },
        "ttlSecondsAfterFinished": settings.keep_s,
        **({"activeDeadlineSeconds": settings.time_s} if settings.time_s else {}),
        "template": {
            "metadata": {
                "labels": labels,
                **({"annotations": {_STUDY: text}} if text else {}),
            },
            "spec": _pod(launch_id, text, gpus, arguments, settings),
        },
    }  # fmt: skip
    # A Job's name ends in its pods' names and labels, so it is a DNS label.
    ending = f"-{_hash(json.dumps(spec, sort_keys=True))}"
    begin = _slug(f"{study}-{launch_id}")[: _LONGEST - len(ending)]
    name = f"{begin.strip('-')}{ending}"
    metadata = {"name": name, "labels": labels, "annotations": {LAUNCH: launch_id}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _pod(
    launch_id: str, text: str, gpus: int, arguments: Sequence[str], settings: KubernetesSettings
) -> dict[str, Any]:
    claims = {settings.claim: settings.results, **settings.mounts}
    # Each volume with the path at which the pod sees it.
    volumes: list[tuple[dict[str, object], str]] = [
        ({"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": name}}, path)
        for number, (name, path) in enumerate(claims.items())
    ]
    if text:
        field = {"fieldRef": {"fieldPath": f"metadata.annotations['{_STUDY}']"}}
        sent = {"downwardAPI": {"items": [{"path": "study.yaml", **field}]}}
        volumes.append(({"name": "study", **sent}, _FOLDER))
    shared = {"medium": "Memory", "sizeLimit": settings.shared_memory}
    volumes += [
        ({"name": "tmp", "emptyDir": {}}, "/tmp"),
        ({"name": "shared-memory", "emptyDir": shared}, "/dev/shm"),
    ]
    study = settings.study or f"{_FOLDER}/study.yaml"
    requests = {"cpu": settings.cpus, "memory": settings.memory}
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": _GRACE_S,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{
            "name": CONTAINER,
            "image": settings.image,
            "command": [
                "draftboard", "run", study, "--results", settings.results,
                "--launch", launch_id, *arguments,
            ],
            "env": [
                {"name": name, "value": value}
                for name, value in {EXECUTOR: "kubernetes", **settings.environment}.items()
            ],
            "envFrom": [{"secretRef": {"name": name}} for name in settings.secrets],
            "resources": {
                "requests": {name: str(n) for name, n in requests.items() if n is not None},
                "limits": {settings.gpu_resource: str(gpus)} if gpus else {},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": volume["name"], "mountPath": path} for volume, path in volumes
            ],
        }],
        "volumes": [volume for volume, _ in volumes],
        **settings.pod,
    }  # fmt: skip


def label(text: str) -> str:
    """Return a text as the value of a label: unchanged where it can be."""
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", text):
        return text
    return f"{_slug(text)[:50].strip('-')}-{_hash(text)}"


def _slug(text: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return slug if slug[:1].isalpha() else f"s-{slug}".rstrip("-")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# --- What the cluster's objects say of launches.


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


def submitted_in(objects: Sequence[Mapping[str, Any]]) -> dict[str, Submitted]:
    """Return launch -> what these Jobs and pods say of it: of several Jobs the one at work, else the
    newest."""
    jobs = [thing for thing in objects if thing.get("kind") == "Job"]
    by_launch: dict[str, Submitted] = {}
    for job in sorted(jobs, key=_made):
        meta = job.get("metadata", {})
        launch = meta.get("annotations", {}).get(LAUNCH)
        # One that is being deleted ends; what it measured lies in the results.
        ends = launch is None or meta.get("deletionTimestamp")
        if not ends and (launch not in by_launch or by_launch[launch].over):
            pods = [pod for pod in objects if _owner(pod) == meta.get("name")]
            by_launch[launch] = _state_of(job, pods)
    return by_launch


def _state_of(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> Submitted:
    name, stated = str(job["metadata"]["name"]), job.get("status", {}).get("conditions") or []
    conditions = {str(each["type"]): each for each in stated if each.get("status") == "True"}
    if "Complete" in conditions:
        return Submitted(name, "done", over=True)
    if "Failed" in conditions:
        return Submitted(name, "failed", _why_failed(name, conditions["Failed"], pods), over=True)
    if "Suspended" in conditions:
        return Submitted(name, "waiting", "suspended: a queue or somebody holds it")
    newest = max(pods, key=_made, default=None)
    if newest is None:
        return Submitted(name, "waiting", "its pod is not made yet")
    if newest.get("status", {}).get("phase") == "Running":
        return Submitted(name, "running", str(newest.get("spec", {}).get("nodeName")))
    reason, message = _why_waiting(newest)
    return Submitted(name, "waiting", f"{reason}: {message}".rstrip(": "), never=reason in _NEVER)


def _why_failed(name: str, condition: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
    killed = [str(pod.get("status", {}).get("reason", "")) for pod in pods]
    killed += [
        str(container.get("state", {}).get("terminated", {}).get("reason", ""))
        for pod in pods
        for container in pod.get("status", {}).get("containerStatuses", [])
    ]
    reason = next((word for word in killed if word in _KILLED), None)
    if reason is not None:
        return _KILLED[reason].format(job=name)
    message = str(condition.get("message", "")).rstrip(".") or "no reason given"
    usual = f"its Job {name} failed ({message})"
    return _REASONS.get(str(condition.get("reason")), usual).replace("{job}", name)


def _why_waiting(pod: Mapping[str, Any]) -> tuple[str, str]:
    status = pod.get("status", {})
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return str(waiting.get("reason", "")), str(waiting.get("message", ""))[:200]
    for condition in status.get("conditions", []):
        if condition.get("status") == "False" and condition.get("message"):
            return str(condition.get("reason", "")), str(condition["message"])[:200]
    return str(status.get("phase", "Pending")), ""


def _made(thing: Mapping[str, Any]) -> str:
    return str(thing.get("metadata", {}).get("creationTimestamp", ""))


def _owner(pod: Mapping[str, Any]) -> str | None:
    owners = pod.get("metadata", {}).get("ownerReferences") or []
    return next((each.get("name") for each in owners if each.get("kind") == "Job"), None)
