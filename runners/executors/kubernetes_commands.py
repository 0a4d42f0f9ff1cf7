"""kubectl: what is asked of it, and how its answers read.

It knows the cluster, the login and the proxy; nothing of these is known here.
"""

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runners.executors import Silent
from runners.executors.placement import EXECUTOR
from runners.executors.settings import KubernetesSettings
from warehouse.errors import RunnerError

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


@dataclass(frozen=True)
class Wanted:
    """One launch of a study: what it is called, its study and what it takes."""

    study: str
    launch_id: str
    text: str
    """The study file; empty where the pod finds it on one of its volumes."""
    gpus: int
    arguments: Sequence[str] = ()


def instance(study: str, settings: KubernetesSettings) -> str:
    """Return the label that all Jobs of a study in one results folder share."""
    told = json.dumps([study, settings.claim, settings.results])
    return f"{_slug(study)[:40].strip('-')}-{_hash(told)}"


def manifest(wanted: Wanted, settings: KubernetesSettings) -> dict[str, Any]:
    """Return the Job. Its name follows from all that it is: another study or image is another
    Job."""
    labels = {
        APP: NAME,
        INSTANCE: instance(wanted.study, settings),
        LAUNCH: label(wanted.launch_id),
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
                **({"annotations": {_STUDY: wanted.text}} if wanted.text else {}),
            },
            "spec": _pod(wanted, settings),
        },
    }  # fmt: skip
    name = _name(wanted, json.dumps(spec, sort_keys=True))
    metadata = {"name": name, "labels": labels, "annotations": {LAUNCH: wanted.launch_id}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def command(wanted: Wanted, settings: KubernetesSettings) -> list[str]:
    """Return what the pod runs."""
    study = settings.study or f"{_FOLDER}/study.yaml"
    return [
        "draftboard", "run", study, "--results", settings.results, "--launch", wanted.launch_id,
        *wanted.arguments,
    ]  # fmt: skip


def _pod(wanted: Wanted, settings: KubernetesSettings) -> dict[str, Any]:
    volumes, mounts = _volumes(wanted, settings)
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
            "command": command(wanted, settings),
            "env": [
                {"name": name, "value": value}
                for name, value in {EXECUTOR: "kubernetes", **settings.environment}.items()
            ],
            "envFrom": [{"secretRef": {"name": name}} for name in settings.secrets],
            "resources": _resources(wanted, settings),
            "securityContext": {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
        **settings.pod,
    }  # fmt: skip


def _resources(wanted: Wanted, settings: KubernetesSettings) -> dict[str, Any]:
    asked = {"cpu": settings.cpus, "memory": settings.memory}
    requests = {name: str(value) for name, value in asked.items() if value is not None}
    limits = {settings.gpu_resource: str(wanted.gpus)} if wanted.gpus else {}
    return {"requests": requests, "limits": limits}


def _volumes(
    wanted: Wanted, settings: KubernetesSettings
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return volumes and where they are mounted: claims, the study, and what vLLM writes
    besides."""
    claims = {settings.claim: settings.results, **settings.mounts}
    volumes: list[dict[str, Any]] = [
        {"name": f"claim-{at}", "persistentVolumeClaim": {"claimName": name}}
        for at, name in enumerate(claims)
    ]
    paths = list(claims.values())
    if wanted.text:
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


def _name(wanted: Wanted, spec: str) -> str:
    # A Job's name ends in its pods' names and labels, so it is a DNS label.
    ending = f"-{_hash(spec)}"
    begin = _slug(f"{wanted.study}-{wanted.launch_id}")[: _LONGEST - len(ending)]
    return f"{begin.strip('-')}{ending}"


def _slug(text: str) -> str:
    found = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return found if found[:1].isalpha() else f"s-{found}".rstrip("-")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


# --- kubectl: what is asked of it, and how its answers read.


_TIMEOUT_S = 120.0
_WORD = re.compile(r'^(error: |Error from server (\(\w+\))?:? ?)+(error when creating "STDIN": )?')


@dataclass(frozen=True)
class Place:
    """Where Jobs are: context and namespace of kubectl, None for its own."""

    context: str | None = None
    namespace: str | None = None

    def words(self) -> list[str]:
        """Return kubectl's arguments for the place."""
        given = {"--context": self.context, "--namespace": self.namespace}
        return [f"{option}={value}" for option, value in given.items() if value is not None]

    def argv(self, *words: str) -> list[str]:
        """Return a command line of kubectl for the place."""
        return ["kubectl", *self.words(), *words]


@dataclass(frozen=True)
class Objects:
    """The Jobs and pods of one study, as Kubernetes has them."""

    jobs: Sequence[Mapping[str, Any]]
    pods: Sequence[Mapping[str, Any]]


def create(place: Place, manifest: Mapping[str, Any]) -> None:
    """Make one Job. RunnerError with Kubernetes' own words where it is refused."""
    name = manifest["metadata"]["name"]
    said = _asked(place, "create", "-f", "-", given=json.dumps(manifest))
    if said.returncode != 0:
        raise RunnerError(
            f"Kubernetes refused the Job {name}: {_words(said.stderr)}. Change what is asked for "
            "(the cluster options, --namespace, --image) and run it again."
        )


def objects(place: Place, instance: str) -> Objects:
    """Return everything of a study's Jobs. Raises Silent."""
    chosen = f"{APP}={NAME},{INSTANCE}={instance}"
    said = _call(place.argv("get", "jobs,pods", "-l", chosen, "-o", "json"))
    if said.returncode != 0:
        raise Silent(f"kubectl got no answer: {_words(said.stderr)}")
    try:
        items = json.loads(said.stdout)["items"]
    except (ValueError, KeyError, TypeError):
        raise Silent("kubectl gave an answer that is no list of objects") from None
    of = {kind: [one for one in items if one.get("kind") == kind] for kind in ("Job", "Pod")}
    return Objects(of["Job"], of["Pod"])


def delete(place: Place, names: Sequence[str], wait: bool = False) -> None:
    """End Jobs and their pods; those that are gone already are left. Raises RunnerError."""
    if not names:
        return
    waiting = ["--wait=true", f"--timeout={_TIMEOUT_S:g}s"] if wait else ["--wait=false"]
    said = _asked(
        place, "delete", "jobs", *names, "--ignore-not-found", "--cascade=foreground", *waiting
    )
    if said.returncode != 0:
        raise RunnerError(
            f"Kubernetes did not delete {', '.join(names)}: {_words(said.stderr)}; look at "
            "`kubectl get jobs`."
        )


def log(place: Place, job: str, lines: int) -> list[str]:
    """Return what a Job's newest pod printed last; nothing where it cannot be had."""
    try:
        said = _call(place.argv("logs", f"job/{job}", f"--tail={lines}"))
    except Silent:
        return []
    return said.stdout.splitlines() if said.returncode == 0 else []


def followed(place: Place, job: str) -> Iterator[str]:
    """Yield what a Job's pod prints from now on, until it ends."""
    argv = place.argv("logs", f"job/{job}", "--follow", "--tail=0")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from process.stdout


def _asked(place: Place, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    try:
        return _call(place.argv(*words), given)
    except Silent as error:
        raise RunnerError(f"{error}; check `kubectl get jobs`, then run it again.") from None


def _call(argv: list[str], given: str = "") -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            argv, input=given, capture_output=True, text=True, timeout=_TIMEOUT_S + 10, check=False
        )
    except FileNotFoundError:
        raise RunnerError(
            "There is no kubectl on this machine; install it and let it know the cluster "
            "(`kubectl get jobs` must answer)."
        ) from None
    except subprocess.TimeoutExpired:
        raise Silent(f"kubectl did not answer within {_TIMEOUT_S:g} s") from None


def _words(text: str) -> str:
    """Return kubectl's message in one line, without its own beginning and the full stop."""
    lines = [_WORD.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    return "; ".join(lines)[:600].rstrip(".") or "no reason given"


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
