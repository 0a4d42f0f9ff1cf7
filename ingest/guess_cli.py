"""``draftboard ingest --guess``: shows what would be taken in as what, asks, and lets go or not."""

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from analysis.matching.guess import BASELINE, SOME_METHOD
from ingest.clean import clean_text
from ingest.guessing import SEVERAL, Guessed, missing, stated, told_apart
from ingest.settings import checked_facts
from warehouse.errors import UnknownKey
from warehouse.json_text import json_text

if TYPE_CHECKING:
    from ingest.discovery import Unit
    from ingest.guessing import Found
    from ingest.pipeline import Options, Outcome
    from warehouse.rows import Rejection

#: What is told of each file beside ``--set``, by its path as it is stored.
Told = Mapping[str, dict[str, Any]]

LABELS = {
    "repeat": "repeat",
    "spec_method": "arm", "num_speculative_tokens": "draft tokens K", "dataset": "dataset",
    "model": "model", "engine": "engine", "gpu": "GPU", "gpu_count": "number of GPUs",
    "tensor_parallel_size": "tensor parallel size",
}  # fmt: skip
#: How a table marks who says something; what is not marked a file says itself, or the user.
_MARKS = {"name": "*", "contents": "", "you": "", "nobody": ""}
_LEGEND = "* from its path"
_WIDTH = 80
#: Of those that tell repeats apart.
_MOST_WORDS = 6


def with_told(unit: "Unit | Rejection", options: "Options", more: Told) -> "Options":
    """Return the options for one unit, with the facts told of it; ``--set`` wins."""
    own = more.get(clean_text(str(unit.path)), {})
    return replace(options, settings=own | options.settings) if own else options


def agreed(paths: tuple[Path, ...], options: "Options", given: dict[str, Any]) -> Told | None:
    """Show what is known and guessed of the files; return what to tell of each, None to take in
    nothing.

    Only on a terminal anybody is asked; elsewhere ``--yes`` agrees.
    """
    files, outcome = _looked_at(paths, options)
    asks = not given["yes"] and not given["as_json"] and _is_terminal()
    if given["as_json"] and not given["yes"]:
        click.echo(json_text(_as_json(files, outcome), indent=1))
    elif not given["as_json"]:
        _show(files, outcome)
    if asks and files:
        files = asked(files)
        _show(files, outcome)
        if not click.confirm(f"Take {_counted(len(files), 'file')} in?"):
            return None
    elif not given["yes"]:
        if not given["as_json"]:
            click.echo(
                "Nothing was taken in; do so with --yes. --set or --facts say what is wrong."
            )
        return None
    return {clean_text(str(one.path)): one.more for one in files}


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _looked_at(
    paths: tuple[Path, ...], options: "Options"
) -> tuple[tuple["Guessed", ...], "Outcome"]:
    """Read everything into a warehouse that is removed before this returns."""
    from commands.output import progress
    from ingest.discovery import Unit, find_units
    from ingest.guessing import guessed, told_apart
    from ingest.pipeline import ingest_units
    from warehouse import queries
    from warehouse.filters import Filters
    from warehouse.store import Reader, open_writer

    passed_over: list[Path] = []
    units = list(find_units(paths, passed_over))
    total = sum(unit.bytes for unit in units if isinstance(unit, Unit))
    with tempfile.TemporaryDirectory(prefix="draftboard-guess-") as place:
        with open_writer(Path(place)) as store, progress("look", total) as done:
            outcome = ingest_units(units, store, options, lambda unit: done(unit.bytes))
        outcome.passed_over = passed_over
        if not outcome.accepted:
            return (), outcome
        with Reader(Path(place)) as reader:
            rows = queries.cells(reader, Filters()).to_pylist()
    return told_apart(guessed(rows, lambda path: _told(path, options))), outcome


def _told(path: Path, options: "Options") -> dict[str, Any]:
    """Return what the user says of a file, by ``--facts`` and ``--set``."""
    try:
        facts = {} if options.facts is None else options.facts.of(path)
    except UnknownKey:
        facts = {}
    return facts | options.settings


