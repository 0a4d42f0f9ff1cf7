"""Launches as Jobs of a Kubernetes cluster: one Job for each server launch.

A pod that is lost is replaced by Kubernetes and goes on with the cells that are missing, which it
sees on the claim where results lie. This machine need not see them: then a Job's own word counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from runners.executors import Job, Outcome, Silent, gpus_needed
from runners.executors.kubernetes_commands import (
    MOST_STUDY_BYTES,
    Place,
    Seen,
    Wanted,
    create,
    delete,
    instance,
    log,
    manifest,
    objects,
    seen,
)
from runners.executors.settings import KubernetesSettings
from runners.executors.waiting import KubernetesBook, Waiting
from runners.measuring.resume import Now, look
from runners.planning.plan import Plan
from runners.surroundings.layout import Layout
from warehouse.errors import RunnerError
from warehouse.secrets.shapes import is_secret_name

_LOG_LINES = 2000


@dataclass(frozen=True)
class Kubernetes:
    """The executor for Kubernetes. ``wait=False`` submits and returns."""

    settings: KubernetesSettings = KubernetesSettings()
    wait: bool = True

    def run(self, plan: Plan, job: Job) -> Outcome:
        """Submit what does not run yet and wait for it.

        Jobs of an earlier command are waited for, not submitted again. Ctrl-C ends the waiting
        only: the Jobs go on. RunnerError with Kubernetes' words if it refuses one; then none of
        those that were submitted here is left.
        """
        wanted = self._wanted(plan, job)
        place = Place(self.settings.context, self.settings.namespace)
        book = KubernetesBook(Layout(job.results.absolute(), plan.study.name))
        with book.locked():
            book.write(place, instance(plan.study.name, self.settings))
            jobs = self._submit(plan, job, place, wanted)
        watch = _Watch(plan, job, book, jobs, settings=self.settings)
        return watch.through(self.wait, self.settings.poll_s)

    def _wanted(self, plan: Plan, job: Job) -> dict[str, Wanted]:
        """Return what each launch asks for. RunnerError where a pod could not do it."""
        if self.settings.image is None:
            raise RunnerError(
                "Kubernetes needs an image with draftboard, vLLM and GuideLLM: --image, or "
                "kubernetes: image in the cluster options (docs/deploy.md builds one)."
            )
        text = "" if self.settings.study else _study_text(plan, job)
        return {
            launch.launch_id: Wanted(
                plan.study.name, launch.launch_id, text, gpus_needed(plan.study, launch),
                job.arguments,
            )
            for launch in job.launches
        }  # fmt: skip

    def _submit(
        self, plan: Plan, job: Job, place: Place, wanted: dict[str, Wanted]
    ) -> dict[str, str]:
        """Submit what does not run yet; return the names of the Jobs by launch, for all launches of
        the job."""
        known = _known(place, instance(plan.study.name, self.settings))
        trusted = not _any_here(plan, job)
        names: dict[str, str] = {}
        new: list[str] = []
        try:
            for launch_id, one in wanted.items():
                made = manifest(one, self.settings)
                name = str(made["metadata"]["name"])
                found = known.get(launch_id)
                if found is not None and (not found.over or _stands(found, name, trusted)):
                    names[launch_id] = found.job
                    continue
                if found is not None and found.job == name:
                    delete(place, [name], wait=True)
                create(place, made)
                names[launch_id] = name
                new.append(name)
        except BaseException:
            delete(place, new)
            raise
        return names


def _stands(found: Seen, name: str, trusted: bool) -> bool:
    """Return whether a Job that is over need not run again: it is the same Job, it is done, and
    this machine cannot see results."""
    return found.job == name and found.stage == "done" and trusted


def _study_text(plan: Plan, job: Job) -> str:
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


def _any_here(plan: Plan, job: Job) -> bool:
    """Return whether this machine sees results of the study: then they are asked, and not the
    Jobs."""
    layout = Layout(job.results.absolute(), plan.study.name)
    return bool(look(plan, layout, None, Now(job.software)).good)


def _known(place: Place, of_study: str) -> dict[str, Seen]:
    try:
        return seen(objects(place, of_study))
    except Silent as error:
        raise RunnerError(f"{error}; check `kubectl get jobs`, then run it again.") from None


@dataclass
class _Watch(Waiting):
    settings: KubernetesSettings = KubernetesSettings()

    @property
    def place(self) -> Place:
        return Place(self.settings.context, self.settings.namespace)

    def ask(self) -> Mapping[str, Seen]:
        return seen(objects(self.place, instance(self.plan.study.name, self.settings)))

    def word(self, launch_id: str) -> str:
        return f"Job {self.jobs[launch_id]}"

    def outcome(self) -> Outcome:
        unseen = any(good < total for good, total in map(self.cells, self.done))
        where = f"the claim {self.settings.claim}, below {self.settings.results}" if unseen else ""
        return replace(super().outcome(), results_at=where)

    def look_at(self, launch_id: str, found: Seen | None) -> None:
        name = self.jobs[launch_id]
        if found is None or found.job != name:
            self.fail(launch_id, f"its Job {name} is gone: somebody deleted it")
        elif found.stage == "done":
            self._keep_log(launch_id)
            self.done.append(launch_id)
            self.say([launch_id], "done", f"Job {name}")
        elif found.stage == "failed":
            last = self._keep_log(launch_id)
            self.fail(launch_id, f"{found.where}; its last line: {last or 'nothing printed'}")
        elif found.never:
            delete(self.place, [name])
            self.fail(launch_id, f"it can never start ({found.where}), so its Job was deleted")
        elif found.stage == "waiting":
            self.say([launch_id], "waiting", f"Job {name}: {found.where}")
        else:
            last = next(iter(log(self.place, name, 1)), "")
            self.say([launch_id], "running", f"on {found.where}: {last[:120]}".rstrip(": "))

    def _keep_log(self, launch_id: str) -> str:
        """Keep what the launch printed, since its pod may be gone tomorrow. Return the last line."""
        lines = log(self.place, self.jobs[launch_id], _LOG_LINES)
        if lines:
            self.book.log(launch_id).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
