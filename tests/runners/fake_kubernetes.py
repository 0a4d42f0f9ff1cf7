"""FAKE: a small Kubernetes API server for kubectl: Jobs, their pods and logs, kept in memory.

It schedules nothing: a test says what becomes of a pod. It refuses what it is told to refuse, and
answers discovery so that a real kubectl talks to it. Nothing here says how a real cluster behaves.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_RESOURCES = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "groups": [{
        "name": "batch", "versions": [{"groupVersion": "batch/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "batch/v1", "version": "v1"}}]},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": True,
         "verbs": ["get", "list", "watch"], "shortNames": ["po"]},
        {"name": "pods/log", "singularName": "", "kind": "Pod", "namespaced": True, "verbs": ["get"]}]},
    "/apis/batch/v1": {"kind": "APIResourceList", "groupVersion": "batch/v1", "resources": [
        {"name": "jobs", "singularName": "job", "kind": "Job", "namespaced": True,
         "verbs": ["create", "delete", "get", "list", "watch"]}]},
    # So much of the schema says that the server itself looks for misspelt keys.
    "/openapi/v3": {"paths": {
        "apis/batch/v1": {"serverRelativeURL": "/openapi/v3/apis/batch/v1?hash=1"}}},
    "/openapi/v3/apis/batch/v1": {
        "openapi": "3.0.0", "info": {"title": "FAKE", "version": "1"},
        "paths": {"/apis/batch/v1/namespaces/{namespace}/jobs/{name}": {"patch": {
            "parameters": [{"name": "fieldValidation", "in": "query"}], "responses": {},
            "x-kubernetes-group-version-kind": {"group": "batch", "kind": "Job", "version": "v1"}}}}},
    "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.0-FAKE"},
}  # fmt: skip
_BORN = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass
class FakeKubernetes:
    """The state of the fake; ``refusal``: what it says to whoever creates a Job; ``down``: it answers
    nothing but an error."""

    url: str = ""
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    refusal: str | None = None
    down: bool = False

    def job_of(self, launch: str) -> str:
        """The name of the Job of a launch."""
        found = [name for name, job in self.jobs.items()
                 if job["metadata"]["annotations"]["draftboard/launch"] == launch]  # fmt: skip
        return found[-1]

    def pod(self, launch: str, phase: str, log: str = "", **status: Any) -> None:
        """Give a launch a pod, or another state of it."""
        job = self.job_of(launch)
        labels = self.jobs[job]["spec"]["template"]["metadata"]["labels"]
        self.pods[f"{job}-x"] = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": f"{job}-x", "namespace": "lab", "creationTimestamp": _BORN.isoformat(),
                "labels": {**labels, "job-name": job},
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "1"}],
            },
            "spec": {"nodeName": "node07", "containers": [{"name": "launch", "image": "x"}]},
            "status": {"phase": phase, **status},
        }  # fmt: skip
        self.logs[f"{job}-x"] = log

    def end(
        self, launch: str, kind: str, log: str = "", reason: str = "", message: str = ""
    ) -> None:
        """Let a Job end: ``Complete`` or ``Failed``."""
        phase = "Succeeded" if kind == "Complete" else "Failed"
        self.pod(launch, phase, log)
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}
        self.jobs[self.job_of(launch)]["status"] = {"conditions": [condition]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeKubernetes

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        parts = url.path.strip("/").split("/")
        if self.fake.down:
            self.problem(503, "ServiceUnavailable", "the fake is down")
        elif url.path in _RESOURCES:
            self.answer(_RESOURCES[url.path])
        elif parts[-1] == "log":
            self.text(_tail(self.fake.logs[parts[-2]], parse_qs(url.query)))
        elif parts[-1] in ("jobs", "pods"):
            self.answer(self.listed(parts[-1], parse_qs(url.query)))
        else:
            self.one(parts[-2:])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.fake.refusal is not None:
            self.problem(403, "Forbidden", self.fake.refusal)
        elif body["metadata"]["name"] in self.fake.jobs:
            self.problem(409, "AlreadyExists", "it is there already")
        else:
            born = _BORN + timedelta(seconds=len(self.fake.created))
            told = {"creationTimestamp": born.isoformat(), "uid": "1", "namespace": "lab"}
            body["metadata"] |= told
            body["spec"]["selector"] = {"matchLabels": {"job-name": body["metadata"]["name"]}}
            self.fake.created.append(body)
            self.fake.jobs[body["metadata"]["name"]] = body
            self.answer(body, 201)

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        name = urlsplit(self.path).path.rpartition("/")[2]
        if name not in self.fake.jobs:
            self.problem(404, "NotFound", f'jobs.batch "{name}" not found')
            return
        self.fake.deleted.append(name)
        job = self.fake.jobs.pop(name)
        self.fake.pods.pop(f"{name}-x", None)
        self.answer(job)

    def listed(self, kind: str, query: dict[str, list[str]]) -> dict[str, Any]:
        terms = [
            term.split("=") for text in query.get("labelSelector", []) for term in text.split(",")
        ]
        held = self.fake.jobs if kind == "jobs" else self.fake.pods
        items = [
            one for one in held.values()
            if all(one["metadata"]["labels"].get(key) == value for key, value in terms)
        ]  # fmt: skip
        version, name = ("batch/v1", "JobList") if kind == "jobs" else ("v1", "PodList")
        return {"kind": name, "apiVersion": version, "metadata": {}, "items": items}

    def one(self, parts: list[str]) -> None:
        held = {"jobs": self.fake.jobs, "pods": self.fake.pods}.get(parts[0], {})
        if parts[-1] in held:
            self.answer(held[parts[-1]])
        else:
            self.problem(404, "NotFound", f"{'/'.join(parts)} not found")

    def problem(self, status: int, reason: str, message: str) -> None:
        self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                     "reason": reason, "message": message, "code": status}, status)  # fmt: skip

    def answer(self, value: dict[str, Any], status: int = 200) -> None:
        self.send(json.dumps(value).encode(), "application/json", status)

    def text(self, value: str) -> None:
        self.send(value.encode(), "text/plain", 200)

    def send(self, body: bytes, kind: str, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _tail(text: str, query: dict[str, list[str]]) -> str:
    wanted = int(query.get("tailLines", ["100000"])[0])
    return "".join(text.splitlines(keepends=True)[-wanted:]) if wanted else ""


@contextmanager
def fake_kubernetes(folder: Path) -> Iterator[tuple[FakeKubernetes, Path]]:
    """The fake, and a kubeconfig that leads to it."""
    fake = FakeKubernetes()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": fake}))
    fake.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = folder / "kubeconfig"
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": {"server": fake.url}}],
        "users": [{"name": "me", "user": {"token": "not-a-secret"}}],
        "contexts": [{"name": "fake",
                      "context": {"cluster": "fake", "user": "me", "namespace": "lab"}}],
    }))  # fmt: skip
    try:
        yield fake, config
    finally:
        server.shutdown()
        server.server_close()
