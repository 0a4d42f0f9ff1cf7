"""A study that runs in seconds: the FAKE engine, the real GuideLLM, prompts of our own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from runners.executors import PROGRAM
from runners.planning.plan import Plan, make_plan
from runners.planning.study_file import read_study
from runners.surroundings.layout import Layout
from tests.runners.conftest import ROOT, lab_executable
from tests.runners.engine import FAKE

PROMPTS = 10
#: Generous, because the machine may be busy; no test waits for it to pass.
PATIENCE_S = 600.0


@dataclass(frozen=True)
class SmallStudy:
    """A study file, its results folder, and the note of every server start."""

    path: Path
    results: Path
    starts_file: Path

    @property
    def plan(self) -> Plan:
        return make_plan(read_study(self.path))

    @property
    def layout(self) -> Layout:
        return Layout(self.results, "small")

    def cell(self, key: str) -> Path:
        """Where a cell lies, or will lie."""
        found = self.layout.cells(key)
        return found[-1] if found else self.layout.cell(key, "none")

    def command(self, *more: str) -> list[str]:
        return [*PROGRAM, "run", str(self.path), "--results", str(self.results), *more]

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*more), capture_output=True, text=True, cwd=ROOT, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip

    def start(self, *more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*more), text=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def starts(self) -> int:
        return len(self.starts_file.read_text().splitlines()) if self.starts_file.exists() else 0

    def record(self, folder: Path) -> dict[str, Any]:
        found = json.loads((folder / "record.json").read_text())
        assert isinstance(found, dict)
        return found

    def running(self) -> list[str]:
        """Processes that this study started and that are still there."""
        marks = (str(self.starts_file), str(self.results))
        found = []
        for process in psutil.process_iter():
            try:
                line = " ".join([*process.cmdline(), *process.environ().values()])
            except psutil.Error:
                continue
            if process.pid != os.getpid() and any(mark in line for mark in marks):
                found.append(line[:200])
        return found


def small_study(tmp_path: Path, fake: str = "", **changes: Any) -> SmallStudy:
    """Two arms on one dataset at one load; ``fake`` are switches of the engine."""
    prompts = tmp_path / "prompts.jsonl"
    lines = [json.dumps({"prompt": f"Tell me of the number {number}."}) for number in range(60)]
    prompts.write_text("\n".join(lines) + "\n")
    starts = tmp_path / "starts"
    study = {
        "name": "small",
        "target": {"model": "org/small", "served_name": "small"},
        "arms": [
            {"name": "baseline"},
            {"name": "draft", "speculative_config": {"method": "draft_model", "model": "org/draft"},
             "num_speculative_tokens": 3},
        ],
        "datasets": [{"name": "numbers", "file": "prompts.jsonl", "prompts_per_level": PROMPTS}],
        "concurrency": [2],
        "request": {"format": "text_completions", "max_tokens": 8},
        "window": {"warm_up_requests": 1},
        "evidence": "mock",
        "sample_every_s": 0.2,
        "limits": {"server_ready_s": 120, "cell_s": 300, "retries": 1},
        "executables": {
            "vllm": str(fake_vllm(tmp_path)),
            "guidellm": str(lab_executable("guidellm", "guidellm-0.8.1")),
        },
        "environment": {
            "FAKE_VLLM": f"--fake-note-start {starts} {fake}",
            "GUIDELLM__MAX_WORKER_PROCESSES": "1",
        },
    }  # fmt: skip
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(study | changes, sort_keys=False))
    return SmallStudy(path, tmp_path / "results", starts)


def fake_vllm(tmp_path: Path) -> Path:
    """The FAKE engine behind a shell script, as a container's wrapper would be: it says its version."""
    script = tmp_path / "bin" / "vllm"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    script.chmod(0o755)
    return script


def wait_for(condition: Callable[[], bool], what: str, limit_s: float = PATIENCE_S) -> None:
    """Until something is so."""
    ends = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends, f"it never came to pass: {what}"
        time.sleep(0.05)


def end(process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[int, str]:
    """Send a signal; the exit status, and what was printed to stderr."""
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said