def _show(files: Sequence["Guessed"], outcome: "Outcome") -> None:
    """Show what all files share in one line, what tells them apart in a table, and what nobody
    says."""
    from ingest.guessing import missing, named_apart

    for rejection in outcome.rejected:
        click.echo(f"not a result: {rejection.path}\n    {rejection.reason}")
    if outcome.passed_over:
        click.echo(f"Passed over: {len(outcome.passed_over):,} {outcome.said_of_passed_over}.")
    if not files:
        click.echo("No file here is a result that can be taken in.")
        return
    click.echo(f"{_counted(len(files), 'file')} with {_counted(outcome.cells, 'cell')}.")
    rows = [_row(one) for one in files]
    shared = [name for name in rows[0] if len({row[name] for row in rows}) == 1]
    said = ", ".join(f"{name} {rows[0][name]}" for name in shared if rows[0][name] != "unknown")
    if said:
        click.echo(click.wrap_text(f"All: {said}", _WIDTH, subsequent_indent="     "))
    _table(files, rows, [name for name in rows[0] if name not in shared])
    lacking = {LABELS[key]: number for key, number in missing(files).items()}
    if not all(one.loads for one in files):
        lacking["load"] = sum(not one.loads for one in files)
    if lacking:
        every = len(files)
        told = (
            name if n == every else f"{name} of {_counted(n, 'file')}"
            for name, n in lacking.items()
        )
        text = f"Nobody says: {', '.join(told)}."
        click.echo(click.wrap_text(text, _WIDTH, subsequent_indent="     "))
    for arm, words in named_apart(files).items():
        click.echo(click.wrap_text(_apart(arm, words), _WIDTH, subsequent_indent="     "))


def _apart(arm: str, words: Sequence[str]) -> str:
    said = ", ".join(words[:_MOST_WORDS]) + (", …" if len(words) > _MOST_WORDS else "")
    return (
        f"Taken for repeats of {arm}, though their names differ: {said}. If they are different "
        "runs, tell them apart in --facts, by draft_model, num_speculative_tokens, dataset or server_args."
    )


def _table(files: Sequence["Guessed"], rows: list[dict[str, str]], names: list[str]) -> None:
    from commands.output import show_table

    marked = any(value.endswith("*") for row in rows for value in row.values())
    if names:
        show_table(
            ("file", *names),
            [(one, *(row[name] for name in names)) for one, row in zip(_ends(files), rows, strict=True)],
            narrow=True,
        )  # fmt: skip
    if marked:
        click.echo(_LEGEND)


