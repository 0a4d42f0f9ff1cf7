"""Charts are data: they encode columns that exist, and colour means the arm."""

import pandas as pd
import pytest

from answers.runs.values import Curve
from dashboard import charts
from dashboard.charts import Scales
from dashboard.charts import requests as charts_requests
from dashboard.charts import server as charts_server
from dashboard.palette import arm_colour
from tests.dashboard.opening import encoded
from warehouse.catalogue import METRICS

MARKS = pd.DataFrame(
    {
        "panel": "code · TP 1",
        "arm": ["baseline", "baseline", "eagle3 K=3", "eagle3 K=3"],
        "concurrency": [1, 8, 1, 8],
        "value": [1.0, 2.0, 1.5, 3.0],
        "low": [0.9, 1.9, 1.4, 2.9],
        "high": [1.1, 2.1, 1.6, 3.1],
        "repeats": [1, 3, 1, 3],
        "interval": ["none", "1 to 2", "none", "2 to 3"],
        "cell": ["a", "b", "c", "d"],
        "solid": [0, 1, 0, 1],
        "end_label": ["", "baseline 2", "", "eagle3 K=3 3"],
        "end_y": [1.0, 2.0, 1.5, 3.0],
    }
)
RUNNING = Curve("running", ((0.0, 1.0), (1.0, 2.0)))
SCALES = Scales((1, 8), 0.0, 4.0)
CHARTS = {
    "improvement": charts.improvement_by_concurrency(
        MARKS,
        ("code [CPU lab]", ""),
        SCALES,
    ),
    "named loads": charts.improvement_by_concurrency(
        MARKS.assign(concurrency=[1, 2, 1, 2], load=["8 at once", "4 requests/s"] * 2),
        ("code", ""),
        Scales((1, 2), 0.0, 4.0, ("8", "4/s")),
    ),
    "metric": charts.metric_by_concurrency(MARKS, METRICS["ttft"], ("TTFT, ms", "code"), SCALES),
    "distribution": charts_requests.distribution(Curve("itl", ((1.0, 0.5), (2.0, 1.0))), "#111111"),
    "positions": charts_requests.acceptance_by_position(
        Curve("counters", ((1.0, 0.8), (2.0, 0.5))), "#111111"
    ),
    "server": charts_server.over_time([RUNNING, RUNNING], "running", "#111111", share=False),
    "sampled": charts_server.sampled(RUNNING, "  [CPU lab]"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_every_encoded_field_exists_in_the_data(name: str) -> None:
    spec = CHARTS[name].to_dict()

    columns = {column for rows in spec["datasets"].values() for column in rows[0]} | {"zero"}
    assert encoded(spec) <= columns


def test_the_concurrency_axis_is_log2_with_the_real_levels_as_ticks() -> None:
    x = CHARTS["metric"].to_dict()["layer"][2]["encoding"]["x"]

    assert x["scale"]["type"] == "log"
    assert x["scale"]["base"] == 2
    assert x["axis"]["values"] == [1, 8]


def test_the_improvement_chart_draws_a_zero_line() -> None:
    spec = CHARTS["improvement"].to_dict()
    first = spec["layer"][0]

    assert first["mark"]["type"] == "line"
    ends = spec["datasets"][first["data"]["name"]]
    assert [end["zero"] for end in ends] == [0, 0]
    # It reaches over every load and not into the names beside them.
    assert [round(end["concurrency"], 2) for end in ends] == [0.89, 8.32]


def test_intervals_are_bands() -> None:
    layers = CHARTS["improvement"].to_dict()["layer"]

    assert layers[1]["mark"]["type"] == "area"
    assert layers[1]["encoding"]["y2"]["field"] == "high"


def test_loads_of_other_kinds_stand_at_places_with_their_names() -> None:
    layers = CHARTS["named loads"].to_dict()["layer"]

    axes = [layer["encoding"]["x"]["axis"] for layer in layers]
    assert {axis["labelExpr"] for axis in axes} == {'["8", "4/s"][datum.value - 1]'}
    assert [tip["field"] for tip in layers[-2]["encoding"]["tooltip"]][1] == "load"


def test_the_first_draft_position_is_one_as_on_every_page() -> None:
    (rows,) = CHARTS["positions"].to_dict()["datasets"].values()

    assert [row["position"] for row in rows] == [1, 2]


def test_a_single_repeat_is_hollow() -> None:
    points = CHARTS["metric"].to_dict()["layer"][3]["encoding"]

    assert points["fillOpacity"]["field"] == "solid"


def test_a_chart_without_values_says_so_in_its_title() -> None:
    assert charts.nothing("TTFT: unknown").to_dict()["title"]["text"] == "TTFT: unknown"


def test_methods_have_different_hues_and_more_tokens_are_darker() -> None:
    methods = ("baseline", "eagle3 K=3", "draft_model K=3", "ngram K=3", "mtp K=3", "suffix K=3")

    assert len({arm_colour(arm) for arm in methods}) == len(methods)
    assert arm_colour("eagle3 K=3") == arm_colour("eagle3 K=3 (draft)")
    assert arm_colour("eagle3 K=7") < arm_colour("eagle3 K=1")
