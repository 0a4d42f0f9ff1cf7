"""Launches as Jobs of a Kubernetes cluster: one Job for each server launch.

A pod that is lost is replaced by Kubernetes and goes on with the cells that are missing, which it
sees on the claim where results lie. This machine need not see them: then a Job's own word counts.
kubectl knows the cluster, the login and the proxy; nothing of these is known here.
"""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from runners.executors.kubernetes_job import (
    APP,
    INSTANCE,
    MOST_STUDY_BYTES,
    NAME,
    instance,
    manifest,
    submitted_in,
)
from runners.executors.settings import KubernetesSettings
from runners.measuring.resume import Now, look
from runners.planning.plan import Launch, Plan, gpus_needed
from runners.planning.study_file import Study
from runners.surroundings.layout import Layout
from warehouse.errors import RunnerError
from warehouse.secrets.shapes import is_secret_name

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
        _refuse_secrets("The cluster options set", self.settings.environment)
        text = ""
        if not self.settings.study:
            _refuse_secrets("The study sets", _names_of(plan.study))
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


def _names_of(study: Study) -> list[str]:
    engine_args = (study.target.engine_args, *(arm.engine_args for arm in study.arms))
    return [*study.environment, *(name for given in engine_args for name in given)]


def _refuse_secrets(beginning: str, names: Iterable[str]) -> None:
    if hidden := sorted(filter(is_secret_name, names)):
        raise RunnerError(
            f"{beginning} {', '.join(hidden)}, which everybody could read in a Job; keep it in a Secret "
            "and name that under kubernetes: secrets in the cluster options."
        )


@dataclass(frozen=True)
class KubernetesQueue(Queue):
    """The Jobs of a study, which share a label; Kubernetes keeps their logs as long as their
    pods."""

    scheduler, shown_by = "kubernetes", "kubectl get jobs"

    @property
    def kubectl(self) -> "Kubectl":
        """What asks for the Jobs. RunnerError where nothing was submitted."""
        kubectl = self.read(Kubectl)
        if kubectl is None:
            raise RunnerError(
                f"Nothing of {self.layout.study} was submitted from {self.layout.results}."
            )
        return kubectl

    def submitted(self) -> Mapping[str, Submitted]:
        """Return the Jobs that Kubernetes still knows, by launch."""
        return submitted_in(self.kubectl.objects())

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
    in_the_way: set[str] = field(default_factory=set)
    outlives: ClassVar[bool] = True

    @property
    def kubectl(self) -> "Kubectl":
        label = instance(self.plan.study.name, self.settings)
        return Kubectl(self.settings.context, self.settings.namespace, label)

    def standing(self) -> Mapping[str, str]:
        jobs = submitted_in(self.kubectl.objects())
        # Where results of the study show here they say what is done, else a Job's own word counts.
        unseen = not look(self.plan, self.layout, None, Now(self.job.software)).good
        standing = {}
        for launch in self.job.launches:
            if (job := jobs.get(launch.launch_id)) is None:
                continue
            same = job.job == self._manifest(launch)["metadata"]["name"]
            if not job.over or (same and job.state == "done" and unseen):
                standing[launch.launch_id] = job.job
            elif same:
                self.in_the_way.add(job.job)
        return standing

    def submit(self, launch: Launch) -> str:
        made = self._manifest(launch)
        name = str(made["metadata"]["name"])
        if name in self.in_the_way:
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
        by_launch = submitted_in(kubectl.objects())
        for launch_id, name in jobs.items():
            job = by_launch.get(launch_id)
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
        refusal = (
            f"Kubernetes refused the Job {manifest['metadata']['name']}: {{}}. Change what is asked for "
            "(the cluster options, --namespace, --image) and run it again."
        )
        self._insist(refusal, "create", "-f", "-", given=json.dumps(manifest))

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
        waiting = ["--wait=true", f"--timeout={CALL_S:g}s"] if wait else ["--wait=false"]
        words = ("delete", "jobs", *names, "--ignore-not-found", "--cascade=foreground", *waiting)
        refusal = f"Kubernetes did not delete {', '.join(names)}: {{}}; look at `kubectl get jobs`."
        if names:
            self._insist(refusal, *words)

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

    def _insist(self, refusal: str, *words: str, given: str = "") -> None:
        """Have kubectl do this. Raises Silent, and RunnerError where it does not do it: ``refusal``, with
        its own words."""
        if (done := call(self._argv(*words), _INSTALL, given)).returncode != 0:
            raise RunnerError(refusal.format(_words(done.stderr)))


def _words(text: str) -> str:
    lines = [_WORD.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    return "; ".join(lines)[:600].rstrip(".") or "no reason given"
