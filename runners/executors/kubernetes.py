"""Launches as Jobs of a Kubernetes cluster: one Job for each server launch.

A pod that is lost is replaced by Kubernetes and goes on with the cells that are missing, which it
sees on the claim where results lie. This machine need not see them: then a Job's own word counts.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from runners.executors import Job, Outcome, State, Update, gpus_needed
from runners.executors.kubernetes_book import Book
from runners.executors.kubernetes_commands import (
    KubernetesSilent,
    Place,
    create,
    delete,
    log,
    objects,
)
from runners.executors.kubernetes_job import MOST_STUDY_BYTES, Wanted, instance, manifest
from runners.executors.kubernetes_settings import KubernetesSettings
from runners.executors.kubernetes_state import Seen, seen
from runners.measuring.layout import Layout
from runners.measuring.resume import Now, look
from runners.planning.plan import Launch, Plan
from warehouse.errors import RunnerError
from warehouse.secrets.names import is_secret_name

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
        book = Book(Layout(job.results.absolute(), plan.study.name))
        with book.locked():
            book.write(place, instance(plan.study.name, self.settings))
            jobs = self._submit(plan, job, place, wanted)
        watch = _Watch(plan, job, book, self.settings, jobs)
        if not self.wait:
            return watch.let_go()
        try:
            while not watch.look():
                time.sleep(self.settings.poll_s)
        except KeyboardInterrupt:
            return watch.let_go()
        return watch.outcome()

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
    except KubernetesSilent as error:
        raise RunnerError(f"{error}; check `kubectl get jobs`, then run it again.") from None


@dataclass
class _Watch:
    """What is known of the Jobs that are waited for."""

    plan: Plan
    job: Job
    book: Book
    settings: KubernetesSettings
    jobs: dict[str, str]
    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    said: dict[str, Update] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return Place(self.settings.context, self.settings.namespace)

    def look(self) -> bool:
        """Ask Kubernetes once; return True when every launch is over."""
        try:
            known = seen(objects(self.place, instance(self.plan.study.name, self.settings)))
        except KubernetesSilent as error:
            self._say(self._open(), "waiting", f"{error}; asking again")
            return False
        for launch_id in self._open():
            self._look_at(launch_id, known.get(launch_id))
        return not self._open()

    def let_go(self) -> Outcome:
        """Return the outcome when nobody waits any longer."""
        for launch_id in self._open():
            self._say([launch_id], "handed over", f"Job {self.jobs[launch_id]}")
        return self.outcome()

    def outcome(self) -> Outcome:
        """Return the outcome as far as it is known by now."""
        unseen = any(self._missing(name) for name in self.done)
        where = f"the claim {self.settings.claim}, below {self.settings.results}" if unseen else ""
        return Outcome(tuple(self.done), tuple(self.failed.items()), tuple(self._open()), where)

    def _open(self) -> list[str]:
        return [name for name in self.jobs if name not in self.done and name not in self.failed]

    def _look_at(self, launch_id: str, found: Seen | None) -> None:
        name = self.jobs[launch_id]
        if found is None or found.job != name:
            self._fail(launch_id, f"its Job {name} is gone: somebody deleted it")
        elif found.stage == "done":
            self._keep_log(launch_id)
            self.done.append(launch_id)
            self._say([launch_id], "done", f"Job {name}")
        elif found.stage == "failed":
            last = self._keep_log(launch_id)
            self._fail(launch_id, f"{found.where}; its last line: {last or 'nothing printed'}")
        elif found.never:
            delete(self.place, [name])
            self._fail(launch_id, f"it can never start ({found.where}), so its Job was deleted")
        elif found.stage == "waiting":
            self._say([launch_id], "waiting", f"Job {name}: {found.where}")
        else:
            last = next(iter(log(self.place, name, 1)), "")
            self._say([launch_id], "running", f"on {found.where}: {last[:120]}".rstrip(": "))

    def _keep_log(self, launch_id: str) -> str:
        """Keep what the launch printed, since its pod may be gone tomorrow. Return the last line."""
        lines = log(self.place, self.jobs[launch_id], _LOG_LINES)
        if lines:
            self.book.log(launch_id).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")

    def _missing(self, launch_id: str) -> bool:
        """Return whether cells of a launch are not good in the results folder of this machine."""
        cells = self._launch(launch_id).cells
        found = look(self.plan, self.book.layout, cells, Now(self.job.software))
        return len(found.good) < len(cells)

    def _launch(self, launch_id: str) -> Launch:
        return next(one for one in self.job.launches if one.launch_id == launch_id)

    def _fail(self, launch_id: str, reason: str) -> None:
        self.failed[launch_id] = reason
        self._say([launch_id], "failed", reason)

    def _say(self, launches: Iterable[str], state: State, detail: str) -> None:
        for launch_id in launches:
            update = Update(launch_id, state, detail)
            if self.said.get(launch_id) != update:
                self.said[launch_id] = update
                self.job.report(update)
