"""The Cost page: the same money as the command, every step of it, and what is not known said."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from commands.cost import cost
from dashboard.charts import Scales
from dashboard.charts import cost as charts_cost
from dashboard.data import cost as data_cost
from dashboard.data.cost import Asked
from dashboard.paying import LISTED, OWN, Paying
from dashboard.shelf import open_shelf
from tests.dashboard.opening import opened
from warehouse.contract import Facts
from warehouse.filters import Filters

Fill = Callable[..., None]
BASELINE = {"spec_method": "none"}
DRAFT = {"spec_method": "draft_model", "num_speculative_tokens": 3}


def _told(warehouse: Path, *words: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cost, [*words, "--warehouse", str(warehouse), "--json"])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.output)["rows"]
    return rows


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
        ({"concurrency": 4}, ["--at", "4", "--tokens-per-day", "50e6"]),
        ({"slo": "ttft:p95<80ms"}, ["--slo", "ttft:p95<80ms", "--tokens-per-day", "50e6"]),
        (
            {"paying": Paying(OWN, 10.0, 4, 2, 0.5)},
            ["--usd-per-hour", "10", "--gpus-per-instance", "4", "--gpus-used", "2",
             "--utilisation", "0.5", "--tokens-per-day", "50e6"],
        ),
        (
            {"paying": Paying("published study")},
            ["--price", "published study", "--tokens-per-day", "50e6"],
        ),
    ],
)  # fmt: skip
def test_the_page_and_the_command_say_the_same(
    warehouse: Path, changes: dict[str, Any], words: list[str]
) -> None:
    asked = Asked(Filters(), **({"paying": Paying(), "tokens_per_day": 50e6} | changes))
    told = _told(warehouse, *words)

    mine = data_cost.cost_answer(open_shelf(), asked).rows

    whose = ["dataset", "arm_label"]
    mine = mine.sort_values(whose).reset_index(drop=True)
    flat = pd.json_normalize(told).sort_values(whose).reset_index(drop=True)
    assert len(mine) == 4
    pd.testing.assert_frame_equal(mine, flat[list(mine)])


@pytest.mark.usefixtures("warehouse")
def test_the_title_names_the_arm_the_saving_and_the_year() -> None:
    page = opened("cost", Filters(dataset=("code",)), millions_a_day="9000")

    title = page.header[0].value.replace("\\", "")
    assert title.startswith("eagle3 K=5 makes an output token ")
    assert "cheaper on code · TP 1:" in title
    assert "at 9,000 million output tokens a day that is" in title
    assert len(page.get("vega_lite_chart")) == 1
    assert any("this is no price of a GPU's work" in c.value for c in page.caption)


@pytest.mark.usefixtures("warehouse")
def test_a_small_demand_saves_no_gpu_and_that_is_said() -> None:
    page = opened("cost", Filters(dataset=("code",)), millions_a_day="1")

    assert "take as many GPUs either way" in page.header[0].value


@pytest.mark.usefixtures("warehouse")
def test_the_steps_end_in_the_figures_of_the_table() -> None:
    page = opened("cost", Filters(dataset=("code",), arm=("baseline", "eagle3 K=5")))

    totals = page.dataframe[0].value.iloc[0]
    steps = page.dataframe[2].value.set_index("step")
    for arm, column in (("baseline", "baseline"), ("with speculation", "speculative")):
        said = steps.loc["cost of a million output tokens", arm].split(" = ")[1]
        shown = float(totals[f"{column}, USD per million"])
        assert float(said.removesuffix(" USD")) == pytest.approx(shown, abs=5e-4)


@pytest.mark.usefixtures("warehouse")
def test_the_part_of_a_curve_beyond_the_slo_is_marked() -> None:
    asked = Asked(Filters(dataset=("code",)), Paying(), slo="ttft:p95<80ms")

    known = data_cost.cost_answer(open_shelf(), asked)

    subtitle = data_cost.cost_drawings(open_shelf(), asked)[0]["title"]["subtitle"]
    assert "dotted: misses the SLO" in subtitle
    assert set(known.rows["baseline.concurrency"]) == {4}


@pytest.mark.usefixtures("warehouse")
def test_within_an_slo_that_nothing_meets_the_saving_is_unknown() -> None:
    page = opened("cost", runs="within a service level", slo=["ttft:p95<1ms"])

    assert "no load qualifies in both arms" in page.header[0].value
    assert set(page.dataframe[0].value["saved"]) == {"unknown"}


@pytest.mark.usefixtures("warehouse")
def test_filters_that_match_nothing_say_so() -> None:
    page = opened("cost", Filters(dataset=("none such",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")


@pytest.mark.usefixtures("warehouse")
def test_without_a_pair_the_page_says_where_the_reasons_stand() -> None:
    page = opened("cost", Filters(model=("<b>*bold*</b> $x$",)))

    assert "No pair of arms" in page.header[0].value
    assert "Compare lists the reasons" in page.info[0].value


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

    assert "price is not known" in asked.header[0].value
    assert "No price is listed for unknown" in asked.info[0].value
    assert "cheaper on unknown · TP unknown" in given.header[0].value
    assert given.dataframe[0].value["evidence"].tolist() == ["evidence unknown"]
    assert given.dataframe[0].value["95 % interval"].tolist() == ["unknown"]


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
            "arm": "baseline", "concurrency": [1, 8], "usd": [9.0, 2.0], "low": [8.0, 1.9],
            "high": [9.5, 2.1], "repeats": [1, 3], "solid": [0, 1], "allowed": [1, 0],
            "told": ["may be chosen", "misses the SLO"], "runs": [1, 0],
            "end_label": ["", "baseline 2.00"], "end_usd": [9.0, 2.0],
        }
    )  # fmt: skip

    spec = charts_cost.cost_by_concurrency(rows, ("a", "b"), Scales((1, 8), 1.0, 10.0)).to_dict()

    assert _fields(spec) <= set(rows.columns)
    assert spec["layer"][0]["encoding"]["x"]["axis"]["values"] == [1, 8]
    assert spec["layer"][0]["encoding"]["y"]["scale"]["type"] == "log"
