"""The Trends page: what got worse over nights, accepting it, and one release against another."""

import json
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analysis.nightly.regressions import REGRESSION
from answers.trend.answer import Trend, names, watched
from answers.trend.upgrade import upgrade
from commands.gate import gate
from commands.keeping.ingest import take_in
from dashboard.charts import trends as charts_trends
from dashboard.shelf import ask, open_shelf
from dashboard.views.trends import TrendQuestion, trend_of
from tests.dashboard.conftest import cell, facts, source
from tests.dashboard.opening import encoded, opened, page_of
from tests.truth.upgrades import CASES, write_study
from warehouse import annotations
from warehouse.contract import Facts
from warehouse.errors import UnknownKey
from warehouse.filters import Filters
from warehouse.rows import Measurement
from warehouse.store import Reader, open_writer

Fill = Callable[..., None]
START = datetime.fromisoformat("2026-11-02T22:00:00+00:00")
NIGHTS = 8
SLOWER_FROM = 5


def _values(rate: float) -> tuple[Measurement, ...]:
    return (
        Measurement("canonical", "output_throughput", "mean", rate),
        Measurement("canonical", "itl", "p95", 1000 / rate),
    )


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``nightly`` is a copy of: nobody else touches it."""
    root = tmp_path_factory.mktemp("nights") / "warehouse"
    with open_writer(root) as writer:
        for night in range(NIGHTS):
            slower = night >= SLOWER_FROM
            known = facts(engine_version="2.0" if slower else "1.0", evidence="simulated")
            rate = (90.0 if slower else 100.0) * (1 + 0.002 * (night % 2))
            origin, start = source(f"night {night}"), START + timedelta(days=night)
            measured = cell(
                origin.source_id, 0, known, started_at=start, measurements=_values(rate)
            )
            writer.add(origin, iter([measured]))
        writer.commit()
    return root


@pytest.fixture
def nightly(nights: Path, empty_place: Path) -> Path:
    """Eight nights of one cell, a tenth slower from the sixth on, which has another version."""
    shutil.copytree(nights, empty_place)
    return empty_place


@pytest.mark.usefixtures("nightly")
def test_what_was_stated_of_where_the_nights_come_from_stands_once_below_the_title() -> None:
    said = [caption.value for caption in opened("trends").caption]

    assert said.count("Made for the tests.") == 1


def _trend(budget: str = "5%") -> Trend:
    return trend_of(open_shelf(), TrendQuestion(Filters(), budget, ())).trend


@pytest.mark.usefixtures("nightly")
def test_the_title_says_what_got_worse_since_when_and_with_what() -> None:
    page = opened("trends")

    assert page.header[0].value.replace("\\", "") == (
        "Inter-token latency (ITL) P95 of baseline on code is 11.1 % worse since 2026-11-07 (2.0), "
        "with engine_version 1.0 → 2.0; 1 more of 2 watched figures got worse"
    )
    assert len(page.get("vega_lite_chart")) == 1


@pytest.mark.usefixtures("nightly")
def test_what_is_folded_is_computed_where_the_address_opens_it() -> None:
    page = opened("trends", behind="true", all_series="true")

    assert any("engine_version" in frame.value.to_numpy() for frame in page.dataframe)
    (every,) = [frame.value for frame in page.dataframe if "verdict" in frame.value]
    assert list(every["change"]) == ["-11.1 %", "-10.0 %"]
    assert not opened("trends").dataframe


@pytest.mark.usefixtures("nightly")
def test_the_page_judges_as_the_gate_does(nightly: Path) -> None:
    said = CliRunner().invoke(gate, ["--warehouse", str(nightly), "--json"])
    found = _trend()

    told = json.loads(said.output)
    assert told["headline"] == found.headline
    assert [(row["said"], row["status"], row["improvement"], row["first_bad"])
            for row in told["series"]] == [
        (line.said, line.status, line.assessed.improvement, line.since) for line in found.lines
    ]  # fmt: skip


def test_an_accepted_night_makes_the_page_green(nightly: Path) -> None:
    accept = ["accept", "--why", "2.0 is right", "--author", "Ann", "--warehouse", str(nightly)]
    assert CliRunner().invoke(gate, accept).exit_code == 0

    page = opened("trends")

    assert page.header[0].value.startswith("Nothing got worse since 2026-11-02")
    said = "".join(text.value.replace("\\", "") for text in page.markdown)
    assert "night 2026-11-09 was accepted by Ann: 2.0 is right" in said
    noted = next(frame.value for frame in page.dataframe if "said" in frame.value)
    assert list(noted["said"]) == ["accepted"]


@pytest.mark.parametrize(
    ("of", "study", "series"),
    [
        ("this series", None, "lab/tiny-target, H200, baseline, code, 1 at once, "
         "Inter-token latency (ITL) P95"),
        ("every series", None, None),
    ],
)  # fmt: skip
def test_an_editor_accepts_a_night_as_the_command_does(
    nightly: Path, of: str, study: str | None, series: str | None
) -> None:
    page = opened("trends")
    page.radio(key="accept-for").set_value(of)
    page.text_input(key="accept-why").set_value("the new sampler is right")
    next(button for button in page.button if button.label == "Accept").click()
    page.run()

    assert not page.exception
    (event,) = annotations.accepted(nightly)
    assert (event.target, event.text) == (
        annotations.AnnotationTarget(night="2026-11-09", study=study, series=series), "the new sampler is right",
    )  # fmt: skip
    assert page.header[0].value.startswith("Nothing got worse") == (series is None)


@pytest.mark.usefixtures("nightly")
def test_accepting_without_a_reason_is_a_sentence() -> None:
    page = opened("trends")
    next(button for button in page.button if button.label == "Accept").click()
    page.run()

    assert "reason needs a text" in page.error[0].value


@pytest.mark.usefixtures("nightly")
def test_a_larger_budget_lets_it_pass_and_stands_in_the_link() -> None:
    page = page_of("trends")
    page.query_params["budget"] = "20%"
    page.run()

    assert page.text_input(key="budget").value == "20%"
    assert page.header[0].value.startswith("Nothing got worse since 2026-11-02")


@pytest.mark.usefixtures("nightly")
def test_a_release_is_held_against_the_one_before() -> None:
    page = opened("trends", releases="true")

    assert len(page.get("vega_lite_chart")) == 2
    assert page.selectbox(key="release").value == "2.0"
    assert page.selectbox(key="against").value == "1.0"
    texts = [text.value.replace("\\", "") for text in page.markdown]
    assert "2.0 against 1.0: 0 better, 2 worse and 0 without a clear difference, of 2 series." in (
        texts
    )


@pytest.mark.usefixtures("nightly")
def test_a_budget_that_cannot_be_read_is_an_error_of_one_sentence() -> None:
    with pytest.raises(UnknownKey, match="is no budget; write itl=3%"):
        _trend("lots")


@pytest.mark.usefixtures("warehouse")
def test_settings_of_too_few_nights_are_counted_and_no_row_is_unknown() -> None:
    page = opened("trends", all_series="true")

    assert "nothing was measured in three nights" in page.header[0].value
    assert "31 settings have fewer than three nights" in page.markdown[0].value
    assert not page.get("vega_lite_chart")
    assert not page.dataframe


@pytest.mark.usefixtures("warehouse")
def test_filters_that_match_nothing_show_what_there_is() -> None:
    page = opened("trends", Filters(dataset=("no such dataset",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")
    assert len(page.dataframe) == 1


def test_unknown_everywhere_is_shown_as_unknown(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    nothing: dict[str, Any] = dict.fromkeys(Facts.model_fields)
    for day in range(3):
        at = START + timedelta(days=day)
        fill_cells(empty_place, f"bare {day}", [Facts(**nothing)], started_at=at)

    page = opened("trends")

    name = page.selectbox(key="series").value
    assert name == "unknown, unknown, unknown, unknown, unknown load"


def test_cells_without_a_start_are_no_night(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    fill_cells(empty_place, "undated", [make_facts()], started_at=None)

    page = opened("trends")

    assert page.header[0].value.startswith("Did something get worse?")
    assert "known start" in page.info[0].value


@pytest.mark.usefixtures("nightly")
def test_series_with_one_name_can_be_told_apart() -> None:
    series = ask(open_shelf(), watched, Filters()).series

    assert len(set(names([series[0], series[0]]))) == 2


@pytest.mark.usefixtures("nightly")
def test_the_run_chart_encodes_columns_that_exist_and_marks_night_and_reference() -> None:
    line = _trend().lines[0]
    assert line.status == REGRESSION

    spec = charts_trends.run_chart(line).to_dict()

    columns = {column for data in spec["datasets"].values() for column in data[0]}
    assert encoded(spec) <= columns
    rules = [layer for layer in spec["layer"] if layer["mark"]["type"] == "rule"]
    marked = [spec["datasets"][rule["data"]["name"]] for rule in rules]
    assert [[row["night"] for row in rows] for rows in marked] == [["2026-11-07 (2.0)"]] * 2
    texts = [layer for layer in spec["layer"] if layer["mark"]["type"] == "text"]
    (reference,) = [spec["datasets"][text["data"]["name"]] for text in texts]
    assert reference[0]["told"] == "reference"
    assert reference[0]["level"] == pytest.approx(10.0, rel=0.01)


@pytest.mark.usefixtures("nightly")
def test_the_charts_title_carries_the_evidence() -> None:
    title = charts_trends.run_chart(_trend().lines[0]).to_dict()["title"]["text"]

    assert title.endswith("[simulated]")


def test_releases_that_were_measured_by_turns_are_told_as_the_command_tells_them(
    empty_place: Path, tmp_path: Path
) -> None:
    write_study("slower by 10 %", CASES["slower by 10 %"], 0, tmp_path / "drops")
    take_in([tmp_path / "drops"], empty_place)

    page = opened("trends", releases="true")

    with Reader(empty_place) as reader:
        told = upgrade(reader, Filters(), "0.32.0", "0.33.0")
    assert told is not None
    assert told.headline in [
        text.value.split(" Launches")[0].replace("\\", "") for text in page.markdown
    ]
