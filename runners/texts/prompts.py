"""The prompts of a study: one disjoint set for each load level, as files that every arm reads.

Every arm, tensor-parallel size and repeat gets the same sets, so that only the speculation
differs; no level sees a prompt of another, so that no cache helps it, unless the study allows it
(``reuse``).
"""

import contextlib
import csv
import importlib.util
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

from runners.planning.loads import Arrival, Dataset, LoadLevel, TextForm
from runners.planning.plan import Plan, PlannedCell, requests_at, trace_of
from runners.planning.study_file import MOST_WARM_UP, Study
from runners.probes import interpreter
from runners.surroundings.layout import Layout
from runners.surroundings.models import commit_here
from runners.texts import generators
from runners.texts.conversations import (
    CATEGORY,
    MOST,
    PAUSE,
    PROMPT,
    WHEN,
    columns_of,
    ends_of,
    messages_of,
    prompt_hashes,
    said_in,
    turns,
)
from warehouse.contract import prompt_set_hash
from warehouse.errors import RunnerError, StudyError
from warehouse.storage.files import sha256_of

# --- The rows of a dataset, wherever they lie, as dictionaries; only files that need no library here.
#
# Parquet files and datasets of the hub are read by a Python that has the library: this one or that
# of GuideLLM, which always brings ``datasets`` and ``pyarrow``.


Row = dict[str, Any]
_ENDINGS = (".jsonl", ".json", ".csv", ".parquet")


def rows(study: Study, dataset: Dataset) -> Iterator[Row]:
    """Yield every row, with the columns that the dataset's field and filter name at least.

    Raises StudyError where it cannot be read: which dataset, what is wrong, what to do."""
    if dataset.hub is not None:
        yield from _probed(study, dataset, {"parquet": None, "hub": dataset.hub.model_dump()})
        return
    path = study.file(str(dataset.file))
    if path.suffix not in _ENDINGS:
        raise StudyError(
            f"Dataset {dataset.name}: {dataset.file} is none of {', '.join(_ENDINGS)}."
        )
    if not path.is_file():
        raise StudyError(
            f"Dataset {dataset.name}: there is no file {dataset.file}; a path in a study is "
            "relative to the study file."
        )
    if path.suffix == ".parquet":
        yield from _probed(study, dataset, {"parquet": str(path), "hub": None})
        return
    try:
        for row in _parsed(path):
            if not isinstance(row, dict):
                raise StudyError(f"Dataset {dataset.name}: {path.name} has rows without columns.")
            yield row
    except (json.JSONDecodeError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(
            f"Dataset {dataset.name}: {path.name} is not {path.suffix[1:].upper()}: {error}."
        ) from None


def python_with(study: Study, library: str) -> Path:
    """Return a Python that has a library: this one, else GuideLLM's. Raises RunnerError."""
    if importlib.util.find_spec(library) is not None:
        return Path(sys.executable)
    executable = study.executable("guidellm")
    python = None if executable is None else interpreter.python_of(Path(executable))
    if python is None:
        raise RunnerError(
            f"it needs the library {library}, which GuideLLM's environment has: install GuideLLM "
            "and name it under executables.guidellm of the study."
        )
    return python


def _parsed(path: Path) -> Iterator[Any]:
    if path.suffix == ".csv":
        csv.field_size_limit(1 << 30)
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file)
    elif path.suffix == ".json":
        content = json.loads(path.read_text(encoding="utf-8"))
        yield from content if isinstance(content, list) else [content]
    else:
        with path.open(encoding="utf-8") as file:
            yield from (json.loads(line) for line in file if line.strip())


def _probed(study: Study, dataset: Dataset, source: dict[str, Any]) -> Iterator[Row]:
    library = "datasets" if dataset.hub is not None else "pyarrow"
    # Of dotted paths the first part.
    paths = (dataset.field, *dataset.filter.where, *filter(None, [dataset.category]))
    columns = sorted({path.partition(".")[0] for path in paths})
    with tempfile.TemporaryDirectory(prefix="draftboard-rows-") as folder:
        into = Path(folder) / "rows.jsonl"
        question = source | {"columns": columns, "into": str(into)}
        try:
            python = python_with(study, library)
            # A first download of a large dataset takes its time.
            answer = interpreter.ask(python, "rows", question, study.environment, 3600.0)
        except RunnerError as error:
            raise StudyError(f"Dataset {dataset.name} cannot be read: {error}") from None
        missing = [name for name in columns if name not in answer["columns"]]
        if missing:
            raise StudyError(
                f"Dataset {dataset.name} has no column {missing[0]}; it has "
                f"{', '.join(answer['columns'][:20])}."
            )
        yield from _parsed(into)


