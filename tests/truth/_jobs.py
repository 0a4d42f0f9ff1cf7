"""A job of ``make truth``. It stands apart from its command, as pages that a job draws put a ``__main__`` of
their own into its process."""

import importlib
from inspect import signature
from types import ModuleType

from tests.truth.row import Row


def module_of(name: str) -> ModuleType:
    """Return a module of this folder."""
    return importlib.import_module(f"tests.truth.{name}")


def rows_of(name: str, place: int | None, trials: int, seed: int) -> list[Row]:
    """Return the rows of a module, or of one of its families."""
    module = module_of(name)
    if place is None:
        return list(module.rows(trials))
    family = list(module.families())[place]
    seeded = {"seed": seed} if "seed" in signature(module.rows_of).parameters else {}
    return list(module.rows_of(family, trials, **seeded))
