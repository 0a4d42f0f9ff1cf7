"""The Compare page: which cells it compares, and that it never draws two things as one."""

import io
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from answers.compare.words import interval
from dashboard.answers import MOST_PANELS, compare_marks
from dashboard.data import compare as data
from dashboard.data import pair as data_pair
from dashboard.data.compare import Question
from dashboard.downloads import csv_bytes
from dashboard.load_places import load_places
from dashboard.panels import CHARTED
from dashboard.shelf import open_shelf
from tests.dashboard.opening import opened
from warehouse import queries
from warehouse.contract import Facts
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.rows import Cell, Measurement, Source
from warehouse.store import open_writer

Fill = Callable[..., None]
BASELINE = {"spec_method": "none"}
DRAFT = {"spec_method": "draft_model", "num_speculative_tokens": 3, "draft_model": "one"}


def _question(**changes: Any) -> Question:
    return Question(**({"filters": Filters()} | changes))


@pytest.fixture
def other_engine(empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]) -> Path:
    """A baseline on one engine version and a draft on another."""
    fill_cells(empty_place, "old", [make_facts(**BASELINE)])
    fill_cells(empty_place, "new", [make_facts(engine_version="0.26.0", **DRAFT)])
    return empty_place


@pytest.mark.usefixtures("other_engine")
def test_cells_without_a_partner_are_listed_with_the_field_and_both_values() -> None:
    known = data.page(open_shelf(), _question())

    reasons = known.unmatched.rows.column("reason").to_pylist()
    assert known.unmatched.total == 2
    assert all("engine version" in r and "0.26.0" in r and "0.25.1" in r for r in reasons)
    assert not known.titles


@pytest.mark.usefixtures("other_engine")
def test_a_page_without_pairs_says_so_and_shows_the_reasons() -> None:
    page = opened("compare")

    assert "No cell has a partner" in page.info[0].value
    assert any("Without a partner: 2 cells" in text.value for text in page.markdown)


@pytest.mark.usefixtures("other_engine")
def test_a_difference_that_is_allowed_makes_the_pair_and_marks_it() -> None:
    question = _question(allow=("engine_version",))

    rows = data.pair_rows(open_shelf(), question)
    assert set(CHARTED) <= set(rows["metric"])
    assert set(rows["allowed"]) == {"engine_version"}
    assert not data.page(open_shelf(), question).unmatched.total


@pytest.mark.usefixtures("warehouse")
def test_the_csv_holds_the_pairs_unrounded() -> None:
    shelf, question = open_shelf(), _question()

    read = pd.read_csv(
        io.BytesIO(csv_bytes(data.pair_rows(shelf, question))), keep_default_na=False
    )

    cells = [pair.arm_cell for setting in data.comparison(shelf, question).settings
             for arm in setting.arms for pair in arm.pairs]  # fmt: skip
    assert set(read["cell"]) == set(cells)
    rates = read[read["metric"] == "output_throughput"]
    assert len(rates) == len(cells)
    assert (rates["improvement"] == rates["value"] / rates["reference"] - 1).all()


