"""The SLO & Pareto page: largest loads, goodput and the front are those of the analysis."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from analysis.service.largest_load import Level, Load
from analysis.service.slo import parse
from commands.pareto import pareto
from commands.slo import slo
from dashboard import slo_words
from dashboard.answers import slo as answers_slo
from dashboard.answers.arm_loads import ArmLoad
from dashboard.charts import pareto as charts_pareto
from dashboard.data import slo as data_slo
from dashboard.data.slo import Asked
from dashboard.paying import LISTED, OWN, Paying, basis_of
from dashboard.shelf import open_shelf
from tests.dashboard.opening import opened, refused
from warehouse.contract import Facts
from warehouse.filters import Filters

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
        "Within ttft:p95<80ms, draft_model K=3 carries 4 concurrent requests on code · TP 1; "
        "the baseline carries 4 concurrent requests."
    )
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
    on_front = {(row["arm_label"], row["concurrency"]) for row in told if not row["dominated"]}
    mine = rows[~rows["dominated"].astype(bool)]
    assert set(zip(mine["path"], mine["concurrency"], strict=True)) == on_front


@pytest.mark.usefixtures("warehouse")
def test_before_an_slo_is_written_the_middle_of_what_was_measured_is_shown() -> None:
    page = opened("slo")

    assert any("None is written yet" in caption.value for caption in page.caption)
    assert "settings" in page.header[0].value


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
    assert any("No price is listed for unknown" in c.value for c in page.caption)
    assert any("Left out: 2 loads" in c.value for c in page.caption)


def test_acceptance_that_was_set_by_hand_carries_its_badge(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    drafted = make_facts(spec_method="eagle3", num_speculative_tokens=3, synthetic_acceptance=True)
    fill_cells(empty_place, "set", [drafted])

    known = data_slo.slo_answer(open_shelf(), _asked())

    assert known.badges == ("CPU lab, synthetic acceptance",)
    assert "synthetic acceptance" in known.strips[0]["title"]["text"]


def _load(largest: int | None, arm: str) -> ArmLoad:
    level = Level(8, largest == 8, (), (), 1, int(largest == 8))
    return ArmLoad((0, 0), "code", arm, "", Load(largest, (level,), ""), None, None, "")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (4, 8, "eagle3 K=3 carries at least 8 concurrent requests on code; the baseline carries 4"),
        (None, 1, "carries 1 concurrent request on code; the baseline carries no load"),
    ],
)
def test_the_headline_says_what_each_arm_carries(old: int, new: int, said: str) -> None:
    arms = [_load(old, "baseline"), _load(new, "eagle3 K=3")]

    assert said in answers_slo.headline(arms, parse(SLO))


def test_nothing_with_a_load_is_said() -> None:
    assert answers_slo.headline([], parse(SLO)) == answers_slo.NOTHING


@pytest.mark.parametrize(
    ("paying", "keys", "said"),
    [
        (Paying(), {"gpu": "B17"}, "No price is listed for B17"),
        (Paying(), {"gpu": "NVIDIA H200"}, "state the GPUs behind the throughput"),
        (Paying(price=OWN), {"gpu": "H200", "gpu_count": 1}, "not stated yet"),
    ],
)
def test_a_price_that_is_missing_is_asked_for(
    paying: Paying, keys: dict[str, Any], said: str
) -> None:
    assert said in str(basis_of(paying, keys))


def test_a_listed_price_is_that_of_the_gpu_and_charges_what_was_recorded() -> None:
    basis = basis_of(Paying(LISTED), {"gpu": "H200", "gpu_count": 2, "tensor_parallel_size": 1})

    assert not isinstance(basis, str)
    assert basis.gpus_used == 2
    assert basis.usd_per_hour == pytest.approx(63.296)


def _fields(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
        return own.union(*(_fields(v) for key, v in spec.items() if key != "datasets"))
    return set().union(*(_fields(v) for v in spec)) if isinstance(spec, list) else set()


STRIP = pd.DataFrame(
    {
        "arm": ["baseline", "baseline"],
        "concurrency": [1, 2],
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
        "gpu": [9.0, 20.0], "concurrency": [1, 2], "load": ["1", ""], "repeats": [1, 3],
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
