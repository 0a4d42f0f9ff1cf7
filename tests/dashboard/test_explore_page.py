"""The Explore page: its charts draw what its SQL says, and the SQL box gives nothing away."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dashboard.answers import explore as answers_explore
from dashboard.answers.explore import MOST_MARKS, MOST_PANELS
from dashboard.charts import explore as charts_explore
from dashboard.charts.explore import Words
from dashboard.data import explore as data_explore
from dashboard.explore_sql import AGGREGATIONS, EACH, KEYS, Amount, Pick, cells_sql, marks_sql
from dashboard.links import cell_link
from dashboard.palette import arm_colour
from dashboard.palette_keys import key_colours
from dashboard.shelf import open_shelf
from dashboard.views.explore_sql import EXAMPLES
from tests.dashboard.opening import opened
from warehouse.filters import Filters
from warehouse.store_question import ask

RATE, TTFT = Amount("output_throughput", "mean"), Amount("ttft", "p95")
PICK = Pick(RATE, KEYS["Concurrency"], KEYS["Arm"], KEYS["Dataset"], "median")
PICKS = {
    "over a number": PICK,
    "over another amount": replace(PICK, x=TTFT),
    "over a text": replace(PICK, x=KEYS["Dataset"], panel=None),
    "over time": replace(PICK, x=KEYS["Start time"], how=EACH),
    "each cell by TP": replace(PICK, series=KEYS["Tensor parallel size"], how=EACH),
    "geometric mean": replace(PICK, how="geometric mean"),
}


@pytest.mark.parametrize("name", PICKS)
def test_the_sql_that_is_shown_gives_in_the_box_what_the_chart_draws(
    warehouse: Path, name: str
) -> None:
    pick = PICKS[name]

    drawn = data_explore.marks(open_shelf(), pick, Filters()).rows
    asked = ask(warehouse, marks_sql(pick, Filters())).rows.to_pandas()

    assert len(drawn) > 1
    columns = ["panel", "series", "x", "y", "low", "high", "cells"]
    assert drawn[columns].to_dict("records") == asked[columns].to_dict("records")


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("name", PICKS)
def test_every_encoded_field_exists_in_the_data(name: str) -> None:
    known = data_explore.marks(open_shelf(), PICKS[name], Filters())
    shared = charts_explore.axes(known.rows, answers_explore.kind(PICKS[name].x), arms=True)

    spec = charts_explore.marks(known.rows, Words("t", "s", "x", "arm", ",.1f"), shared).to_dict()

    fields = {
        channel["field"]
        for layer in spec["layer"]
        for channel in layer["encoding"].values()
        if isinstance(channel, dict) and "field" in channel
    }
    assert fields <= set(known.rows.columns)
    assert any(layer["encoding"].get("color", {}).get("legend") for layer in spec["layer"])


@pytest.mark.usefixtures("warehouse")
def test_a_median_over_a_dataset_is_the_median_of_its_cells() -> None:
    cells = data_explore.cells_behind(open_shelf(), PICK, Filters())
    marks = data_explore.marks(open_shelf(), PICK, Filters()).rows

    by = ["panel", "series", "x"]
    expected = cells.groupby(by)["y"].median()
    assert marks.set_index(by)["y"].to_dict() == pytest.approx(expected.to_dict())


@pytest.mark.usefixtures("warehouse")
def test_filters_keep_their_cells_and_cannot_break_out_of_their_quotes() -> None:
    kept = data_explore.cells_behind(open_shelf(), PICK, Filters(dataset=("code",)))
    odd = data_explore.cells_behind(open_shelf(), PICK, Filters(dataset=("' or 1 = 1 --",)))

    assert set(kept["panel"]) == {"code"}
    assert odd.empty


@pytest.mark.parametrize(
    ("days", "kept"),
    [({"since": "2026-11-02"}, True), ({"until": "2026-11-02"}, True),
     ({"since": "2026-11-03"}, False), ({"until": "2026-11-01"}, False)],
)  # fmt: skip
def test_days_keep_the_cells_that_started_then_also_in_the_sql_that_is_shown(
    warehouse: Path, days: dict[str, str], kept: bool
) -> None:
    filters = Filters(**days)

    found = data_explore.cells_behind(open_shelf(), PICK, filters)

    assert found.empty != kept
    assert ask(warehouse, cells_sql(PICK, filters)).rows.num_rows == len(found)


@pytest.mark.usefixtures("warehouse")
def test_every_cell_of_a_chart_leads_to_its_place_in_runs() -> None:
    page = opened("explore", Filters(dataset=("code",)))

    cells = set(
        data_explore.cells_behind(open_shelf(), PICK, Filters(dataset=("code",)))["cell_id"]
    )
    assert set(page.dataframe[0].value["in Runs"]) == {cell_link(one) for one in cells}


@pytest.mark.usefixtures("warehouse")
def test_a_mark_that_pools_unlike_cells_says_so() -> None:
    pooled = replace(PICK, panel=None, x=KEYS["Repeat"], series=KEYS["Evidence"])
    apart = replace(PICK, panel=KEYS["Model"], how=EACH)

    marks = data_explore.marks(open_shelf(), replace(pooled, x=KEYS["Dataset"]), Filters())

    assert any("different settings" in note for note in marks.notes)
    assert not any(
        "different" in note for note in data_explore.marks(open_shelf(), apart, Filters()).notes
    )


@pytest.mark.usefixtures("warehouse")
def test_marks_without_a_place_are_counted_not_drawn() -> None:
    marks = data_explore.marks(open_shelf(), replace(PICK, x=KEYS["Repeat"]), Filters())

    assert marks.rows.empty
    assert any("without a known repeat" in note for note in marks.notes)
    assert "unknown for every cell" in marks.headline


def _rows(number: int, panels: int = 1) -> pd.DataFrame:
    rows = pd.DataFrame({"x": range(number), "y": 1.0, "low": 1.0, "high": 1.0, "cells": 1})
    names = [f"panel {i % panels}" for i in range(number)]
    return rows.assign(panel=names, series="baseline", settings=1, evidence="cpu", synthetic=True)


def test_more_than_can_be_drawn_is_cut_and_it_is_said() -> None:
    many = answers_explore.marks(_rows(MOST_MARKS + 1), replace(PICK, panel=None))
    wide = answers_explore.marks(_rows(40, panels=MOST_PANELS + 5), PICK)

    assert len(many.rows) == MOST_MARKS
    assert any(f"{MOST_MARKS:,} of" in note for note in many.notes)
    assert wide.rows["panel"].nunique() == MOST_PANELS
    assert any("panels are drawn" in note for note in wide.notes)
    assert many.badges == ("CPU lab", "synthetic acceptance")


@pytest.mark.parametrize(
    ("metric", "best"), [("output_throughput", "3.0"), ("ttft", "1.0"), ("prompt_tokens", "1 to 3")]
)
def test_the_headline_knows_which_direction_is_better(metric: str, best: str) -> None:
    rows = _rows(3).assign(y=[1.0, 2.0, 3.0])

    headline = answers_explore.marks(rows, replace(PICK, y=Amount(metric, "mean"))).headline

    assert best in headline


def test_clicked_marks_choose_their_cells() -> None:
    cells = pd.DataFrame(
        {"panel": ["a", "a", "b"], "series": "baseline", "x": [1, 2, 1], "load": [1, 2, 1]}
    )
    mark = {"series": "baseline", "x": 1}

    assert list(answers_explore.clicked(cells, {"a": [mark], "b": []}, PICK).index) == [0]
    over = replace(PICK, x=TTFT)
    clicked = {"a": [{"series": "baseline", "load": 2}]}
    assert list(answers_explore.clicked(cells, clicked, over).index) == [1]


def test_arms_keep_their_colour_and_other_keys_have_their_own() -> None:
    rows = _rows(2)
    words = Words("t", "s", "x", "arm", ",.1f")

    def colours(arms: bool) -> list[str]:
        shared = charts_explore.axes(rows, "number", arms)
        spec = charts_explore.marks(rows, words, shared).to_dict()
        found: list[str] = spec["layer"][0]["encoding"]["color"]["scale"]["range"]
        return found

    assert colours(arms=True) == [arm_colour("baseline")]
    assert colours(arms=False) == key_colours(1)
    assert len(set(key_colours(12))) == 12


@pytest.mark.usefixtures("warehouse")
def test_the_page_shows_charts_their_cells_and_the_sql_behind() -> None:
    page = opened("explore", Filters())

    assert page.header[0].value.startswith("Output throughput\\: best")
    assert len(page.get("vega_lite_chart")) == 2
    assert len(page.dataframe) == 1
    assert page.code[0].value == marks_sql(PICK, Filters())


@pytest.mark.usefixtures("warehouse")
def test_a_link_reproduces_every_choice() -> None:
    page = opened("explore", 
        Filters(), charts="2", y1="Request latency", x1="Output throughput", panels1="one panel",
        colours1="Dataset", pooled1="maximum", y2="Error rate", **{"y1-statistic": "P95"},
    )  # fmt: skip

    x = Amount("output_throughput", "mean")
    first = Pick(Amount("request_latency", "p95"), x, KEYS["Dataset"], None, "maximum")
    assert page.code[0].value == marks_sql(first, Filters())
    assert len(page.code) == 2
    assert "error_rate" in page.code[1].value


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("how", AGGREGATIONS)
def test_every_aggregation_draws(how: str) -> None:
    assert opened("explore", Filters(), pooled1=how).get("vega_lite_chart")


@pytest.mark.usefixtures("warehouse")
def test_filters_that_match_nothing_say_so() -> None:
    page = opened("explore", Filters(dataset=("gone",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")


def test_unknown_values_have_a_place_and_a_name(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    unknown = dict.fromkeys(("model", "gpu", "dataset", "spec_method", "concurrency", "evidence"))
    fill_cells(empty_place, "nothing known", [make_facts(**unknown)])

    page = opened("explore", Filters(), x1="Dataset")

    assert "unknown" in page.header[0].value
    assert page.get("vega_lite_chart")


@pytest.mark.usefixtures("warehouse")
def test_the_sql_box_answers() -> None:
    page = opened(
        "explore",
        Filters(),
        part="SQL",
        sql="select dataset, count(*) as n from cells group by all",
    )

    assert page.dataframe[0].value.set_index("dataset")["n"].to_dict() == {
        "code": 16,
        "structured": 15,
    }
    assert page.markdown[0].value == "2 rows."


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


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("sql", ATTACKS)
def test_whatever_else_is_asked_is_one_sentence_and_the_page_stands(sql: str) -> None:
    page = opened("explore", Filters(), part="SQL", sql=sql)

    assert len(page.error) == 1
    said = page.error[0].value
    assert "\n" not in said
    assert "Traceback" not in said
    assert "<img" not in said
    assert page.text_area(key="sql").value == sql


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_of_the_box_is_answered(name: str) -> None:
    page = opened("explore", Filters(), part="SQL")

    page.selectbox(key="example").set_value(name).run()

    assert not page.exception
    assert not page.error
    assert page.text_area(key="sql").value == EXAMPLES[name]
    assert page.dataframe


def test_any_answer_of_a_database_becomes_a_table() -> None:
    rows = pa.table(
        [[1, None], [[1, 2], None], [b"\x00", None], ["a", "b"]], names=["n", "n", "raw", "n"]
    )

    flat = answers_explore.flat(answers_explore.named_once(rows))

    assert list(flat) == ["n", "n (2)", "raw", "n (3)"]
    assert flat["n (2)"][0] == "[1, 2]"


def test_the_cells_of_a_chart_are_one_row_each(warehouse: Path) -> None:
    found = ask(warehouse, cells_sql(PICK, Filters())).rows.to_pandas()

    assert found["cell_id"].is_unique
