"""The Cost & capacity page: the money of the command, the loads that meet a target, the trade."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from analysis.money.paying import Paying
from answers.cost.answer import cost as cost_of
from answers.cost.capacity import capacity, trade, within
from answers.cost.values import DecisionCost, Terms
from answers.decide.answer import decide
from answers.decide.values import DecidedTraffic, DecideQuestion
from commands.cost import cost
from dashboard.charts import cost as charts_cost
from dashboard.charts import cost as charts_pareto
from dashboard.links import cell_link
from dashboard.shelf import Shelf, ask, open_shelf
from dashboard.views.cost import LISTED, OWN, paying
from tests.dashboard.conftest import START
from tests.dashboard.opening import opened, page_of, refused
from warehouse.contract import Facts
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.rows import Sample

Fill = Callable[..., None]
BASELINE = {"spec_method": "none"}
DRAFT = {"spec_method": "draft_model", "num_speculative_tokens": 3}
CODE = Filters(dataset=("code",), model=("lab/tiny-target",))
SLO = "ttft:p95<80ms"
NUMBERS, STEPS, PRICES = ({f"fold_{name}": "true"} for name in ("numbers", "steps", "prices"))
CLOSED = {"fold_target": "false"}
ARMS = {"target_tab": "Each arm's largest load"}


def _told(warehouse: Path, *words: str) -> Any:
    result = CliRunner().invoke(cost, [*words, "--warehouse", str(warehouse), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def title(page: AppTest) -> str:
    return str(page.header[0].value).replace("\\", "")


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({}, ["--tokens-per-day", "1e9"]),
        (
            {"millions_a_day": "9000", "peak_to_mean": "2", "whole_instances": "true",
             "investment": "1000"},
            ["--tokens-per-day", "9e9", "--peak-to-mean", "2", "--whole-instances",
             "--investment", "1000"],
        ),
        ({"at_load": "4"}, ["--load", "4", "--tokens-per-day", "1e9"]),
        ({"draft_slo": SLO}, ["--slo", SLO, "--tokens-per-day", "1e9"]),
        (
            {"price": OWN, "usd_per_hour": "10", "gpus_per_instance": "4", "gpus_used": "2",
             "utilisation": "50"},
            ["--usd-per-hour", "10", "--gpus-per-instance", "4", "--gpus-used", "2",
             "--utilisation", "0.5", "--tokens-per-day", "1e9"],
        ),
        (
            {"price": "published study"},
            ["--price", "published study", "--tokens-per-day", "1e9"],
        ),
    ],
)  # fmt: skip
def test_the_page_and_the_command_say_the_same(
    warehouse: Path, link: dict[str, str], words: list[str]
) -> None:
    told = _told(warehouse, *words)["costs"]

    page = opened("cost", **link, **NUMBERS)

    # A mix and two datasets.
    assert len(told) == 3
    assert title(page) == told[0]["headline"]
    shown = page.dataframe[0].value["with it"].tolist()
    prices = [one["speculative"]["usd_per_million_output_tokens"] for one in told]
    assert [float(price) for price in shown] == pytest.approx(prices, abs=5e-4)
    years = page.dataframe[1].value["saved a year, USD"].tolist()
    yearly = [one["usd_saved_per_year"] for one in told]
    assert years == ["unknown" if one is None else f"{one['value']:,.0f}" for one in yearly]


@pytest.mark.usefixtures("warehouse")
def test_the_title_names_the_load_the_arm_the_saving_and_the_year() -> None:
    page = opened("cost", CODE, millions_a_day="9000")

    assert title(page).startswith("At 16 at once on code, with eagle3 K=5: An output token ")
    assert "For 9,000 million output tokens a day it takes" in title(page)
    assert "USD a year less" in title(page)
    assert len(page.get("vega_lite_chart")) == 4
    assert any("this is no price of a GPU" in c.value for c in page.caption)
    assert "CPU lab" in page.markdown[0].value


@pytest.mark.usefixtures("warehouse")
def test_arm_load_saving_and_word_are_those_of_the_decision() -> None:
    decided = ask(open_shelf(), decide, DecideQuestion(CODE)).decisions[0]
    (row,) = _rows(CODE)

    assert (row.arm, row.load) == (decided.arm, decided.operating_load)
    assert row.decision.saving == decided.saving


def _rows(
    filters: Filters, slo: str | None = None, terms: Terms | None = None
) -> list[DecisionCost]:
    found = ask(open_shelf(), decide, DecideQuestion(filters, slo=slo))
    return list(cost_of(found, terms or Terms()).rows)


@pytest.mark.usefixtures("warehouse")
def test_a_small_demand_saves_no_gpu_and_that_is_said() -> None:
    page = opened("cost", CODE, millions_a_day="1")

    assert "both take 1 GPU, so nothing is saved a year" in page.header[0].value


@pytest.mark.usefixtures("warehouse")
def test_without_power_the_page_says_how_it_is_recorded() -> None:
    page = opened("cost", CODE, fold_energy="true")

    assert any("draftboard run records it" in caption.value for caption in page.caption)
    assert not any("output per watt" in frame.value for frame in page.dataframe)


def test_recorded_power_shows_what_a_watt_yields(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    for arm, watts in ((BASELINE, 400.0), (DRAFT, 300.0)):
        power = tuple(
            Sample(START.timestamp() + at, "gpu_power_watts", watts) for at in range(-1, 200)
        )
        fill_cells(empty_place, str(arm), [make_facts(**arm)], samples=power)

    (frame,) = (f.value for f in opened("cost", fold_energy="true").dataframe if "W" in f.value)

    assert frame["W"].tolist() == ["400 → 300"]
    assert float(frame["output per watt"][0].rstrip("\u202f%")) > 33


def test_the_room_that_a_draft_takes_is_told_for_the_readers_requests(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    for arm, cache in ((BASELINE, "2000"), (DRAFT, "1500")):
        settings = {"kv_cache_tokens": int(cache)}
        fill_cells(empty_place, str(arm), [make_facts(**arm, engine_settings=settings)])

    page = opened("cost", fold_memory="true", request_tokens="100")

    (said,) = (text.value for text in page.markdown if "KV cache" in text.value)
    assert "25.0" in said
    assert "15 fit at once instead of 20" in said


def test_the_room_is_told_of_the_traffic_that_is_chosen(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    """Each dataset has servers of its own size, and a mix would have the smaller."""
    for arm, sizes in ((BASELINE, (2000, 4000)), (DRAFT, (1500, 2000))):
        both = [
            make_facts(**arm, dataset=name, engine_settings={"kv_cache_tokens": size})
            for name, size in zip(("code", "prose"), sizes, strict=True)
        ]
        fill_cells(empty_place, str(arm), both)

    page = opened("cost", fold_memory="true", request_tokens="100", traffic="prose")

    (said,) = (text.value for text in page.markdown if "KV cache" in text.value)
    assert "2,000 tokens, 4,000 without" in said


@pytest.mark.usefixtures("warehouse")
def test_without_a_told_cache_the_page_says_where_it_would_stand() -> None:
    page = opened("cost", CODE, fold_memory="true")

    assert any("vLLM says it in its metrics" in caption.value for caption in page.caption)


@pytest.mark.usefixtures("warehouse")
def test_the_steps_end_in_the_figures_of_the_table() -> None:
    page = opened("cost", CODE, **STEPS, **NUMBERS)

    steps = page.dataframe[0].value.set_index("step")
    totals = page.dataframe[1].value.iloc[0]
    for arm, column in (
        ("baseline", "USD per million output tokens: baseline"),
        ("with speculation", "with it"),
    ):
        said = steps.loc["cost of a million output tokens", arm].split(" = ")[1]
        assert said.removesuffix(" USD") == totals[column]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("link", [{"at_load": "4"}, {"at": "4"}])
def test_the_reader_s_load_is_the_one_that_is_costed(link: dict[str, str]) -> None:
    page = page_of("cost", CODE, **link).run()

    assert not page.exception
    assert title(page).startswith("At 4 at once on code")


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("link", [{"draft_slo": SLO}, {"slo": SLO}, {"slo": "ttft:p95<1ms"}])
def test_within_a_target_that_no_arm_meets_nothing_is_saved(link: dict[str, str]) -> None:
    page = page_of("cost", CODE, **link).run()

    assert not page.exception
    assert title(page).startswith("At 16 at once on code nothing is drafted, so nothing is saved")


@pytest.mark.usefixtures("warehouse")
def test_a_target_that_cannot_be_read_is_one_sentence() -> None:
    assert refused("cost", draft_slo="ttft<fast").startswith("'ttft<fast' is no bound")


@pytest.mark.usefixtures("warehouse")
def test_a_link_to_a_subject_that_is_gone_shows_no_costs_of_another() -> None:
    page = opened("cost", about="gpt-oss on H200")

    assert title(page) == "Not here any more: gpt-oss on H200"
    assert not page.get("vega_lite_chart")


@pytest.mark.usefixtures("warehouse")
def test_filters_that_match_nothing_say_so() -> None:
    page = opened("cost", Filters(dataset=("none such",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")


@pytest.mark.usefixtures("warehouse")
def test_without_a_pair_the_page_says_why_and_judges_the_loads_nevertheless() -> None:
    page = opened("cost", Filters(model=("<b>*bold*</b> $x$",)), draft_slo=SLO, **ARMS)

    assert "No pair of arms" in page.header[0].value
    assert "draftboard compare" in page.info[0].value
    assert page.dataframe[0].value["largest load"].tolist() == ["1 at once"]


@pytest.fixture
def unknown(empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]) -> None:
    """A pair of which nothing but the arm, the load and numbers is known, and a cell of which not
    even the load is."""
    names = ("model", "gpu", "gpu_count", "tensor_parallel_size", "dataset", "evidence")
    nothing = dict.fromkeys(names)
    for arm in (BASELINE, DRAFT):
        fill_cells(empty_place, arm["spec_method"], [make_facts(**nothing, **arm)])
    fill_cells(empty_place, "none", [make_facts(**nothing, concurrency=None)])


@pytest.mark.usefixtures("unknown")
def test_a_gpu_that_nobody_named_has_no_price_until_a_reader_gives_one() -> None:
    plain = opened("cost")
    given = opened("cost", price=OWN, usd_per_hour="4", **NUMBERS)

    assert "USD per million" not in plain.header[0].value
    assert "No price is known for an unknown GPU" in plain.info[0].value
    assert "USD per million" in given.header[0].value
    assert given.dataframe[0].value["95 % interval"].tolist() == ["unknown"]


@pytest.mark.usefixtures("unknown")
def test_unknown_values_are_called_unknown() -> None:
    page = opened("cost", draft_slo=SLO, **ARMS)

    totals = page.dataframe[0].value
    assert set(totals["setting"]) == {"unknown · TP unknown"}
    assert set(totals["evidence"]) == {"evidence unknown"}
    assert set(totals["USD per million output tokens"]) == {"unknown"}
    assert any("Left out: 2 loads" in c.value for c in page.caption)


def test_an_own_price_that_is_not_stated_yet_is_no_price() -> None:
    assert paying(OWN, (None, 8)) == paying(LISTED, (None, 1))
    assert paying(OWN, (4.0, 8)) == Paying(4.0, 8)


@pytest.mark.usefixtures("warehouse")
def test_the_price_list_has_dates_and_sources_and_calls_no_cpu_a_gpu() -> None:
    prices = opened("cost", **PRICES).dataframe[0].value

    assert prices["date"].str.startswith("2026").all()
    assert (prices["source"] != "").all()
    assert LISTED not in set(prices["name"])
    machines = prices[prices["USD per GPU-hour"] == "no GPU"]
    assert machines["name"].str.startswith("CPU lab price").all()
    assert len(machines) == 2


def test_a_lab_on_a_cpu_is_priced_as_a_machine_and_never_as_a_gpu(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    for arm in (BASELINE, DRAFT):
        fill_cells(empty_place, arm["spec_method"], [make_facts(gpu="AMD EPYC", **arm)])

    page = opened("cost", **STEPS)

    assert "CPU machines" in title(page)
    assert any("CPU lab price, aws m7a.large" in c.value for c in page.caption)
    assert "price of one CPU machine" in page.dataframe[0].value["step"].tolist()


@pytest.mark.usefixtures("warehouse")
def test_a_closed_fold_computes_nothing_and_an_open_one_shows_each_arm_s_largest_load() -> None:
    closed = opened("cost", CODE, draft_slo=SLO, **CLOSED)
    assert not any("3 of 3 arms" in text.value for text in closed.markdown)
    assert len(closed.get("vega_lite_chart")) == 2

    page = opened("cost", CODE, draft_slo=SLO, **ARMS)

    assert set(page.dataframe[0].value["largest load"]) == {"4 at once"}
    assert any("3 of 3 arms in 1 setting meet" in text.value for text in page.markdown)


@pytest.mark.usefixtures("warehouse")
def test_before_a_target_is_asked_for_the_middle_of_what_was_measured_is_shown() -> None:
    page = opened("cost", CODE, **ARMS)

    assert any("No target is asked for" in caption.value for caption in page.caption)


@pytest.mark.usefixtures("warehouse")
def test_a_bound_that_is_chosen_becomes_the_target_of_the_page() -> None:
    page = page_of("cost", CODE, **ARMS).run()
    box = page.selectbox(key="offered_bound")

    box.set_value(next(text for text in box.options if text.startswith("ttft:p95<"))).run()

    assert page.text_input(key="draft_slo").value.startswith("ttft:p95<")
    assert not page.exception


@pytest.mark.usefixtures("warehouse")
def test_goodput_reads_the_requests_only_when_asked() -> None:
    plain = opened("cost", CODE, draft_slo=SLO, **ARMS)
    counted = opened("cost", CODE, draft_slo=SLO, goodput="true", **ARMS)

    assert not any("goodput, req/s" in f.value for f in plain.dataframe)
    assert (counted.dataframe[0].value["goodput, req/s"] != "unknown").any()


@pytest.mark.usefixtures("warehouse")
def test_a_point_leads_to_its_cells_and_they_to_their_runs() -> None:
    there = ask(open_shelf(), trade, CODE).points
    (point,) = (point for point in there if point.name.startswith("eagle3 K=5 at 8"))

    page = opened("cost", CODE, point=point.name)

    cells = next(f.value for f in page.dataframe if "in Runs" in f.value)
    assert list(cells["concurrency"]) == [8]
    assert list(cells["arm"]) == ["eagle3 K=5"]
    assert cells["in Runs"].iloc[0] == cell_link(point.cells[0])


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    ("slo", "baseline", "arm"),
    [(SLO, [1, 1, 1, 0, 0], [1, 1, 1, 0, 0]), ("itl:p95<40ms", [1, 1, 1, 1, 0], [1, 1, 1, 1, 1])],
)
def test_the_part_of_a_curve_that_meets_the_target_is_that_of_the_largest_loads(
    slo: str, baseline: list[int], arm: list[int]
) -> None:
    (row,) = _rows(CODE, slo)

    found = ask(open_shelf(), capacity, CODE, slo, Paying(), False)
    curve = within(row, found).curve

    largest = {arm.place.arm: arm.reach.largest for arm in found.arms}
    for point in curve:
        end = largest[point.arm or "baseline"]
        assert point.meets is (end is not None and point.load.order <= end.order)
    rows = charts_cost._marks(within(row, found)).sort_values("concurrency")
    for name, expected in (("baseline", baseline), ("eagle3 K=5", arm)):
        assert rows.loc[rows["arm"] == name, "meets"].tolist() == expected


def _fields(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
        return own.union(*(_fields(v) for key, v in spec.items() if key != "datasets"))
    return set().union(*(_fields(v) for v in spec)) if isinstance(spec, list) else set()


def _columns(spec: Any) -> set[str]:
    return {name for rows in spec["datasets"].values() for row in rows for name in row}


def _charts(shelf: Shelf) -> dict[str, Any]:
    rows = _rows(CODE, SLO)
    found = ask(shelf, capacity, CODE, SLO, Paying(), False)
    return {
        "cost": charts_cost.cost_by_load(within(rows[0], found), SLO).to_dict(),
        "year": charts_cost.saved_a_year(_rows(CODE, terms=_demand())).to_dict(),
        "strips": charts_pareto.slo_strips(found.arms).to_dict(),
        "front": charts_pareto.pareto(ask(shelf, trade, CODE).groups[0]).to_dict(),
    }


def _demand() -> Terms:
    from analysis.money.cost import Demand

    return Terms(demand=Demand(9e9))


@pytest.mark.usefixtures("warehouse")
def test_every_encoded_field_is_a_column_and_every_title_has_the_badge() -> None:
    for spec in _charts(open_shelf()).values():
        assert _fields(spec) <= _columns(spec)
        assert "[CPU lab]" in f"{spec['title']['text']} {spec['title'].get('subtitle')}"


@pytest.mark.usefixtures("warehouse")
def test_loads_are_the_ticks_and_the_trade_starts_at_zero() -> None:
    specs = _charts(open_shelf())

    encoding = specs["cost"]["layer"][0]["encoding"]
    assert encoding["x"]["axis"]["values"] == [1, 2, 4, 8, 16]
    assert (encoding["x"]["scale"]["type"], encoding["x"]["scale"]["base"]) == ("log", 2)
    assert encoding["x"]["title"] == "requests at once"
    axes = specs["front"]["layer"][0]["encoding"]
    assert axes["x"]["scale"]["zero"]
    assert axes["y"]["scale"]["zero"]
    assert [p["name"] for p in specs["front"]["params"]] == [charts_pareto.CHOSEN]


def _name_ends(spec: dict[str, Any], width: int) -> float:
    """Where the baseline's name ends, px from the axis, in a chart so wide."""
    drawn = vl_convert.vegalite_to_svg(spec | {"width": width})
    (found,) = re.findall(r"translate\(([\d.]+),[^>]*>baseline<", drawn)
    return float(found)


