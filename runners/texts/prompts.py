"""The prompts of a study: one disjoint set for each load level, as files that every arm reads.

Every arm, tensor-parallel size and repeat gets the same sets, so that only the speculation
differs; no level sees a prompt of another, so that no cache helps it, unless the study allows it
(``reuse``).
"""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any, Protocol

from runners.loads.rates import arranged, arrivals_of
from runners.loads.trace import Arrival
from runners.measuring.layout import Layout
from runners.planning.asked import requests_at
from runners.planning.datasets import Dataset
from runners.planning.plan import Plan, PlannedCell
from runners.planning.study import Study
from runners.texts import datasets
from runners.texts.datasets import prompt_texts
from warehouse.contract import flatten_messages, hash_text, prompt_set_hash
from warehouse.errors import StudyError

#: Columns of a level's file, by names that GuideLLM takes for nothing else.
PROMPT, WHEN, MOST = "prompt", "relative_timestamp", "output_tokens_count"
MESSAGES = "messages"


@dataclass(frozen=True)
class Prompt:
    """A text and its hash, which is that of the request as ingest finds it in a report."""

    text: str
    hash: str


@dataclass(frozen=True)
class PromptSet:
    """What one level sends, what warms it up, and the hash that a record says."""

    prompts: tuple[Prompt, ...]
    warm_up: tuple[Prompt, ...]
    """Prompts of no level; fewer than asked for where the dataset has no more."""
    hash: str
    arrivals: tuple[Arrival, ...] = ()
    """Of a trace: when each prompt is sent, and how long its answer may be."""
    conversations: bool = False
    """Whether each text is a conversation, of which the messages are sent."""


Kept = Mapping[str, Sequence[str]]


def prompt_sets(study: Study, dataset_name: str, kept: Kept | None = None) -> dict[str, PromptSet]:
    """Return the prompts of a dataset by the short names of its load levels.

    ``kept`` are the texts with which levels were measured before: where the dataset, its filter and
    its seed still give them, in that order, a level keeps them whatever levels came or went. Raises
    StudyError where the dataset cannot be read or has too few prompts.
    """
    dataset = study.dataset(dataset_name)
    texts = prompt_texts(study, dataset_name)
    levels = {level.name: level for level in study.sent_levels(dataset)}
    counts = {name: requests_at(study, dataset, level) for name, level in levels.items()}
    needed = sum(counts.values())
    if len(texts) < needed and not (dataset.reuse and texts):
        raise StudyError(_too_few(dataset, len(texts), needed))
    Random(dataset.shuffle_seed).shuffle(texts)
    texts *= math.ceil(needed / len(texts))  # more than once only where they are sent again
    starts = _starts(texts, counts, kept or {})
    style, spoken = study.request.format, dataset.conversations
    prompts = [prompt_of(text, style, conversation=spoken) for text in texts]
    used = max(start + counts[level] for level, start in starts.items())
    most = max(level.at_once or counts[name] for name, level in levels.items())
    warm_up = tuple(prompts[used : used + study.window.warm_up_at(most)])
    slices = {name: tuple(prompts[starts[name] :][: counts[name]]) for name in levels}
    when = {name: arrivals_of(study, dataset, level) for name, level in levels.items()}
    return {
        name: PromptSet(arranged(taken, when[name]), warm_up, _set_hash(taken), when[name], spoken)
        for name, taken in slices.items()
    }


def _starts(texts: Sequence[str], counts: Mapping[str, int], kept: Kept) -> dict[str, int]:
    """Return where each level's prompts begin: where they began before, else in the first gap that
    fits.

    Where kept places leave no gap for the others, all levels are cut anew.
    """
    place = {text: number for number, text in reversed(list(enumerate(texts)))}
    starts: dict[str, int] = {}
    for level, before in kept.items():
        start = min((place.get(text, -1) for text in before), default=-1)
        # A trace sends them in an order of its own.
        same = start >= 0 and sorted(texts[start : start + len(before)]) == sorted(before)
        if same and counts.get(level) == len(before) and _free(start, level, starts, counts):
            starts[level] = start
    for level in counts:
        if level not in starts:
            gap = _gap(level, starts, counts, len(texts))
            if gap is None:
                return _starts(texts, counts, {})
            starts[level] = gap
    return starts


