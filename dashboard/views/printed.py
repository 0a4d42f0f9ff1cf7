"""A published study, on the page Compare and in short on any page: its figures and tables as printed,
outside the five words; what does not follow from them; its money. On the page Data: do published figures
follow from their own tables, and what was measured here?
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from urllib.parse import urlencode

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.published.claims import Claims, as_improvement, judge
from analysis.published.claims_file import Tables, read_claims
from analysis.published.printed import Finding
from answers.published import answer, values
from answers.published.values import BADGE, MeasuredHere, Plot, PrintedTable, PublishedStudy
from answers.wording import interval, percent
from dashboard.charts import Drawing, specification
from dashboard.charts.published import MOST_DRAWN, claimed, improvements, printed_values
from dashboard.components import fold, grid, listing, plain, segments, table, tabled, titled
from dashboard.doors.access import may_edit, require_editor
from dashboard.downloads import charts_menu, figure_files, rows_menu
from dashboard.shelf import Shelf, ask, cached
from warehouse.beside import PublishedTable, tables_version
from warehouse.catalogue import counted
from warehouse.errors import InvalidInput
from warehouse.filters import Filters


def kept(shelf: Shelf, filters: Filters) -> tuple[PublishedStudy, ...]:
    """Return the published studies, but for those that a filter of model, GPU or dataset rules
    out."""
    version = tables_version(shelf.root)
    known = ask(shelf, answer.studies, version) if version else ()
    return tuple(study for study in known if study.meets(filters))


def say(study: PublishedStudy) -> None:
    """Draw a study's headline, where it was printed, and that it is no measurement of ours."""
    st.header(plain(study.headline))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(BADGE, color="gray")
        st.caption(plain(study.about))


def overview(study: PublishedStudy) -> None:
    """Draw every improvement that was printed against the baseline, below its dataset and size; then
    what does not follow, and the money. No advice: nothing here is known to repeat."""
    st.vega_lite_chart(_dots(study), alt=f"Improvements as printed, {BADGE}. {study.headline}")
    figures = f"compare?{urlencode({'subject': study.title})}"
    st.markdown(
        f"[Its {len(study.figures)} figures and tables, beside what you measure]({figures})"
    )
    _mistakes_and_money(study)


@lru_cache(4)
def _dots(study: PublishedStudy) -> Drawing:
    return specification(improvements(study))


def _mistakes_and_money(study: PublishedStudy) -> None:
    if count := len(study.mistakes):
        with st.expander(f"{study.soundness}: {counted(count, 'error')}"):
            for mistake in study.mistakes:
                first, *more = mistake.figures
                st.markdown(f"**{plain(first)}**  \n{plain(mistake.sentence)}")
                if more:
                    st.markdown("\n".join(f"- {plain(text)}" for text in more))
    else:
        st.caption(f"{study.soundness}.")
    if study.money:
        with st.expander("Money, as printed and recomputed"):
            rows = [(*figures, own_gpus or "–") for *figures, own_gpus in study.money]
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
            header = ["draft tokens", "acceptance rate", "mean acceptance length", "1 + K × rate"]
            st.markdown(f"**Acceptance**, {BADGE}")
            table(tabled(header, study.drafts), "rows")
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
    table(tabled(header, rows), "rows")


def _here(measured: Sequence[MeasuredHere]) -> str:
    texts = []
    for each in measured:
        ends = interval(each.low, each.high)
        sure = f" ({ends}: {each.word})" if ends and each.word else ""
        badges = "".join(f" [{text}]" for text in each.badges)
        texts.append(f"{each.arm} {percent(each.improvement)}{sure}{badges}")
    return "; ".join(texts) or "not measured"


# --- Published figures: do they follow from their own tables, and what was measured here?


#: A table that somebody typed; no more is read. Reading a MB of YAML takes this process 3 s.
MOST_MB = 1
_SHIPPED = Path(__file__).parents[2] / "examples" / "claims"
_HOW = (
    "Every gain, mean, acceptance and cost is recomputed from the values printed beside it, gains "
    "in the convention of their own table. A figure is flagged only where no rounding "
    "of the printed digits explains the difference, or where a cost stands on the price of other "
    "GPUs than its throughput."
)
_HOW_MEASURED = (
    "Matched by what a row states: model, dataset, tensor parallel size, GPU, precision. A claim at "
    "one concurrency stands beside that level, any other beside the mean over the load. The "
    "interval covers the noise between repeats."
)
_FORMAT = (
    "YAML or CSV. Rows with metric, baseline, speculative and a printed gain (published_pct, "
    "speedup, change …) are improvements; rows with usd_per_hour and throughputs are costs. Write "
    "numbers with the digits printed. The file is read in memory and not kept."
)
_HERE = {
    "metric": "metric", "about": "about", "published": "published", "measured": "measured here",
    "interval": "95 % interval", "word": "word", "arm": "arm", "model": "model", "gpu": "GPU",
    "loads": "loads", "evidence": "evidence",
}  # fmt: skip


