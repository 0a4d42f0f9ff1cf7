"""What a reader states of dropped files: filled in as guessed, dropdowns for the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from analysis.matching.guess import BASELINE, SOME_METHOD, Guess
from answers.wording import METHODS
from dashboard.components import plain
from warehouse import queries
from warehouse.store_read import Reader

_ARMS = {
    BASELINE: "Baseline: no speculation", **METHODS, SOME_METHOD: "Speculative, method not stated",
}  # fmt: skip
_HINT = "launch=monday\nevidence=gpu"


@dataclass(frozen=True)
class Options:
    """What the warehouse knows already, so that the same thing gets the same name."""

    gpus: tuple[str, ...]
    datasets: tuple[str, ...]


def options(reader: Reader) -> Options:
    """Return the GPUs and datasets that occur."""
    found: dict[str, set[str]] = {"gpu": set(), "dataset": set()}
    for row in queries.filter_options(reader).to_pylist():
        if row["field"] in found and row["value"] != "unknown":
            found[row["field"]].add(row["value"])
    return Options(tuple(sorted(found["gpu"])), tuple(sorted(found["dataset"])))


def stated(files: Sequence[Any], guessed: Sequence[Guess], known: Options) -> tuple[Guess, ...]:
    """Draw the boxes of all files, and return the guesses as the reader left or mended them."""
    arms = [_arm(file, one) for file, one in zip(files, guessed, strict=True)]
    left, middle, right = st.columns(3)
    with left:
        gpu = _shared("GPU", "gpu", [one.gpu for one in guessed], known.gpus)
    with middle:
        dataset = _shared("Dataset", "dataset", [one.dataset for one in guessed], known.datasets)
    with right:
        sizes = [str(one.tensor_parallel_size or "") for one in guessed]
        size = _shared("Tensor parallel size", "tp", sizes, ("1", "2", "4", "8"))
    return tuple(
        replace(
            one, gpu=gpu or one.gpu, dataset=dataset or one.dataset,
            tensor_parallel_size=int(size) if size and size.isdigit() else one.tensor_parallel_size,
        )
        for one in arms
    )  # fmt: skip


def _arm(file: Any, guess: Guess) -> Guess:
    """Draw the boxes of one file: its arm and how many tokens it drafts."""
    arm, k = st.columns([4, 1], vertical_alignment="bottom")
    methods = list(_ARMS)
    if guess.method is not None and guess.method not in methods:
        methods.append(guess.method)
    method: str | None = arm.selectbox(
        f"Arm of {plain(file.name)}", methods,
        index=None if guess.method is None else methods.index(guess.method),
        format_func=lambda one: _ARMS.get(one, one), key=f"arm-{file.file_id}",
        placeholder="baseline or which method?",
    )  # fmt: skip
    if method in (None, BASELINE):
        return replace(guess, method=method, num_speculative_tokens=None)
    drafted = k.number_input(
        "Draft tokens K", 1, 1000, guess.num_speculative_tokens, key=f"k-{file.file_id}",
        placeholder="unknown",
    )  # fmt: skip
    return replace(guess, method=method, num_speculative_tokens=drafted)


def _shared(
    label: str, key: str, guessed: Sequence[str | None], known: Sequence[str]
) -> str | None:
    """Draw the box of a fact that all files share; it is left open where the files say different
    ones."""
    said = list(dict.fromkeys(one for one in guessed if one))
    choices = list(dict.fromkeys([*said, *known]))
    chosen: str | None = st.selectbox(
        label, choices, index=0 if len(said) == 1 else None, key=f"own-{key}",
        accept_new_options=True, placeholder=", ".join(said) or "unknown",
    )  # fmt: skip
    return chosen


def known_facts(files: Sequence[Any]) -> list[tuple[str, ...]]:
    """Draw the form for other facts, and return them by file, as ``draftboard ingest --set`` takes
    them."""
    with st.popover("Other facts"):
        common = st.text_area(
            "Of all files, one key=value a line (the keys of draftboard ingest --set)",
            placeholder=_HINT, key="facts",
        )  # fmt: skip
        alone = [
            st.text_input(
                f"Only of {plain(file.name)}, separated by blanks",
                placeholder="launch=a repeat=1", key=f"facts-{file.file_id}",
            )
            for file in files
        ]  # fmt: skip
    lines = tuple(line.strip() for line in (common or "").splitlines() if line.strip())
    return [(*lines, *(one or "").split()) for one in alone]
