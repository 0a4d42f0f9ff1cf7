"""Nothing that was started is left running: not after a stop, a crash, or SIGKILL of anybody."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from runners.serving.processes import Guarded, end_strays
from warehouse.errors import RunnerError

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
#: Generous, because the machine may be busy; no test waits for it to pass.
PATIENCE_S = 180.0

# Everything a worker may do to get lost: a session of its own, a parent that has ended, SIGTERM
# ignored. Every process notes its number in the file; the first one sleeps or does what ``then`` says.
FAMILY = """
import os, signal, subprocess, sys, time
notes, then = sys.argv[1], sys.argv[2]
def note():
    with open(notes, "a") as file:
        file.write(f"{os.getpid()}\\n")
def lost():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork():
        note()
        time.sleep(600)
    os.setsid()
    if os.fork():
        os._exit(0)
    note()
    time.sleep(600)
if not os.fork():
    lost()
while not os.path.exists(notes) or len(open(notes).readlines()) < 2:
    time.sleep(0.01)
note()
print("the family stands", flush=True)
exec(then)
"""
# A guard waits for itself to see the end of commands that end at once.
AT_ONCE = """
import socket, time
from runners.serving.guard import Guard
for number in range(100):
    one, until = Guard(*socket.socketpair()), time.monotonic() + 60
    one.start(["true"])
    while one.status is None:
        one.reap()
        assert time.monotonic() < until, f"the end of command {number} was not seen"
        time.sleep(0.001)
"""
# Two processes that share memory, as vLLM's do; both ignore SIGTERM.
SHARING = """
import os, signal, sys, time
from multiprocessing.shared_memory import SharedMemory
signal.signal(signal.SIGTERM, signal.SIG_IGN)
memory = SharedMemory(create=True, size=4096)
if not os.fork():
    os.setsid()
