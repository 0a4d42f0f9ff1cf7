"""Loads that need more than a study file: the rates of a sweep, and what keeps a load from being run.

GuideLLM's sweep measures how many requests a second the baseline serves one by one, and how many
with all of them at once; its rates lie evenly between the two. They are found once, on the baseline,
and frozen beside the results for every arm. Were they found on each arm anew, no two arms would be
offered the same, and nothing would pair.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from runners.planning.loads import Dataset, LoadLevel
from runners.planning.plan import Plan, server_arguments, trace_of
from runners.planning.study_file import Study
from warehouse.errors import RunnerError

_DIGITS = 4
#: Folder of the frozen rates, in that of the study's results.
RATES = "rates"


@dataclass(frozen=True)
class SweepEnds:
    """What a sweep found, in requests per second."""

    one_by_one: float
    all_at_once: float
    baseline: str
    software: str

    def rates(self, count: int) -> tuple[float, ...]:
        """Return so many rates, evenly spaced above the lower end; the last is all that the
        baseline can serve."""
        step = (self.all_at_once - self.one_by_one) / count
        return tuple(
            float(f"{self.one_by_one + step * number:.{_DIGITS}g}")
            for number in range(1, count + 1)
        )


def with_frozen_rates(study: Study, results: Path) -> Study:
    """Return the study with the rates that sweeps found for it under ``results``. Raises
    RunnerError."""
    rates = {}
    for dataset, size, count in _sweeps(study):
        path = _path(study, results, dataset.name, size)
        if path.exists():
            rates[dataset.name, size] = _read_ends(path).rates(count)
    return study.with_rates(rates) if rates else study


def unknown_sweeps(study: Study, results: Path) -> list[tuple[Dataset, int]]:
    """Return the sweeps that have not run yet, by dataset and tensor parallel size."""
    return [
        (dataset, size)
        for dataset, size, _ in _sweeps(study)
        if not _path(study, results, dataset.name, size).exists()
    ]


def freeze(study: Study, results: Path, dataset: str, size: int, ends: SweepEnds) -> None:
    """Write down what a sweep found on a dataset at a tensor parallel size."""
    path = _path(study, results, dataset, size)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(asdict(ends), indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def ends_of_report(report: Path, baseline: str, software: str) -> SweepEnds:
    """Return what GuideLLM's report of a sweep found. Raises RunnerError where it found no room to
    sweep."""
    try:
        slow, fast = (
            float(level["metrics"]["requests_per_second"]["successful"]["mean"])
            for level in json.loads(report.read_bytes())["benchmarks"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        raise RunnerError(
            f"The sweep on {baseline} left no report with its two ends; its log says why."
        ) from None
    if not 0 < slow < fast:
        raise RunnerError(
            f"The sweep found nothing to sweep: {baseline} serves {slow:.3g} requests/s one by one and "
            f"{fast:.3g} all at once; send more prompts_per_level, or name rates yourself."
        )
    return SweepEnds(slow, fast, baseline, software)


def _sweeps(study: Study) -> Iterator[tuple[Dataset, int, int]]:
    # Dataset, tensor parallel size and number of rates of each sweep of a study.
    for dataset in study.measured_on:
        count = study.loads(dataset).sweep
        for size in dataset.tensor_parallel_sizes or study.tensor_parallel_sizes:
            if count is not None:
                yield dataset, size, count


def _read_ends(path: Path) -> SweepEnds:
    try:
        ends = SweepEnds(**json.loads(path.read_bytes()))
        if 0 < ends.one_by_one < ends.all_at_once:
            return ends
    except (OSError, ValueError, TypeError):
        pass  # Said below, whatever of it is wrong.
    raise RunnerError(
        f"The rates of the sweep in {path} cannot be read; put the file back, or remove it and the "
        "next run finds rates anew, with which all cells of the sweep are measured again."
    )


def _path(study: Study, results: Path, dataset: str, size: int) -> Path:
    return results / study.name / RATES / f"{dataset}-tp{size}.rates"


# --- What keeps a load from being run, and what its results will have to be read with.


#: The first releases of GuideLLM that replay traces, and that send messages as they are.
_REPLAYS, CONVERSES = (0, 7), (0, 8)
#: What to do with a release that does not, by its version.
LACKS_REPLAY = (
    "GuideLLM {} replays no trace; install 0.8.1 and name it under executables.guidellm of the study, "
    "or offer rates instead"
)
LACKS_CONVERSATIONS = (
    "GuideLLM {} sends no conversations; install 0.8.1 and name it under executables.guidellm of the "
    "study, or leave conversations out of the dataset and name its first turn as field"
)


def release_numbers(version: str) -> tuple[int, ...]:
    """Return a release of GuideLLM as numbers, "0.8.1" as (0, 8, 1)."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def refusals(plan: Plan, guidellm: str | None) -> list[str]:
    """Return one sentence for each load that cannot be run with this release (None: unknown) and
    limits."""
    sentences: list[str] = []
    for dataset, level in _levels(plan):
        lasts_s, limit_s = 0.0, plan.study.limits.cell_s
        if level.trace is not None:
            lasts_s = trace_of(plan.study, level).lasts_s
        elif level.rate is not None:
            lasts_s = dataset.prompts_at(level) / level.rate
        if guidellm is not None:
            numbers = release_numbers(guidellm)
            if dataset.conversations and numbers < CONVERSES:
                sentences.append(f"{LACKS_CONVERSATIONS.format(guidellm)}.")
            elif level.trace and numbers < _REPLAYS:
                sentences.append(f"{LACKS_REPLAY.format(guidellm)}.")
        if lasts_s > limit_s:
            shorter = "lower seconds or prompts_per_level"
            cut = "raise speed, cut it with seconds" if level.trace else shorter
            sentences.append(
                f"{dataset.name} at {level.words} lasts {lasts_s:,.0f} s, longer than a cell may take "
                f"({limit_s:g} s); {cut}, or raise limits.cell_s."
            )
    return list(dict.fromkeys(sentences))


