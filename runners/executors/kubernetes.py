"""Launches as Jobs of a Kubernetes cluster: one Job for each server launch.

A pod that is lost is replaced by Kubernetes and goes on with the cells that are missing, which it
sees on the claim where results lie. This machine need not see them: then a Job's own word counts.
kubectl knows the cluster, the login and the proxy; nothing of these is known here.
"""

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from runners.executors import (
    CALL_S,
    ExecutorJob,
    ExecutorOutcome,
    Queue,
    Scheduler,
    Silent,
    Submitted,
    Update,
    call,
    good_cells,
    last_printed,
    run_launches,
)
from runners.executors.settings import KubernetesSettings
from runners.measuring.resume import Now, look
from runners.planning.plan import Launch, Plan, gpus_needed
from runners.surroundings.layout import Layout
from runners.surroundings.machine import EXECUTOR
from warehouse.errors import RunnerError
from warehouse.secrets.shapes import is_secret_name

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


# --- Launches as Jobs: one for each server launch.


_LOG_LINES = 2000
_INSTALL = "install it and let it know the cluster (`kubectl get jobs` must answer)"
_WORD = re.compile(r'^(error: |Error from server (\(\w+\))?:? ?)+(error when creating "STDIN": )?')


@dataclass(frozen=True)
class Kubernetes:
    """The executor for Kubernetes. ``wait=False`` submits and returns."""

    settings: KubernetesSettings = KubernetesSettings()
    wait: bool = True

    def run(self, plan: Plan, job: ExecutorJob) -> ExecutorOutcome:
        """Submit what does not run yet and wait for it.

        Jobs of an earlier command are waited for, not submitted again. Ctrl-C ends the waiting
        only: the Jobs go on. RunnerError with Kubernetes' words if it refuses one; then none of
        those that were submitted here is left.
        """
        if self.settings.image is None:
            raise RunnerError(
                "Kubernetes needs an image with draftboard, vLLM and GuideLLM: --image, or "
                "kubernetes: image in the cluster options (docs/deploy.md builds one)."
            )
        text = ""
        if not self.settings.study:
            hidden = sorted(name for name in plan.study.environment if is_secret_name(name))
            if hidden:
                raise RunnerError(
                    f"The study sets {', '.join(hidden)}, which everybody could read in a Job; keep "
                    "it in a Secret and name that under kubernetes: secrets in the cluster options."
                )
            text = job.study.read_text(encoding="utf-8")
            if len(text.encode()) > MOST_STUDY_BYTES:
                raise RunnerError(
                    f"{job.study} is too large to be sent along with a Job; put it on a claim and "
                    "say where (kubernetes: study)."
                )
        layout = Layout(job.results.absolute(), plan.study.name)
        scheduler = _KubernetesScheduler(layout, plan, job, self.settings, text)
        outcome = run_launches(scheduler, job, self.settings.poll_s, self.wait, called="Job")
        cells = [good_cells(plan, job, launch_id) for launch_id in outcome.done]
        if all(good == total for good, total in cells):
            return outcome
        return replace(
            outcome, results_at=f"the claim {self.settings.claim}, below {self.settings.results}"
        )


@dataclass(frozen=True)
class KubernetesQueue(Queue):
    """The Jobs of a study, which share a label; Kubernetes keeps their logs as long as their
    pods."""

    scheduler, shown_by = "kubernetes", "kubectl get jobs"
    fields: ClassVar[Mapping[str, tuple[type, ...]]] = {
        "context": (str, type(None)), "namespace": (str, type(None)), "instance": (str,),
    }  # fmt: skip

    @property
    def kubectl(self) -> "Kubectl":
        """What asks for the Jobs. RunnerError where nothing was submitted."""
        written = self.read()
        if written is None:
            raise RunnerError(
                f"Nothing of {self.layout.study} was submitted from {self.layout.results}."
            )
        return Kubectl(**written)

    def submitted(self) -> Mapping[str, Submitted]:
        """Return the Jobs that Kubernetes still knows, by launch."""
        try:
            return seen(self.kubectl.objects())
        except Silent as error:
            raise RunnerError(f"{error}; check `kubectl get jobs`.") from None

    def cancel(self, jobs: Sequence[str]) -> None:
        """Delete Jobs with their pods."""
        self.kubectl.delete(jobs)

    def log(self, launch_id: str, lines: int) -> list[str] | None:
        """Return what the pod printed last, else what was kept of it."""
        job = self.submitted().get(launch_id)
        printed = [] if job is None else self.kubectl.log(job.job, lines)
        return printed or super().log(launch_id, lines)

    def follow(self, launch_id: str) -> Iterator[str]:
        """Return an iterator over what the pod prints, until it ends. RunnerError where there is
        none."""
        job = self.submitted().get(launch_id)
        if job is None:
            raise RunnerError(f"There is no Job of {launch_id}, so nothing can be followed.")
        return self.kubectl.followed(job.job)


