"""A search that measures: each launch by ``draftboard run``, what comes next from its drops.

Nothing is kept but the drops of an ordinary study, and a warehouse of them beside it that can be
made anew. So a search that was killed anywhere goes on from what lies there.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warehouse.errors import InvalidInput, RunnerError

if TYPE_CHECKING:
    from answers.search.live import Live, Order, Planned
    from answers.search.values import Terms

#: ``-P``: a folder of the user's called like one of our packages must not hide it.
PROGRAM = (sys.executable, "-P", "-m", "draftboard")
_GRACE_S = 180.0


@dataclass(frozen=True)
class Place:
    """``study``: the file; ``results``: the folder of its drops."""

    study: Path
    results: Path

    @property
    def warehouse(self) -> Path:
        """Where the drops are read from; hidden, so that no ingest takes it for results."""
        return self.results / ".search"

    def drops(self, name: str) -> Path:
        """The folder of the study's own drops."""
        return self.results / name


def laid_out(place: Place) -> "Planned":
    """Return the study as a search takes it. Raises InvalidInput for one that cannot be searched, and
    whatever `draftboard plan` refuses."""
    said = json.loads(_ours("plan", str(place.study), "--results", str(place.results), "--json"))
    return planned(said)


def planned(said: dict[str, Any]) -> "Planned":
    """Return what `draftboard plan --json` says. Raises InvalidInput."""
    from analysis.search.space import Arm, Place
    from answers.search.live import Planned

    first = [launch for launch in said["launches"] if launch["repeat"] == 0]
    sizes = {launch["tensor_parallel_size"] for launch in said["launches"]}
    if len(sizes) != 1:
        raise InvalidInput(
            "A search compares arms on one number of GPUs, and this study has several tensor "
            "parallel sizes; give it a study for each."
        )
    arms = sorted((_arm(launch) for launch in first), key=lambda arm: (arm.family, arm.k))
    drafting = [arm for arm in arms if arm.k]
    if len(arms) - len(drafting) != 1 or not drafting:
        raise InvalidInput(
            "A search needs one baseline and at least one arm that drafts a stated number of tokens."
        )
    keys = [key.rpartition("-r")[0].split("/") for launch in first for key in launch["cells"]]
    places = sorted({Place(dataset, _at_once(load)) for *_, dataset, load in keys},
                    key=lambda one: (one.traffic, one.load))  # fmt: skip
    minutes = said["estimate"]["hours"] * 60 / len(said["launches"])
    repeats = len(said["launches"]) // len(first)
    base = next(arm for arm in arms if not arm.k)
    return Planned(
        said["study"], (Arm(base.label, "", 0), *drafting), tuple(places), repeats, minutes,
        sizes.pop(),
    )  # fmt: skip


def _at_once(name: str) -> float:
    """The load behind a cell's name, ``c16``. Raises InvalidInput for one of another kind."""
    if not re.fullmatch(r"c\d+", name):
        raise InvalidInput(
            f"A search compares arms at so many requests at once, and the load {name} is none: two "
            "arms that keep up with a rate are equally fast at it; leave it out of the study."
        )
    return float(name[1:])


def _arm(launch: dict[str, Any]) -> Any:
    """An arm by the command line of its server. Raises InvalidInput where K is not fixed."""
    from analysis.search.space import Arm

    words = launch["command"]
    if "--speculative-config" not in words:
        return Arm(launch["arm"], "", 0)
    config = json.loads(words[words.index("--speculative-config") + 1])
    k = config.pop("num_speculative_tokens", None)
    if k is None or "num_speculative_tokens_per_batch_size" in config:
        raise InvalidInput(
            f"The arm {launch['arm']} drafts no fixed number of tokens, so a search cannot place it; "
            "state num_speculative_tokens."
        )
    return Arm(launch["arm"], json.dumps(config, sort_keys=True), int(k))


def search_on(place: Place, terms: "Terms", show: "Callable[[Live], None]") -> "Live":
    """Measure until the search is over; ``show`` is told what is known before every launch."""
    study = laid_out(place)
    failed: frozenset[str] = frozenset()
    while True:
        now = look(place, study, terms, failed)
        show(now)
        if now.order is None:
            return now
        if not _measure(place, study.study, now.order):
            failed |= {now.order.arm}
            click.echo(f"{now.order.arm} is out: it could not be measured.", err=True)
            if now.order.arm == study.arms[0].label:
                raise RunnerError(
                    f"The baseline cannot be measured, so nothing can be compared; "
                    f"`draftboard run {place.study} --results {place.results} --launch "
                    f"{now.order.launch_id}` says why."
                )


def look(
    place: Place, study: "Planned", terms: "Terms", failed: frozenset[str] = frozenset()
) -> "Live":
    """Return what the drops so far tell, and what comes next."""
    from answers.search.live import live
    from warehouse.store import Reader

    if not any(_good(place.drops(study.study))):
        return live(None, study, terms, failed)
    _ours("ingest", str(place.drops(study.study)), "--warehouse", str(place.warehouse))
    with closing(Reader(place.warehouse)) as reader:
        return live(reader, study, terms, failed)


def _good(folder: Path) -> Iterator[Path]:
    found = folder.glob("*/tp*/*/c*/record.json")
    return (path for path in found if ".failed-" not in path.parent.name)


def _measure(place: Place, name: str, order: "Order") -> bool:
    """Measure one launch; return whether any cell of it is good."""
    words = [
        "run", str(place.study), "--results", str(place.results), "--launch", order.launch_id,
        "--only", f"dataset={','.join(order.datasets)}",
        "--only", f"concurrency={','.join(map(str, order.loads))}",
    ]  # fmt: skip
    before = set(_good(place.drops(name)))
    child = subprocess.Popen([*PROGRAM, *words], stdin=subprocess.DEVNULL)
    try:
        status = child.wait()
    except KeyboardInterrupt:
        # Ctrl-C reached it as well; a scheduler's SIGTERM did not.
        child.send_signal(signal.SIGINT)
        child.wait(_GRACE_S)
        raise
    return status == 0 or set(_good(place.drops(name))) > before


def _ours(*words: str) -> str:
    """Run another command of ours; return what it prints. Raises RunnerError with its sentence."""
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise RunnerError(said[-1].removeprefix("draftboard: "))
    return done.stdout
