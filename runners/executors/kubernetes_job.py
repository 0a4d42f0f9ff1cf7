"""The Job of one launch, as Kubernetes takes it: one object, nothing beside it.

The study travels in an annotation of the pod and is a file there (downward API); results lie on a
claim. The pod keeps the restricted standard of pod security.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runners.executors.settings import KubernetesSettings
from runners.surroundings.machine import EXECUTOR

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


@dataclass(frozen=True)
class PodRequest:
    """One launch of a study: what it is called, its study and what it takes."""

    study: str
    launch_id: str
    #: The study file; empty where the pod finds it on one of its volumes.
    text: str
    gpus: int
    arguments: Sequence[str] = ()


def instance(study: str, settings: KubernetesSettings) -> str:
    """Return the label that all Jobs of a study in one results folder share."""
    place = json.dumps([study, settings.claim, settings.results])
    return f"{_slug(study)[:40].strip('-')}-{_hash(place)}"


def manifest(request: PodRequest, settings: KubernetesSettings) -> dict[str, Any]:
    """Return the Job. Its name follows from all that it is: another study or image is another
    Job."""
    labels = {
        APP: NAME,
        INSTANCE: instance(request.study, settings),
        LAUNCH: label(request.launch_id),
    }
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
                **({"annotations": {_STUDY: request.text}} if request.text else {}),
            },
            "spec": _pod(request, settings),
        },
    }  # fmt: skip
    # A Job's name ends in its pods' names and labels, so it is a DNS label.
    ending = f"-{_hash(json.dumps(spec, sort_keys=True))}"
    begin = _slug(f"{request.study}-{request.launch_id}")[: _LONGEST - len(ending)]
    name = f"{begin.strip('-')}{ending}"
    metadata = {"name": name, "labels": labels, "annotations": {LAUNCH: request.launch_id}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _pod(request: PodRequest, settings: KubernetesSettings) -> dict[str, Any]:
    volumes, mounts = _volumes(request, settings)
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
                "--launch", request.launch_id, *request.arguments,
            ],
            "env": [
                {"name": name, "value": value}
                for name, value in {EXECUTOR: "kubernetes", **settings.environment}.items()
            ],
            "envFrom": [{"secretRef": {"name": name}} for name in settings.secrets],
            "resources": {
                "requests": {name: str(n) for name, n in requests.items() if n is not None},
                "limits": {settings.gpu_resource: str(request.gpus)} if request.gpus else {},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
        **settings.pod,
    }  # fmt: skip


def _volumes(
    request: PodRequest, settings: KubernetesSettings
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    claims = {settings.claim: settings.results, **settings.mounts}
    volumes: list[dict[str, Any]] = [
        {"name": f"claim-{at}", "persistentVolumeClaim": {"claimName": name}}
        for at, name in enumerate(claims)
    ]
    paths = list(claims.values())
    if request.text:
        field = {"fieldRef": {"fieldPath": f"metadata.annotations['{_STUDY}']"}}
        volumes.append(
            {"name": "study", "downwardAPI": {"items": [{"path": "study.yaml", **field}]}}
        )
        paths.append(_FOLDER)
    volumes.append({"name": "tmp", "emptyDir": {}})
    shared = {"medium": "Memory", "sizeLimit": settings.shared_memory}
    volumes.append({"name": "shared-memory", "emptyDir": shared})
    paths += ["/tmp", "/dev/shm"]
    mounts = [
        {"name": volume["name"], "mountPath": path}
        for volume, path in zip(volumes, paths, strict=True)
    ]
    return volumes, mounts


def label(text: str) -> str:
    """Return a text as the value of a label: unchanged where it can be."""
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", text):
        return text
    return f"{_slug(text)[:50].strip('-')}-{_hash(text)}"


def _slug(text: str) -> str:
    found = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return found if found[:1].isalpha() else f"s-{found}".rstrip("-")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
