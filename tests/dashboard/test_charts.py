"""Charts are data: they encode columns that exist, and colour means the arm."""

import pytest

from answers.runs.read import CellCurve
from dashboard import charts
from dashboard.charts import arm_colour
from dashboard.charts import data as charts_data
from tests.dashboard.opening import encoded

RUNNING = CellCurve("running", ((0.0, 1.0), (1.0, 2.0)))
CHARTS = {
    "distribution": charts_data.distribution(CellCurve("itl", ((1.0, 0.5), (2.0, 1.0))), "#111111"),
    "positions": charts_data.acceptance_by_position(
        CellCurve("counters", ((1.0, 0.8), (2.0, 0.5))), "#111111"
    ),
    "server": charts_data.over_time([RUNNING, RUNNING], "running", "#111111", share=False),
    "sampled": charts_data.sampled(RUNNING, "  [CPU lab]"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_every_encoded_field_exists_in_the_data(name: str) -> None:
    spec = CHARTS[name].to_dict()

    columns = {column for rows in spec["datasets"].values() for column in rows[0]}
    assert encoded(spec) <= columns


def test_the_first_draft_position_is_one_as_on_every_page() -> None:
    (rows,) = CHARTS["positions"].to_dict()["datasets"].values()

    assert [row["position"] for row in rows] == [1, 2]


def test_a_chart_without_values_says_so_in_its_title() -> None:
    assert charts.nothing("TTFT: unknown").to_dict()["title"]["text"] == "TTFT: unknown"


def test_methods_have_different_hues_and_more_tokens_are_darker() -> None:
    methods = ("baseline", "eagle3 K=3", "draft_model K=3", "ngram K=3", "mtp K=3", "suffix K=3")

    assert len({arm_colour(arm) for arm in methods}) == len(methods)
    assert arm_colour("eagle3 K=3") == arm_colour("eagle3 K=3 (draft)")
    assert arm_colour("eagle3 K=7") < arm_colour("eagle3 K=1")
