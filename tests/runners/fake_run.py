"""A FAKE of ``draftboard run … --launch ID`` for tests of executors: it measures nothing.

It writes a good record for each cell that is missing, ``FAKE_CELL_S`` seconds each, and a line per
measured cell into ``measured.jsonl``. Switches come as environment variables, since that is what a
job inherits: ``FAKE_FAIL`` names a launch that fails before its last cell.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from runners.measuring.resume import look
from runners.planning.plan import PlannedCell, make_plan
from runners.planning.study_file import read_study
from runners.surroundings.layout import RECORD, Layout
from runners.surroundings.machine import placement

#: What a job's environment says of where it is.
SEEN = {
    "gpus": "CUDA_VISIBLE_DEVICES",
    "node": "SLURMD_NODENAME",
    "job": "SLURM_JOB_ID",
    "restarts": "SLURM_RESTART_COUNT",
}


def measure(cell: PlannedCell, layout: Layout) -> None:
    partial = layout.partial(cell.key)
    partial.mkdir(parents=True, exist_ok=True)
    time.sleep(float(os.environ.get("FAKE_CELL_S", "0.05")))
    (partial / RECORD).write_text(
        json.dumps({"status": "good", "fingerprint": cell.fingerprint, "timeline": {"total": 7.5}})
    )
    partial.rename(layout.cell(cell.key))
    seen = {key: os.environ.get(name) for key, name in SEEN.items()}
    line = {"cell": cell.key, "pid": os.getpid(), "at": time.time(), **seen, **placement()}
    with (layout.root / "measured.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["run"])
    parser.add_argument("study", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--launch")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
    plan = make_plan(read_study(asked.study))
    layout = Layout(asked.results, plan.study.name)
    layout.root.mkdir(parents=True, exist_ok=True)
    sys.stderr.write(f"fake launch {asked.launch}, pid {os.getpid()}\n")
    missing = look(plan, layout, plan.launch(asked.launch).cells).to_run
    for cell in missing:
        if os.environ.get("FAKE_FAIL") == asked.launch and cell is missing[-1]:
            sys.exit("the fake launch was told to fail")
        measure(cell, layout)


if __name__ == "__main__":
    main()
