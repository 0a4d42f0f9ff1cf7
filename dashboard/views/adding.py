"""Add your results: files of one's own, what they are, and the verdict on them.

They are read in a private, temporary warehouse; only the session holds what was read, until an
editor asks to keep the files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.matching.guess import BASELINE, SOME_METHOD, Guess, from_name, together
from analysis.matching.guess_paths import (
    Named,
    datasets,
    datasets_apart,
    drafts,
    repeat,
    with_words,
)
from analysis.matching.names import with_draft
from answers.compare import values
from answers.compare.answer import UploadAnswer, UploadedCell, answer_uploads
from answers.decide import tables
from answers.decide.overview import Overview, overviews
from answers.wording import METHODS, known
from dashboard.charts import decide, specification
from dashboard.chosen import against, bullets, load_map, paste, tiles
from dashboard.components import errors_told, fold, plain, table, texts
from dashboard.doors.access import may_edit, require_editor
from dashboard.downloads import charts_menu
from dashboard.shelf import Shelf, ask, show_newest
from dashboard.upload import MOST_FILES, MOST_MB, Report, Uploaded, keep, place, take_in
from warehouse import annotations, queries
from warehouse.filters import Filters
from warehouse.store import Reader

_ARMS = {
    BASELINE: "Baseline: no speculation", **METHODS, SOME_METHOD: "Speculative, method not stated",
}  # fmt: skip
_HINT = "launch=monday\nevidence=gpu"
_READ = ("file", "model", "GPU", "dataset", "TP", "arm", "load", "repeat", "completed",
         "errored")  # fmt: skip
_TYPES = ("json", "jsonl", "gz", "zst")
_KEPT = "what was read of the dropped files"
_APART = (
    "Names of files of one method differ: they are taken for different drafts ({}), not for repeats. "
    "If they are repeats, give all of them the same draft_model under Other facts."
)

# --- What a reader states of dropped files: filled in as guessed, dropdowns for the rest.


def known_names(reader: Reader) -> dict[str, tuple[str, ...]]:
    """Return the GPUs and datasets of the warehouse, so that the same thing gets the same name."""
    rows = queries.filter_options(reader).to_pylist()
    return {
        field: tuple(sorted({row["value"] for row in rows
                             if row["field"] == field and row["value"] != "unknown"}))
        for field in ("gpu", "dataset")
    }  # fmt: skip


def stated(
    files: Sequence[Any], guessed: Sequence[Guess], known: Mapping[str, Sequence[str]]
) -> tuple[Guess, ...]:
    """Draw the boxes of all files, and return the guesses as the reader left or mended them."""
    arms = [_arm_boxes(file, guess) for file, guess in zip(files, guessed, strict=True)]
    left, middle, right = st.columns(3)
    gpu = _shared(left, "GPU", "gpu", [guess.gpu for guess in guessed], known["gpu"])
    dataset = _shared(
        middle, "Dataset", "dataset", [guess.dataset for guess in guessed], known["dataset"]
    )
    sizes = [str(guess.tensor_parallel_size or "") for guess in guessed]
    size = _shared(right, "Tensor parallel size", "tp", sizes, ("1", "2", "4", "8"))
    return tuple(
        replace(
            arm, gpu=gpu or arm.gpu, dataset=dataset or arm.dataset,
            tensor_parallel_size=int(size) if size and size.isdigit() else arm.tensor_parallel_size,
        )
        for arm in arms
    )  # fmt: skip


def _arm_boxes(file: Any, guess: Guess) -> Guess:
    arm, k = st.columns([4, 1], vertical_alignment="bottom")
    methods = list(dict.fromkeys([*_ARMS, *filter(None, [guess.method])]))
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
    place: DeltaGenerator, label: str, key: str, guessed: Sequence[str | None], known: Sequence[str]
) -> str | None:
    """Draw the box of a fact that all files share; it is left open where the files say different
    ones."""
    stated = list(dict.fromkeys(filter(None, guessed)))
    return place.selectbox(
        label, list(dict.fromkeys([*stated, *known])), index=0 if len(stated) == 1 else None, key=f"own-{key}",
        accept_new_options=True, placeholder=", ".join(stated) or "unknown",
    )  # fmt: skip


def known_facts(files: Sequence[Any]) -> list[tuple[str, ...]]:
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


# --- The verdict on a reader's own files, within the page.


def show(mine: Uploaded, verdict: UploadAnswer, names: Sequence[str]) -> None:
    """Draw the decision on the files, or why there is none; then what was read."""
    of_files = overviews(verdict.decisions.decisions)
    for at, overview in enumerate(of_files):
        _decided(overview, at)
    if not of_files:
        st.subheader("No verdict on these files")
        st.info(plain(verdict.decisions.why_none or ""))
    comparison, read = verdict.comparison, () if mine.held is None else mine.held.read
    if comparison.unmatched:
        st.markdown("**Without a partner**")
        # The names of the files in place of where they lay for a moment.
        dropped = {cell.file: names[place(cell)] for cell in read}
        unmatched = (
            replace(u, path=dropped.get(u.path or "", u.path)) for u in comparison.unmatched
        )
        lonely = values.unmatched_rows(replace(comparison, unmatched=tuple(unmatched)))
        table(texts(values.UNMATCHED_HEADER, lonely), "rows")
    for setting in comparison.settings:
        for arm in setting.arms:
            st.markdown(f"**{plain(values.title(setting, arm, comparison.reference))}**")
            table(texts(values.LEVEL_HEADER, map(values.level_row, arm.changes)), "lines")
    st.markdown("**What was read**")
    rows = [
        [
            names[place(cell)], known(cell.model), known(cell.gpu), known(cell.dataset),
            known(cell.tensor_parallel_size),
            with_draft(known(cell.arm), cell.draft) if cell.draft is not None else known(cell.arm),
            known(cell.load and cell.load.text), known(cell.repeat), known(cell.completed),
            known(cell.errored),
        ]
        for cell in read
    ]  # fmt: skip
    table(texts(_READ, rows), "cells")
    bullets(f"{flag.severity}: {flag.sentence}" for flag in verdict.flags)


def refused(rejections: Sequence[tuple[str, str]]) -> None:
    """Say for each file that was not taken why, in one sentence."""
    for name, reason in rejections:
        st.warning(plain(f"{name}: {reason}"))


def _decided(overview: Overview, at: int) -> None:
    one = overview.leads[0]
    st.subheader(plain(overview.headline))
    st.markdown(plain(overview.paragraph))
    drawing = specification(decide.load_map(overview, one))
    load_map(drawing, overview)
    tiles(one)
    paste(one)
    table(texts(*tables.by_load(one)), "loads")
    if one.answer != "no":
        st.markdown("**Against it**")
        against(one)
    bullets(tables.doubts(one))
    charts_menu(f"own-results-{at}", {"Load map": drawing})


# --- Add your results: files of one's own, what they are, and the verdict on them.


def folded(shelf: Shelf, filters: Filters) -> None:
    """Draw the form, folded."""
    fold(
        "Add your results: drop a baseline file and a speculative one", "add",
        partial(render, shelf, filters), icon=":material/upload_file:",
    )  # fmt: skip


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
    with errors_told():
        _answer(shelf, filters, list(files))


def _answer(shelf: Shelf, filters: Filters, files: list[Any]) -> None:
    """Read the files once to see what they are, then with what is stated of them."""
    require_editor()
    names = [file.name for file in files]
    seen = _read("seen", [Report(file.name, file.getvalue()) for file in files])
    refused(seen.rejections)
    if seen.held is None:
        st.subheader("None of these files holds a result")
        return
    # What each file says of itself, by its last cell.
    contents = {
        place(cell): Guess(cell.method, cell.num_speculative_tokens, cell.gpu, cell.dataset,
                           cell.tensor_parallel_size)
        for cell in seen.held.read
    }  # fmt: skip
    there = sorted(contents)
    known_here = ask(shelf, known_names)
    mine = [names[at] for at in there]
    # A dataset that nobody knows yet is one too: else files that say none would be taken for the
    # known one of the others.
    both = together(
        [from_name(name, known_here["dataset"]) for name in mine], [contents[at] for at in there]
    )
    sets = datasets(mine, [one.method for one in both])
    guessed = [
        replace(one, dataset=one.dataset or new) for one, new in zip(both, sets, strict=True)
    ]
    facts = stated([files[at] for at in there], guessed, known_here)
    if any(fact.method is None for fact in facts):
        st.info(
            "Which file is the baseline, and what do the others draft with? Say it of each above: "
            "neither names nor contents tell."
        )
        return
    read = {at: [cell for cell in seen.held.read if place(cell) == at] for at in there}
    # Datasets that names alone tell apart; what the user says stays.
    by_reports = [
        fact.dataset == contents[at].dataset for at, fact in zip(there, facts, strict=True)
    ]
    apart = datasets_apart(_named(read, mine, facts), by_reports)
    facts = tuple(
        replace(fact, dataset=with_words(guess.dataset, more))
        if more and fact.dataset == guess.dataset else fact
        for fact, guess, more in zip(facts, guessed, apart, strict=True)
    )  # fmt: skip
    # The draft of a file that its name alone says, where its report says none.
    by_name = drafts(_named(read, mine, facts))
    by_report = [any(cell.draft for cell in cells) for cells in read.values()]
    own_drafts = [None if r else draft for r, draft in zip(by_report, by_name, strict=True)]
    if any(own_drafts):
        st.caption(plain(_APART.format(", ".join(dict.fromkeys(filter(None, own_drafts))))))
    more_facts = known_facts([files[at] for at in there])
    reports = []
    for at, fact, draft, own in zip(there, facts, own_drafts, more_facts, strict=True):
        has_repeat = any(cell.repeat is not None for cell in read[at])
        reports.append(
            Report(
                names[at],
                files[at].getvalue(),
                (*_facts(fact, draft, None if has_repeat else repeat(names[at])), *own),
            )
        )
    _verdict(shelf, filters, reports)


def _named(
    read: Mapping[int, Sequence[UploadedCell]], names: Sequence[str], facts: Sequence[Guess]
) -> list[Named]:
    return [
        Named(name, fact.method, fact.num_speculative_tokens,
              (fact.dataset, fact.gpu, fact.tensor_parallel_size,
               frozenset((cell.model, cell.load) for cell in cells)))
        for cells, name, fact in zip(read.values(), names, facts, strict=True)
    ]  # fmt: skip


def _facts(one: Guess, draft: str | None, number: int | None) -> tuple[str, ...]:
    given = {
        "spec_method": one.method, "num_speculative_tokens": one.num_speculative_tokens,
        "gpu": one.gpu, "dataset": one.dataset, "tensor_parallel_size": one.tensor_parallel_size,
        "draft_model": draft, "repeat": number, "gpu_count": one.gpu_count,
        "server_args": one.server_args and json.dumps(one.server_args),
    }  # fmt: skip
    return tuple(f"{name}={value}" for name, value in given.items() if value is not None)


def _verdict(shelf: Shelf, filters: Filters, reports: list[Report]) -> None:
    mine = _read("mine", reports)
    if mine.held is None:
        refused(mine.rejections)
        return
    left, right = st.columns(2, vertical_alignment="center")
    together_with = left.checkbox(
        "Also look for partners in the warehouse (the filters of the sidebar apply)",
        value=True, key="together",
    )  # fmt: skip
    if right.button("Keep these files in the warehouse", icon=":material/save:", key="keep"):
        _keep(shelf, reports)
    # Computed once for each choice; never in the cache that sessions share.
    key = (shelf, filters if together_with else None, id(mine))
    kept = st.session_state.get(f"{_KEPT}: told")
    if kept is None or kept[0] != key:
        question = values.CompareQuestion(filters if together_with else Filters())
        kept = (key, answer_uploads(mine.held, shelf.reader if together_with else None, question))
        st.session_state[f"{_KEPT}: told"] = kept
    show(mine, kept[1], [report.name for report in reports])


def _read(name: str, reports: list[Report]) -> Uploaded:
    """Read the reports, once while they stay the same; ``name``: under which the session keeps it."""
    kept = st.session_state.get(f"{_KEPT}: {name}")
    if kept is None or kept[0] != reports:
        with st.spinner("Reading the files", show_time=True):
            kept = (reports, take_in(reports))
        st.session_state[f"{_KEPT}: {name}"] = kept
    return cast(Uploaded, kept[1])


def _keep(shelf: Shelf, reports: list[Report]) -> None:
    user = require_editor()
    rejections = keep(reports, shelf.root)
    show_newest()
    if kept := ", ".join(sorted({r.name for r in reports} - {name for name, _ in rejections})):
        annotations.add_deed(shelf.root, user.name, user.email or None, "keep", kept)
    refused(rejections)
    if not rejections:
        st.success(f"Kept: {len(reports)} files, with the texts they hold, beside the warehouse.")