@pytest.mark.usefixtures("warehouse")
def test_on_a_phone_names_of_paths_end_at_the_right_edge_above_the_front() -> None:
    spec = _charts(open_shelf())["front"]

    assert _name_ends(spec, 330) == pytest.approx(330)
    assert _name_ends(spec, 900) < 450


@pytest.mark.usefixtures("warehouse")
def test_of_many_traffics_the_first_are_drawn_and_the_one_that_is_chosen() -> None:
    (row,) = _rows(CODE, terms=_demand())
    rows = [
        replace(row, decision=replace(row.decision, traffic=DecidedTraffic(f"d{n}")))
        for n in range(21)
    ]

    drawn = charts_cost.saved_a_year(rows, chosen=20).to_dict()

    (marks,) = [found for found in drawn["datasets"].values() if "told" in found[0]]
    assert [mark["traffic"] for mark in marks] == [*(f"d{n}" for n in range(7)), "d20"]
    assert "8 of 21 traffics" in str(drawn["title"])


@pytest.mark.usefixtures("warehouse")
def test_the_year_is_drawn_with_its_interval_its_gpus_and_its_word() -> None:
    (row,) = _rows(CODE, terms=_demand())
    assert row.usd_saved_per_year is not None
    assert row.gpus_saved is not None

    settled = replace(row, usd_saved_per_year=replace(row.usd_saved_per_year, low=1.0, high=9e9))
    spec = charts_cost.saved_a_year([settled]).to_dict()

    (marks,) = [rows for rows in spec["datasets"].values() if "told" in rows[0]]
    (mark,) = marks
    assert (mark["low"], mark["high"], mark["solid"]) == (1.0, 9e9, 1)
    gpus = f"{row.gpus_saved.value:,.0f} GPUs fewer"
    assert gpus in mark["told"]
    assert mark["told"].endswith(row.usd_saved_per_year.word)


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    ("low", "high", "axis"), [(100.0, 200.0, [-24.0, 224.0]), (-200.0, -100.0, [-224.0, 24.0])]
)
def test_the_axis_of_a_year_holds_zero_and_both_ends_of_the_interval(
    low: float, high: float, axis: list[float]
) -> None:
    (row,) = _rows(CODE, terms=_demand())
    assert row.usd_saved_per_year is not None
    # Of a loss the end that is further from zero comes first, or second.
    for ends in ((low, high), (high, low)):
        amount = replace(row.usd_saved_per_year, value=150.0, low=ends[0], high=ends[1])

        spec = charts_cost.saved_a_year([replace(row, usd_saved_per_year=amount)]).to_dict()

        (mark,) = next(rows for rows in spec["datasets"].values() if "told" in rows[0])
        assert (mark["low"], mark["high"]) == (low, high)
        points = next(one for one in spec["layer"] if one["mark"]["type"] == "point")
        assert points["encoding"]["x"]["scale"]["domain"] == pytest.approx(axis)


@pytest.mark.usefixtures("warehouse")
def test_a_trace_has_no_place_on_an_axis() -> None:
    (row,) = _rows(CODE)
    trace = Load("trace", None, "monday")

    marks = charts_cost._marks(
        replace(row, curve=tuple(replace(point, load=trace) for point in row.curve))
    )

    assert marks.empty
