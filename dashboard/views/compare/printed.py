"""A published study on the Compare page: its figures and tables as printed, outside the five words."""

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from answers.published.values import (
    BADGE,
    MeasuredHere,
    Plot,
    PrintedFigure,
    PrintedLine,
    PrintedTable,
    PublishedStudy,
)
from answers.wording import interval, percent
from dashboard.charts.published import printed_values
from dashboard.charts.spec import specification
from dashboard.components import plain, shown, table
from dashboard.published import mistakes, money, say
from dashboard.views.compare.pair import files, grid

_RIGHT = ("baseline", "speculative", "printed", "its row gives", "recomputed")


def render(study: PublishedStudy, top: DeltaGenerator) -> None:
    """Draw the study: one figure, its table, what does not follow, the money."""
    with top:
        say(study)
    figure = _figure(study)
    if figure is not None:
        _draw(study, figure)
    own = next((one for one in study.tables if figure and one.title == figure.table), None)
    if own is not None:
        _table(own)
    with st.expander("The study's other tables"):
        for one in study.tables:
            if one is not own:
                _table(one)
        _drafts(study)
    mistakes(study)
    money(study)


def _figure(study: PublishedStudy) -> PrintedFigure | None:
    if not study.figures:
        return None
    named = {one.name.removeprefix("Figure "): one for one in study.figures}
    chosen = st.segmented_control(
        "Figure of the study", list(named), default=next(iter(named)), required=True,
        key="figure", bind="query-params",
    )  # fmt: skip
    return named[str(chosen)]


def _draw(study: PublishedStudy, figure: PrintedFigure) -> None:
    st.subheader(plain(figure.name))
    st.caption(plain(f"{figure.answer} Drawn are the numbers that were printed of this figure."))
    drawings = [specification(printed_values(plot)) for plot in figure.plots]
    grid(drawings, [_alt(plot) for plot in figure.plots])
    link = {"subject": study.title, "figure": figure.name.removeprefix("Figure ")}
    files(f"{figure.name} [{BADGE}]", drawings, link)


def _alt(plot: Plot) -> str:
    """Describe a chart in words for those who do not see it."""
    values = "; ".join(f"{one.arm}, {one.of}: {one.text}" for one in plot.values)
    return f"{plot.name} in {plot.unit}, {BADGE}: {values}. {'; '.join(plot.notes)}"


def _table(one: PrintedTable) -> None:
    old, new = one.arms
    rows = [
        (f"{line.name} ({line.unit})", line.baseline, line.speculative, line.printed,
         line.recomputed, line.flag or "follows", _here(line))
        for line in one.lines
    ]  # fmt: skip
    header = ["geometric mean over the loads", old, new, "printed", "its row gives", "check",
              "measured here"]  # fmt: skip
    right = {
        name: st.column_config.TextColumn(name, alignment="right") for name in (old, new, *_RIGHT)
    }
    st.markdown(f"**{plain(one.title)}**, {BADGE}")
    table(shown(pd.DataFrame(rows, columns=header)), "rows", right)


def _here(line: PrintedLine) -> str:
    return "; ".join(map(_measured, line.measured)) or "not measured"


def _measured(one: MeasuredHere) -> str:
    badge = "".join(f" [{text}]" for text in one.badges)
    ends = interval(one.low, one.high)
    sure = f" ({ends}: {one.word})" if ends and one.word else ""
    return f"{one.arm} {percent(one.improvement)}{sure}{badge}"


def _drafts(study: PublishedStudy) -> None:
    if not study.drafts:
        return
    rows = [
        (one.num_speculative_tokens, one.acceptance_rate, one.mean_acceptance_length, one.follows)
        for one in study.drafts
    ]
    header = ["draft tokens", "acceptance rate", "mean acceptance length", "1 + K × rate"]
    st.markdown(f"**Acceptance**, {BADGE}")
    table(shown(pd.DataFrame(rows, columns=header)), "rows")
