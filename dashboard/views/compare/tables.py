"""Tables of the Compare page: the study's means, every load, what has no partner."""

import functools

import pandas as pd
import streamlit as st

from answers.compare import words
from answers.compare.answer import pair_lines
from answers.compare.values import Comparison, PairLine, Question, Setting
from dashboard.components import plain, shown, table
from dashboard.download_menu import rows_menu
from dashboard.shelf import Shelf, ask

_LEVELS = (
    "arm", "load", "metric", "reference", "this arm", "improvement", "95 % interval",
    "study-adjusted", "word", "launches",
)  # fmt: skip
_COLUMNS = {
    name: st.column_config.TextColumn(name, alignment="right")
    for name in ("reference", "this arm", "improvement", "95 % interval", "study-adjusted")
}


def means(setting: Setting, arm: str, reference: str) -> None:
    """Draw the study's table: geometric means of one arm beside the reference."""
    chosen = next(one for one in setting.arms if one.name == arm)
    st.subheader(plain(f"The study's table: {arm} against {reference} on {setting.name}"))
    st.caption(plain(words.means_over(chosen)))
    rows = [words.mean_row(mean)[:-1] for mean in chosen.means]
    header = ["metric, geometric mean", "reference", "this arm", "improvement"]
    table(shown(pd.DataFrame(rows, columns=header)), "rows", _COLUMNS)
    if not chosen.launches_stated:
        st.caption(plain(words.CAPPED))


def levels(shelf: Shelf, question: Question, setting: Setting) -> None:
    """Draw every arm at every load, folded, and offer all pairs as a file."""
    with st.expander("Every arm and load, with interval and word"):
        rows = [
            (arm.name, *words.level_row(change)) for arm in setting.arms for change in arm.changes
        ]
        table(shown(pd.DataFrame(rows, columns=list(_LEVELS))), "rows", _COLUMNS)
        make = functools.partial(ask, shelf, pair_lines, question)
        rows_menu("pairs", lambda: pair_rows(make()))


def left_out(found: Comparison) -> None:
    """Draw what has no partner, and what is shown but decides nothing."""
    lonely, excluded = len(found.unmatched), len(found.excluded)
    if not lonely and not excluded:
        st.caption("Every cell has a partner.")
        return
    told = f"Without a partner: {words.counted(lonely, 'cell')}"
    if excluded:
        told += f"; shown, but deciding nothing: {words.counted(excluded, 'cell')}"
    with st.expander(told, expanded=not found.settings):
        names = ("dataset", "arm", "load", "gpu", "model", "reason", "cell")
        rows = [[getattr(cell, name) for name in names] for cell in found.unmatched]
        if rows:
            table(shown(pd.DataFrame(rows, columns=list(names))), "cells")
        why = [(cell.cell, cell.why) for cell in found.excluded]
        if why:
            header = ["cell", "why it decides nothing"]
            table(shown(pd.DataFrame(why, columns=header)), "cells")


def pair_rows(lines: tuple[PairLine, ...]) -> pd.DataFrame:
    """Return one row per pair and line, values unrounded, for a file."""
    return pd.DataFrame(
        {
            "setting": line.setting, "arm": line.arm,
            "load": None if line.pair.load is None else line.pair.load.text,
            "repeat": line.pair.repeat, "metric": line.metric, "statistic": line.statistic,
            "reference": line.reference, "value": line.value, "improvement": line.improvement,
            "allowed": ", ".join(line.allowed), "flags": ", ".join(line.pair.flags),
            "reference_cell": line.pair.reference_cell, "cell": line.pair.arm_cell,
        }
        for line in lines
    )  # fmt: skip
