"""What looking at the machine costs during a load: computing of the sampler's own thread."""

import contextlib
import gzip
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Result, progress
from runners.watching.watch import COST_SHARE, MachineSampler, watching

SECONDS, PROCESSES = 60, 40


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Share of a core, beside as many processes of our own as a large server has."""
    seconds = 5 if quick else SECONDS
    progress(f"the machine is looked at for {seconds} s")
    path = folder / "machine-samples.jsonl.gz"
    with _server(seconds), watching(folder / "watching" / ".nodes", "bench", "l", None) as watch:
        with MachineSampler(path, watch.look()) as sampler:
            time.sleep(seconds)
        gpus = "no GPU" if watch.gpus.reason else "the GPUs"
    lines = [line for line in gzip.decompress(path.read_bytes()).splitlines() if b"at" not in line]
    share = sampler.spent_s / seconds
    yield Result(
        f"looking at the machine each second: {gpus}, {PROCESSES} processes of the run",
        f"<= {COST_SHARE:.0%} of a core",
        f"{share:.2%}, {len(lines)} looks in {seconds} s",
        share <= COST_SHARE and len(lines) >= 0.9 * seconds,
    )


@contextlib.contextmanager
def _server(seconds: int) -> Iterator[None]:
    """As many idle processes as a server on eight GPUs and its load have."""
    command = ["sleep", str(seconds + 60)]
    processes = [subprocess.Popen(command) for _ in range(PROCESSES)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
