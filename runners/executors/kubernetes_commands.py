"""kubectl: what is asked of it, and how its answers read.

It knows the cluster, the login and the proxy; nothing of these is known here.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.executors import Silent
from runners.executors.kubernetes_job import APP, INSTANCE, NAME
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
