"""The prompt sets of a study as files, written once and read by GuideLLM for every arm."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runners.measuring.layout import Layout
from runners.planning.plan import Plan, PlannedCell
from runners.planning.study import Study
from runners.texts import prompts
from warehouse.errors import StudyError

#: Prompts for each request in flight, below which ramp and drain fill much of a level.
ENOUGH = 5


def few_prompts(plan: Plan) -> list[str]:
    """Return one sentence for each dataset with too few prompts at some levels; empty where all is
    well."""
    return [sentence for dataset in _planned(plan).items() for sentence in _sentences(*dataset)]


def _planned(plan: Plan) -> dict[str, dict[int, int]]:
    """Return the number of prompts by dataset and concurrency; other loads fill themselves."""
    found: dict[str, dict[int, int]] = {}
    for cell in plan.cells:
        if cell.concurrency is None:
            continue
        found.setdefault(cell.dataset, {})[cell.concurrency] = cell.prompts
    return found


def _sentences(dataset: str, levels: dict[int, int]) -> list[str]:
    starved = {c: n for c, n in levels.items() if n < c}
    short = {c: n for c, n in levels.items() if c <= n < ENOUGH * c}
    said = []
    if starved:
        said.append(
            f"{dataset}: {_list(starved)}: fewer prompts than requests in flight, so that "
            "concurrency is never reached; raise prompts_per_level."
        )
    if short:
        said.append(
            f"{dataset}: {_list(short)}: under {ENOUGH} prompts for each request in flight, so "
            "ramp and drain weigh on the result; raise prompts_per_level."
        )
    return said


def _list(levels: dict[int, int]) -> str:
    return ", ".join(f"{n} prompts at concurrency {c}" for c, n in sorted(levels.items()))


Sets = dict[str, prompts.PromptSet]


@dataclass(frozen=True)
class PromptFile:
    """One level's prompts: the file, the hash of the set, the texts that warm up before it."""

    path: Path
    hash: str
    warm_up: tuple[str, ...]
    conversations: bool = False
    """Whether each text is a conversation (``runners.texts.conversations``)."""


class Prompts(Protocol):
    """Gives each cell its prompts."""

    def of(self, cell: PlannedCell) -> PromptFile:
        """Return the prompts of a cell, written to a file."""
        ...

    def hash_of(self, cell: PlannedCell) -> str | None:
        """Return the hash of a cell's prompts, nothing written; None where they cannot be had."""
        ...


class PromptFiles:
    """Writes each cell's prompts to a file, reading each dataset once. StudyError where it cannot
    be read or is too small."""

    def __init__(self, study: Study, layout: Layout) -> None:
        self._study = study
        self._layout = layout
        self._known: dict[tuple[str, str], PromptFile] = {}
        self._read: dict[str, Sets] = {}
        self._unread: set[str] = set()

    def of(self, cell: PlannedCell) -> PromptFile:
        """Return the prompts of a cell; the files of all levels of its dataset are written."""
        key = (cell.dataset, cell.load)
        if key not in self._known:
            self._write(cell.dataset)
        return self._known[key]

    def hash_of(self, cell: PlannedCell) -> str | None:
        """Return the hash of a cell's prompts, nothing written; None where they cannot be had."""
        if cell.dataset in self._unread:
            return None
        try:
            return self._sets(cell.dataset)[cell.load].hash
        except StudyError:
            self._unread.add(cell.dataset)
            return None

    def _sets(self, dataset: str) -> Sets:
        """Return the prompts of each level; levels that were measured keep theirs, whatever levels
        came or went."""
        if dataset not in self._read:
            levels = [level.name for level in self._study.sent_levels(self._study.dataset(dataset))]
            kept = {level: prompts.read(self._layout.prompts(dataset, level)) for level in levels}
            self._read[dataset] = prompts.prompt_sets(self._study, dataset, kept)
        return self._read[dataset]

    def _write(self, dataset: str) -> None:
        for level, found in self._sets(dataset).items():
            path = self._layout.prompts(dataset, level).absolute()
            prompts.write(found, path)
            warm_up = tuple(prompt.text for prompt in found.warm_up)
            self._known[dataset, level] = PromptFile(path, found.hash, warm_up, found.conversations)
