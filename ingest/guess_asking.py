"""What ``--guess`` asks on a terminal; an empty answer leaves a thing unknown."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from analysis.matching.guess import BASELINE, SOME_METHOD
from ingest.guess_cli import LABELS
from ingest.guess_repeats import told_apart
from ingest.guessing import SEVERAL, Guessed, missing, stated
from ingest.settings import checked_facts
from warehouse.errors import UnknownKey

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