def _free(start: int, level: str, starts: Mapping[str, int], counts: Mapping[str, int]) -> bool:
    end = start + counts[level]
    return all(end <= begun or begun + counts[other] <= start for other, begun in starts.items())


def _gap(
    level: str, starts: Mapping[str, int], counts: Mapping[str, int], there_are: int
) -> int | None:
    """Return the first place, at the beginning or after another level, where a level fits."""
    candidates = sorted({0, *(start + counts[other] for other, start in starts.items())})
    fitting = (c for c in candidates if c + counts[level] <= there_are)
    return next((c for c in fitting if _free(c, level, starts, counts)), None)


def read(path: Path) -> tuple[str, ...]:
    """Return the texts of a set that was written before; none where there is no such file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return tuple(json.loads(line)[PROMPT] for line in lines)
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def problems(study: Study) -> list[str]:
    """Return one sentence for each dataset that cannot be read or has too few prompts."""
    said = []
    for dataset in study.measured_on:
        try:
            prompt_sets(study, dataset.name)
        except StudyError as error:
            said.append(str(error))
    return said


def write(found: PromptSet, path: Path) -> None:
    """Write the set as JSONL, which is what GuideLLM reads: the column ``prompt``, of a conversation
    its ``messages``, and of a trace when each is sent and how long its answer may be."""
    lines = [json.dumps(row) for row in _rows(found)]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(path)


def columns_of(text: str, conversation: bool) -> dict[str, Any]:
    """Return the columns of a file that say what is sent."""
    return {PROMPT: text} | ({MESSAGES: datasets.messages_of(text)} if conversation else {})


def _rows(found: PromptSet) -> Iterator[dict[str, Any]]:
    says_lengths = any(arrival.output_tokens for arrival in found.arrivals)
    for prompt, arrival in zip_longest(found.prompts, found.arrivals):
        row = columns_of(prompt.text, found.conversations)
        if arrival is not None:
            row[WHEN] = round(arrival.at, 6)
            # Each line has the same columns, or a reader takes the type of some for nothing.
            row |= {MOST: arrival.output_tokens or 0} if says_lengths else {}
        yield row


def prompt_of(text: str, request_format: str, conversation: bool = False) -> Prompt:
    """Return a text with the hash that ingest will find for it in a report."""
    if conversation:
        return Prompt(text, hash_text(datasets.flattened(text)))
    chat = request_format == "chat_completions"
    return Prompt(text, hash_text(flatten_messages([("user", text)]) if chat else text))


def _set_hash(prompts: tuple[Prompt, ...]) -> str:
    found = prompt_set_hash([prompt.hash for prompt in prompts])
    assert found is not None  # a level sends at least one prompt
    return found


def _too_few(dataset: Dataset, there_are: int, needed: int) -> str:
    return (
        f"Dataset {dataset.name} has {there_are} different prompts, but its levels need {needed}, "
        "none twice; lower prompts_per_level, drop levels or loosen the filter."
    )


# --- The prompt sets of a study as files, written once and read by GuideLLM for every arm.


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


Sets = dict[str, PromptSet]


@dataclass(frozen=True)
class PromptFile:
    """One level's prompts: the file, the hash of the set, the texts that warm up before it."""

    path: Path
    hash: str
    warm_up: tuple[str, ...]
    conversations: bool = False
    """Whether each text is a conversation (``runners.texts.datasets``)."""


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
            kept = {level: read(self._layout.prompts(dataset, level)) for level in levels}
            self._read[dataset] = prompt_sets(self._study, dataset, kept)
        return self._read[dataset]

    def _write(self, dataset: str) -> None:
        for level, found in self._sets(dataset).items():
            path = self._layout.prompts(dataset, level).absolute()
            write(found, path)
            warm_up = tuple(prompt.text for prompt in found.warm_up)
            self._known[dataset, level] = PromptFile(path, found.hash, warm_up, found.conversations)