def doubts(plan: Plan) -> list[str]:
    """Return one sentence for each load that runs and says less than it seems to."""
    study, sentences = plan.study, []
    for _, level in _levels(plan):
        gap = None if level.trace is None else trace_of(study, level).gap
        if gap is not None:
            sentences.append(
                f"The {level.words} sends nothing for {gap[1]:,.0f} s from {gap[0]:,.0f} s on, in which "
                "the server is measured idle; cut the trace before it, or raise speed."
            )
    caching = server_arguments(study.target.engine_args).get("enable_prefix_caching")
    sentences += [
        f"{dataset.name} may send a prompt more than once, which a cache of prefixes makes faster; "
        "turn it off with engine_args enable-prefix-caching: false."
        for dataset in study.measured_on
        if dataset.reuse and caching is not False
    ]
    most = [dataset.max_tokens or study.request.max_tokens for dataset in study.measured_on]
    names = {name.lstrip("-").replace("_", "-") for arm in study.arms
             for name in (*study.target.engine_args, *arm.engine_args)}  # fmt: skip
    if None in most and "max-model-len" not in names:
        sentences.append(
            "Neither max_tokens nor max-model-len limits an answer, so one that does not end fills the "
            "model's whole context; set one of them unless the model is known to end."
        )
    return list(dict.fromkeys(sentences))


def _levels(plan: Plan) -> Iterator[tuple[Dataset, LoadLevel]]:
    # Each dataset with each of its load points, at the first size that measures it.
    levels: dict[tuple[str, str], LoadLevel] = {}
    for cell in plan.cells:
        levels.setdefault((cell.dataset, cell.load), cell.level)
    for (name, _), level in levels.items():
        yield plan.study.dataset(name), level
