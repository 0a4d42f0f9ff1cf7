"""The SLO & Pareto page: largest loads, goodput and the front are those of the analysis."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from analysis.matching.arm_levels import ArmLevels
from analysis.money.paying import Paying
from analysis.service.largest_load import Level, Reach
from analysis.service.slo import parse
from commands.pareto import pareto
from commands.slo import slo
from dashboard import slo_words
from dashboard.answers import slo as answers_slo
from dashboard.answers.arm_loads import ArmLoad
from dashboard.charts import pareto as charts_pareto
from dashboard.data import slo as data_slo
from dashboard.data.slo import Asked
from dashboard.shelf import open_shelf
from tests.dashboard.opening import opened, refused
from warehouse.contract import Facts
from warehouse.filters import Filters
from warehouse.loads import Load

Fill = Callable[..., None]
SLO = "ttft:p95<80ms"


def _asked(text: str = SLO, **changes: Any) -> Asked:
    values = {"filters": Filters(), "slo": parse(text).text, "paying": Paying(), "goodput": False}
    return Asked(**(values | changes))


@pytest.mark.usefixtures("warehouse")
def test_the_title_answers_and_each_arm_has_its_largest_load() -> None:
    page = opened("slo", Filters(dataset=("code",), model=("lab/tiny-target",)), slo=[SLO])

    title = page.header[0].value.replace("\\", "")
    assert title == (
        "3 of 3 arms in 1 setting meet ttft:p95<80ms at some load; the largest load of each stands "
        "below."
    )
    assert set(page.dataframe[0].value["largest load"]) == {"4 at once"}
    assert len(page.get("vega_lite_chart")) == 2
    assert "CPU lab" in page.markdown[0].value


def test_the_page_and_the_command_say_the_same(warehouse: Path) -> None:
    words = [SLO, "--warehouse", str(warehouse), "--json"]
    told = json.loads(CliRunner().invoke(slo, words).output)["arms"]

    known = data_slo.slo_answer(open_shelf(), _asked(goodput=True))

    assert sorted(arm.load.sentence for arm in known.arms) == sorted(a["sentence"] for a in told)
    mine = known.rows.dropna(subset=["goodput"])
    assert sorted(mine["goodput"]) == sorted(
        level["goodput"] for arm in told for level in arm["levels"] if level["goodput"] is not None
    )
    assert len(mine) > 0


def test_the_front_is_that_of_the_command(warehouse: Path) -> None:
    words = ["--warehouse", str(warehouse), "--json"]
    told = json.loads(CliRunner().invoke(pareto, words).output)["points"]

    rows = data_slo.trade_off(open_shelf(), Filters()).rows

    names = ["tokens_per_second_per_user", "tokens_per_second_per_gpu"]
    assert len(rows) == len(told) > 0
    for name in names:
        assert sorted(rows[name]) == pytest.approx(sorted(row[name] for row in told))
    on_front = {(row["arm_label"], row["load_short"]) for row in told if not row["dominated"]}
    mine = rows[~rows["dominated"].astype(bool)]
    assert set(zip(mine["path"], mine["load_short"], strict=True)) == on_front


@pytest.mark.usefixtures("warehouse")
def test_before_an_slo_is_written_the_middle_of_what_was_measured_is_shown() -> None:
    page = opened("slo")

    assert any("No bound is written yet" in caption.value for caption in page.caption)
    assert "setting" in page.header[0].value


@pytest.mark.usefixtures("warehouse")
def test_bounds_that_were_measured_are_offered() -> None:
    offered = data_slo.suggestions(open_shelf(), Filters())

    assert [text for text in offered if text.startswith("ttft:p95<")]
    assert all(parse(text).text == text for text in offered)


def test_a_suggested_bound_is_rounded_upwards_to_two_digits() -> None:
    rows = pd.DataFrame({"metric": "ttft", "statistic": "p95", "value": [123.4, 123.4, 123.4]})

    assert slo_words.suggestions(rows) == ["ttft:p95<130ms"]
    assert slo_words.first_slo(rows.iloc[:0]) is None


@pytest.mark.usefixtures("warehouse")
def test_an_slo_that_cannot_be_read_is_one_sentence() -> None:
    assert refused("slo", slo=["ttft<fast"]).startswith("'ttft<fast' is no bound")


@pytest.mark.usefixtures("warehouse")
def test_a_point_leads_to_its_cells_and_they_to_the_runs_page() -> None:
    known = data_slo.trade_off(open_shelf(), Filters(dataset=("code",)))
    name = next(name for name in known.points if name.startswith("eagle3 K=5 at 8"))

    page = opened("slo", Filters(dataset=("code",)), point=name)

    cells = next(f.value for f in page.dataframe if "in Runs" in f.value)
    assert list(cells["concurrency"]) == [8]
    assert list(cells["arm"]) == ["eagle3 K=5"]
    assert cells["in Runs"].iloc[0].startswith("runs?open=")


@pytest.mark.usefixtures("warehouse")
def test_goodput_reads_the_requests_only_when_asked() -> None:
    assert not any("goodput, req/s" in f.value for f in opened("slo", slo=[SLO]).dataframe)

    totals = opened("slo", slo=[SLO], goodput="true").dataframe[0].value

    assert (totals["goodput, req/s"] != "unknown").any()


@pytest.mark.usefixtures("warehouse")
def test_filters_that_match_nothing_say_so() -> None:
    page = opened("slo", Filters(dataset=("none such",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")


@pytest.fixture
def unknown(empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]) -> None:
    """Cells of which nothing but numbers is known; one has not even a load."""
    nothing = dict.fromkeys(
        ("model", "gpu", "gpu_count", "tensor_parallel_size", "dataset", "evidence", "precision")
    )
    fill_cells(empty_place, "loads", [make_facts(**nothing, concurrency=c) for c in (1, 2)])
    fill_cells(empty_place, "none", [make_facts(**nothing, concurrency=None)])


@pytest.mark.usefixtures("unknown")
def test_unknown_values_are_called_unknown() -> None:
    page = opened("slo", slo=[SLO])

    totals = page.dataframe[0].value
    assert list(totals["setting"]) == ["unknown · TP unknown"]
    assert list(totals["evidence"]) == ["evidence unknown"]
    assert list(totals["USD per million output tokens"]) == ["unknown"]
    assert any("No price is known for an unknown GPU" in c.value for c in page.caption)
    assert any("Left out: 2 loads" in c.value for c in page.caption)


def test_acceptance_that_was_set_by_hand_carries_its_badge(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    drafted = make_facts(spec_method="eagle3", num_speculative_tokens=3, synthetic_acceptance=True)
    fill_cells(empty_place, "set", [drafted])

    known = data_slo.slo_answer(open_shelf(), _asked())

    assert known.badges == ("CPU lab, synthetic acceptance",)
    assert "synthetic acceptance" in known.strips[0]["title"]["text"]


AT_8 = Load("concurrency", 8.0)


def _arm(largest: Load | None, arm: str) -> ArmLoad:
    level = Level(AT_8, largest == AT_8, (), (), 1, int(largest == AT_8))
    return ArmLoad((0, 0), "code", arm, "", Reach(largest, (level,), ""), None, None, "")


def test_the_headline_counts_arms_and_takes_none() -> None:
    arms = [_arm(None, "baseline"), _arm(AT_8, "eagle3 K=3")]

    said = answers_slo.headline(arms, parse(SLO))

    assert said.startswith("1 of 2 arms in 1 setting meet ttft:p95<80ms at some load")
    assert "eagle3" not in said


def test_a_trace_has_no_place_on_an_axis_and_stands_in_the_tables() -> None:
    trace = Load("trace", None, "monday")
    level = Level(trace, True, (), (), 1, 1)
    arm = ArmLoad((0, 0), "code", "baseline", "", Reach(trace, (level,), ""), 5.0, None, "")
    rows = pd.DataFrame(
        [(0, 0, 0, "c", "ttft", "p95", 5.0)],
        columns=["setting", "arm_id", "load", "cell_id", "metric", "statistic", "value"],
    )

    known = answers_slo.answer([arm], ArmLevels(rows, pd.DataFrame(), (trace,)), parse(SLO), {})

    assert known.strips == []
    assert known.totals.rows.column("largest load").to_pylist() == ["trace monday"]


def test_nothing_with_a_load_is_said() -> None:
    assert answers_slo.headline([], parse(SLO)) == answers_slo.NOTHING


def _fields(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
        return own.union(*(_fields(v) for key, v in spec.items() if key != "datasets"))
    return set().union(*(_fields(v) for v in spec)) if isinstance(spec, list) else set()


STRIP = pd.DataFrame(
    {
        "arm": ["baseline", "baseline"],
        "concurrency": [1, 2],
        "load": ["1 at once", "2 at once"],
        "state": [charts_pareto.MEETS, charts_pareto.MISSES],
        "solid": [1, 0],
        "told": ["all bounds hold", "misses ttft"],
        "repeats": ["3 of 3", "0 of 3"],
        "label": ["baseline: up to 1", ""],
        "largest": [1, None],
    }
)
TRADE = pd.DataFrame(
    {
        "point": ["a at 1", "a at 2"], "arm": "a", "path": "a", "user": [9.0, 5.0],
        "gpu": [9.0, 20.0], "concurrency": [1, 2], "load": ["1", ""], "load_short": ["1", "2"], "repeats": [1, 3],
        "strong": [1.0, 0.3], "solid": [0, 1], "front": [1, 0], "dominated_by": ["none", "b at 2"],
        "label": ["", "a"], "label_y": [9.0, 20.0],
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("chart", "rows"),
    [(charts_pareto.slo_strips, STRIP), (charts_pareto.pareto, TRADE)],
)
def test_every_encoded_field_is_a_column(chart: Callable[..., Any], rows: pd.DataFrame) -> None:
    spec = chart(rows, ("title", "subtitle")).to_dict()

    assert _fields(spec) <= set(rows.columns)


def test_both_axes_of_the_trade_start_at_zero_and_a_point_can_be_chosen() -> None:
    spec = charts_pareto.pareto(TRADE, ("", "")).to_dict()

    axes = spec["layer"][0]["encoding"]
    assert axes["x"]["scale"]["zero"]
    assert axes["y"]["scale"]["zero"]
    assert [p["name"] for p in spec["params"]] == [charts_pareto.CHOSEN]
