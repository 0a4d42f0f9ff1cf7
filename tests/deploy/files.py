"""What stands in the files of deploy/, and every command line of ours in them."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = ("volumes", "dashboard", "watcher", "nightly")
#: ``${NAME}``, ``${NAME:-default}`` and ``$NAME``.
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}|\$(\w+)")


def text(path: Path | str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def environment() -> dict[str, str]:
    """``draftboard.env``, and what the workflow sets."""
    lines = text("deploy/systemd/draftboard.env").splitlines()
    named = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return named | workflow()["jobs"]["nightly"]["env"] | {"HOME": "/home/somebody"}


def filled(line: str) -> str:
    """A line with its variables' values; one that nobody sets is an error."""
    known = environment()

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        return known[name] if match[2] is None else match[2]

    return _VARIABLE.sub(value, line)


def workflow() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(text("deploy/github/nightly.yaml"))
    return loaded


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(text("compose.yaml"))
    return loaded


def manifests() -> list[dict[str, Any]]:
    """Every object of the kustomization."""
    texts = (text(f"deploy/kubernetes/{name}.yaml") for name in MANIFESTS)
    return [found for one in texts for found in yaml.safe_load_all(one)]


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod's specification in a Deployment or CronJob."""
    spec = manifest["spec"]
    if manifest["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    found: dict[str, Any] = spec["template"]["spec"]
    return found


def pods() -> list[dict[str, Any]]:
    return [pod_of(m) for m in manifests() if m["kind"] in ("Deployment", "CronJob")]


def crontab_lines(name: str) -> list[str]:
    """Lines that are neither comments nor settings."""
    return [
        line for line in text(name).splitlines() if line[:1] not in "#" and not _is_setting(line)
    ]


def _is_setting(line: str) -> bool:
    return re.match(r"\w+=", line) is not None


def exec_start(unit: Path) -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", text(unit), re.MULTILINE)
    return shlex.split(filled(line))


def shell_command(line: str) -> list[str]:
    """The arguments behind ``…/draftboard`` in a line of shell."""
    (found,) = re.findall(r'/draftboard"? ((?:nightly|ingest|dashboard) [^;>|]*)', line)
    return ["draftboard", *shlex.split(filled(found))]


def dockerfile_json(instruction: str) -> list[list[str]]:
    """The arguments of every ``CMD [...]``, ``ENTRYPOINT [...]`` of the Dockerfile, in order."""
    found = re.findall(rf"^\s*{instruction} (\[.*\])$", text("Dockerfile"), re.MULTILINE)
    return [json.loads(one) for one in found]


def our_commands() -> Iterator[tuple[str, list[str]]]:
    """(where, arguments behind the executable) of every command of ours in any file."""
    yield from _of_timers()
    yield from _of_compose()
    yield from _of_kubernetes()
    for words in dockerfile_json("CMD"):
        if words[0] != "python":
            yield "Dockerfile", words


def _of_timers() -> Iterator[tuple[str, list[str]]]:
    for unit in UNITS:
        yield unit.name, exec_start(unit)[1:]
    for name in ("deploy/cron/draftboard", "deploy/slurm/nightly.scrontab"):
        for line in crontab_lines(name):
            yield name, shell_command(line)[1:]
    for step in workflow()["jobs"]["nightly"]["steps"]:
        if "draftboard nightly" in step.get("run", ""):
            yield "github", shell_command(step["run"])[1:]


def _of_compose() -> Iterator[tuple[str, list[str]]]:
    ours = {k: v for k, v in compose()["services"].items() if v["build"]["target"] != "bucket"}
    for name, service in ours.items():
        for words in (service.get("command"), service.get("healthcheck", {}).get("test")):
            if words:
                yield f"compose {name}", _behind_executable([filled(word) for word in words])


def _of_kubernetes() -> Iterator[tuple[str, list[str]]]:
    for pod in pods():
        for container in pod["containers"]:
            yield f"kubernetes {container['name']}", container["args"]
            for probe in ("livenessProbe", "readinessProbe"):
                words = container.get(probe, {}).get("exec", {}).get("command")
                if words:
                    yield f"kubernetes {container['name']} {probe}", _behind_executable(words)


def _behind_executable(words: list[str]) -> list[str]:
    words = words[1:] if words[0] == "CMD" else words
    return words[1:] if words[0] == "draftboard" else words
