"""Launches as Jobs of a Kubernetes cluster: one Job for each server launch.

A pod that is lost is replaced by Kubernetes and goes on with the cells that are missing, which it
sees on the claim where results lie. This machine need not see them: then a Job's own word counts.
kubectl knows the cluster, the login and the proxy; nothing of these is known here.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from runners.executors import ExecutorJob, ExecutorOutcome, Update
from runners.executors.kubernetes_job import (
    APP,
    INSTANCE,
    LAUNCH,
    MOST_STUDY_BYTES,
    NAME,
    PodRequest,
    instance,
    manifest,
)
from runners.executors.settings import KubernetesSettings
from runners.executors.waiting import (
    Queue,
    Scheduler,
    Silent,
    Submitted,
    good_cells,
    last_printed,
    run_launches,
)
from runners.measuring.resume import Now, look
from runners.planning.plan import Launch, Plan, gpus_needed
from runners.surroundings.layout import Layout
from warehouse.errors import RunnerError
from warehouse.secrets.shapes import is_secret_name

_LOG_LINES = 2000
_TIMEOUT_S = 120.0
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
        text = "" if self.settings.study else _study_text(plan, job)
        layout = Layout(job.results.absolute(), plan.study.name)
        scheduler = _KubernetesScheduler(layout, plan, job, self.settings, text)
        outcome = run_launches(scheduler, job, self.settings.poll_s, self.wait, called="Job")
        cells = [good_cells(plan, job, launch_id) for launch_id in outcome.done]
        if all(good == total for good, total in cells):
            return outcome
        claim = f"the claim {self.settings.claim}, below {self.settings.results}"
        return replace(outcome, results_at=claim)


def _study_text(plan: Plan, job: ExecutorJob) -> str:
    """Return the study file as the pods get it. RunnerError where it cannot be sent along."""
    hidden = sorted(name for name in plan.study.environment if is_secret_name(name))
    if hidden:
        raise RunnerError(
            f"The study sets {', '.join(hidden)}, which everybody could read in a Job; keep it in a "
            "Secret and name that under kubernetes: secrets in the cluster options."
        )
    text = job.study.read_text(encoding="utf-8")
    if len(text.encode()) > MOST_STUDY_BYTES:
        raise RunnerError(
            f"{job.study} is too large to be sent along with a Job; put it on a claim and say where "
            "(kubernetes: study)."
        )
    return text


@dataclass(frozen=True)
class KubernetesQueue(Queue):
    """The Jobs of a study, which share a label; Kubernetes keeps their logs as long as their
    pods."""

    scheduler, shown_by = "kubernetes", "kubectl get jobs"
    fields = ("context", "namespace", "instance")

    def place(self) -> tuple["Kubectl", str]:
        """Return where the Jobs are, and their label. RunnerError where nothing was submitted."""
        written = self.read()
        if written is None:
            raise RunnerError(
                f"Nothing of {self.layout.study} was submitted from {self.layout.results}."
            )
        return Kubectl(written["context"], written["namespace"]), str(written["instance"])

    def submitted(self) -> Mapping[str, Submitted]:
        """Return the Jobs that Kubernetes still knows, by launch."""
        kubectl, label = self.place()
        try:
            found = seen(kubectl.objects(label))
        except Silent as error:
            raise RunnerError(f"{error}; check `kubectl get jobs`.") from None
        return {
            launch_id: Submitted(job.job, job.stage, job.where, job.over)
            for launch_id, job in found.items()
        }

    def cancel(self, jobs: Sequence[str]) -> None:
        """Delete Jobs with their pods."""
        self.place()[0].delete(jobs)

    def log(self, launch_id: str, lines: int) -> list[str] | None:
        """Return what the pod printed last, else what was kept of it."""
        known = self.submitted().get(launch_id)
        found = [] if known is None else self.place()[0].log(known.job, lines)
        return found or super().log(launch_id, lines)

    def follow(self, launch_id: str) -> Iterator[str]:
        """Return an iterator over what the pod prints, until it ends. RunnerError where there is
        none."""
        known = self.submitted().get(launch_id)
        if known is None:
            raise RunnerError(f"There is no Job of {launch_id}, so nothing can be followed.")
        return self.place()[0].followed(known.job)


@dataclass(frozen=True)
class _KubernetesScheduler(KubernetesQueue, Scheduler):
    plan: Plan
    job: ExecutorJob
    settings: KubernetesSettings
    text: str
    #: Jobs that ended and are in the way of one of the same name.
    over: set[str] = field(default_factory=set)
    outlives: ClassVar[bool] = True

    def place(self) -> tuple["Kubectl", str]:
        kubectl = Kubectl(self.settings.context, self.settings.namespace)
        return kubectl, instance(self.plan.study.name, self.settings)

    def standing(self) -> Mapping[str, str]:
        kubectl, label = self.place()
        try:
            known = seen(kubectl.objects(label))
        except Silent as error:
            raise RunnerError(f"{error}; check `kubectl get jobs`, then run it again.") from None
        # Where this machine sees results they are asked, and not the Jobs.
        blind = not look(self.plan, self.layout, None, Now(self.job.software)).good
        standing = {}
        for launch in self.job.launches:
            found = known.get(launch.launch_id)
            if found is None:
                continue
            same = found.job == self._manifest(launch)["metadata"]["name"]
            if not found.over or (same and found.stage == "done" and blind):
                standing[launch.launch_id] = found.job
            elif same:
                self.over.add(found.job)
        return standing

    def submit(self, launch: Launch) -> str:
        kubectl, made = self.place()[0], self._manifest(launch)
        name = str(made["metadata"]["name"])
        if name in self.over:
            kubectl.delete([name], wait=True)
        kubectl.create(made)
        return name

    def _manifest(self, launch: Launch) -> dict[str, Any]:
        gpus = gpus_needed(self.plan.study, launch)
        request = PodRequest(
            self.plan.study.name, launch.launch_id, self.text, gpus, self.job.arguments
        )
        return manifest(request, self.settings)

    def note(self, jobs: Mapping[str, str]) -> None:
        kubectl, label = self.place()
        where = {"context": kubectl.context, "namespace": kubectl.namespace}
        self.write({**where, "instance": label})

    def states(self, jobs: Mapping[str, str]) -> Iterator[Update]:
        kubectl, label = self.place()
        known = seen(kubectl.objects(label))
        for launch_id, name in jobs.items():
            found = known.get(launch_id)
            if found is None or found.job != name:
                yield Update(launch_id, "failed", f"its Job {name} is gone: somebody deleted it")
            elif found.over:
                lines = kubectl.log(name, _LOG_LINES)
                if lines:  # The pod may be gone tomorrow.
                    kept = "\n".join(lines) + "\n"
                    self.log_file(launch_id).write_text(kept, encoding="utf-8")
                why = f"{found.where}; its last line: {last_printed(lines)}"
                detail = f"Job {name}" if found.stage == "done" else why
                yield Update(launch_id, found.stage, detail)
            elif found.never:
                kubectl.delete([name])
                why = f"it can never start ({found.where}), so its Job was deleted"
                yield Update(launch_id, "failed", why)
            elif found.stage == "waiting":
                yield Update(launch_id, "waiting", f"Job {name}: {found.where}")
            else:
                last = next(iter(kubectl.log(name, 1)), "")
                yield Update(launch_id, "running", f"on {found.where}: {last[:120]}".rstrip(": "))


# --- kubectl: what is asked of it, and how its answers read.


@dataclass(frozen=True)
class Kubectl:
    """kubectl for one context and namespace, None for its own."""

    context: str | None = None
    namespace: str | None = None

    def create(self, manifest: Mapping[str, Any]) -> None:
        """Make one Job. RunnerError with Kubernetes' own words where it is refused."""
        done = self._asked("create", "-f", "-", given=json.dumps(manifest))
        if done.returncode != 0:
            raise RunnerError(
                f"Kubernetes refused the Job {manifest['metadata']['name']}: {_words(done.stderr)}. "
                "Change what is asked for (the cluster options, --namespace, --image) and run it "
                "again."
            )

    def objects(self, instance: str) -> list[Mapping[str, Any]]:
        """Return the Jobs and pods of a study. Raises Silent."""
        chosen = f"{APP}={NAME},{INSTANCE}={instance}"
        done = self._call("get", "jobs,pods", "-l", chosen, "-o", "json")
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
        waiting = ["--wait=true", f"--timeout={_TIMEOUT_S:g}s"] if wait else ["--wait=false"]
        done = self._asked(
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
            done = self._call("logs", f"job/{job}", f"--tail={lines}")
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

    def _asked(self, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        try:
            return self._call(*words, given=given)
        except Silent as error:
            raise RunnerError(f"{error}; check `kubectl get jobs`, then run it again.") from None

    def _call(self, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                self._argv(*words), input=given, capture_output=True, text=True,
                timeout=_TIMEOUT_S + 10, check=False,
            )  # fmt: skip
        except FileNotFoundError:
            raise RunnerError(
                "There is no kubectl on this machine; install it and let it know the cluster "
                "(`kubectl get jobs` must answer)."
            ) from None
        except subprocess.TimeoutExpired:
            raise Silent(f"kubectl did not answer within {_TIMEOUT_S:g} s") from None


def _words(text: str) -> str:
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
class SeenJob:
    """One launch as Kubernetes shows it. ``where``: its node, or why it waits or failed."""

    job: str
    stage: Stage
    where: str
    #: Whether it waits for what cannot come.
    never: bool = False

    @property
    def over(self) -> bool:
        """Whether the launch's Job will do nothing more."""
        return self.stage in ("done", "failed")


def seen(objects: Sequence[Mapping[str, Any]]) -> dict[str, SeenJob]:
    """Return launch -> what these Jobs and pods say of it: of several Jobs the one at work, else the
    newest."""
    jobs = [each for each in objects if each.get("kind") == "Job"]
    found: dict[str, SeenJob] = {}
    for job in sorted(jobs, key=_made):
        meta = job.get("metadata", {})
        launch = meta.get("annotations", {}).get(LAUNCH)
        if launch is None or meta.get("deletionTimestamp"):
            continue  # It ends; what it measured lies in the results.
        if launch not in found or found[launch].over:
            found[launch] = _seen(job, [pod for pod in objects if _owner(pod) == meta.get("name")])
    return found


def _seen(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> SeenJob:
    name, stated = str(job["metadata"]["name"]), job.get("status", {}).get("conditions") or []
    conditions = {str(each["type"]): each for each in stated if each.get("status") == "True"}
    if "Complete" in conditions:
        return SeenJob(name, "done", "")
    if "Failed" in conditions:
        return SeenJob(name, "failed", _why(name, conditions["Failed"], pods))
    if "Suspended" in conditions:
        return SeenJob(name, "waiting", "suspended: a queue or somebody holds it")
    newest = max(pods, key=_made, default=None)
    if newest is None:
        return SeenJob(name, "waiting", "its pod is not made yet")
    if newest.get("status", {}).get("phase") == "Running":
        return SeenJob(name, "running", str(newest.get("spec", {}).get("nodeName")))
    reason, message = _waits(newest)
    return SeenJob(name, "waiting", f"{reason}: {message}".rstrip(": "), reason in _NEVER)


def _why(name: str, condition: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
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


def _waits(pod: Mapping[str, Any]) -> tuple[str, str]:
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