@dataclass(frozen=True)
class _KubernetesScheduler(KubernetesQueue, Scheduler):
    plan: Plan
    job: ExecutorJob
    settings: KubernetesSettings
    text: str
    #: Jobs that ended and are in the way of one of the same name.
    over: set[str] = field(default_factory=set)
    outlives: ClassVar[bool] = True

    @property
    def kubectl(self) -> "Kubectl":
        label = instance(self.plan.study.name, self.settings)
        return Kubectl(self.settings.context, self.settings.namespace, label)

    def standing(self) -> Mapping[str, str]:
        try:
            jobs = seen(self.kubectl.objects())
        except Silent as error:
            raise RunnerError(f"{error}; check `kubectl get jobs`, then run it again.") from None
        # Where this machine sees results they are asked, and not the Jobs.
        blind = not look(self.plan, self.layout, None, Now(self.job.software)).good
        standing = {}
        for launch in self.job.launches:
            if (job := jobs.get(launch.launch_id)) is None:
                continue
            same = job.job == self._manifest(launch)["metadata"]["name"]
            if not job.over or (same and job.state == "done" and blind):
                standing[launch.launch_id] = job.job
            elif same:
                self.over.add(job.job)
        return standing

    def submit(self, launch: Launch) -> str:
        made = self._manifest(launch)
        name = str(made["metadata"]["name"])
        if name in self.over:
            self.kubectl.delete([name], wait=True)
        self.kubectl.create(made)
        return name

    def _manifest(self, launch: Launch) -> dict[str, Any]:
        study, gpus = self.plan.study.name, gpus_needed(self.plan.study, launch)
        return manifest(study, launch.launch_id, self.text, gpus, self.job.arguments, self.settings)

    def note(self, jobs: Mapping[str, str]) -> None:
        self.write(asdict(self.kubectl))

    def states(self, jobs: Mapping[str, str]) -> Iterator[Update]:
        kubectl = self.kubectl
        there = seen(kubectl.objects())
        for launch_id, name in jobs.items():
            job = there.get(launch_id)
            if job is None or job.job != name:
                yield Update(launch_id, "failed", f"its Job {name} is gone: somebody deleted it")
            elif job.over:
                lines = kubectl.log(name, _LOG_LINES)
                if lines:  # The pod may be gone tomorrow.
                    self.layout.log(launch_id, self.scheduler).write_text(
                        "\n".join(lines) + "\n", encoding="utf-8"
                    )
                if job.state == "done":
                    yield Update(launch_id, "done", f"Job {name}")
                else:
                    why = f"{job.where}; its last line: {last_printed(lines)}"
                    yield Update(launch_id, "failed", why)
            elif job.never:
                kubectl.delete([name])
                why = f"it can never start ({job.where}), so its Job was deleted"
                yield Update(launch_id, "failed", why)
            elif job.state == "waiting":
                yield Update(launch_id, "waiting", f"Job {name}: {job.where}")
            else:
                last = next(iter(kubectl.log(name, 1)), "")
                yield Update(launch_id, "running", f"on {job.where}: {last[:120]}".rstrip(": "))


# --- kubectl: what is asked of it, and how its answers read.


@dataclass(frozen=True)
class Kubectl:
    """kubectl for one context and namespace, None for its own, and the label that a study's Jobs share."""

    context: str | None
    namespace: str | None
    instance: str

    def create(self, manifest: Mapping[str, Any]) -> None:
        """Make one Job. RunnerError with Kubernetes' own words where it is refused."""
        done = self._insist("create", "-f", "-", given=json.dumps(manifest))
        if done.returncode != 0:
            raise RunnerError(
                f"Kubernetes refused the Job {manifest['metadata']['name']}: {_words(done.stderr)}. "
                "Change what is asked for (the cluster options, --namespace, --image) and run it "
                "again."
            )

    def objects(self) -> list[Mapping[str, Any]]:
        """Return the Jobs and pods of a study. Raises Silent."""
        chosen = f"{APP}={NAME},{INSTANCE}={self.instance}"
        done = call(self._argv("get", "jobs,pods", "-l", chosen, "-o", "json"), _INSTALL)
        if done.returncode != 0:
            raise Silent(f"kubectl got no answer: {_words(done.stderr)}")
        try:
            return list(json.loads(done.stdout)["items"])
        except (ValueError, KeyError, TypeError):
            raise Silent("kubectl gave an answer that is no list of objects") from None

    def delete(self, names: Sequence[str], wait: bool = False) -> None:
        """End Jobs and their pods; those that are gone already are left. Raises RunnerError."""
        if not names:
            return
        waiting = ["--wait=true", f"--timeout={CALL_S:g}s"] if wait else ["--wait=false"]
        done = self._insist(
            "delete", "jobs", *names, "--ignore-not-found", "--cascade=foreground", *waiting
        )
        if done.returncode != 0:
            raise RunnerError(
                f"Kubernetes did not delete {', '.join(names)}: {_words(done.stderr)}; look at "
                "`kubectl get jobs`."
            )

    def log(self, job: str, lines: int) -> list[str]:
        """Return what a Job's newest pod printed last; nothing where it cannot be had."""
        try:
            done = call(self._argv("logs", f"job/{job}", f"--tail={lines}"), _INSTALL)
        except Silent:
            return []
        return done.stdout.splitlines() if done.returncode == 0 else []

    def followed(self, job: str) -> Iterator[str]:
        """Yield what a Job's pod prints from now on, until it ends."""
        argv = self._argv("logs", f"job/{job}", "--follow", "--tail=0")
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            yield from process.stdout

    def _argv(self, *words: str) -> list[str]:
        where = {"--context": self.context, "--namespace": self.namespace}
        return ["kubectl", *(f"{k}={v}" for k, v in where.items() if v is not None), *words]

    def _insist(self, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        """Return how kubectl ended. RunnerError where it does not answer: this is not asked again."""
        try:
            return call(self._argv(*words), _INSTALL, given)
        except Silent as error:
            raise RunnerError(f"{error}; check `kubectl get jobs`, then run it again.") from None


def _words(text: str) -> str:
    lines = [_WORD.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    return "; ".join(lines)[:600].rstrip(".") or "no reason given"


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


def seen(objects: Sequence[Mapping[str, Any]]) -> dict[str, Submitted]:
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
