"""What our runner costs beside vLLM and GuideLLM themselves: real parts, the lab's models, this CPU.

Needs the lab's environments (``make lab-envs``). The pairs drive one server by turns: once through
``draftboard run --target-url``, once by the very command line of GuideLLM that the record holds.
"""

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks.result import Result, progress
from runners.measuring.run import server_spec
from runners.planning.plan import make_plan
from runners.planning.study_file import read_study
from runners.serving import server
from runners.surroundings.layout import Layout, records_under
from tests.runners.small_study import small_study
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

ROOT = Path(__file__).parents[1]
LAB = ROOT / "studies" / "laptop-lab-quick.yaml"
OVERHEAD, NOISE = 0.03, 0.03
#: Pairs are run until half of the interval is so small, and no fewer and no more than these.
SURE, LEAST, MOST = 0.02, 16, 32
#: The real engine's speed changes by a tenth from one load to the next: an hour of it would tell 2 %.
REAL = 8
DRAFTBOARD = [sys.executable, "-P", "-m", "draftboard"]


def run(folder: Path, quick: bool) -> Iterator[Result]:
    """Overhead of a cell, launches of a study, throughput against GuideLLM called by hand: on the real
    engine, and on one whose steps all take the same time, which decides."""
    place = folder / "runner"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    study = _study(place, quick)
    yield from _cells(study, place)
    yield _pairs(study, place, (2, 2) if quick else (REAL, REAL))
    fake = _fake(place / "fake")
    pairs = (2, 2) if quick else (LEAST, MOST)
    yield _pairs(fake, fake.parent, pairs, ", FAKE engine with steps of 20 ms")


def _study(place: Path, quick: bool) -> Path:
    """The lab's quick study, or its cheapest corner, with paths that hold from anywhere."""
    said: dict[str, Any] = yaml.safe_load(LAB.read_text(encoding="utf-8"))
    text = json.dumps(said).replace('"../', f'"{ROOT}/').replace('"./', f'"{LAB.parent}/')
    study: dict[str, Any] = json.loads(text)
    study |= {"name": "bench", "datasets": study["datasets"][:1]}
    study["datasets"][0]["prompts_per_level"] = 32 if quick else 448
    study["concurrency"] = [16]
    study["arms"] = study["arms"][:2]
    path = place / "bench.yaml"
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    return path


def _fake(place: Path) -> Path:
    """A study of the FAKE engine and the real GuideLLM, run once so that its command lines are known."""
    place.mkdir()
    study = small_study(
        place, "--fake-delay 0.02 --fake-output-tokens 64", concurrency=[4],
        arms=[{"name": "baseline"}], request={"format": "text_completions", "max_tokens": 64},
        datasets=[{"name": "numbers", "file": "prompts.jsonl", "prompts_per_level": 60}],
    )  # fmt: skip
    _checked(study.command())
    return study.path


def _cells(study: Path, place: Path) -> Iterator[Result]:
    """A whole run: where the time of its cells went, and how often servers were started."""
    progress("a study, start to end")
    _checked([*DRAFTBOARD, "run", str(study), "--results", str(place / "results")])
    records = [json.loads(path.read_bytes()) for path in records_under(place / "results")]
    shares = [r["timeline"]["overhead"] / r["timeline"]["total"] for r in records]
    yield Result(
        "time of a cell that is neither server start, warm-up nor load, worst of "
        f"{len(shares)} cells", f"<= {OVERHEAD:.0%}", f"{max(shares):.2%}", max(shares) <= OVERHEAD,
    )  # fmt: skip
    planned = len(make_plan(read_study(study)).launches)
    started = sum(record["timeline"]["server_start"] > 0 for record in records)
    yield Result("server launches", str(planned), str(started), started == planned)


def _pairs(path: Path, place: Path, pairs: tuple[int, int], which: str = "") -> Result:
    """Output throughput through the runner / by hand, on one server, by turns, until it is known
    well enough; ``pairs``: how many at least and at most; ``which``: what the row adds to its name."""
    study = read_study(path)
    launch = make_plan(study).launches[0]
    serving = server.start(server_spec(study, launch, Layout(place / "serving", study.name)))
    try:
        logs: list[float] = []
        while len(logs) < pairs[0] or (len(logs) < pairs[1] and _half_interval(logs) > SURE):
            logs.append(math.log(_pair(path, place, serving.url, len(logs))))
    finally:
        serving.stop()
    mean, half = statistics.fmean(logs), _half_interval(logs)
    low, middle, high = (math.exp(mean + move) for move in (-half, 0, half))
    return Result(
        f"output throughput through the runner / by hand, {len(logs)} pairs{which}",
        f"interval inside {1 - NOISE:.2f}-{1 + NOISE:.2f}",
        f"{middle:.3f} (95 %: {low:.3f}-{high:.3f})",
        low >= 1 - NOISE and high <= 1 + NOISE,
    )


def _half_interval(logs: list[float]) -> float:
    """Half of the 95 % interval of a mean, by Student's t."""
    from scipy.stats import t

    return float(t.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs)))


def _pair(study: Path, place: Path, url: str, number: int) -> float:
    """Both ways once, which goes first by turns."""
    progress(f"pair {number + 1}")
    ours, by_hand = place / f"ours-{number}", place / f"hand-{number}"
    arm = ["--only", "arm=baseline", "--target-url", url]
    command = [*DRAFTBOARD, "run", str(study), "--results", str(ours), *arm]

    def hand() -> None:
        _by_hand(study, place, url, by_hand)

    for way in (hand, lambda: _checked(command))[:: 1 if number % 2 else -1]:
        way()
    return _throughput(ours) / _throughput(by_hand)


def _by_hand(path: Path, place: Path, url: str, folder: Path) -> None:
    """The load's command line as recorded, aimed at this server and into a folder of its own."""
    record_path = next(p for p in records_under(place / "results") if "baseline" in p.parts)
    recorded: list[str] = json.loads(record_path.read_bytes())["commands"]["guidellm"]
    folder.mkdir()
    words = [_aimed(word, url, folder, record_path.parent) for word in recorded]
    study = read_study(path)
    client = study.cpus
    pinned = [] if client is None else ["taskset", "-c", ",".join(map(str, client.client))]
    # What the study sets for GuideLLM, such as its number of processes, belongs to its command line.
    _checked([*pinned, *words], os.environ | study.environment)


def _aimed(word: str, url: str, folder: Path, cell: Path) -> str:
    """One word of the recorded command line, its server and its output replaced."""
    try:
        said = json.loads(word)
    except ValueError:
        return word
    if isinstance(said, dict) and "target" in said:
        return json.dumps(said | {"target": url})
    if isinstance(said, dict) and str(said.get("path", "")).endswith("guidellm.json"):
        return json.dumps(said | {"path": str(folder / "guidellm.json")})
    return word


def _throughput(results: Path) -> float:
    """Output tokens per second of the one cell in a folder, recomputed from its requests."""
    place = results.with_name(f"{results.name}-warehouse")
    _checked([*DRAFTBOARD, "ingest", str(results), "--warehouse", str(place)])
    with Reader(place) as reader:
        rows = queries.measurements(reader, Filters(), ["output_throughput"], ["mean"]).to_pylist()
    (row,) = rows
    return float(row["value"])


def _checked(command: list[str], environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
