"""The free charts draw what their SQL says, pool nothing unlike, and the SQL box gives nothing away."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from answers import explore
from answers.explore import (
    AGGREGATIONS,
    EACH,
    KEYS,
    MOST_MARKS,
    MOST_SERIES,
    CellBehind,
    Clicked,
    Mark,
    Marks,
    Measure,
    Pick,
    cells_sql,
    marks_sql,
)
from dashboard.charts import arm_colour
from dashboard.charts import data as charts_data
from dashboard.charts.data import key_colours
from dashboard.links import cell_link
from dashboard.shelf import ask as asked
from dashboard.shelf import open_shelf
from dashboard.views.data import questions as box
from dashboard.views.data.questions import EXAMPLES, cell_rows
from tests.dashboard.opening import opened
from warehouse import queries
from warehouse.filters import Filters
from warehouse.storage.question import VIEWS, ask

PANELS = 6
RATE, TTFT = Measure("output_throughput", "mean"), Measure("ttft", "p95")
PICK = Pick(RATE, KEYS["Concurrency"], KEYS["Arm"], KEYS["Setting"], "median")
PICKS = {
    "over a number": PICK,
    "over another amount": replace(PICK, x=TTFT),
    "over a text": replace(PICK, x=KEYS["Dataset"], panel=None),
    "over time": replace(PICK, x=KEYS["Start time"], how=EACH),
    "each cell by TP": replace(PICK, series=KEYS["Tensor parallel size"], how=EACH),
    "geometric mean": replace(PICK, how="geometric mean"),
}


def _opened(filters: Filters | None = None, part: str = "Charts", **link: str) -> AppTest:
    return opened("data", filters, part=part, **link)


def _marks(pick: Pick, filters: Filters | None = None) -> Marks:
    return asked(open_shelf(), explore.marks, pick, filters or Filters(), 99)


def _cells(pick: Pick, filters: Filters | None = None) -> tuple[CellBehind, ...]:
    return asked(open_shelf(), explore.cells, pick, filters or Filters()).first


@pytest.mark.parametrize("name", PICKS)
def test_the_sql_that_is_shown_gives_in_the_box_what_the_chart_draws(
    warehouse: Path, name: str
) -> None:
    pick = PICKS[name]

    drawn = _marks(pick).all
    rows = ask(warehouse, marks_sql(pick, Filters())).rows.to_pylist()

    assert len(drawn) > 1
    columns = ["panel", "series", "x", "y", "low", "high", "cells"]
    told = [tuple(getattr(mark, column) for column in columns) for mark in drawn]
    assert sorted(told, key=str) == sorted(
        (tuple(row[column] for column in columns) for row in rows), key=str
    )


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("name", PICKS)
def test_every_encoded_field_exists_in_the_data(name: str) -> None:
    known = _marks(PICKS[name])
    shared = charts_data.axes(known, PICKS[name])

    spec = charts_data.panel(known.panels[0], PICKS[name], "t", shared).to_dict()

    fields = {
        channel["field"]
        for layer in spec["layer"]
        for channel in layer["encoding"].values()
        if isinstance(channel, dict) and "field" in channel
    }
    assert fields <= set(charts_data.mark_rows(known.panels[0].marks).columns)
    assert any(layer["encoding"].get("color", {}).get("legend") for layer in spec["layer"])


@pytest.mark.usefixtures("warehouse")
def test_the_cells_of_a_chart_come_in_one_order() -> None:
    places = [(c.panel, c.series, c.x, c.y, c.cell_id) for c in _cells(PICK)]

    assert len(places) > 20
    assert places == sorted(places)


@pytest.mark.usefixtures("warehouse")
def test_a_median_over_a_setting_is_the_median_of_its_cells() -> None:
    cells = pd.DataFrame([(c.panel, c.series, c.x, c.y) for c in _cells(PICK)])

    expected = cells.groupby([0, 1, 2])[3].median()
    told = {(mark.panel, mark.series, mark.x): mark.y for mark in _marks(PICK).all}
    assert told == pytest.approx(expected.to_dict())


@pytest.mark.usefixtures("warehouse")
def test_filters_keep_their_cells_and_cannot_break_out_of_their_quotes() -> None:
    kept = _cells(PICK, Filters(dataset=("code",)))

    assert {cell.panel for cell in kept} == {
        "lab/tiny-target, H200, TP 1, code", "<b>*bold*</b> $x$, B200, TP 1, code",
    }  # fmt: skip
    assert _cells(PICK, Filters(dataset=("' or 1 = 1 --",))) == ()


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    "filters",
    [
        Filters(), Filters(model=("lab/tiny-target",)), Filters(arm=("baseline", "eagle3 K=5")),
        Filters(tensor_parallel_size=("1",), gpu=("B200",)), Filters(study=("unknown",)),
        Filters(engine_version=("0.25.1",), since="2026-11-02", until="2026-11-02"),
    ],
)  # fmt: skip
def test_the_filters_mean_in_a_question_what_they_mean_on_every_page(filters: Filters) -> None:
    told = queries.cells(open_shelf().reader, filters).column("cell_id").to_pylist()

    assert {cell.cell_id for cell in _cells(PICK, filters)} == set(told)


@pytest.mark.parametrize(
    ("days", "kept"),
    [({"since": "2026-11-02"}, True), ({"until": "2026-11-02"}, True),
     ({"since": "2026-11-03"}, False), ({"until": "2026-11-01"}, False)],
)  # fmt: skip
def test_days_keep_the_cells_that_started_then_also_in_the_sql_that_is_shown(
    warehouse: Path, days: dict[str, str], kept: bool
) -> None:
    filters = Filters(**days)

    found = _cells(PICK, filters)

    assert bool(found) == kept
    assert ask(warehouse, cells_sql(PICK, filters)).rows.num_rows == len(found)


@pytest.mark.usefixtures("warehouse")
def test_every_cell_of_a_chart_leads_to_its_place_in_runs() -> None:
    code = Filters(dataset=("code",))
    page = _opened(code)

    links = {cell_link(cell.cell_id) for cell in _cells(PICK, code)}
    assert set(page.dataframe[0].value["in Runs"]) == links


@pytest.mark.usefixtures("warehouse")
def test_a_mark_that_pools_unlike_cells_says_so_and_nothing_is_called_the_best() -> None:
    pooled = replace(PICK, panel=None, x=KEYS["Dataset"], series=KEYS["Evidence"])

    marks = _marks(pooled)

    assert any("different settings" in note for note in marks.notes)
    assert marks.headline.endswith(
        "over dataset: a mark pools several settings, so none is the best"
    )
    assert "none is the best" in marks.panels[0].answer
    assert not any("different" in note for note in _marks(replace(PICK, how=EACH)).notes)


@pytest.mark.usefixtures("warehouse")
def test_the_best_is_said_of_one_setting_and_does_not_change_with_the_others_shown() -> None:
    every = {panel.name: panel.answer for panel in _marks(PICK).panels}
    one = _marks(PICK, Filters(dataset=("structured",)))

    assert explore.titles(_marks(PICK), PICK)[0] == "lab/tiny-target, H200, code  [CPU lab]"
    (panel,) = one.panels
    assert every[panel.name] == panel.answer
    assert panel.answer.startswith("best ")
    assert "eagle3 K=5, concurrency 16" in panel.answer
    assert one.headline == f"Output throughput: {panel.answer}"


@pytest.mark.usefixtures("warehouse")
def test_marks_without_a_place_are_counted_not_drawn() -> None:
    marks = _marks(replace(PICK, x=KEYS["Repeat"]))

    assert not marks.panels
    assert any("without a known repeat" in note for note in marks.notes)
    assert "unknown for every cell" in marks.headline


def _made(number: int, panels: int = 1, **changes: Any) -> list[Mark]:
    one = Mark("panel 0", "baseline", 0, 1.0, 1.0, 1.0, None, 1, 1, 1, 7, "cpu", True)
    return [replace(one, x=i, panel=f"panel {i % panels}", **changes) for i in range(number)]


def test_more_than_can_be_drawn_is_cut_and_it_is_said() -> None:
    many = explore.placed(_made(MOST_MARKS + 1), replace(PICK, panel=None), PANELS)
    wide = explore.placed(_made(40, panels=PANELS + 5), PICK, PANELS)

    assert len(many.all) == MOST_MARKS
    assert any(f"{MOST_MARKS:,} of" in note for note in many.notes)
    assert len(wide.panels) == PANELS
    assert any("panels are drawn" in note for note in wide.notes)
    assert many.badges == ("CPU lab", "synthetic acceptance")


def test_the_best_of_a_panel_is_known_where_its_line_is_not_drawn() -> None:
    lines = [
        replace(mark, series=f"arm {line}", y=2.0)
        for line in range(MOST_SERIES)
        for mark in _made(2)
    ]
    best = replace(_made(1)[0], series="arm that was measured once", y=3.0)

    found = explore.placed([*lines, best], PICK, PANELS)

    assert best not in found.all
    assert "best 3.0 tok/s, arm that was measured once" in found.headline


@pytest.mark.parametrize(
    ("metric", "best"), [("output_throughput", "3.0"), ("ttft", "1.0"), ("prompt_tokens", "1 to 3")]
)
def test_the_headline_knows_which_direction_is_better(metric: str, best: str) -> None:
    marks = [replace(mark, y=float(at + 1)) for at, mark in enumerate(_made(3))]

    headline = explore.placed(marks, replace(PICK, y=Measure(metric, "mean")), PANELS).headline

    assert best in headline


@pytest.mark.usefixtures("warehouse")
def test_clicked_marks_choose_their_cells() -> None:
    one = next(cell for cell in _cells(PICK) if cell.series == "eagle3 K=5" and cell.x == 4)
    over = replace(PICK, x=TTFT)

    for pick, along in ((PICK, 4), (over, 4)):
        clicked = (Clicked(one.panel, one.series, along),)
        found = asked(open_shelf(), explore.cells, pick, Filters(), clicked)
        assert [cell.cell_id for cell in found.first] == [one.cell_id]


@pytest.mark.usefixtures("warehouse")
def test_a_click_on_a_moment_chooses_its_cell() -> None:
    pick = PICKS["over time"]
    one = _cells(pick)[0]
    assert isinstance(one.x, datetime)

    clicked = (Clicked(one.panel, one.series, one.x.timestamp() * 1000),)
    found = asked(open_shelf(), explore.cells, pick, Filters(), clicked)

    assert one.cell_id in {cell.cell_id for cell in found.first}
    assert {cell.x for cell in found.first} == {one.x}


def test_arms_keep_their_colour_and_other_keys_have_their_own() -> None:
    known = explore.placed(_made(2), PICK, PANELS)

    def colours(pick: Pick) -> list[str]:
        shared = charts_data.axes(known, pick)
        spec = charts_data.panel(known.panels[0], pick, "t", shared).to_dict()
        found: list[str] = spec["layer"][0]["encoding"]["color"]["scale"]["range"]
        return found

    assert colours(PICK) == [arm_colour("baseline")]
    assert colours(replace(PICK, series=KEYS["Dataset"])) == key_colours(1)
    assert len(set(key_colours(12))) == 12


@pytest.mark.usefixtures("warehouse")
def test_the_page_shows_charts_their_cells_and_the_sql_behind() -> None:
    page = _opened()

    assert (
        page.header[0].value == "Output throughput over concurrency\\: 3 settings, each for itself"
    )
    assert len(page.get("vega_lite_chart")) == 3
    assert len(page.dataframe) == 1
    assert page.code[0].value == marks_sql(PICK, Filters())


@pytest.mark.usefixtures("warehouse")
def test_a_link_reproduces_every_choice() -> None:
    page = _opened(
        Filters(), charts="2", y1="Request latency", x1="Output throughput", panels1="one panel",
        colours1="Dataset", pooled1="maximum", y2="Error rate", **{"y1-statistic": "P95"},
    )  # fmt: skip

    x = Measure("output_throughput", "mean")
    first = Pick(Measure("request_latency", "p95"), x, KEYS["Dataset"], None, "maximum")
    assert page.code[0].value == marks_sql(first, Filters())
    assert len(page.code) == 2
    assert "error_rate" in page.code[1].value


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("how", AGGREGATIONS)
def test_every_aggregation_draws(how: str) -> None:
    assert _opened(pooled1=how).get("vega_lite_chart")


@pytest.mark.usefixtures("warehouse")
def test_filters_that_match_nothing_say_so() -> None:
    page = _opened(Filters(dataset=("gone",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")


def test_unknown_values_have_a_place_and_a_name(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    unknown = dict.fromkeys(("model", "gpu", "dataset", "spec_method", "concurrency", "evidence"))
    fill_cells(empty_place, "nothing known", [make_facts(**unknown)])

    page = _opened(x1="Dataset")

    assert "unknown, unknown, TP 1, unknown" in page.get("vega_lite_chart")[0].proto.spec
    assert page.get("vega_lite_chart")


def _run(page: AppTest) -> AppTest:
    next(button for button in page.button if button.label == "Run").click()
    return page.run()


@pytest.mark.usefixtures("warehouse")
def test_opening_a_link_runs_no_sql_until_somebody_presses_run() -> None:
    page = _opened(part="SQL", sql="select 1 as one")

    assert not page.dataframe
    assert "Not run yet" in page.caption[-1].value
    page.text_area(key="sql").set_value("select 2 as two").run()
    assert not page.dataframe

    assert _run(page).dataframe[0].value.to_dict("list") == {"two": [2]}
    # What is changed afterwards is another question.
    page.text_area(key="sql").set_value("select 3 as three").run()
    assert not page.dataframe


@pytest.mark.usefixtures("warehouse")
def test_the_sql_box_answers() -> None:
    page = _run(_opened(part="SQL", sql="select dataset, count(*) as n from cells group by all"))

    assert page.dataframe[0].value.set_index("dataset")["n"].to_dict() == {
        "code": 16,
        "structured": 15,
    }
    assert "2 rows." in [text.value for text in page.markdown]


ATTACKS = (
    "select * from read_csv('/etc/passwd')",
    "copy cells to '/tmp/x.csv'",
    "attach ':memory:' as other",
    "install httpfs",
    "set enable_external_access = true",
    "select 1; drop view cells",
    "select * from no_such_view",
    "**not** sql <img src=x onerror=alert(1)>",
)


@pytest.mark.slow
@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("sql", ATTACKS)
def test_whatever_else_is_asked_is_one_sentence_and_the_page_stands(sql: str) -> None:
    page = _run(_opened(part="SQL", sql=sql))

    assert len(page.error) == 1
    said = page.error[0].value
    assert "\n" not in said
    assert "Traceback" not in said
    assert "<img" not in said
    assert page.text_area(key="sql").value == sql


@pytest.mark.slow
@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_of_the_box_is_answered(name: str) -> None:
    page = _opened(part="SQL")

    _run(page.selectbox(key="example").set_value(name).run())

    assert not page.exception
    assert not page.error
    assert page.text_area(key="sql").value == EXAMPLES[name]
    assert page.dataframe


def test_any_answer_of_a_database_becomes_a_table() -> None:
    rows = pa.table(
        [[1, None], [[1, 2], None], [b"\x00", None], ["a", "b"]], names=["n", "n", "raw", "n"]
    )

    flat = box.flat(box.named_once(rows))

    assert list(flat) == ["n", "n (2)", "raw", "n (3)"]
    assert flat["n (2)"][0] == "[1, 2]"


@pytest.mark.usefixtures("warehouse")
def test_the_views_that_can_be_asked_are_listed_with_their_columns() -> None:
    page = _opened(part="SQL", views="true")

    rows = page.dataframe[0].value
    assert set(rows["view"]) == set(VIEWS)
    assert "cell_id" in set(rows.loc[rows["view"] == "cells", "column_name"])


def test_the_cells_of_a_chart_are_one_row_each(warehouse: Path) -> None:
    found = ask(warehouse, cells_sql(PICK, Filters())).rows.to_pandas()

    assert found["cell_id"].is_unique
    assert list(cell_rows(_cells(PICK), PICK)) == [
        "Setting", "Arm", "concurrency", "Output throughput, tok/s", "evidence", "cell_id",
    ]  # fmt: skip
