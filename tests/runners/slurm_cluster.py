"""A real Slurm on this machine, posing as two nodes with fake GPUs: n1 has four, n2 has two.

Runs as whoever runs the tests, in a folder of its own, with a munge of its own. Needs Debian's
``slurm-wlm`` and ``munge``. Any character device will do as a GPU: Slurm never opens it.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from pwd import getpwuid

import psutil

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")

_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={dir}/munge.sock
SlurmctldPort={ports[0]}
SlurmctldPidFile={dir}/ctld.pid
SlurmdPidFile={dir}/%n.pid
SlurmdSpoolDir={dir}/spool-%n
StateSaveLocation={dir}/state
SlurmctldLogFile={dir}/ctld.log
SlurmdLogFile={dir}/%n.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SlurmdParameters=config_overrides
SlurmdTimeout=6
KillWait=10
JobRequeue=0
AccountingStorageType=accounting_storage/none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 RealMemory=8000 Gres=gpu:h100:4
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8 RealMemory=8000 Gres=gpu:h100:2
PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=n1 MaxTime=00:01:00 State=UP
"""


def missing_tools() -> list[str]:
    """What of Slurm and munge is not installed here."""
    return [name for name in NEEDED if shutil.which(name, path=_PATH) is None]


@contextlib.contextmanager
def running_cluster() -> "Iterator[Cluster]":
    """Two nodes, six GPUs, until the block ends."""
    # Not pytest's folder: a socket's path may have 107 characters at most.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder)


class Cluster:
    """The daemons, and what a test does to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self.env = {**os.environ, "SLURM_CONF": str(self.conf), "PATH": _PATH}

    def start(self) -> None:
        for name in ("state", "spool-n1", "spool-n2"):
            (self.folder / name).mkdir()
        values = {
            "dir": self.folder,
            "host": socket.gethostname(),
            "user": getpwuid(os.getuid()).pw_name,
        }
        self.conf.write_text(_CONF.format(**values, ports=_free_ports(3)))
        gpus = [("n1", d) for d in _DEVICES] + [("n2", d) for d in _DEVICES[:2]]
        (self.folder / "gres.conf").write_text(
            "".join(f"NodeName={n} Name=gpu Type=h100 File={d}\n" for n, d in gpus)
        )
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        files = {"key-file": key, "socket": "munge.sock", "pid-file": "munge.pid",
                 "log-file": "munge.log", "seed-file": "munge.seed"}  # fmt: skip
        self.call("munged", "--force", *(f"--{k}={self.folder / v}" for k, v in files.items()))
        self.call("slurmctld")
        for node in ("n1", "n2"):
            self.start_node(node)
        self.wait_until(lambda: self.call("sinfo", "-h", "-o", "%T %D").split() == ["idle", "2"])

    def stop(self) -> None:
        """End the daemons and every job that is left."""
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def _processes(self) -> list[psutil.Process]:
        """Daemons, steps and jobs. A step writes its title over its environment; it runs in here."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                known = process.environ().get("SLURM_CONF") == str(self.conf)
                if process.pid != os.getpid() and (known or process.cwd() == str(self.folder)):
                    found.append(process)
        return found

    def call(self, *argv: str) -> str:
        """Run one of Slurm's commands: what it prints."""
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout.strip()

    def pause_controller(self) -> None:
        """The controller is gone; nodes and jobs go on."""
        controller = psutil.Process(int((self.folder / "ctld.pid").read_text()))
        controller.terminate()
        psutil.wait_procs([controller], timeout=120)

    def resume_controller(self) -> None:
        self.call("slurmctld")

    def start_node(self, node: str) -> None:
        self.call("slurmd", "-N", node)

    def kill_node(self, node: str) -> None:
        """As if its power were cut: first what could still report, then the jobs themselves."""
        jobs = self.call("squeue", "--noheader", "--format=%i", f"--nodelist={node}").split()
        marks = [f"slurmstepd: [{job}." for job in jobs]
        steps = [p for p in self._processes() if any(m in _line(p) for m in marks)]
        assert len(steps) == len(jobs) > 0
        below = [child for step in steps for child in step.children(recursive=True)]
        os.kill(int((self.folder / f"{node}.pid").read_text()), signal.SIGKILL)
        for process in (*steps, *below):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(below, timeout=10)

    def let_requeued_start(self, job_id: str) -> None:
        """Slurm holds a requeued job back for two minutes; an administrator need not wait."""
        self.wait_until(lambda: self.call("squeue", "-h", "-o", "%T", "-j", job_id) == "PENDING")
        self.call("scontrol", "update", f"jobid={job_id}", "starttime=now")

    def wait_until(self, ready: Callable[[], bool], timeout_s: float = 180.0) -> None:
        until = time.monotonic() + timeout_s
        while not ready():
            assert time.monotonic() < until, self.call("squeue", "--all", "--states=all")
            time.sleep(0.2)


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in held]
    for one in held:
        one.close()
    return ports
