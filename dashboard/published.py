"""A published study on any page: what it says, what does not follow from it, its money."""

from pathlib import Path
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from answers.published.answer import studies
from answers.published.values import BADGE, Line, Study
from dashboard.components import plain, shown, table
from dashboard.shelf import Shelf, ask
from warehouse.beside import tables_version
from warehouse.filters import Filters


def kept(shelf: Shelf, filters: Filters) -> tuple[Study, ...]:
    """Return the published studies, but for those that a filter of model, GPU or dataset rules
    out."""
    version = tables_version(Path(shelf.root))
    known = ask(shelf, studies, version) if version else ()
    return tuple(one for one in known if one.meets(filters))


def say(study: Study) -> None:
    """Draw a study's headline, where it was printed, and that it is no measurement of ours."""
    st.header(plain(study.headline))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(BADGE, color="gray")
        st.caption(plain(study.about))


def overview(study: Study) -> None:
    """Draw every improvement that was printed against the baseline, a row for each dataset and
    size; then what does not follow, and the money. No advice: nothing here is known to repeat."""
    tables = [one for one in study.tables if one.arms[0] == "baseline"]
    names = list(dict.fromkeys(line.name for one in tables for line in one.lines))
    rows = []
    for one in tables:
        told = {line.name: _improvement(line) for line in one.lines}
        rows.append([one.title, *(told.get(name, "not printed") for name in names)])
    st.markdown(f"**Improvements as printed, means over the loads**, {BADGE}")
    table(shown(pd.DataFrame(rows, columns=["dataset", *names])), "rows")
    figures = f"compare?{urlencode({'subject': study.title})}"
    st.markdown(
        f"[Its {len(study.figures)} figures and tables, beside what you measure]({figures})"
    )
    mistakes(study)
    money(study)


def _improvement(line: Line) -> str:
    if line.flag is None:
        return line.printed
    return f"{line.printed} ({line.flag}; its row gives {line.recomputed})"


def mistakes(study: Study) -> None:
    """Draw the errors in print, each with the figures that are wrong through it folded under it."""
    count = len(study.mistakes)
    if not count:
        st.caption(f"All {study.checked} figures follow from their own rows.")
        return
    told = f"{study.flagged} of {study.checked} figures do not follow from their own rows"
    st.markdown(f"**{told}: {count} {'error' if count == 1 else 'errors'}**")
    for one in study.mistakes:
        first, *more = one.figures
        with st.expander(plain(first)):
            st.markdown(plain(one.sentence))
            st.markdown("\n".join(f"- {plain(text)}" for text in more))


def money(study: Study) -> None:
    """Draw the money as printed, and recomputed beside it."""
    if not study.money:
        return
    with st.expander("Money, as printed and recomputed"):
        rows = [
            (one.name, one.printed, one.recomputed, one.on_own_gpus or "–") for one in study.money
        ]
        header = ["figure", "printed", "recomputed", "with the price of the GPUs used"]
        table(shown(pd.DataFrame(rows, columns=header)), "rows")
        st.caption("Nothing of this is a price of yours.")
