"""A published study, on the page Compare and in short on any page: its figures and tables as printed,
outside the five words; what does not follow from them; its money."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from answers.published.answer import studies
from answers.published.values import (
    BADGE,
    MeasuredHere,
    Plot,
    PrintedTable,
    PublishedStudy,
)
from answers.wording import interval, percent
from dashboard.charts import specification
from dashboard.charts.published import printed_values
from dashboard.components import grid, plain, right, segments, table, tabled
from dashboard.downloads import figure_files
from dashboard.shelf import Shelf, ask
from warehouse import beside
from warehouse.filters import Filters

_RIGHT = ("baseline", "speculative", "printed", "its row gives", "recomputed")


def kept(shelf: Shelf, filters: Filters) -> tuple[PublishedStudy, ...]:
    """Return the published studies, but for those that a filter of model, GPU or dataset rules
    out."""
    version = beside.tables_version(Path(shelf.root))
    known = ask(shelf, studies, version) if version else ()
    return tuple(study for study in known if study.meets(filters))


def say(study: PublishedStudy) -> None:
    """Draw a study's headline, where it was printed, and that it is no measurement of ours."""
    st.header(plain(study.headline))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(BADGE, color="gray")
        st.caption(plain(study.about))


def overview(study: PublishedStudy) -> None:
    """Draw every improvement that was printed against the baseline, a row for each dataset and
    size; then what does not follow, and the money. No advice: nothing here is known to repeat."""
    tables = [each for each in study.tables if each.arms[0] == "baseline"]
    names = list(dict.fromkeys(line.name for each in tables for line in each.lines))
    rows = []
    for each in tables:
        gains = {
            line.name: line.printed if line.flag is None
            else f"{line.printed} ({line.flag}; its row gives {line.recomputed})"
            for line in each.lines
        }  # fmt: skip
        rows.append([each.title, *(gains.get(name, "not printed") for name in names)])
    st.markdown(f"**Improvements as printed, means over the loads**, {BADGE}")
    table(tabled(["dataset", *names], rows), "rows")
    figures = f"compare?{urlencode({'subject': study.title})}"
    st.markdown(
        f"[Its {len(study.figures)} figures and tables, beside what you measure]({figures})"
    )
    _mistakes_and_money(study)


def _mistakes_and_money(study: PublishedStudy) -> None:
    count = len(study.mistakes)
    if count:
        text = f"{study.flagged} of {study.checked} figures do not follow from their own rows"
        st.markdown(f"**{text}: {count} {'error' if count == 1 else 'errors'}**")
    else:
        st.caption(f"All {study.checked} figures follow from their own rows.")
    for mistake in study.mistakes:
        first, *more = mistake.figures
        with st.expander(plain(first)):
            st.markdown(plain(mistake.sentence))
            st.markdown("\n".join(f"- {plain(text)}" for text in more))
    if study.money:
        with st.expander("Money, as printed and recomputed"):
            rows = [(m.name, m.printed, m.recomputed, m.on_own_gpus or "–") for m in study.money]
            header = ["figure", "printed", "recomputed", "with the price of the GPUs used"]
            table(tabled(header, rows), "rows")
            st.caption("Nothing of this is a price of yours.")


def render(study: PublishedStudy, top: DeltaGenerator) -> None:
    """Draw the study: one figure, its table, what does not follow, the money."""
    with top:
        say(study)
    own = None
    if study.figures:
        named = {figure.name.removeprefix("Figure "): figure for figure in study.figures}
        chosen = segments("Figure of the study", list(named), "figure")
        figure = named[chosen]
        st.subheader(plain(figure.name))
        st.caption(
            plain(f"{figure.answer} Drawn are the numbers that were printed of this figure.")
        )
        drawings = [specification(printed_values(plot)) for plot in figure.plots]
        grid(drawings, [_alt(plot) for plot in figure.plots])
        figure_files(
            f"{figure.name} [{BADGE}]", drawings, {"subject": study.title, "figure": chosen}
        )
        own = next((each for each in study.tables if each.title == figure.table), None)
        if own is not None:
            _table(own)
    with st.expander("The study's other tables"):
        for each in study.tables:
            if each is not own:
                _table(each)
        if study.drafts:
            rows = [
                (d.num_speculative_tokens, d.acceptance_rate, d.mean_acceptance_length, d.follows)
                for d in study.drafts
            ]
            header = ["draft tokens", "acceptance rate", "mean acceptance length", "1 + K × rate"]
            st.markdown(f"**Acceptance**, {BADGE}")
            table(tabled(header, rows), "rows")
    _mistakes_and_money(study)


def _alt(plot: Plot) -> str:
    values = "; ".join(f"{value.arm}, {value.of}: {value.text}" for value in plot.values)
    return f"{plot.name} in {plot.unit}, {BADGE}: {values}. {'; '.join(plot.notes)}"


def _table(printed: PrintedTable) -> None:
    old, new = printed.arms
    rows = [
        (f"{line.name} ({line.unit})", line.baseline, line.speculative, line.printed,
         line.recomputed, line.flag or "follows", _here(line.measured))
        for line in printed.lines
    ]  # fmt: skip
    header = ["geometric mean over the loads", old, new, "printed", "its row gives", "check",
              "measured here"]  # fmt: skip
    st.markdown(f"**{plain(printed.title)}**, {BADGE}")
    table(tabled(header, rows), "rows", right(old, new, *_RIGHT))


def _here(measured: Sequence[MeasuredHere]) -> str:
    texts = []
    for each in measured:
        ends = interval(each.low, each.high)
        sure = f" ({ends}: {each.word})" if ends and each.word else ""
        badges = "".join(f" [{text}]" for text in each.badges)
        texts.append(f"{each.arm} {percent(each.improvement)}{sure}{badges}")
    return "; ".join(texts) or "not measured"