# --- The prompts of a dataset: its rows' field as text, filtered, each text once.


def origin(study: Study, dataset: Dataset) -> dict[str, Any]:
    """Return the hub's commit, the sha256 of a file, or the generator's settings; unknown is left
    out."""
    hub, generator = dataset.hub, dataset.generator
    if hub is not None:
        commit = commit_here("datasets", hub.id, hub.revision, study.environment)
        facts: dict[str, Any] = {"hub": hub.id, "revision": hub.revision, "commit": commit}
    elif dataset.file is not None:
        path, digest = study.file(dataset.file), None
        with contextlib.suppress(OSError):
            status = path.stat()
            digest = _sha256(path, status.st_mtime_ns, status.st_size)
        facts = {"file": dataset.file, "sha256": digest}
    else:
        facts = {"generator": None if generator is None else generator.model_dump()}
    return {name: value for name, value in facts.items() if value is not None}


@lru_cache(maxsize=64)
def _sha256(path: Path, _written: int, _size: int) -> str:
    # The hash of a file as it was written then. It is remembered, since every cell of a
    # dataset asks for it.
    return sha256_of(path)


def prompt_texts(study: Study, name: str) -> list[str]:
    """Return every usable text of a dataset, in its own order, no text twice.

    Raises StudyError where the dataset cannot be read or no row has a text in the field.
    """
    return list(_usable(study, study.dataset(name)))


def _usable(study: Study, dataset: Dataset) -> dict[str, str | None]:
    """Return the category of each usable text, None where the dataset tells none."""
    generator, bounds = dataset.generator, dataset.filter
    if generator is None:
        texts = _texts(dataset, rows(study, dataset))
    else:
        made = iter(generators.prompts(generator.kind, generator.min_chars, generator.max_chars))
        texts = ((text, None) for text in made)
        if dataset.sessions:
            told = zip(*[made] * dataset.turns, strict=False)
            texts = ((json.dumps(said_in([*each])), None) for each in told)
    usable: dict[str, str | None] = {}
    for text, kind in texts:
        size = len(text)
        if dataset.form != "prompt":
            size = sum(len(message["content"]) for message in messages_of(text))
        if (bounds.min_chars or 0) <= size <= (bounds.max_chars or size):
            usable.setdefault(text, kind)
    if dataset.category is not None and not any(usable.values()):
        raise StudyError(
            f"Dataset {dataset.name}: none of its rows has a category in the column {dataset.category}; "
            "name the column that has (SPEED-Bench and Spec-Bench: category), or leave category out."
        )
    return usable


def _of_length(
    study: Study, dataset: Dataset, kinds: Mapping[str, str | None], chosen: Sequence[str]
) -> dict[str, str | None]:
    """Return prompts of the dataset's length in tokens that end as the chosen texts do, each with its
    category. Raises StudyError."""
    (tokens,), target, texts = dataset.prompt_tokens, study.target, list(kinds)
    places = {text: at for at, text in enumerate(texts)}
    question = {
        "tokenizer": study.located(target.tokenizer or target.model), "tokens": tokens, "texts": texts,
        "revision": None if target.tokenizer else target.revision,
        "chosen": [places[text] for text in chosen],
        "chat": study.request.format == "chat_completions",
    }  # fmt: skip
    try:
        python = python_with(study, "transformers")
        made = interpreter.ask(python, "cut", question, study.environment, 3600.0)
    except RunnerError as error:
        raise StudyError(
            f"Dataset {dataset.name}: its prompts cannot be cut to {tokens} tokens: {error}"
        ) from None
    if not made["prompts"]:
        raise StudyError(
            f"Dataset {dataset.name}: all its texts have {made['tokens']:,} tokens together, too few for one "
            f"prompt of {tokens:,}; take a dataset with more text, or lower prompt_tokens."
        )
    return {prompt: kinds[text] for prompt, text in zip(made["prompts"], chosen, strict=True)}


def value_at(row: Any, path: str) -> Any:
    """Return the value at a dotted path, ``conversations.0.value``; None where there is none."""
    for part in path.split("."):
        if isinstance(row, dict):
            row = row.get(part)
        elif isinstance(row, list) and part.isdigit() and int(part) < len(row):
            row = row[int(part)]
        else:
            return None
    return row


