"""Add your results: files of one's own, what they are, and the verdict on them.

They are read in a private, temporary warehouse; only the session holds what was read, until an
editor asks to keep the files.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import streamlit as st

from analysis.matching.guess import Guess, from_name, together
from analysis.matching.guess_drafts import Named, datasets_apart, drafts, with_words
from analysis.matching.guess_paths import datasets, repeat
from answers.compare.uploaded import Read, Told, told
from answers.compare.values import Question
from dashboard.access import may_edit, require_editor
from dashboard.components import plain
from dashboard.refusals import sentence
from dashboard.shelf import Shelf, ask
from dashboard.turnover import show_newest
from dashboard.upload import MOST_FILES, MOST_MB, Report, Uploaded, keep, place, take_in
from dashboard.views.decide import own
from dashboard.views.decide.stating import known_facts, options, stated
from warehouse import audit
from warehouse.errors import DraftboardError
from warehouse.filters import Filters

_TYPES = ("json", "jsonl", "gz", "zst")
_KEPT = "what was read of the dropped files"
_APART = (
    "Names of files of one method differ: they are taken for different drafts ({}), not for repeats. "
    "If they are repeats, give all of them the same draft_model under Other facts."
)
Made = TypeVar("Made")


def folded(shelf: Shelf, filters: Filters) -> None:
    """Draw the form, folded."""
    part = st.expander(
        "Add your results: drop a baseline file and a speculative one", key="add",
        icon=":material/upload_file:", bind="query-params",
    )  # fmt: skip
    if part.open:
        with part:
            render(shelf, filters)


def render(shelf: Shelf, filters: Filters) -> None:
    """Draw the form and the verdict; a viewer is told why there is none."""
    if not may_edit():
        st.info("Your role is viewer: to upload reports takes the role editor.")
        return
    st.caption(
        "Results of vllm bench serve or SGLang's bench_serving, or GuideLLM reports, "
        f"at most {MOST_FILES} files of {MOST_MB} MB; repeats are welcome. Nothing is stored "
        "unless you ask for it."
    )
    files = st.file_uploader(
        "Your files", type=_TYPES, accept_multiple_files=True, max_upload_size=MOST_MB, key="files"
    )
    if not files:
        return
    try:
        _answer(shelf, filters, list(files))
    except DraftboardError as error:
        st.error(plain(sentence(error)))


def _answer(shelf: Shelf, filters: Filters, files: list[Any]) -> None:
    """Read the files once to see what they are, then with what is stated of them."""
    require_editor()
    names = [file.name for file in files]
    seen = _once("seen", _read, [Report(file.name, file.getvalue()) for file in files])
    own.refused(seen)
    if seen.held is None:
        st.subheader("None of these files holds a result")
        return
    contents = {place(one): _content(one) for one in seen.held.read}
    there = sorted(contents)
    known = ask(shelf, options)
    guessed = _guessed([names[at] for at in there], [contents[at] for at in there], known.datasets)
    facts = stated([files[at] for at in there], guessed, known)
    if any(one.method is None for one in facts):
        st.info(
            "Which file is the baseline, and what do the others draft with? Say it of each above: "
            "neither names nor contents tell."
        )
        return
    read = {at: [one for one in seen.held.read if place(one) == at] for at in there}
    reported = [contents[at].dataset for at in there]
    facts = _datasets(read, names, facts, [one.dataset for one in guessed], reported)
    said = _drafts(read, names, facts)
    if any(said):
        st.caption(plain(_APART.format(", ".join(dict.fromkeys(filter(None, said))))))
    more = known_facts([files[at] for at in there])
    numbers = [None if _says_repeat(read[at]) else repeat(names[at]) for at in there]
    reports = [
        Report(names[at], files[at].getvalue(), (*_facts(one, draft, number), *own_facts))
        for at, one, draft, number, own_facts in zip(there, facts, said, numbers, more, strict=True)
    ]
    _verdict(shelf, filters, reports)


def _content(one: Read) -> Guess:
    """Return what a file says of itself."""
    return Guess(
        one.method, one.num_speculative_tokens, one.gpu, one.dataset, one.tensor_parallel_size
    )


def _guessed(names: list[str], contents: list[Guess], known: Sequence[str]) -> list[Guess]:
    """Return what names and contents say. A dataset that nobody knows yet is one too: else files
    that say none would be taken for the known one of the others."""
    both = together([from_name(name, known) for name in names], contents)
    sets = datasets(names, [one.method for one in both])
    return [replace(one, dataset=one.dataset or new) for one, new in zip(both, sets, strict=True)]


def _drafts(
    read: Mapping[int, Sequence[Read]], names: Sequence[str], facts: Sequence[Guess]
) -> list[str | None]:
    """Return the draft of each file that its name alone says; None where its report says one."""
    stated = (any(cell.draft for cell in cells) for cells in read.values())
    found = drafts(_named(read, names, facts))
    return [None if known else draft for known, draft in zip(stated, found, strict=True)]


def _datasets(
    read: Mapping[int, Sequence[Read]], names: Sequence[str], facts: Sequence[Guess],
    guessed: Sequence[str | None], reported: Sequence[str | None],
) -> tuple[Guess, ...]:  # fmt: skip
    """Return the facts with datasets that names alone tell apart; what the user says stays."""
    by_reports = [one.dataset == said for one, said in zip(facts, reported, strict=True)]
    apart = datasets_apart(_named(read, names, facts), by_reports)
    return tuple(
        replace(one, dataset=with_words(said, words)) if words and one.dataset == said else one
        for one, said, words in zip(facts, guessed, apart, strict=True)
    )


def _named(
    read: Mapping[int, Sequence[Read]], names: Sequence[str], facts: Sequence[Guess]
) -> list[Named]:
    return [
        Named(names[at], one.method, one.num_speculative_tokens,
              (one.dataset, one.gpu, one.tensor_parallel_size,
               frozenset((cell.model, cell.load) for cell in read[at])))
        for at, one in zip(read, facts, strict=True)
    ]  # fmt: skip


def _says_repeat(cells: Sequence[Read]) -> bool:
    return any(cell.repeat is not None for cell in cells)


def _facts(one: Guess, draft: str | None, number: int | None) -> tuple[str, ...]:
    """Return the facts of a file as ``draftboard ingest --set`` takes them."""
    given = {
        "spec_method": one.method, "num_speculative_tokens": one.num_speculative_tokens,
        "gpu": one.gpu, "dataset": one.dataset, "tensor_parallel_size": one.tensor_parallel_size,
        "draft_model": draft, "repeat": number, "gpu_count": one.gpu_count,
        "server_args": one.server_args and json.dumps(one.server_args),
    }  # fmt: skip
    return tuple(f"{name}={value}" for name, value in given.items() if value is not None)


def _verdict(shelf: Shelf, filters: Filters, reports: list[Report]) -> None:
    mine = _once("mine", _read, reports)
    if mine.held is None:
        own.refused(mine)
        return
    left, right = st.columns(2, vertical_alignment="center")
    together_with = left.checkbox(
        "Also look for partners in the warehouse (the filters of the sidebar apply)",
        value=True, key="together",
    )  # fmt: skip
    if right.button("Keep these files in the warehouse", icon=":material/save:", key="keep"):
        _keep(shelf, reports)
    own.show(
        mine, _told(shelf, filters if together_with else None, mine), [r.name for r in reports]
    )


def _read(reports: Sequence[Report]) -> Uploaded:
    with st.spinner("Reading the files", show_time=True):
        return take_in(reports)


def _once(name: str, make: Callable[[list[Report]], Made], reports: list[Report]) -> Made:
    """Return ``make(reports)``, kept in the session until the reports are others."""
    kept = st.session_state.get(f"{_KEPT}: {name}")
    if kept is None or kept[0] != reports:
        kept = (reports, make(reports))
        st.session_state[f"{_KEPT}: {name}"] = kept
    made: Made = kept[1]
    return made


def _told(shelf: Shelf, filters: Filters | None, mine: Uploaded) -> Told:
    """Return what the files say, computed once for each choice. It is never in the cache that
    sessions share."""
    key = (shelf, filters, id(mine))
    kept = st.session_state.get(f"{_KEPT}: told")
    if kept is None or kept[0] != key:
        assert mine.held is not None
        beside = None if filters is None else shelf.reader
        kept = (key, told(mine.held, beside, Question(filters or Filters())))
        st.session_state[f"{_KEPT}: told"] = kept
    found: Told = kept[1]
    return found


def _keep(shelf: Shelf, reports: list[Report]) -> None:
    """Take the files into the warehouse, since an editor asks for it."""
    user = require_editor()
    refused = keep(reports, Path(shelf.root))
    show_newest()
    kept = ", ".join(sorted({one.name for one in reports} - {name for name, _ in refused}))
    if kept:
        audit.add(Path(shelf.root), user.name, user.email or None, "keep", kept)
    for name, reason in refused:
        st.warning(plain(f"{name}: {reason}"))
    if not refused:
        st.success(f"Kept: {len(reports)} files, with the texts they hold, beside the warehouse.")
