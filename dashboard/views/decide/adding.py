"""Add your results: files of one's own, what they are, and the verdict on them.

They are read in a private, temporary warehouse; only the session holds what was read, until an
editor asks to keep the files.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import streamlit as st

from analysis.matching.guess import BASELINE, SOME_METHOD, Guess, from_name, together
from analysis.matching.guess_drafts import Named, datasets_apart, drafts, with_words
from analysis.matching.guess_paths import datasets, repeat
from analysis.matching.names import with_draft
from answers.compare import words
from answers.compare.uploaded import Read, Told, told
from answers.compare.values import Comparison, Question
from answers.decide import tables
from answers.decide.overview import Overview, overviews
from answers.wording import METHODS, known
from dashboard.access import may_edit, require_editor
from dashboard.charts import decide as charts
from dashboard.charts.spec import specification
from dashboard.components import plain, sentence, table, texts
from dashboard.downloads import charts_menu
from dashboard.shelf import Shelf, ask
from dashboard.shown_generation import show_newest
from dashboard.upload import MOST_FILES, MOST_MB, Report, Uploaded, keep, place, take_in
from dashboard.views.decide.details import against, bullets, load_map, paste, tiles
from warehouse import queries
from warehouse.annotations import add_deed
from warehouse.errors import DraftboardError
from warehouse.filters import Filters
from warehouse.store import Reader

# --- What a reader states of dropped files: filled in as guessed, dropdowns for the rest.


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
    arms = [_arm_boxes(file, one) for file, one in zip(files, guessed, strict=True)]
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


def _arm_boxes(file: Any, guess: Guess) -> Guess:
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


# --- The verdict on a reader's own files, within the page.


_READ = ("file", "model", "GPU", "dataset", "TP", "arm", "load", "repeat", "completed",
         "errored")  # fmt: skip


def show(mine: Uploaded, told: Told, names: Sequence[str]) -> None:
    """Draw the decision on the files, or why there is none; then what was read."""
    found = overviews(told.decisions.decisions)
    for at, overview in enumerate(found):
        _decided(overview, at)
    if not found:
        st.subheader("No verdict on these files")
        st.info(plain(told.decisions.why_none or ""))
    if told.comparison.unmatched:
        st.markdown("**Without a partner**")
        rows = words.unmatched_rows(_with_names(told.comparison, mine, names))
        table(texts(words.UNMATCHED_HEADER, rows), "rows")
    _compared(told)
    _what_was_read(mine, names)
    flags = (f"{one.severity}: {one.sentence}" for one in told.flags)
    bullets(flags)


def _with_names(found: Comparison, mine: Uploaded, names: Sequence[str]) -> Comparison:
    """Return the comparison with the names of the files in place of where they lay for a moment."""
    read = () if mine.held is None else mine.held.read
    dropped = {one.file: names[place(one)] for one in read}
    unmatched = (
        replace(one, path=dropped.get(one.path or "", one.path)) for one in found.unmatched
    )
    return replace(found, unmatched=tuple(unmatched))


def refused(mine: Uploaded) -> None:
    """Say for each file that was not taken why, in one sentence."""
    for name, reason in mine.rejections:
        st.warning(plain(f"{name}: {reason}"))


def _decided(overview: Overview, at: int) -> None:
    one = overview.leads[0]
    st.subheader(plain(overview.headline))
    st.markdown(plain(overview.paragraph))
    left, right = st.columns([3, 2])
    drawing = specification(charts.load_map(overview, one))
    with left:
        load_map(drawing, overview)
    with right:
        tiles(one)
    paste(one)
    table(texts(*tables.by_load(one)), "loads")
    if one.answer != "no":
        st.markdown("**Against it**")
        against(one)
    bullets(tables.doubts(one))
    charts_menu(f"own-results-{at}", {"Load map": drawing})


def _compared(told: Told) -> None:
    """Draw the table of every metric and load of every arm."""
    for setting in told.comparison.settings:
        for arm in setting.arms:
            st.markdown(f"**{plain(words.title(setting, arm, told.comparison.reference))}**")
            table(texts(words.LEVEL_HEADER, map(words.level_row, arm.changes)), "lines")


def _what_was_read(mine: Uploaded, names: Sequence[str]) -> None:
    st.markdown("**What was read**")
    rows = [] if mine.held is None else [
        [
            names[place(one)], known(one.model), known(one.gpu), known(one.dataset),
            known(one.tensor_parallel_size), _arm(one),
            known(one.load and one.load.text), known(one.repeat), known(one.completed), known(one.errored),
        ]
        for one in mine.held.read
    ]  # fmt: skip
    table(texts(_READ, rows), "cells")


def _arm(one: Read) -> str:
    return known(one.arm) if one.draft is None else with_draft(known(one.arm), one.draft)


# --- Add your results: files of one's own, what they are, and the verdict on them.


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
    refused(seen)
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
        refused(mine)
        return
    left, right = st.columns(2, vertical_alignment="center")
    together_with = left.checkbox(
        "Also look for partners in the warehouse (the filters of the sidebar apply)",
        value=True, key="together",
    )  # fmt: skip
    if right.button("Keep these files in the warehouse", icon=":material/save:", key="keep"):
        _keep(shelf, reports)
    show(mine, _told(shelf, filters if together_with else None, mine), [r.name for r in reports])


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
        add_deed(Path(shelf.root), user.name, user.email or None, "keep", kept)
    for name, reason in refused:
        st.warning(plain(f"{name}: {reason}"))
    if not refused:
        st.success(f"Kept: {len(reports)} files, with the texts they hold, beside the warehouse.")