def _texts(dataset: Dataset, rows: Iterable[Row]) -> Iterator[tuple[str, str | None]]:
    seen, empty, most = 0, True, 0
    for row in rows:
        seen += 1
        # CSV has only texts, so values are compared as texts as well.
        if not all(
            (value := value_at(row, column)) == expected
            or str(value).lower() == str(expected).lower()
            for column, expected in dataset.filter.where.items()
        ):
            continue
        value = value_at(row, dataset.field)
        found: Iterable[str] = (value,) if isinstance(value, str) and value.strip() else ()
        if dataset.sessions:
            ends = ends_of(said := said_in(value))
            most = max(most, len(ends))
            found = (json.dumps(said[:end]) for end in ends[dataset.turns - 1 : dataset.turns])
        for text in turns(value) if dataset.conversations else found:
            empty = False
            kind = None if dataset.category is None else value_at(row, dataset.category)
            yield text, None if kind in (None, "") else str(kind)
    if empty and most:
        fewer = (
            "give conversations of at least two turns (a field with lists of messages, or of questions)"
            if most == 1 else f"write sessions: {{turns: {most}}}"
        )  # fmt: skip
        raise StudyError(
            f"Dataset {dataset.name}: no conversation of its {seen} rows has {dataset.turns} turns of a user, the "
            f"longest has {most}; {fewer}, or leave sessions out."
        )
    if empty:
        talk = "a conversation (messages with role and content)"
        raise StudyError(
            f"Dataset {dataset.name}: none of its {seen} rows passes the filter and has "
            f"{'a text' if dataset.form == 'prompt' else talk} in the field {dataset.field}; look at "
            "field and filter in the study."
        )


# --- One disjoint set of prompts for each load level.


#: Prompts for each request in flight, below which ramp and drain fill much of a level.
ENOUGH = 5


@dataclass(frozen=True)
class PromptSet:
    """What one level sends, what warms it up, and the hash that a record says.

    ``warm_up``: prompts of no level; fewer than asked for where the dataset has no more.
    ``arrivals`` of a trace: when each prompt is sent, and how long its answer may be.
    ``form``: what each text is; ``pause_s``: between the turns of a session.
    ``kinds``: the category of each text, empty where the dataset tells none.
    """

    prompts: tuple[str, ...]
    warm_up: tuple[str, ...]
    hash: str
    arrivals: tuple[Arrival, ...] = ()
    form: TextForm = "prompt"
    pause_s: float = 0.0
    kinds: Mapping[str, str] = field(default_factory=dict)


#: The texts with which levels were measured before, by their short names.
Kept = Mapping[str, Sequence[str]]


def prompt_sets(study: Study, dataset_name: str, kept: Kept | None = None) -> dict[str, PromptSet]:
    """Return the prompts of a dataset by the short names of its load levels.

    Where the dataset, its filter and its seed still give the texts in ``kept``, in that order, a
    level keeps them whatever levels came or went. Raises StudyError where the dataset cannot be
    read or has too few prompts.
    """
    dataset = study.dataset(dataset_name)
    kinds = _usable(study, dataset)
    texts = list(kinds)
    levels = {level.name: level for level in study.sent_levels(dataset)}
    counts = {
        name: requests_at(study, dataset, level) // dataset.turns for name, level in levels.items()
    }
    needed = sum(counts.values())
    Random(dataset.shuffle_seed).shuffle(texts)
    if dataset.prompt_tokens:
        # Twice as many as are sent now, so that levels which come or go leave the others theirs.
        kinds = _of_length(study, dataset, kinds, texts[: 2 * needed + MOST_WARM_UP])
        texts = list(kinds)
    if len(texts) < needed and not (dataset.reuse and texts):
        raise StudyError(
            f"Dataset {dataset.name} has {len(texts)} different "
            f"{'sessions' if dataset.sessions else 'prompts'}, but its levels need "
            f"{needed}, none twice; lower prompts_per_level, drop levels or loosen the filter."
        )
    texts *= math.ceil(needed / len(texts))  # more than once only where they are sent again
    starts = _starts(texts, counts, kept or {})
    style, form = study.request.format, dataset.form
    pause_s = dataset.sessions.think_time_s if dataset.sessions else 0.0
    used = max(start + counts[level] for level, start in starts.items())
    most = max(level.at_once or counts[name] for name, level in levels.items())
    warm_up = tuple(texts[used : used + study.window.warm_up_at(most)])
    sets = {}
    for name, level in levels.items():
        own, arrivals = texts[starts[name] :][: counts[name]], _arrivals(study, dataset, level)
        hashed = prompt_set_hash([one for text in own for one in prompt_hashes(text, style, form)])
        assert hashed is not None  # a level sends at least one prompt
        of_own = {text: kind for text in own if (kind := kinds[text]) is not None}
        sets[name] = PromptSet(
            arranged(own, arrivals), warm_up, hashed, arrivals, form, pause_s, of_own
        )
    return sets


