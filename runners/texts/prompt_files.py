"""The prompt sets of a study as files, written once and read by GuideLLM for every arm."""

from dataclasses import dataclass
from pathlib import Path

from runners.measuring.layout import Layout
from runners.planning.plan import PlannedCell
from runners.planning.study import Study
from runners.texts import prompts


@dataclass(frozen=True)
class PromptFile:
    """One level's prompts: the file, the hash of the set, the texts that warm up before it."""

    path: Path
    hash: str
    warm_up: tuple[str, ...]


class PromptFiles:
    """Reads each dataset once. StudyError where it cannot be read or is too small."""

    def __init__(self, study: Study, layout: Layout) -> None:
        self._study = study
        self._layout = layout
        self._known: dict[tuple[str, int], PromptFile] = {}

    def of(self, cell: PlannedCell) -> PromptFile:
        """The prompts of a cell."""
        key = (cell.dataset, cell.concurrency)
        if key not in self._known:
            self._write(cell.dataset)
        return self._known[key]

    def _write(self, dataset: str) -> None:
        for concurrency, found in prompts.prompt_sets(self._study, dataset).items():
            path = self._layout.prompts(dataset, concurrency).absolute()
            prompts.write(found, path)
            warm_up = tuple(prompt.text for prompt in found.warm_up)
            self._known[dataset, concurrency] = PromptFile(path, found.hash, warm_up)
