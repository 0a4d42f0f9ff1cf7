"""The rates of a sweep: found once on the baseline, then frozen beside the results for every arm.

GuideLLM's sweep measures how many requests a second the baseline serves one by one, and how many
with all of them at once; its rates lie evenly between the two. Were they found on each arm anew, no
two arms would be offered the same, and nothing would pair.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from runners.loads.trace import Arrival
from runners.planning.datasets import Dataset
from runners.planning.loads import LoadLevel
from runners.planning.plan import trace_of
from runners.planning.study import Study
from warehouse.errors import RunnerError


class Texts(Protocol):
    """Any object with a text."""

    @property
    def text(self) -> str:
        """The text."""
        ...


One = TypeVar("One", bound=Texts)


def arrivals_of(study: Study, dataset: Dataset, level: LoadLevel) -> tuple[Arrival, ...]:
    """Return when a trace's requests are sent, their answers no longer than the study allows;
    nothing for another load."""
    if level.trace is None:
        return ()
    most = dataset.max_tokens or study.request.max_tokens
    found = trace_of(study, level).arrivals
    return tuple(replace(one, output_tokens=_capped(one.output_tokens, most)) for one in found)


def arranged(prompts: Sequence[One], arrivals: Sequence[Arrival]) -> tuple[One, ...]:
    """Return the prompts in the order of the arrivals, the longest where the trace's was the
    longest.

    By rank and not by tokens: so bursts of long requests stay bursts of long requests, whatever
    texts there are. Without lengths, or without a trace, the order stays.
    """
    lengths = [one.input_tokens for one in arrivals]
    if not lengths or None in lengths:
        return tuple(prompts)
    places = sorted(range(len(lengths)), key=lambda place: lengths[place] or 0)
    by_length = sorted(prompts, key=lambda one: len(one.text))
    placed = dict(zip(places, by_length, strict=True))
    return tuple(placed[place] for place in range(len(prompts)))


def _capped(tokens: int | None, most: int | None) -> int | None:
    """Return how long an answer may be, at most ``most`` tokens; None where the trace says none,
    since an answer of no tokens was no answer."""
    if not tokens:
        return None
    return tokens if most is None else min(tokens, most)


_DIGITS = 4
#: Folder of the frozen rates, in that of the study's results.
RATES = "rates"


@dataclass(frozen=True)
class Found:
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
            float(f"{self.one_by_one + step * place:.{_DIGITS}g}") for place in range(1, count + 1)
        )


def sweeps(study: Study) -> Iterator[tuple[Dataset, int, int]]:
    """Yield dataset, tensor parallel size and number of rates of each sweep of a study."""
    for dataset in study.measured_on:
        count = study.loads(dataset).sweep
        for size in dataset.tensor_parallel_sizes or study.tensor_parallel_sizes:
            if count is not None:
                yield dataset, size, count


def with_frozen_rates(study: Study, results: Path) -> Study:
    """Return the study with the rates that sweeps found for it under ``results``. Raises
    RunnerError."""
    known = {}
    for dataset, size, count in sweeps(study):
        found = read(_path(study, results, dataset.name, size))
        if found is not None:
            known[dataset.name, size] = found.rates(count)
    return study.with_rates(known) if known else study


def unknown(study: Study, results: Path) -> list[tuple[Dataset, int]]:
    """Return the sweeps that have not run yet."""
    return [
        (dataset, size)
        for dataset, size, _ in sweeps(study)
        if not _path(study, results, dataset.name, size).exists()
    ]


def freeze(study: Study, results: Path, where: tuple[str, int], found: Found) -> None:
    """Write down what a sweep found on a dataset at a tensor parallel size."""
    path = _path(study, results, *where)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def read(path: Path) -> Found | None:
    """Read the rates that were written down; None where none were. Raises RunnerError for a damaged
    file."""
    if not path.exists():
        return None
    try:
        said: Any = json.loads(path.read_bytes())
        found = Found(**said)
        if 0 < found.one_by_one < found.all_at_once:
            return found
    except (OSError, ValueError, TypeError):
        pass  # Said below, whatever of it is wrong.
    raise RunnerError(
        f"The rates of the sweep in {path} cannot be read; put the file back, or remove it and the "
        "next run finds rates anew, with which all cells of the sweep are measured again."
    )


def of_report(report: Path, baseline: str, software: str) -> Found:
    """Return what GuideLLM's report of a sweep found. Raises RunnerError where it found no room to
    sweep."""
    try:
        first, second = json.loads(report.read_bytes())["benchmarks"]
        one, most = (float(x["metrics"]["requests_per_second"]["successful"]["mean"])
                     for x in (first, second))  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        raise RunnerError(
            f"The sweep on {baseline} left no report with its two ends; its log says why."
        ) from None
    if not 0 < one < most:
        raise RunnerError(
            f"The sweep found nothing to sweep: {baseline} serves {one:.3g} requests/s one by one and "
            f"{most:.3g} all at once; send more prompts_per_level, or name rates yourself."
        )
    return Found(one, most, baseline, software)


def _path(study: Study, results: Path, dataset: str, size: int) -> Path:
    return results / study.name / RATES / f"{dataset}-tp{size}.rates"
