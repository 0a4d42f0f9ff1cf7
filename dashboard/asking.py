"""What a decision is asked for, as controls that every page of it shares."""

import streamlit as st

from analysis.service.slo import EXAMPLE
from answers.decide.asked import mix_from
from answers.decide.values import Objective, Question
from dashboard.filters import keep
from dashboard.links import follow_first
from warehouse.errors import InvalidInput
from warehouse.filters import Filters

_OBJECTIVES: dict[str, Objective] = {
    "Throughput": "throughput", "Latency": "latency", "Cost": "cost",
}  # fmt: skip


def asked(filters: Filters) -> Question:
    """The question that the controls hold. Raises InvalidInput for one that cannot be read."""
    columns = st.columns([1, 2, 2, 2])
    objective = columns[0].selectbox(
        "Choose for", list(_OBJECTIVES), key="objective", bind="query-params"
    )
    load = columns[1].text_input(
        "At a load of (at once, or a second)", key="at_load", bind="query-params",
        placeholder="the largest measured",
    )  # fmt: skip
    slo = columns[2].text_input(
        "Only arms that meet this SLO", key="draft_slo", bind="query-params", placeholder=EXAMPLE
    )
    mix = columns[3].text_input(
        "Traffic mix", key="mix", bind="query-params", placeholder="code=0.7,prose=0.3"
    )
    return Question(
        filters, _OBJECTIVES[objective], _load(load), (slo or "").strip() or None, mix_from(mix)
    )


def _load(text: str | None) -> float | None:
    if not text or not text.strip():
        return None
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise InvalidInput(f"A load is a number above 0, and {text!r} is none; write e.g. 16.")
    return found


def one_of(label: str, names: list[str], key: str) -> str:
    """A box that shows its first option until somebody sets it."""
    follow_first(key, names)
    chosen: str = st.selectbox(label, names, key=key, bind="query-params")
    return chosen


def only_this(kept: dict[str, str]) -> None:
    """A button that keeps all pages to one subject."""
    st.button("Only this on all pages", on_click=keep, args=(kept,), key="only")