print(memory.name, flush=True)
time.sleep(600)
"""
# Nobody is told of the memory any more.
FORGET = """from multiprocessing import resource_tracker
resource_tracker.unregister(memory._name, "shared_memory")
"""
# A runner of its own, so that it can be killed: it starts a family and waits.
# Under nohup it would inherit that SIGHUP is ignored.
RUNNER = """
import os, signal, sys, time
from pathlib import Path
from runners.serving.processes import Guarded
signal.signal(signal.SIGHUP, signal.SIG_DFL)
argv, log, then = eval(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
held = Guarded.start(argv, dict(os.environ), log)
exec(then)
time.sleep(600)
"""

Family = Callable[[str], list[str]]


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Path]:
    """Where a family's processes write their numbers; who is left at the end is killed."""
    path = tmp_path / "numbers"
    yield path
    for process in _alive(path):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture
def family(notes: Path) -> Family:
    """The command line of a family; its first process does ``then`` once all stand."""
    return lambda then: [PYTHON, "-c", FAMILY, str(notes), then]


def _alive(notes: Path) -> list[psutil.Process]:
    found = []
    for number in notes.read_text().split() if notes.exists() else ():
        # It may end between any two questions.
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(number))
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _until(said: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
    end = time.monotonic() + seconds
    while not said() and time.monotonic() < end:
        time.sleep(0.02)
    return said()


def _ended(guarded: Guarded) -> int | None:
    assert _until(lambda: guarded.poll() is not None)
    return guarded.poll()


def _stands(notes: Path) -> bool:
    return _until(lambda: len(_alive(notes)) == 3)


def _runner(argv: list[str], log: Path, then: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen([PYTHON, "-c", RUNNER, repr(argv), str(log), then], cwd=ROOT)


def _guard_of(process: psutil.Process) -> psutil.Process:
    return psutil.Process(int(process.environ()["DRAFTBOARD_GUARD"]))


def test_stopping_ends_workers_that_left_their_session_and_their_parent(
    family: Family, notes: Path, tmp_path: Path
) -> None:
    guarded = Guarded.start(family("time.sleep(600)"), os.environ, tmp_path / "log")
    assert _stands(notes)
    assert {process.pid for process in _alive(notes)} <= {p.pid for p in guarded.tree()}

    guarded.stop(grace_s=5)

    assert _alive(notes) == []
    assert guarded.poll() == -signal.SIGTERM


def test_a_command_that_ignores_the_request_to_end_is_killed_after_its_grace(
    tmp_path: Path,
) -> None:
    ignore = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    with Guarded.start(
        [PYTHON, "-c", f"{ignore}; time.sleep(600)"], os.environ, tmp_path / "log"
    ) as guarded:
        assert _until(lambda: (tmp_path / "log").read_text() == "1\n")
        guarded.stop(grace_s=0.3)

    assert guarded.poll() == -signal.SIGKILL
    assert not psutil.pid_exists(guarded.pid)


@pytest.mark.parametrize(
    ("then", "status"),
    [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -9), ("os.abort()", -signal.SIGABRT)],
)
def test_a_command_that_ends_leaves_nobody_behind_and_its_status_is_told(
    family: Family, notes: Path, tmp_path: Path, then: str, status: int
) -> None:
    guarded = Guarded.start(family(then), os.environ, tmp_path / "log")

    assert _ended(guarded) == status
    assert len(notes.read_text().split()) == 3
    assert _alive(notes) == []
    guarded.stop()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_nothing_outlives_a_runner_that_is_killed(
    family: Family, notes: Path, tmp_path: Path, number: signal.Signals
) -> None:
    runner = _runner(family("time.sleep(600)"), tmp_path / "log")
    assert _stands(notes)

    runner.send_signal(number)
    runner.wait()

    assert _until(lambda: not _alive(notes))


def test_shared_memory_of_what_is_killed_is_given_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Guarded.start([PYTHON, "-c", SHARING], os.environ, log) as guarded:
        assert _until(lambda: len(log.read_text().split()) == 2)
        memory = Path("/dev/shm") / log.read_text().split()[0]
        assert memory.exists()
        guarded.stop(grace_s=0.1)

    assert not memory.exists()


def test_shared_memory_is_given_back_where_its_tracker_is_killed_too(tmp_path: Path) -> None:
    # As vLLM ends: it kills all its children, the resource tracker among them.
    log, words = (
        tmp_path / "log",
        SHARING.replace("if not os.fork():", FORGET + "if not os.fork():"),
    )
    with Guarded.start([PYTHON, "-c", words], os.environ, log) as guarded:
        assert _until(lambda: len(log.read_text().split()) == 2)
        memory = Path("/dev/shm") / log.read_text().split()[0]
        assert memory.exists()
        guarded.stop(grace_s=0.1)

    assert not memory.exists()


def test_nothing_outlives_a_killed_runner_whose_fork_holds_the_line_open(
    family: Family, notes: Path, tmp_path: Path
) -> None:
    hold = f"os.fork() or (open({str(tmp_path / 'fork')!r}, 'w').write(str(os.getpid())), time.sleep(600))"
    runner = _runner(family("time.sleep(600)"), tmp_path / "log", hold)
    assert _stands(notes)
    assert _until(lambda: (tmp_path / "fork").exists() and (tmp_path / "fork").stat().st_size > 0)

    runner.kill()
    runner.wait()

    try:
        assert _until(lambda: not _alive(notes))
    finally:
        os.kill(int((tmp_path / "fork").read_text()), signal.SIGKILL)


def test_nothing_outlives_its_guard_that_is_killed(
    family: Family, notes: Path, tmp_path: Path
) -> None:
    guarded = Guarded.start(family("time.sleep(600)"), os.environ, tmp_path / "log")
    assert _stands(notes)

    _guard_of(_alive(notes)[0]).kill()

    assert _until(lambda: guarded.poll() == -signal.SIGKILL)
    assert _until(lambda: not _alive(notes))
    guarded.stop()


# Alone: whoever else sees one of their guards killed meanwhile ends these strays too.
@pytest.mark.alone
def test_what_outlives_runner_and_guard_killed_together_is_found_by_its_mark(
    family: Family, notes: Path, tmp_path: Path
) -> None:
    other = Guarded.start(
        [PYTHON, "-c", "import time; time.sleep(600)"], os.environ, tmp_path / "o"
    )
    runner = _runner(family("time.sleep(600)"), tmp_path / "log")
    assert _stands(notes)
    guard = _guard_of(_alive(notes)[0])
    runner.send_signal(signal.SIGSTOP)

    guard.kill()
    runner.kill()
    runner.wait()
    assert _until(lambda: not guard.is_running())
    assert _until(lambda: len(_alive(notes)) == 2), "the command itself dies with its guard"
    left = {process.pid for process in _alive(notes)}

    assert left <= set(end_strays())
    assert _until(lambda: not _alive(notes))
    assert other.poll() is None, "the family of a guard that lives is left alone"
    other.stop()


def test_a_server_in_a_container_is_not_taken_for_a_stray() -> None:
    # Its guard has another number there, which nobody has here.
    words = ["unshare", "--pid", "--fork", "--kill-child", "env", "DRAFTBOARD_GUARD=4194304"]
    if os.getuid():
        words.insert(1, "--user")
    outer = subprocess.Popen([*words, PYTHON, "-c", "import time; time.sleep(600)"])
    try:
        assert _until(lambda: bool(psutil.Process(outer.pid).children()))
        (inner,) = psutil.Process(outer.pid).children()
        assert _until(lambda: "DRAFTBOARD_GUARD" in inner.environ())

        assert inner.pid not in end_strays()
        assert outer.poll() is None
    finally:
        outer.kill()
        outer.wait()


def test_a_missing_executable_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match=r"^/nowhere/vllm cannot be started: .*No such file"):
        Guarded.start(["/nowhere/vllm", "serve"], os.environ, tmp_path / "log")


def test_the_log_is_kept_over_attempts_and_in_the_order_of_writing(tmp_path: Path) -> None:
    says = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
    for _ in range(2):
        _ended(Guarded.start([PYTHON, "-c", says], os.environ, tmp_path / "logs" / "log"))

    assert (tmp_path / "logs" / "log").read_text() == "out\nerr\n" * 2


def test_a_command_gets_exactly_its_environment_and_its_cores(tmp_path: Path) -> None:
    says = (
        "import os; print(os.environ.get('HERE'), os.environ.get('HOME'), os.sched_getaffinity(0))"
    )
    core = min(os.sched_getaffinity(0))
    _ended(Guarded.start([PYTHON, "-c", says], {"HERE": "yes"}, tmp_path / "log", cpus={core}))

    assert (tmp_path / "log").read_text() == f"yes None {{{core}}}\n"


def test_a_command_that_ends_at_once_is_seen_to_end() -> None:
    done = subprocess.run(
        [PYTHON, "-c", AT_ONCE], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