def test_levels_with_prompts_and_seeds_of_their_own_share_one_panel(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    for name, arm in (("base", BASELINE), ("draft", DRAFT)):
        known = [
            make_facts(concurrency=level, prompt_set_hash=f"{level:032x}", seed=level, **arm)
            for level in (1, 2, 4)
        ]
        fill_cells(empty_place, name, known)

    known_answer = data.page(open_shelf(), _question())

    assert list(known_answer.titles) == ["code · TP 1"]
    (arm,) = data.comparison(open_shelf(), _question()).settings[0].arms
    assert {change.load for change in arm.changes} == {
        Load("concurrency", float(at)) for at in (1, 2, 4)
    }


def test_two_drafts_with_one_label_are_two_arms_with_their_names(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    fill_cells(empty_place, "base", [make_facts(**BASELINE)])
    for draft in ("one", "two"):
        fill_cells(empty_place, draft, [make_facts(**(DRAFT | {"draft_model": draft}))])

    (setting,) = data.comparison(open_shelf(), _question()).settings

    assert {arm.name for arm in setting.arms} == {"draft_model K=3 (one)", "draft_model K=3 (two)"}


def test_at_most_twelve_panels_are_drawn(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    names = [f"set {i}" for i in range(MOST_PANELS + 2)]
    for arm in (BASELINE, DRAFT):
        known = [make_facts(dataset=name, **arm) for name in names]
        fill_cells(empty_place, arm["spec_method"], known)

    known_answer = data.page(open_shelf(), _question())

    assert len(known_answer.titles) == MOST_PANELS + 2
    assert len(data.improvement_drawings(open_shelf(), _question(), "ttft")) == MOST_PANELS


@pytest.mark.usefixtures("warehouse")
def test_the_table_stands_in_the_order_of_the_study() -> None:
    rows = data.page(open_shelf(), _question()).totals.rows.to_pylist()

    assert [row["metric"].split(" (")[0] for row in rows[:6]] == [
        "Output throughput", "Total throughput", "Time to first token", "Time per output token",
        "Inter-token latency", "Request latency, median",
    ]  # fmt: skip
    assert all(row["improvement"][0] in "+-" for row in rows)


@pytest.fixture
def repeated(
    empty_place: Path, make_source: Callable[..., Source], make_cell: Callable[..., Cell]
) -> Path:
    """Three repeats of a baseline and two arms at two loads, 50 % and 20 % faster, with texts."""
    with open_writer(empty_place) as writer:
        for name, k, speed in (("none", None, 1.0), ("eagle3", 3, 1.5), ("ngram", 5, 1.2)):
            source = make_source(
                name, commands={"vllm": ["vllm", "serve", "tiny", f"--for={name}"]}
            )
            cells = [
                make_cell(
                    source, place,
                    facts={
                        "spec_method": name, "num_speculative_tokens": k, "concurrency": load,
                        "repeat": repeat, "evidence": "gpu", "launch": f"{name}-{repeat}",
                    },
                    measurements=_values(100.0 * load * speed * (1 + 0.002 * repeat)),
                )
                for place, (load, repeat) in enumerate(product((1, 8), range(3)))
            ]  # fmt: skip
            writer.add(source, iter(cells))
        writer.commit()
    return empty_place


def _values(rate: float) -> tuple[Measurement, ...]:
    values = {
        ("output_throughput", "mean"): rate,
        ("request_throughput", "mean"): rate / 100,
        ("ttft", "p99"): 1e5 / rate,
        ("achieved_concurrency", "mean"): 7.5,
    }
    return tuple(Measurement("canonical", m, s, value) for (m, s), value in values.items())


@pytest.mark.usefixtures("repeated")
def test_launches_give_an_interval_and_a_word_to_every_line_and_load() -> None:
    shelf, question = open_shelf(), _question()
    (setting,) = data.comparison(shelf, question).settings
    first = setting.arms[0].changes[0]

    levels = data.level_table(shelf, question, setting.name).rows.to_pylist()

    assert levels[0]["95 % interval"] == interval(first.low, first.high)
    assert levels[0]["word"] == first.word == "gain"
    assert {row["load"] for row in levels} == {"1 at once", "8 at once"}
    assert all("%" in row["95 % interval"] for row in levels)


@pytest.mark.usefixtures("repeated")
def test_the_band_of_the_chart_is_the_interval() -> None:
    found = data.comparison(open_shelf(), _question())
    line = ("output_throughput", "mean")
    told = [c for setting in found.settings for arm in setting.arms for c in arm.changes
            if c.line == line]  # fmt: skip

    marks = compare_marks.improvements(found.settings, line, load_places(c.load for c in told))

    assert sorted(marks["high"]) == sorted(c.high or 0 for c in told)
    assert all(words.endswith(": gain") for words in marks["interval"])


@pytest.mark.usefixtures("repeated")
def test_any_arm_can_stand_where_the_baseline_stands_under_the_same_decision() -> None:
    page = opened("compare")
    before = page.header[0].value
    page.selectbox(key="reference").set_value("ngram K=5").run()

    assert page.header[0].value == before
    rows = data.page(open_shelf(), _question(reference="ngram K=5")).totals.rows.to_pylist()
    assert {row["arm"] for row in rows} == {"baseline", "eagle3 K=3"}


@pytest.mark.usefixtures("repeated")
def test_a_filtered_arm_keeps_its_reference_and_its_words() -> None:
    shelf = open_shelf()
    whole = data.comparison(shelf, _question()).settings[0].arms

    (arm,) = (
        data.comparison(shelf, _question(filters=Filters(arm=("eagle3 K=3",)))).settings[0].arms
    )

    assert arm in whole


@pytest.mark.usefixtures("repeated")
def test_a_metric_of_which_neither_direction_is_better_is_drawn_in_its_own_unit() -> None:
    page = opened("compare")

    page.selectbox(key="metric").set_value("Achieved concurrency").run()

    assert not page.exception
    assert any(text.value == "Achieved concurrency, requests" for text in page.subheader)


@pytest.mark.usefixtures("repeated")
def test_any_percentile_can_be_chosen() -> None:
    page = opened("compare")
    page.selectbox(key="metric").set_value("Time to first token (TTFT)").run()
    page.selectbox(key="statistic").set_value("P99").run()

    found = data.comparison(open_shelf(), _question(statistic="p99"))
    assert any("TTFT\\), P99, improvement" in text.value for text in page.subheader)
    lines = {change.line for change in found.settings[0].arms[0].changes}
    assert ("ttft", "p99") in lines


@pytest.mark.usefixtures("repeated")
def test_a_pair_shows_what_differs_in_its_configuration_and_nothing_else() -> None:
    page = opened("compare")

    rows = next(f.value for f in page.dataframe if "setting" in f.value.columns
                and len(f.value.columns) == 3)  # fmt: skip
    told = {row.setting: (row.iloc[1], row.iloc[2]) for _, row in rows.iterrows()}
    assert told["spec_method"] == ("none", "eagle3")
    assert told["num_speculative_tokens"] == ("not stated", "3")
    assert told["commands.vllm.for"] == ("none", "eagle3")
    assert "model" not in told


@pytest.mark.usefixtures("repeated")
def test_a_pair_whose_baseline_the_filter_hides_is_shown_whole() -> None:
    page = opened("compare", Filters(arm=("eagle3 K=3",)))

    rows = next(f.value for f in page.dataframe if "setting" in f.value.columns
                and len(f.value.columns) == 3)  # fmt: skip
    assert "spec_method" in set(rows["setting"])


@pytest.mark.usefixtures("repeated")
def test_single_requests_are_read_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    known = queries.requests
    monkeypatch.setattr(
        queries, "requests", lambda reader, cell, *rest: (asked.append(cell), known(reader, cell, *rest))[1]
    )  # fmt: skip

    page = opened("compare")
    charts_before = len(page.get("vega_lite_chart"))
    assert not asked
    page.toggle(key="requests").set_value(True).run()

    assert len(asked) == 2
    assert len(page.get("vega_lite_chart")) == charts_before + 5
    assert any("Median output over 20 prompts" in text.value for text in page.markdown)


@pytest.mark.usefixtures("repeated")
def test_the_charts_of_a_pair_say_where_they_come_from_and_how_many_they_draw() -> None:
    shelf, question = open_shelf(), _question()
    name = next(iter(data.page(shelf, question).titles))
    pair = next(iter(data_pair.pairs(shelf, question, name).values()))

    found = data_pair.requests(shelf, replace(pair, note="CPU lab"))

    drawings = [*found.distributions, *found.first_tokens]
    assert all("[CPU lab]" in drawing["title"]["text"] for drawing in drawings)
    assert found.first_tokens[0]["title"]["text"].startswith("baseline: 20 requests")


LOADS: tuple[dict[str, Any], ...] = (
    {"load_profile": "concurrent", "concurrency": 4},
    {"load_profile": "constant", "rate": 4.0, "concurrency": None},
    {"load_profile": "poisson", "rate": 4.0, "concurrency": None},
    {"load_profile": "trace", "trace": "azure", "concurrency": None},
)


def test_loads_of_other_kinds_are_drawn_by_their_own_names(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    for arm in (BASELINE, DRAFT):
        fill_cells(empty_place, arm["spec_method"], [make_facts(**(arm | load)) for load in LOADS])

    (drawing,) = data.improvement_drawings(open_shelf(), _question(), "ttft")

    axes = [
        layer["encoding"]["x"]["axis"] for layer in drawing["layer"] if "x" in layer["encoding"]
    ]
    names = '["4", "4/s", "4/s Poisson", "azure"][datum.value - 1]'
    assert {axis["labelExpr"] for axis in axes} == {names}
    page = opened("compare")
    told = {row for frame in page.dataframe if "load" in frame.value for row in frame.value["load"]}
    assert {"4 at once", "4 requests/s", "4 requests/s (Poisson)", "trace azure"} <= told


def test_unknown_values_everywhere_are_told_as_unknown(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    nothing = dict.fromkeys(
        ("model", "gpu", "gpu_count", "engine_version", "tensor_parallel_size", "dataset",
         "evidence", "prompt_set_hash", "concurrency")
    )  # fmt: skip
    for arm in (BASELINE, DRAFT):
        fill_cells(empty_place, str(arm), [make_facts(**(arm | nothing))])

    page = opened("compare")

    assert page.header
    assert not page.exception
