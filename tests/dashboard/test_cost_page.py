"""The Cost page: the same money as the command, every step of it, and what is not known said."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from analysis.money.paying import Paying
from answers.cost.contract import as_json
from commands.cost import cost
from dashboard.charts import Scales
from dashboard.charts import cost as charts_cost
from dashboard.data import cost as data_cost
from dashboard.data.cost import Asked
from dashboard.paying import LISTED, OWN, paying
from dashboard.shelf import open_shelf
from tests.dashboard.opening import opened
from warehouse.contract import Facts
from warehouse.filters import Filters

Fill = Callable[..., None]
BASELINE = {"spec_method": "none"}
DRAFT = {"spec_method": "draft_model", "num_speculative_tokens": 3}


def _told(warehouse: Path, *words: str) -> Any:
    result = CliRunner().invoke(cost, [*words, "--warehouse", str(warehouse), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["--tokens-per-day", "50e6"]),
        (
            {"tokens_per_day": 9e9, "peak_to_mean": 2.0, "whole_instances": True,
             "investment_usd": 1000.0},
            ["--tokens-per-day", "9e9", "--peak-to-mean", "2", "--whole-instances",
             "--investment", "1000"],
        ),
        ({"load": 4.0}, ["--load", "4", "--tokens-per-day", "50e6"]),
        ({"slo": "ttft:p95<80ms"}, ["--slo", "ttft:p95<80ms", "--tokens-per-day", "50e6"]),
        (
            {"paying": Paying(10.0, 4, 2, 0.5)},
            ["--usd-per-hour", "10", "--gpus-per-instance", "4", "--gpus-used", "2",
             "--utilisation", "0.5", "--tokens-per-day", "50e6"],
        ),
        (
            {"paying": Paying(price="published study")},
            ["--price", "published study", "--tokens-per-day", "50e6"],
        ),
    ],
)  # fmt: skip
def test_the_page_and_the_command_say_the_same(
    warehouse: Path, changes: dict[str, Any], words: list[str]
) -> None:
    asked = Asked(Filters(), **({"paying": Paying(), "tokens_per_day": 50e6} | changes))
    told = _told(warehouse, *words)

    found = data_cost.costs(open_shelf(), asked)
    known = data_cost.cost_answer(open_shelf(), asked)

    # A mix and two datasets.
    assert len(told["costs"]) == 3
    assert json.loads(json.dumps(as_json(found))) == told
    assert known.headline == told["headline"]
    mine = known.rows["speculative.usd_per_million_output_tokens"].tolist()
    assert mine == [one["speculative"]["usd_per_million_output_tokens"] for one in told["costs"]]


@pytest.mark.usefixtures("warehouse")
def test_the_title_names_the_load_the_arm_the_saving_and_the_year() -> None:
    page = opened("cost", Filters(dataset=("code",)), millions_a_day="9000")

    title = page.header[0].value.replace("\\", "")
    assert title.startswith("At 16 at once on code, with eagle3 K=5: An output token ")
    assert "For 9,000 million output tokens a day it takes" in title
    assert "USD a year less" in title
    assert len(page.get("vega_lite_chart")) == 1
    assert any("this is no price of a GPU" in c.value for c in page.caption)


def test_the_title_is_the_first_of_the_decisions_and_no_count_of_settings(warehouse: Path) -> None:
    page = opened("cost")
    told = _told(warehouse, "--tokens-per-day", "50e6")

    title = page.header[0].value.replace("\\", "")
    assert title == told["costs"][0]["headline"]
    assert told["costs"][0]["traffic"] == {"mix": {"code": 0.5, "structured": 0.5}}


@pytest.mark.usefixtures("warehouse")
def test_a_small_demand_saves_no_gpu_and_that_is_said() -> None:
    page = opened("cost", Filters(dataset=("code",)), millions_a_day="1")

    assert "both take 1 GPU, so nothing is saved a year" in page.header[0].value


@pytest.mark.usefixtures("warehouse")
def test_the_steps_end_in_the_figures_of_the_table() -> None:
    page = opened("cost", Filters(dataset=("code",), arm=("baseline", "eagle3 K=5")))

    totals = page.dataframe[0].value.iloc[0]
    steps = next(f.value for f in page.dataframe if "step" in f.value).set_index("step")
    for arm, column in (
        ("baseline", "USD per million output tokens: baseline"),
        ("with speculation", "with it"),
    ):
        said = steps.loc["cost of a million output tokens", arm].split(" = ")[1]
        assert said.removesuffix(" USD") == totals[column]


@pytest.mark.usefixtures("warehouse")
def test_the_reader_s_load_is_the_one_that_is_costed() -> None:
    page = opened("cost", Filters(dataset=("code",)), runs="at one load", at="4")

    assert page.header[0].value.startswith("At 4 at once on code")
    assert page.dataframe[0].value["at"].tolist() == ["4 at once"]


@pytest.mark.usefixtures("warehouse")
def test_within_a_service_level_it_is_the_largest_load_that_meets_it() -> None:
    page = opened(
        "cost", Filters(dataset=("code",)), runs="within a service level", slo=["ttft:p95<80ms"]
    )

    assert page.header[0].value.startswith("At 4 at once on code")


@pytest.mark.usefixtures("warehouse")
def test_within_an_slo_that_nothing_meets_the_saving_is_unknown() -> None:
    page = opened(
        "cost", Filters(dataset=("code",)), runs="within a service level", slo=["ttft:p95<1ms"]
    )

    told = page.header[0].value + " ".join(i.value for i in (*page.info, *page.caption))
    assert "none meets the SLO" in told or "No pair of arms" in told


@pytest.mark.usefixtures("warehouse")
def test_filters_that_match_nothing_say_so() -> None:
    page = opened("cost", Filters(dataset=("none such",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")


@pytest.mark.usefixtures("warehouse")
def test_without_a_pair_the_page_says_why() -> None:
    page = opened("cost", Filters(model=("<b>*bold*</b> $x$",)))

    assert "No pair of arms" in page.header[0].value
    assert "draftboard compare" in page.info[0].value


@pytest.fixture
def unknown(empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]) -> None:
    """A pair of which nothing but the arm, the load and numbers is known."""
    names = ("model", "gpu", "gpu_count", "tensor_parallel_size", "dataset", "evidence")
    nothing = dict.fromkeys(names)
    for arm in (BASELINE, DRAFT):
        fill_cells(empty_place, arm["spec_method"], [make_facts(**nothing, **arm)])


@pytest.mark.usefixtures("unknown")
def test_a_gpu_that_nobody_named_has_no_price_until_a_reader_gives_one() -> None:
    asked = opened("cost")
    given = opened("cost", price=OWN, usd_per_hour="4")

    assert "USD per million" not in asked.header[0].value
    assert "No price is known for an unknown GPU" in asked.info[0].value
    assert not asked.get("vega_lite_chart")
    assert "USD per million" in given.header[0].value
    assert given.dataframe[0].value["95 % interval"].tolist() == ["unknown"]


@pytest.mark.usefixtures("unknown")
def test_an_own_price_that_is_not_stated_yet_is_no_price() -> None:
    assert paying(OWN, (None, 8)) == paying(LISTED)
    assert paying(OWN, (4.0, 8)) == Paying(4.0, 8)
    assert "USD per million" not in opened("cost", price=OWN).header[0].value


@pytest.mark.usefixtures("warehouse")
def test_the_price_list_has_dates_and_sources() -> None:
    prices = opened("cost").dataframe[-1].value

    assert prices["date"].str.startswith("2026").all()
    assert (prices["source"] != "").all()
    assert LISTED not in set(prices["name"])


def _fields(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
        return own.union(*(_fields(v) for key, v in spec.items() if key != "datasets"))
    return set().union(*(_fields(v) for v in spec)) if isinstance(spec, list) else set()


def test_every_encoded_field_is_a_column_and_the_loads_are_the_ticks() -> None:
    rows = pd.DataFrame(
        {
            "arm": "baseline", "concurrency": [1.0, 8.0], "load": ["1 at once", "8 at once"],
            "usd": [9.0, 2.0], "low": [8.0, 1.9], "high": [9.5, 2.1], "solid": [0, 1],
            "taken": ["no", "yes"], "runs": [1, 0], "end_label": ["", "baseline 2.00"],
            "end_usd": [9.0, 2.0],
        }
    )  # fmt: skip

    spec = charts_cost.cost_by_load(rows, ("a", "b"), Scales((1, 8), 1.0, 10.0)).to_dict()

    assert _fields(spec) <= set(rows.columns)
    assert spec["layer"][0]["encoding"]["x"]["axis"]["values"] == [1, 8]
    assert spec["layer"][0]["encoding"]["x"]["title"] == "requests at once"
    assert spec["layer"][0]["encoding"]["y"]["scale"]["type"] == "log"
