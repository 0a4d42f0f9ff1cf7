"""What others use of the machine is told apart from what we use ourselves."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

from runners.watching.watch import OTHERS, ProcessFamily, Processor

SPIN = "while True: pass"
# A spinning process of somebody else: its parent ends, so that it is nobody's child here.
ELSEWHERE = f"""
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "{SPIN}"], stdout=subprocess.DEVNULL).pid)
"""


@contextlib.contextmanager
def _stranger() -> Iterator[None]:
    told = subprocess.run([sys.executable, "-c", ELSEWHERE], stdout=subprocess.PIPE, check=True)
    try:
        yield
    finally:
        os.kill(int(told.stdout), signal.SIGKILL)


def _seconds(spinning: list[subprocess.Popen[bytes]]) -> float:
    return sum(sum(psutil.Process(p.pid).cpu_times()[:2]) for p in spinning)


def test_the_work_of_others_counts() -> None:
    with _stranger():
        look = Processor(ProcessFamily())
        time.sleep(1.5)
        assert look()[OTHERS] > 0.3


def test_our_own_work_does_not_count() -> None:
    """With every core kept busy, others can have had at most what we did not use."""
    cores = psutil.cpu_count() or 1
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(cores)]
    try:
        time.sleep(0.3)
        # On a busy machine time passes between any two lines: what is looked at lies within the
        # outer span and around the inner one.
        outer, look = time.monotonic(), Processor(ProcessFamily())
        before, inner = _seconds(spinning), time.monotonic()
        time.sleep(1.5)
        inner_s, ours_s = time.monotonic() - inner, _seconds(spinning) - before
        others, outer_s = look()[OTHERS], time.monotonic() - outer
    finally:
        for process in spinning:
            process.kill()
            process.wait()

    assert ours_s > 0
    assert others * inner_s <= cores * outer_s - ours_s + 0.2
