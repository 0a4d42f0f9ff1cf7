"""``draftboard ingest --guess``: what is known of each file, by whom, and what is guessed of it.

It shows what would be taken in as what, asks for the rest on a terminal, and lets go or not.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os.path import commonpath
from pathlib import Path
from typing import Any, Literal

import click

from analysis.matching.guess import BASELINE, SOME_METHOD, Guess, together
from analysis.matching.guess_paths import (
    Named,
    concurrency,
    datasets,
    datasets_apart,
    drafts,
    named,
    numbers_apart,
    rate,
    repeat,
    with_words,
    without_sizes,
    words_apart,
)
from commands.terminal import ends_of_paths, progress, show_table
from ingest.clean import clean_text
from ingest.discovery import find_units
from ingest.model import IngestOptions, Unit
from ingest.pipeline import IngestOutcome, ingest_units
from ingest.settings import checked_facts
from warehouse import queries
from warehouse.catalogue import counted
from warehouse.contract import arm_label
from warehouse.errors import UnknownKey
from warehouse.filters import Filters
from warehouse.json_text import json_text
from warehouse.loads import Load, load_of
from warehouse.store import Reader, open_writer

#: Who says a fact: the report itself, the user, a name, or nobody.
By = Literal["contents", "you", "name", "nobody"]
#: What two files must share, or be known for, to be compared; in this order they are shown.
SHOWN = ("spec_method", "num_speculative_tokens", "draft_model", "dataset", "model", "engine", "gpu",
         "gpu_count", "tensor_parallel_size")  # fmt: skip
#: What else makes two files runs of two servers.
OF_THE_SERVER = ("precision", "prefix_caching", "server_args")
#: What is guessed and shown, though two files need not share it nor is it asked for.
REPEAT = "repeat"
_GUESSED = ("num_speculative_tokens", "gpu", "gpu_count", "tensor_parallel_size", "server_args")
#: What stands for a fact in which the results of one file differ: they say it themselves.
SEVERAL = "several"
_K = "num_speculative_tokens"

Row = Mapping[str, Any]
"""A cell as ``queries.cells`` gives it."""


@dataclass(frozen=True)
class GuessedFact:
    """One fact of a file; ``value`` is None where nobody says it."""

    value: Any
    by: By


@dataclass(frozen=True)
class GuessedFile:
    """One file: what is known of it, and in ``more`` what was guessed or answered, as ``--set``
    takes it.
    """

    path: Path
    format: str
    facts: Mapping[str, GuessedFact]
    loads: tuple[str, ...]
    load_by: By
    more: dict[str, Any] = field(default_factory=dict)

    def stated(self, key: str, value: Any, by: By) -> "GuessedFile":
        """Return the file with a fact that somebody else says now; None: nobody does."""
        more = {name: other for name, other in self.more.items() if name != key}
        if value is not None:
            more[key] = value
        return replace(self, facts={**self.facts, key: GuessedFact(value, by)}, more=more)


def guessed(
    rows: Iterable[Row], stated: Callable[[Path], Mapping[str, Any]]
) -> tuple[GuessedFile, ...]:
    """Return what is known of each file of some cells, and what its path and the other files add.
    ``stated``: what the user said of a path.
    """
    files: dict[str, list[Row]] = {}
    for row in rows:
        files.setdefault(str(row["path"]), []).append(row)
    paths = list(files)
    # Below the folders that all of them share; that of a single file is its name.
    shared = Path(commonpath(paths)) if len(paths) > 1 else Path(paths[0]).parent
    below = [str(Path(path).relative_to(shared)) for path in paths]
    facts = [
        {
            key: cells[0].get(key) if len({repr(cell.get(key)) for cell in cells}) == 1 else None
            for key in (*SHOWN, REPEAT, *OF_THE_SERVER)
        }
        for cells in files.values()
    ]
    contents = list(map(_content, facts, files.values()))
    names = [named(name) for name in below]
    if not any(guess.method for guess in names):
        # Where no path says an arm, the last shared folder may.
        folder = Path(paths[0]).absolute().parents[len(Path(below[0]).parts) - 1].name
        names = [named(f"{folder}/{name}") for name in below]
    arms = together(names, contents)
    # A size is no dataset where every report says its model.
    places = list(map(without_sizes, below)) if all(each["model"] for each in facts) else below
    sets = datasets(places, [arm.method for arm in arms])
    files_guessed = []
    for number, (path, cells) in enumerate(files.items()):
        arm, name = arms[number], below[number]
        offers = {key: getattr(arm, key) for key in _GUESSED} | {
            "dataset": sets[number], "concurrency": concurrency(name), "rate": rate(name),
            REPEAT: repeat(name), "spec_method": arm.method,
        }  # fmt: skip
        by: By = "contents" if arm.method == contents[number].method else "name"
        files_guessed.append(
            _file(Path(path), cells, facts[number], stated(Path(path)), offers, by)
        )
    return tuple(files_guessed)


def _content(facts: Mapping[str, Any], cells: Sequence[Row]) -> Guess:
    # What a server was started to draft with, though not by which method.
    drafted = any(
        cell.get(key) not in (None, "{}")
        for cell in cells
        for key in ("speculative_config", "draft_model")
    )
    method = facts["spec_method"] or (SOME_METHOD if drafted else None)
    return Guess(method, facts[_K], facts["gpu"], facts["dataset"], facts["tensor_parallel_size"])


def _file(
    path: Path, cells: Sequence[Row], facts: Mapping[str, Any], stated: Mapping[str, Any],
    offers: Mapping[str, Any], method_by: By,
) -> GuessedFile:  # fmt: skip
    guessed_facts: dict[str, GuessedFact] = {}
    more: dict[str, Any] = {}
    for key, agreed in facts.items():
        offer = offers.get(key)
        is_open = all(cell.get(key) is None for cell in cells)
        if is_open and offer is not None:
            guessed_facts[key] = GuessedFact(offer, method_by if key == "spec_method" else "name")
            more[key] = offer
            continue
        value = agreed if is_open or agreed is not None else SEVERAL
        by: By = "nobody" if value is None else "contents"
        if value is not None and stated.get(key) is not None:
            by = "you"
        guessed_facts[key] = GuessedFact(value, by)
    loads = [_load_of(cell) for cell in cells]
    offer = {key: offers[key] for key in ("concurrency", "rate")
             if offers[key] is not None and all(cell.get(key) is None for cell in cells)}  # fmt: skip
    by_name = [_load_of({**cell, **offer}) for cell in cells]
    # That a load is unbounded is a load too, but for those whose reports say nothing of it.
    kind = str(cells[0]["load_generator"])
    # Whose reports say nothing of a load: that of their reader is how they run without a limit.
    unsaid = all(
        load is None or (load.kind == "unbounded" and kind == "vllm-throughput") for load in loads
    )
    load_by: By = "contents"
    if unsaid and None not in by_name and by_name != loads:
        loads, load_by = by_name, "name"
        more |= offer
    texts = tuple(dict.fromkeys(load.text for load in loads if load))
    return GuessedFile(path, kind, guessed_facts, texts, load_by if texts else "nobody", more)


def _load_of(cell: Row) -> Load | None:
    return load_of(*(cell.get(key) for key in ("load_profile", "concurrency", "rate", "trace")))


def missing(files: Sequence[GuessedFile]) -> dict[str, int]:
    """Return the facts that nobody states, and of how many files."""
    counted = Counter(
        key for file in files for key, fact in file.facts.items()
        if fact.value is None and key != "draft_model"
        and not (key == _K and file.facts["spec_method"].value in ("none", None))
    )  # fmt: skip
    return {key: counted[key] for key in SHOWN if counted[key]}


# --- Files that ``--guess`` would take for one run, though their names differ: drafts, or repeats.


def kept_apart(files: Sequence[GuessedFile]) -> tuple[GuessedFile, ...]:
    """Return the files, none taken for a repeat of another dataset or arm: datasets that reports
    name alike and drafts get names of their own."""
    by_reports = [file.facts["dataset"].by == "contents" for file in files]
    renamed = []
    for file, words in zip(
        files, datasets_apart(list(map(_named, files)), by_reports), strict=True
    ):
        dataset = file.facts["dataset"]
        # What the user says stays, and what the results of one file say.
        is_said = words is None or dataset.by == "you" or dataset.value == SEVERAL
        name = None if is_said or words is None else with_words(dataset.value, words)
        renamed.append(file if name is None else file.stated("dataset", name, "name"))
    return tuple(
        file if draft is None or file.facts["draft_model"].value is not None
        or _agreed(file, "spec_method") is None
        else file.stated("draft_model", draft, "name")
        for file, draft in zip(renamed, drafts(list(map(_named, renamed))), strict=True)
    )  # fmt: skip


def named_apart(files: Sequence[GuessedFile]) -> dict[str, tuple[str, ...]]:
    """Return, by arm, the words and numbers that tell names of repeats apart: they may say what ran."""
    alike = list(map(_named, files))
    words, numbers = words_apart(alike), numbers_apart(alike)
    return {
        arm_label(*arm): (*words.get(arm, ()), *dict.fromkeys(numbers.get(arm, {}).values()))
        for arm in dict.fromkeys((*words, *numbers))
    }


def _named(file: GuessedFile) -> Named:
    method, k = _agreed(file, "spec_method"), _agreed(file, _K)
    shared = tuple(repr(file.facts[key].value) for key in (*SHOWN, *OF_THE_SERVER))
    return Named(str(file.path), method, None if method == BASELINE else k, (shared, file.loads))


def _agreed(file: GuessedFile, key: str) -> Any:
    value = file.facts[key].value
    return None if value == SEVERAL else value


# --- What is shown, and whether it is taken in.

LABELS = {
    "repeat": "repeat",
    "spec_method": "arm", "num_speculative_tokens": "draft tokens K", "dataset": "dataset",
    "model": "model", "engine": "engine", "gpu": "GPU", "gpu_count": "number of GPUs",
    "tensor_parallel_size": "tensor parallel size",
}  # fmt: skip
#: How a table marks who says something; what is not marked a file says itself, or the user.
_MARKS = {"name": "*", "contents": "", "you": "", "nobody": ""}
_WIDTH = 80
#: Of those that tell repeats apart.
_MOST_WORDS = 6


def agree(
    paths: tuple[Path, ...], options: IngestOptions, given: Mapping[str, Any]
) -> dict[str, dict[str, Any]] | None:
    """Show what is known and guessed of the files; return what to tell of each, by its path as it is
    stored, None to take in nothing.

    Only on a terminal anybody is asked; elsewhere ``--yes`` agrees.
    """
    files, outcome = _looked_at(paths, options)
    as_json, yes = given["as_json"], given["yes"]
    if as_json and not yes:
        answer = {
            "files": [
                {
                    "path": str(file.path), "format": file.format,
                    "facts": {k: {"value": f.value, "from": f.by} for k, f in file.facts.items()},
                    "loads": list(file.loads), "loads_from": file.load_by, "set": file.more,
                }
                for file in files
            ],
            "repeats_named_apart": {arm: list(words) for arm, words in named_apart(files).items()},
            "rejected": [{"path": r.path, "reason": r.reason} for r in outcome.rejected],
            "passed_over": outcome.as_json()["passed_over"],
        }  # fmt: skip
        click.echo(json_text(answer, indent=1))
    elif not as_json:
        _show(files, outcome)
    if files and not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
        files = _completed(files)
        _show(files, outcome)
        if not click.confirm(f"Take {counted(len(files), 'file')} in?"):
            return None
    elif not yes:
        if not as_json:
            click.echo(
                "Nothing was taken in; do so with --yes. --set or --facts say what is wrong."
            )
        return None
    return {clean_text(str(file.path)): file.more for file in files}


def _looked_at(
    paths: tuple[Path, ...], options: IngestOptions
) -> tuple[tuple[GuessedFile, ...], IngestOutcome]:
    def stated(path: Path) -> dict[str, Any]:
        try:
            facts = {} if options.facts is None else options.facts.of(path)
        except UnknownKey:
            facts = {}
        return facts | options.settings

    passed_over: list[Path] = []
    units = list(find_units(paths, passed_over))
    total = sum(unit.bytes for unit in units if isinstance(unit, Unit))
    with tempfile.TemporaryDirectory(prefix="draftboard-guess-") as folder:
        with open_writer(Path(folder)) as store, progress("look", total) as done:
            outcome = ingest_units(units, store, options, lambda unit: done(unit.bytes))
        outcome.passed_over = passed_over
        if not outcome.accepted:
            return (), outcome
        with Reader(Path(folder)) as reader:
            rows = queries.cells(reader, Filters()).to_pylist()
    return kept_apart(guessed(rows, stated)), outcome


def _show(files: Sequence[GuessedFile], outcome: IngestOutcome) -> None:
    for rejection in outcome.rejected:
        click.echo(f"not a result: {rejection.path}\n    {rejection.reason}")
    if outcome.passed_over:
        click.echo(f"Passed over: {len(outcome.passed_over):,} {outcome.words_of_passed_over}.")
    if not files:
        click.echo("No file here is a result that can be taken in.")
        return
    click.echo(f"{counted(len(files), 'file')} with {counted(outcome.cells, 'cell')}.")
    rows = [_row(file) for file in files]
    shared = [name for name in rows[0] if len({row[name] for row in rows}) == 1]
    in_common = ", ".join(
        f"{name} {rows[0][name]}" for name in shared if rows[0][name] != "unknown"
    )
    if in_common:
        _wrapped(f"All: {in_common}")
    names = [name for name in rows[0] if name not in shared]
    if names:
        ends = ends_of_paths([str(file.path) for file in files], _WIDTH // 2)
        show_table(
            ("file", *names),
            [(end, *(row[name] for name in names)) for end, row in zip(ends, rows, strict=True)],
            narrow=True,
        )
    if any(value.endswith("*") for row in rows for value in row.values()):
        click.echo("* from its path")
    lacking = {LABELS[key]: number for key, number in missing(files).items()}
    if not all(file.loads for file in files):
        lacking["load"] = sum(not file.loads for file in files)
    if lacking:
        unsaid = (
            name if n == len(files) else f"{name} of {counted(n, 'file')}"
            for name, n in lacking.items()
        )
        _wrapped(f"Nobody says: {', '.join(unsaid)}.")
    for arm, words in named_apart(files).items():
        differ = ", ".join(words[:_MOST_WORDS]) + (", …" if len(words) > _MOST_WORDS else "")
        _wrapped(
            f"Taken for repeats of {arm}, though their names differ: {differ}. If they are different "
            "runs, tell them apart in --facts, by draft_model, num_speculative_tokens, dataset or "
            "server_args."
        )


def _wrapped(text: str) -> None:
    click.echo(click.wrap_text(text, _WIDTH, subsequent_indent="     "))


def _row(file: GuessedFile) -> dict[str, str]:
    facts = file.facts
    method, k, draft = facts["spec_method"], facts[_K], facts["draft_model"]
    arm = SEVERAL
    if method.value != SEVERAL:
        mark = _MARKS[method.by] or (_MARKS[k.by] if method.value != "none" else "")
        in_brackets = f" ({draft.value})" if draft.by in ("name", "you") else ""
        arm = arm_label(method.value, k.value) + in_brackets + mark
    shown = {"arm": arm, "dataset": _marked(facts["dataset"])}
    shown["load"] = (", ".join(file.loads) or "unknown") + _MARKS[file.load_by]
    shown["from"] = file.format
    others = ("repeat", "model", "engine", "gpu", "gpu_count", "tensor_parallel_size")
    shown |= {LABELS[key]: _marked(facts[key]) for key in others}
    # What a report says of its server's arguments may be long.
    args = facts["server_args"]
    stated = args.value.items() if args.by == "name" else ()
    words = ", ".join(f"{name} {value}" for name, value in stated)
    return shown | {"server arguments": words + _MARKS["name"] if words else "unknown"}


def _marked(fact: GuessedFact) -> str:
    return "unknown" if fact.value is None else f"{fact.value}{_MARKS[fact.by]}"


# --- What is asked on a terminal; an empty answer leaves a thing unknown.


def _completed(files: tuple[GuessedFile, ...]) -> tuple[GuessedFile, ...]:
    """Ask for what is missing, and return the files with the user's answers: which are the baseline,
    what the others speculate with and how many tokens, then what all may share.
    """
    if any(_method(file) is None for file in files):
        part = click.prompt("A part of the paths of the baseline's files", default="", type=str)
        if part:
            files = tuple(
                file.stated("spec_method", BASELINE, "you")
                if _method(file) is None and part in str(file.path) else file
                for file in files
            )  # fmt: skip
    for unnamed, what in (
        (SOME_METHOD, "method of {} speculative files"),
        (None, "arm of {} files"),
    ):
        meant = [_method(file) == unnamed for file in files]
        files = _answered(files, meant, "spec_method", what)
    for method in dict.fromkeys(_method(file) for file in files):
        if method not in (None, BASELINE, SEVERAL):
            meant = [_method(file) == method and file.facts[_K].value is None for file in files]
            files = _answered(files, meant, _K, f"{LABELS[_K]} of {{}} {method} files")
    files = kept_apart(files)
    for key in ("dataset", "model", "gpu", "gpu_count", "tensor_parallel_size"):
        if key in missing(files):
            meant = [file.facts[key].value is None for file in files]
            files = _answered(files, meant, key, f"{LABELS[key]} of {{}} files")
    return files


def _method(file: GuessedFile) -> Any:
    return file.facts["spec_method"].value


def _answered(
    files: tuple[GuessedFile, ...], meant: Sequence[bool], key: str, question: str
) -> tuple[GuessedFile, ...]:
    if not any(meant):
        return files
    what = question.replace("{}", str(sum(meant)))
    while True:
        answer = click.prompt(f"{what[:1].upper()}{what[1:]}", default="", type=str).strip()
        try:
            value = checked_facts({key: answer})[key] if answer else None
            break
        except UnknownKey as error:
            click.echo(str(error).replace("--set ", "", 1))
    if value is None:
        return files
    return tuple(
        file.stated(key, value, "you") if is_meant else file
        for file, is_meant in zip(files, meant, strict=True)
    )
