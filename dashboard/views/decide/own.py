"""The verdict on a reader's own files, within the page."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from analysis.matching.names import with_draft
from answers.compare import words
from answers.compare.uploaded import Read, Told
from answers.compare.values import Comparison
from answers.decide import tables
from answers.decide.overview import Overview, overviews
from answers.wording import known
from dashboard.charts import decide as charts
from dashboard.charts.spec import specification
from dashboard.components import plain, table, texts
from dashboard.download_menu import charts_menu
from dashboard.upload import Uploaded, place
from dashboard.views.decide import pieces

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
    _read(mine, names)
    flags = (f"{one.severity}: {one.sentence}" for one in told.flags)
    pieces.bullets(flags)


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
        pieces.load_map(drawing, overview)
    with right:
        pieces.tiles(one)
    pieces.paste(one)
    table(texts(*tables.by_load(one)), "loads")
    if one.answer != "no":
        st.markdown("**Against it**")
        pieces.bullets((loss.sentence for loss in one.against), "Nothing that was measured.")
    pieces.bullets(tables.doubts(one))
    charts_menu(f"own-results-{at}", {"Load map": drawing})


def _compared(told: Told) -> None:
    """Draw the table of every metric and load of every arm."""
    for setting in told.comparison.settings:
        for arm in setting.arms:
            st.markdown(f"**{plain(words.title(setting, arm, told.comparison.reference))}**")
            table(texts(words.LEVEL_HEADER, map(words.level_row, arm.changes)), "lines")


def _read(mine: Uploaded, names: Sequence[str]) -> None:
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
