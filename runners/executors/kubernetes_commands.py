"""kubectl: what is asked of it, and how its answers read.

It knows the cluster, the login and the proxy; nothing of these is known here.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runners.executors import Silent
from runners.executors.kubernetes_job import APP, INSTANCE, LAUNCH, NAME
from warehouse.errors import RunnerError

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