def _starts(texts: Sequence[str], counts: Mapping[str, int], kept: Kept) -> dict[str, int]:
    """Return where each level's prompts begin: where they began before, else in the first gap that
    fits.

    Where kept texts leave no gap for the others, all levels are cut anew."""
    position = {text: number for number, text in reversed(list(enumerate(texts)))}
    starts: dict[str, int] = {}

    def is_free(start: int, level: str) -> bool:
        end = start + counts[level]
        taken = ((begin, begin + counts[other]) for other, begin in starts.items())
        return end <= len(texts) and all(end <= begin or stop <= start for begin, stop in taken)

    for level, before in kept.items():
        start = min((position.get(text, -1) for text in before), default=-1)
        # A trace sends them in an order of its own.
        same = start >= 0 and sorted(texts[start : start + len(before)]) == sorted(before)
        if same and counts.get(level) == len(before) and is_free(start, level):
            starts[level] = start
    for level in counts:
        if level not in starts:
            # At the beginning, or after another level.
            gaps = sorted({0, *(begin + counts[other] for other, begin in starts.items())})
            gap = next((start for start in gaps if is_free(start, level)), None)
            if gap is None:
                return _starts(texts, counts, {})
            starts[level] = gap
    return starts


def _arrivals(study: Study, dataset: Dataset, level: LoadLevel) -> tuple[Arrival, ...]:
    # When a trace's requests are sent, their answers no longer than the study allows; nothing
    # for another load.
    if level.trace is None:
        return ()
    # An answer of no tokens was no answer.
    most = dataset.max_tokens or study.request.max_tokens
    return tuple(
        replace(each, output_tokens=min(n, most or n) if (n := each.output_tokens) else None)
        for each in trace_of(study, level).arrivals
    )


def arranged(prompts: Sequence[str], arrivals: Sequence[Arrival]) -> tuple[str, ...]:
    """Return the prompts in the order of the arrivals, the longest where the trace's was the
    longest.

    By rank and not by tokens: so bursts of long requests stay bursts of long requests, whatever
    texts there are. Without lengths, or without a trace, the order stays."""
    lengths = [each.input_tokens for each in arrivals]
    if not lengths or None in lengths:
        return tuple(prompts)
    ranks = sorted(range(len(lengths)), key=lambda number: lengths[number] or 0)
    placed = dict(zip(ranks, sorted(prompts, key=len), strict=True))
    return tuple(placed[number] for number in range(len(prompts)))


def few_prompts(plan: Plan) -> list[str]:
    """Return one sentence for each dataset with too few prompts at some levels; empty where all is
    well. Loads without a concurrency fill themselves."""
    counts: dict[str, dict[int, int]] = {}
    for cell in plan.cells:
        if cell.concurrency is not None:
            texts = cell.prompts // plan.study.dataset(cell.dataset).turns
            counts.setdefault(cell.dataset, {})[cell.concurrency] = texts
    sentences = []
    for dataset, levels in counts.items():
        by_level = [(c, n, f"{n} prompts at concurrency {c}") for c, n in sorted(levels.items())]
        lacking = {
            "fewer prompts than requests in flight, so that concurrency is never reached":
                [text for c, n, text in by_level if n < c],
            f"under {ENOUGH} prompts for each request in flight, so ramp and drain weigh on the result":
                [text for c, n, text in by_level if c <= n < ENOUGH * c],
        }  # fmt: skip
        sentences += [
            f"{dataset}: {', '.join(texts)}: {why}; raise prompts_per_level."
            for why, texts in lacking.items() if texts
        ]  # fmt: skip
    return sentences