def _ends(files: Sequence["Guessed"]) -> list[str]:
    from commands.output import ends_of_paths

    return ends_of_paths([str(one.path) for one in files], _WIDTH // 2)


def _row(one: "Guessed") -> dict[str, str]:
    facts = one.facts
    shown = {"arm": _arm(facts), "dataset": _marked(facts["dataset"])}
    shown["load"] = (", ".join(one.loads) or "unknown") + _MARKS[one.load_by]
    shown["from"] = one.format
    others = ("repeat", "model", "engine", "gpu", "gpu_count", "tensor_parallel_size")
    shown |= {LABELS[key]: _marked(facts[key]) for key in others}
    return shown | {"server arguments": _arguments(facts["server_args"])}


def _arguments(found: "Found") -> str:
    """Return the server's arguments that a path says; what a report says of them may be long."""
    told = found.value.items() if found.by == "name" else ()
    return (
        ", ".join(f"{name} {value}" for name, value in told) + _MARKS["name"] if told else "unknown"
    )


def _marked(found: "Found") -> str:
    return "unknown" if found.value is None else f"{found.value}{_MARKS[found.by]}"


def _arm(facts: Mapping[str, "Found"]) -> str:
    from ingest.guessing import SEVERAL
    from warehouse.contract import arm_label

    method, k = facts["spec_method"], facts["num_speculative_tokens"]
    if method.value == SEVERAL:
        return SEVERAL
    mark = _MARKS[method.by] or (_MARKS[k.by] if method.value != "none" else "")
    draft = facts["draft_model"]
    named = f" ({draft.value})" if draft.by in ("name", "you") else ""
    return arm_label(method.value, k.value) + named + mark


def _as_json(files: Sequence["Guessed"], outcome: "Outcome") -> dict[str, Any]:
    from ingest.guessing import named_apart

    return {
        "files": [
            {
                "path": str(one.path), "format": one.format,
                "facts": {k: {"value": f.value, "from": f.by} for k, f in one.facts.items()},
                "loads": list(one.loads), "loads_from": one.load_by, "set": one.more,
            }
            for one in files
        ],
        "repeats_named_apart": {arm: list(words) for arm, words in named_apart(files).items()},
        "rejected": [{"path": r.path, "reason": r.reason} for r in outcome.rejected],
        "passed_over": outcome.as_json()["passed_over"],
    }  # fmt: skip


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# --- What ``--guess`` asks on a terminal; an empty answer leaves a thing unknown.


_SHARED = ("dataset", "model", "gpu", "gpu_count", "tensor_parallel_size")


def asked(files: Sequence[Guessed]) -> tuple[Guessed, ...]:
    """Ask for what is missing, and return the files with the user's answers."""
    files = told_apart(_arms(tuple(files)))
    for key in _SHARED:
        number = missing(files).get(key)
        if number:
            value = _prompt(f"{LABELS[key]} of {number} files", key)
            files = _where(files, _lacks(key), key, value)
    return files


def _arms(files: tuple[Guessed, ...]) -> tuple[Guessed, ...]:
    """Ask which files are the baseline, what the others speculate with, and how many tokens."""
    if any(_method(one) is None for one in files):
        part = click.prompt("A part of the paths of the baseline's files", default="", type=str)
        if part:
            files = _where(
                files, lambda one: _method(one) is None and part in str(one.path), "spec_method",
                BASELINE,
            )  # fmt: skip
    for unnamed, what in (
        (SOME_METHOD, "method of {} speculative files"),
        (None, "arm of {} files"),
    ):
        number = sum(_method(one) == unnamed for one in files)
        if number:
            value = _prompt(what.format(number), "spec_method")
            files = _where(files, _has_method(unnamed), "spec_method", value)
    for method in dict.fromkeys(_method(one) for one in files):
        if method not in (None, BASELINE, SEVERAL):
            files = _with_k(files, method)
    return files


def _with_k(files: tuple[Guessed, ...], method: str) -> tuple[Guessed, ...]:
    key = "num_speculative_tokens"

    def is_meant(one: Guessed) -> bool:
        return _method(one) == method and one.facts[key].value is None

    number = sum(map(is_meant, files))
    if not number:
        return files
    return _where(files, is_meant, key, _prompt(f"{LABELS[key]} of {number} {method} files", key))


def _method(one: Guessed) -> Any:
    return one.facts["spec_method"].value


def _where(
    files: tuple[Guessed, ...], is_meant: Callable[[Guessed], bool], key: str, value: Any
) -> tuple[Guessed, ...]:
    if value is None:
        return files
    return tuple(stated(one, key, value, "you") if is_meant(one) else one for one in files)


def _has_method(method: str | None) -> Callable[[Guessed], bool]:
    return lambda one: _method(one) == method


def _lacks(key: str) -> Callable[[Guessed], bool]:
    return lambda one: one.facts[key].value is None


def _prompt(what: str, key: str) -> Any:
    """Return an answer with the contract's type; None for an empty one. Asks again where it does
    not fit."""
    while True:
        said = click.prompt(f"{what[:1].upper()}{what[1:]}", default="", type=str).strip()
        try:
            return checked_facts({key: said})[key] if said else None
        except UnknownKey as error:
            click.echo(str(error).replace("--set ", "", 1))
