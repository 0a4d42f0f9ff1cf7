"""Links between pages and to other people: what a link asked for, and what is gone since.

Widgets with ``bind="query-params"`` write themselves into the URL and read themselves from it.
Streamlit drops a value that a widget no longer offers in silence, so the page would show something
else than asked: here that is said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast
from urllib.parse import urlencode

import pandas as pd
import streamlit as st
from streamlit import column_config as col
from streamlit.delta_generator import DeltaGenerator

from dashboard.components import TABLE_ROWS, TableRows, copied, plain, shown

#: The parameter by which any page leads to one cell on the Data page.
CELL = "open"
_GONE = "values_of_the_link_that_are_gone"
_VIEW = "what_the_frame_showed_when_they_were_found"
_LEFT = "what_a_link_said_to_a_page_that_was_not_drawn"
_READ = "the_whole_link_was_read"

Parameters = dict[str, list[str]]


def cell_link(cell_id: str) -> str:
    """Return the address of one cell, relative to any page."""
    return f"data?{urlencode({CELL: cell_id})}"


def parameters() -> Parameters:
    """Return the parameters in the URL now."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def report_gone(asked: Parameters, labels: Mapping[str, str], view: object) -> bool:
    """Say what the link asked for and does not exist here; return whether there is such a thing.

    Then the page is not drawn: its answer would be about something else. It is drawn once the
    reader says so, or asks for another ``view``, which is what the frame shows. Call it when the
    controls of the frame, whose names are in ``labels``, are drawn.
    """
    state = st.session_state
    if _GONE not in state:
        own = {name: values for name, values in asked.items() if name in labels}
        state[_GONE], state[_VIEW] = gone(own, parameters(), labels), view
    elif state.get(_VIEW) != view:
        state[_GONE] = []
    for what in state[_GONE]:
        st.warning(f"The link asks for {plain(what)}, which does not exist here.")
    if state[_GONE]:
        st.button("Show the page without it", on_click=_leave_out, type="primary")
    return bool(state[_GONE])


def _leave_out() -> None:
    st.session_state[_GONE] = []
    # The controls of a page that was not drawn are no longer in the address: what they had comes back.
    for name, values in st.session_state.pop(_LEFT, {}).items():
        st.query_params[name] = values


def read_whole(asked: Parameters, labels: Mapping[str, str]) -> None:
    """Take the page back where its own controls have lost what the link asked for.

    Call it after everything that is bound to the URL was drawn; it counts once in a session.
    """
    state = st.session_state
    if _READ in state:
        return
    state[_READ] = True
    own = {name: values for name, values in asked.items() if name not in labels}
    left = parameters()
    state[_GONE] = gone(own, left, labels)
    if state[_GONE]:
        state[_LEFT] = {name: values for name, values in left.items() if name in own}
        st.rerun()


def gone(asked: Parameters, left: Parameters, labels: Mapping[str, str]) -> list[str]:
    """Return the values that a link asked for and that are neither in the URL now nor in a widget,
    each with its label: ``Dataset chat``.

    A widget's default does not stand in the URL: it is no loss.
    """
    return [
        f"{labels.get(name, name.replace('_', ' '))} {value}"
        for name, values in asked.items()
        if name != CELL
        for value in values
        if not {value, _number(value)} & {*left.get(name, []), *_held(name)}
    ]


def _held(name: str) -> set[str]:
    value = st.session_state.get(name, ())
    values = value if isinstance(value, list | tuple) else (value,)
    return {text for each in values for text in (str(each), _number(str(each)))}


def _number(text: str) -> str:
    """Return a number in its shortest form, since ``5`` and ``5.0`` are one number to a widget;
    other text as it is."""
    try:
        return f"{float(text):g}"
    except ValueError:
        return text


def rename(names: Mapping[str, str]) -> None:
    """Read parameters of older addresses under their new names: old name -> new one. Call it before
    a widget is drawn; where something is renamed, the page starts anew."""
    asked = parameters()
    if not set(names) & set(asked):
        return
    for old in [name for name in names if name in asked]:
        asked.setdefault(names[old], ["; ".join(asked.pop(old))])
    st.query_params.from_dict(asked)
    st.rerun()


def choose(name: str, value: str) -> None:
    """Set a box from code; call it before the box is drawn."""
    st.session_state[name] = value
    # From now on the box is chosen: it no longer follows its first option.
    st.session_state.pop(_first(name), None)


def follow_first(name: str, options: Sequence[str]) -> None:
    """Let a box that nobody has set show its first option, also when another becomes the first.

    Call it before the box is drawn. What stands first is not in the address: a box that kept what
    was first before would show something else than its link.
    """
    before = st.session_state.get(_first(name))
    if before not in (None, options[0]) and st.session_state.get(name) == before:
        st.session_state[name] = options[0]
    st.session_state[_first(name)] = options[0]


def selected(
    label: str, options: Sequence[str], name: str, place: DeltaGenerator | None = None
) -> str:
    """Draw a box that nobody has set on its first option, also when another becomes the first."""
    follow_first(name, options)
    return cast(str, (place or st).selectbox(label, options, key=name, bind="query-params"))


def set_to(name: str) -> str | None:
    """Return what a reader or a link set a box to; None where it shows its first option."""
    value: str | None = st.session_state.get(name, st.query_params.get(name))
    return None if value == st.session_state.get(_first(name)) else value


def lost(name: str, options: Sequence[str]) -> str | None:
    """Return what a link asks of a box and is not among its options, until the reader chooses
    another.

    Call it before the box is drawn, and draw the box without a choice where it is not None: what
    stands first is not what was asked for.
    """
    asked, gone_now = st.query_params.get(name), f"gone {name}"
    if asked is not None and asked not in options and name not in st.session_state:
        st.session_state[gone_now] = asked
    elif st.session_state.get(name) in options:
        st.session_state.pop(gone_now, None)
    return cast(str | None, st.session_state.get(gone_now))


def _first(name: str) -> str:
    return f"first of {name}"


def address(more: Mapping[str, str] | None = None) -> str:
    """Return the address that shows this view again, also in a fresh browser; ``more``: parameters
    that it states though they are at their first value."""
    words = urlencode({**parameters(), **(more or {})}, doseq=True)
    here = str(st.context.url or "").partition("?")[0]
    return f"{here}?{words}" if words else here


def share() -> None:
    """Draw the address of this view, ready to be copied."""
    with st.popover("Share this view", icon=":material/link:"):
        st.caption("Whoever opens this address on the same results sees the same view.")
        copied(address())


# --- What a table says of the cells behind a mark, and its link to their place on the Data page.


#: What a table says of the cells behind a mark: column -> its name there.
BEHIND = {
    "arm_label": "arm", "concurrency": "concurrency", "repeat": "repeat", "completed": "completed",
    "errored": "errored", "flags": "flags", "run_id": "run",
}  # fmt: skip
#: The column that leads from a cell to its place among the runs.
LINK = "in Runs"
LINK_COLUMNS = {LINK: col.LinkColumn(LINK, display_text="open")}


def linked(cells: pd.DataFrame) -> TableRows:
    """Return a table of cells, each with a link to its place. ``cells``: cell_id among others."""
    first = cells.head(TABLE_ROWS)
    links = [cell_link(cell_id) for cell_id in first["cell_id"]]
    told = shown(first.drop(columns="cell_id").assign(**{LINK: links}))
    return replace(told, total=len(cells))