def sessions_of(plan: Plan) -> list[str]:
    """Return one sentence for each dataset and load of sessions: how many requests they make. Raises
    StudyError where a dataset that lies here has no such sessions."""
    sentences = []
    for dataset in (one for one in plan.study.measured_on if one.sessions):
        if dataset.hub is None:
            prompt_texts(plan.study, dataset.name)
        for level in plan.study.levels(dataset):
            n = requests_at(plan.study, dataset, level)
            sentences.append(
                f"{dataset.name} at {level.words}: {n // dataset.turns} sessions of {dataset.turns} turns, {n} requests"
            )
    return sentences


# --- The prompt sets of a study as files, written once and read by GuideLLM for every arm.


def read(path: Path) -> tuple[str, ...]:
    """Return the texts of a set that was written before; none where there is no such file."""
    try:
        return tuple(row[PROMPT] for row in _parsed(path))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def write(prompts: PromptSet, path: Path) -> None:
    """Write the set as JSONL, which is what GuideLLM reads: the column ``prompt``, of a conversation
    its ``messages``, of a session its turns and the pauses between them, and of a trace when each is sent and how long its answer may be.
    """
    says_lengths = any(arrival.output_tokens for arrival in prompts.arrivals)
    lines = []
    for prompt, arrival in zip_longest(prompts.prompts, prompts.arrivals):
        row = columns_of(prompt, prompts.form)
        if prompts.pause_s:
            later = range(len(ends_of(messages_of(prompt))) - 1)
            row |= {f"{PAUSE}_{turn}": prompts.pause_s for turn in later}
        row |= {CATEGORY: prompts.kinds.get(prompt, "")} if prompts.kinds else {}
        if arrival is not None:
            row[WHEN] = round(arrival.at, 6)
            # Each line has the same columns, or a reader takes the type of some for nothing.
            row |= {MOST: arrival.output_tokens or 0} if says_lengths else {}
        lines.append(json.dumps(row))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(path)


@dataclass(frozen=True)
class PromptFile:
    """One level's prompts: the file, the hash of the set, the texts that warm up before it.
    ``form``: what each text is (``runners.texts.prompts``)."""

    path: Path
    hash: str
    warm_up: tuple[str, ...]
    form: TextForm = "prompt"

    def kinds(self, request_format: str) -> dict[str, str]:
        """Return the category of each prompt by its hash, where the file tells any."""
        return {
            hashed: row[CATEGORY]
            for row in _parsed(self.path) if row.get(CATEGORY)
            for hashed in prompt_hashes(row[PROMPT], request_format, self.form)
        }  # fmt: skip


class PromptFiles:
    """Writes each cell's prompts to a file, reading each dataset once. StudyError where it cannot
    be read or is too small. ``given``: a file that every cell takes instead."""

    def __init__(self, study: Study, layout: Layout, given: PromptFile | None = None) -> None:
        self._study, self._layout, self._given = study, layout, given
        self._files: dict[tuple[str, str], PromptFile] = {}
        #: None: the dataset cannot be read.
        self._sets: dict[str, dict[str, PromptSet] | None] = {}

    def of(self, cell: PlannedCell) -> PromptFile:
        """Return the prompts of a cell; the files of all levels of its dataset are written."""
        dataset = cell.dataset
        if self._given is not None:
            return self._given
        if (dataset, cell.load) not in self._files:
            for level, prompts in self._read(dataset).items():
                path = self._layout.prompts(dataset, level).absolute()
                write(prompts, path)
                file = PromptFile(path, prompts.hash, prompts.warm_up, prompts.form)
                self._files[dataset, level] = file
        return self._files[dataset, cell.load]

    def hash_of(self, cell: PlannedCell) -> str | None:
        """Return the hash of a cell's prompts, nothing written; None where they cannot be had."""
        if self._given is not None:
            return self._given.hash
        if cell.dataset not in self._sets:
            try:
                self._read(cell.dataset)
            except StudyError:
                self._sets[cell.dataset] = None
        sets = self._sets[cell.dataset]
        return None if sets is None else sets[cell.load].hash

    def _read(self, dataset: str) -> dict[str, PromptSet]:
        # The prompts of each level; levels that were measured keep theirs, whatever
        # levels came or went.
        sets = self._sets.get(dataset)
        if sets is None:
            levels = [level.name for level in self._study.sent_levels(self._study.dataset(dataset))]
            kept = {level: read(self._layout.prompts(dataset, level)) for level in levels}
            sets = self._sets[dataset] = prompt_sets(self._study, dataset, kept)
        return sets
