"""Launches that share a machine know of each other, whoever started them: Slurm, Ray, this program.

Each keeps a small file locked under ``<results>/.nodes/<machine>/`` for as long as it runs. The
machine is named by a hash of its boot: containers on it agree, and no host name is written.
"""

import fcntl
import hashlib
import json
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runners.surroundings.layout import Layout

#: Name of the series: other launches on this machine.
BESIDE = "launches_beside"
_LOOK_EVERY_S = 5.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Neighbour:
    """Another launch on this machine."""

    study: str
    launch: str
    gpus: tuple[int, ...] = ()
    """NVML indices, as far as it knows them."""


@dataclass
class Beside:
    """The launches beside this one. ``folder`` None: they cannot be told on this machine."""

    folder: Path | None
    own: str
    met: dict[str, Neighbour] = field(default_factory=dict)
    """All that were there since ``begin``."""
    _count: float | None = None
    _looked_at: float = float("-inf")

    def begin(self) -> None:
        """Forget the launches that an earlier cell met."""
        self.met, self._count, self._looked_at = {}, None, float("-inf")

    def __call__(self) -> dict[str, float]:
        """Return ``{BESIDE: launches}``, looked up every few seconds; empty where it cannot be
        told."""
        if time.monotonic() - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = time.monotonic()
            now = None if self.folder is None else _there(self.folder, self.own)
            self._count = None if now is None else float(len(now))
            self.met |= now or {}
        return {} if self._count is None else {BESIDE: self._count}

    def as_json(self) -> dict[str, Any]:
        """Return for a record's environment which launches this cell met; nothing where it cannot
        be told."""
        if self._count is None:
            return {}
        return {"neighbours": [asdict(one) for _, one in sorted(self.met.items())]}


@contextmanager
def present(layout: Layout, launch: str, gpus: Sequence[int]) -> Iterator[Beside]:
    """Make this launch known on its machine for the block. Where files cannot be locked nobody is
    known, and nothing fails."""
    folder = layout.nodes / machine()
    name = f"{layout.study}--{launch}.json"
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = held.enter_context((folder / name).open("a", encoding="utf-8"))
            # Whoever looks at this very moment holds it for an instant.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)
            file.write(json.dumps(asdict(Neighbour(layout.study, launch, tuple(gpus)))))
            file.flush()
        except OSError:
            yield Beside(None, name)
        else:
            yield Beside(folder, name)


def machine() -> str:
    """Return a short name of this machine until its next boot, without a word about its owner."""
    try:
        boot = _BOOT.read_text(encoding="ascii")
    except OSError:
        boot = platform.node()
    return hashlib.sha256(boot.strip().encode()).hexdigest()[:12]


def _there(folder: Path, own: str) -> dict[str, Neighbour] | None:
    """Return the launches whose file is locked now, by the file's name; None where that cannot be
    told."""
    try:
        return {
            path.name: found
            for path in sorted(folder.glob("*.json"))
            if path.name != own and (found := _held(path)) is not None
        }
    except OSError:
        return None


def _held(path: Path) -> Neighbour | None:
    """Return who holds a file; None where nobody does. Looking locks it in a way that others may
    share."""
    with path.open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _neighbour(file.read())
        return None


def _neighbour(text: str) -> Neighbour | None:
    try:
        said = json.loads(text)
        return Neighbour(str(said["study"]), str(said["launch"]), tuple(said["gpus"]))
    except (ValueError, KeyError, TypeError):
        return None  # It is being written at this moment.