def claims(shelf: Shelf, filters: Filters) -> None:
    """Draw the part."""
    top, body = st.container(), st.container()
    with body:
        chosen = _chosen_table()
        everything = st.toggle("Show the figures that follow, too", key="all_figures",
                               bind="query-params")  # fmt: skip
    if chosen is None:
        with top:
            st.header("Do published figures follow from their own tables?")
            st.info("No table comes along with this installation. Upload one of your own.")
        return
    tables, judged = judged_table(chosen)
    with top:
        st.header(plain(values.headline_of_claims(judged)), help=_HOW)
    with body:
        _figures(judged, everything)
        drawable = [
            as_improvement(one)
            for one in (judged.findings if everything else judged.flagged)
            if one.unit == "%" or one.better
        ]
        _drawn(shelf, drawable, str(tables.study.get("source", chosen.name)))
        fold("The improvements, beside what was measured here", "measured",
             partial(_measured, shelf, filters, tables, judged))  # fmt: skip
        for sentence in judged.conventions:
            st.text(sentence)
        if judged.unclaimed:
            with st.expander(f"Not checked: {len(judged.unclaimed)}"):
                for sentence in judged.unclaimed:
                    st.caption(plain(sentence))


def _chosen_table() -> PublishedTable | None:
    left, right = st.columns(2)
    sent = right.file_uploader(
        f"Check a table of your own, up to {MOST_MB} MB", type=["yaml", "yml", "csv"], help=_FORMAT,
        key="claims_file", max_upload_size=MOST_MB,
    ) if may_edit() else None  # fmt: skip
    names = shipped()
    name = left.selectbox("Published tables", names, key="claims", bind="query-params",
                          disabled=sent is not None) if names else None  # fmt: skip
    if sent is not None:
        return uploaded_table(sent.name, sent.getvalue())
    return None if name is None else shipped_table(name)


def shipped() -> list[str]:
    """Return the names of the tables that come along; none without the examples."""
    return sorted(path.name for path in _SHIPPED.glob("*.yaml"))


def shipped_table(name: str) -> PublishedTable:
    if name not in shipped():
        raise InvalidInput(f"There is no table {name!r}; use one of: {', '.join(shipped())}.")
    return PublishedTable(name, (_SHIPPED / name).read_text(encoding="utf-8"))


def uploaded_table(name: str, sent: bytes) -> PublishedTable:
    """Return an uploaded file as text. Raises InvalidInput where it is too large or no text, and
    NotAllowed for a viewer."""
    require_editor()
    if len(sent) > MOST_MB * 1_000_000:
        raise InvalidInput(
            f"{name} is larger than {MOST_MB} MB: a table of claims is typed by hand."
        )
    try:
        return PublishedTable(name, sent.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is no text: it must be YAML or CSV in UTF-8.") from error


@lru_cache(8)
def judged_table(file: PublishedTable) -> tuple[Tables, Claims]:
    tables = read_claims(file.text, file.name)
    return tables, judge(tables)


def _figures(judged: Claims, everything: bool) -> None:
    for mistake in values.mistakes(judged):
        figures = (f"    - {plain(figure)}" for figure in mistake.figures)
        st.markdown("\n".join([f"- {plain(mistake.sentence)}", *figures]))
    listed = judged.findings if everything else judged.flagged
    if listed:
        table(tabled(*values.checked(listed)), "figures")
    else:
        st.caption("None is flagged.")
    rows_menu("claims", lambda: file_rows(judged.findings))


@cached
def _drawing(_: Shelf, findings: tuple[Finding, ...], source: str) -> Drawing:
    return specification(claimed(findings, source))


def _drawn(shelf: Shelf, findings: Sequence[Finding], source: str) -> None:
    if not findings:
        return
    drawing = _drawing(shelf, tuple(findings[:MOST_DRAWN]), source)
    st.vega_lite_chart(drawing, alt="Published improvements beside what their own rows give.")
    charts_menu("claims", titled([drawing]))
    if len(findings) > MOST_DRAWN:
        st.caption(f"{len(findings) - MOST_DRAWN} more improvements stand in the table only.")


def _measured(shelf: Shelf, filters: Filters, tables: Tables, judged: Claims) -> None:
    st.caption(_HOW_MEASURED)
    found = ask(shelf, answer.measured_here, judged, tables.model, filters)
    rows = list(values.here(found))
    if not rows:
        st.caption("Nothing here was measured with the model, dataset and size that the table "
                   "states.")  # fmt: skip
        return
    table(listing(rows, _HERE), "measurements")
    _drawn(
        shelf,
        [as_improvement(one) for one in found if one.measured],
        str(tables.study.get("source", "")),
    )


def file_rows(findings: Sequence[Finding]) -> pd.DataFrame:
    rows = [
        {k: v for k, v in finding.as_json().items() if k not in ("about", "measured")}
        | {"about": ", ".join(f"{k} {v}" for k, v in finding.about.items())}
        for finding in findings
    ]
    return pd.DataFrame(rows)
