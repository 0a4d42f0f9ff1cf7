"""The part of the Decide page that says which K at which load, its reasons, and what nobody knows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from answers.decide.answer import decide
from answers.decide.tables import fields
from answers.decide.values import DecideQuestion, Decision
from dashboard.charts import decide as charts
from dashboard.links import cell_link
from dashboard.views.decide import SQUARE, rows_of
from draftboard import cli
from tests.dashboard.opening import encoded, opened, refused
from warehouse import queries
from warehouse.filters import Filters
from warehouse.rows import Rejection
from warehouse.store import Reader, open_writer

Study = Callable[..., None]
LINK = "measured in"


def said(page: AppTest) -> str:
    texts = [*page.header, *page.subheader, *page.markdown, *page.caption, *page.info]
    return "\n".join(text.value for text in texts).replace("\\", "")


#: At the largest load every K loses.
LOAD = "16"


def decisions(root: Path, load: str | None = None) -> dict[str, Decision]:
    """Dataset -> its decision."""
    with Reader(root) as reader:
        found = decide(reader, DecideQuestion(load=load)).decisions
    return {str(one.traffic.dataset): one for one in found if not one.traffic.mix}


def told(root: Path, *arguments: str) -> Any:
    result = CliRunner().invoke(cli, ["tune", "--warehouse", str(root), *arguments, "--json"])
    assert result.exception is None, result.output
    return json.loads(result.stdout)


def test_the_page_gives_the_lines_that_the_command_gives(tuned_warehouse: Path) -> None:
    # Nothing is settled there, so there is a line only for who asks for an arm.
    arm = "draft_model K=2"
    asked = ("--dataset", "chat", "--load", LOAD, "--arm", arm)
    (expected,) = told(tuned_warehouse, *asked)["decisions"]

    page = opened("decide", Filters(arm=(arm,)), traffic="chat", at_load=LOAD)

    assert [code.value for code in page.code] == [expected["serve"]]
    assert f"--speculative-config '{expected['speculative_config']}'" in expected["serve"]
    assert page.header[0].value.replace("\\", "") == f"chat: {expected['headline']}"
    assert not opened("decide", traffic="chat", at_load=LOAD).code
    assert "[simulated]" in str(page.selectbox(key="about").options)


@pytest.mark.usefixtures("tuned_warehouse")
def test_an_slo_that_no_arm_meets_leaves_nothing_to_serve_with() -> None:
    page = opened("decide", draft_slo="ttft:p95<1ms")

    assert "no arm meets ttft:p95<1ms" in page.header[0].value.replace("\\", "")
    assert not page.code


@pytest.mark.usefixtures("tuned_warehouse")
def test_an_slo_that_cannot_be_read_is_one_sentence() -> None:
    assert "there is no metric 'speed'" in refused("decide", draft_slo="speed<3")


@pytest.mark.usefixtures("tuned_warehouse")
@pytest.mark.parametrize("old", ["verdict", "draft-tokens"])
def test_a_link_reproduces_the_controls_also_one_of_a_former_page(old: str) -> None:
    from dashboard.views import decide as page_module

    page = opened("decide", objective="Latency", traffic="chat", at_load="16", by_load="true")

    assert old in page_module.FORMER
    assert page.selectbox(key="traffic").value == "chat"
    assert page.selectbox(key="at_load").value == "16"
    assert "Request latency" in str([frame.value for frame in page.dataframe][1]["in"].tolist())


@pytest.mark.usefixtures("tuned_warehouse")
def test_a_choice_of_arms_keeps_the_baseline() -> None:
    page = opened("decide", Filters(arm=("draft_model K=2",)), traffic="code", by_load="true")

    assert set(page.dataframe[1].value["K"]) <= {"2", "no drafts"}


@pytest.mark.usefixtures("tuned_warehouse")
def test_filters_that_match_nothing_are_named() -> None:
    page = opened("decide", Filters(dataset=("no such dataset",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")


def test_an_empty_warehouse_says_how_to_fill_it(empty_place: Path) -> None:
    with open_writer(empty_place) as writer:
        writer.reject(Rejection("results/broken.json", "Not a result."))
        writer.commit()

    assert "draftboard ingest" in opened("decide").info[0].value


@pytest.mark.parametrize("ks", [(0,), (1, 2)], ids=["no arm", "no baseline"])
def test_results_without_a_partner_are_said(
    empty_place: Path, add_study: Study, ks: tuple[int, ...]
) -> None:
    add_study(empty_place, ks=ks)

    page = opened("decide")

    assert "No pair of cells" in page.info[0].value
    assert not page.get("vega_lite_chart")


def test_a_metric_that_was_not_measured_decides_nothing(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    for k in (None, 3):
        arm = {"spec_method": "eagle3" if k else "none", "num_speculative_tokens": k}
        facts = [make_facts(**arm)]
        fill_cells(empty_place, f"bare {k}", facts, measurements=(), acceptance=())

    assert "no metric in common" in said(opened("decide"))


def test_a_single_repeat_settles_nothing(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    for k in (None, 3):
        arm = {"spec_method": "eagle3" if k else "none", "num_speculative_tokens": k}
        fill_cells(empty_place, f"arm {k}", [make_facts(concurrency=c, **arm) for c in (1, 2)])

    (one,) = decisions(empty_place).values()

    assert {cell.difference.word for cell in one.arms} == {"open"}
    assert one.at_stake is None
    assert "At stake in the choice: unknown" in said(opened("decide", stake="true"))


def test_names_with_markup_stay_text(empty_place: Path, add_study: Study) -> None:
    name = "<img src=x onerror=alert(1)> **b**"
    add_study(empty_place, ks=(0, 1), model=name, dataset=name)

    page = opened("decide", which_k="true", by_load="true", against="true", stake="true")

    raw = [*page.header, *page.subheader, *page.markdown, *page.caption, *page.info]
    assert all(name not in text.value for text in raw)


def test_every_encoded_field_is_a_column(tuned_warehouse: Path) -> None:
    from answers.decide.overview import overviews

    with Reader(tuned_warehouse) as reader:
        (overview,) = overviews(decide(reader, DecideQuestion()).decisions)
    for chart in (
        charts.heat_map(overview.decisions[-1]), charts.load_map(overview, overview.leads[0]),
    ):  # fmt: skip
        spec = chart.to_dict()
        columns = {column for rows in spec["datasets"].values() for row in rows for column in row}
        assert encoded(spec) <= columns
        assert "[simulated]" in spec["title"]["text"]


def test_the_heat_map_has_the_largest_k_on_top_and_one_outline_a_load(
    tuned_warehouse: Path,
) -> None:
    one = decisions(tuned_warehouse, LOAD)["chat"]
    found = charts.heat_map(one).to_dict()

    encoding = found["layer"][0]["encoding"]
    assert encoding["x"]["sort"] == ["1", "4", "16", "64", "128"]
    arms = [f"draft_model K={k}" for k in (4, 3, 2, 1)]
    assert encoding["y"]["sort"] == [*arms, "no drafts"]
    rows = pd.DataFrame(found["datasets"][found["data"]["name"]])
    assert rows.groupby("load")["taken"].sum().eq(1).all()
    by_load = rows[rows["taken"]].set_index("load")["place"].to_dict()
    assert by_load == {
        level.load.short: (level.arm if level.served is None else level.served.arm)
        if level.drafts
        else "no drafts"
        for level in one.levels
    }


def test_the_file_holds_every_load_and_arm_unrounded(tuned_warehouse: Path) -> None:
    one = decisions(tuned_warehouse)["chat"]

    rows = rows_of([one])

    assert len(rows) == 20
    assert set(rows["evidence"]) == {"simulated"}
    (row,) = rows[(rows["arm"] == "draft_model K=4") & (rows["load"] == "64 at once")].to_dict(
        "records"
    )
    (cell,) = [c for c in one.arms if (c.arm, c.load.value) == ("draft_model K=4", 64)]
    assert row["expected"] == cell.difference.improvement
    assert row["word"] == cell.difference.word


@pytest.mark.parametrize(
    ("square", "method"), [("draft_model K=4", "draft_model"), ("no drafts", "none")]
)
def test_every_square_of_the_heat_map_leads_to_its_cells(
    tuned_warehouse: Path, square: str, method: str
) -> None:
    page = opened("decide", traffic="code", square=f"{square} at 64 at once")

    (found,) = [frame.value for frame in page.dataframe if LINK in frame.value]
    with Reader(tuned_warehouse) as reader:
        cells = queries.cells(reader, Filters(dataset=("code",))).to_pandas()
    here = cells[(cells["concurrency"] == 64) & (cells["spec_method"] == method)]
    if method != "none":
        here = here[here["num_speculative_tokens"] == 4]
    assert len(here) == 3
    assert set(found[LINK]) == {cell_link(cell_id) for cell_id in here["cell_id"]}


def test_the_marks_of_a_heat_map_name_the_squares_that_can_be_chosen(
    tuned_warehouse: Path,
) -> None:
    one = decisions(tuned_warehouse)["chat"]

    drawing = charts.heat_map(one).to_dict()

    assert [param["select"]["fields"] for param in drawing["params"]] == [[charts.FIELD]]
    (rows,) = drawing["datasets"].values()
    assert {row[charts.FIELD] for row in rows} == {field.name for field in fields(one)}
    assert SQUARE == "square"
