"""The What-if page: predictions as the command makes them, their errors, and where they end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from answers.predict.answer import lines
from answers.predict.textbook import Parameters
from answers.predict.values import Asked, Lines
from dashboard.answers import textbook, whatif_drawings
from dashboard.answers.whatif_drawings import Sheet
from dashboard.data import whatif
from dashboard.data.whatif import Place
from dashboard.shelf import open_shelf
from draftboard import cli
from tests.dashboard.opening import opened, page_of
from warehouse.filters import Filters
from warehouse.rows import Rejection
from warehouse.store import open_writer

Study = Callable[..., None]


def told(root: Path, *arguments: str) -> Any:
    result = CliRunner().invoke(cli, ["whatif", "--warehouse", str(root), *arguments, "--json"])
    assert result.exception is None, result.output
    return json.loads(result.stdout)


def numbers(page: AppTest) -> pd.DataFrame:
    return page.dataframe[0].value.set_index("means")


def titles(page: AppTest) -> list[str]:
    specs = [json.loads(chart.proto.spec) for chart in page.get("vega_lite_chart")]
    return [f"{spec['title']['text']} {spec['title'].get('subtitle', '')}" for spec in specs]


def test_the_terminal_shows_the_rows_of_the_page(tuned_warehouse: Path) -> None:
    asked = ("--dataset", "code", "--k", "3", "--concurrency", "32")
    result = CliRunner().invoke(cli, ["whatif", "--warehouse", str(tuned_warehouse), *asked])
    printed = " ".join(result.output.split())

    page = opened("what-if", whatif_dataset="code", k="3", load="32")

    for name, row in numbers(page).iterrows():
        assert name in printed
        assert row["predicted"] in printed
        assert row["90 % band"] in printed


def test_the_page_predicts_what_the_command_predicts(tuned_warehouse: Path) -> None:
    found = told(tuned_warehouse, "--dataset", "code", "--k", "3", "--concurrency", "32")
    (expected,) = found["forecasts"]

    page = opened("what-if", whatif_dataset="code", k="3", load="32")

    rate = expected["prediction"]["output_throughput"]
    gain = expected["improvements"]["output_throughput"]
    assert page.header[0].value.replace("\\", "") == expected["headline"]
    assert f"{rate:,.0f} output tokens per second, {gain * 100:.1f}" in expected["headline"]
    row = numbers(page).loc["Inter-token latency (ITL) mean (ms), lower is better"]
    assert row["predicted"] == f"{expected['prediction']['itl']:.2f}"
    assert row["without drafts, predicted"] == f"{expected['baseline']['itl']:.2f}"
    assert row["improvement"].startswith(f"{expected['improvements']['itl'] * 100:+.1f}")
    assert row["90 % band"] == " to ".join(f"{end:.2f}" for end in expected["bands"]["itl"])
    assert set(expected["trust"]) <= {text.value.replace("\\", "") for text in page.caption}
    assert row["measured"] == "not measured"
    assert not page.warning
    assert len(titles(page)) == 3
    assert all("[simulated]" in title for title in titles(page))


def test_prompts_and_acceptance_can_be_others(tuned_warehouse: Path) -> None:
    asked = ("--k", "2", "--concurrency", "16", "--prompt-tokens", "600", "--output-tokens", "300")
    found = told(tuned_warehouse, *asked, "--acceptance-rate", "0.9")["forecasts"]
    (expected,) = [forecast for forecast in found if forecast["dataset"] == "chat"]

    page = opened("what-if", 
        whatif_dataset="chat", k="2", load="16", prompt="600", output="300", own_rate="true",
        rate="0.9",
    )  # fmt: skip

    rate = expected["prediction"]["output_throughput"]
    assert f"{rate:,.0f} output tokens" in page.header[0].value
    assert "An output length in tokens of 300 is outside" in page.warning[0].value
    assert "with the measured acceptance and lengths" in titles(page)[0]
    throughput = numbers(page).loc["Output throughput (tok/s), higher is better"]
    # No output length was withheld, so nothing is known about that error.
    assert throughput["90 % band"] == "unknown"


@pytest.mark.usefixtures("tuned_warehouse")
def test_what_was_measured_stands_beside_the_prediction() -> None:
    page = opened("what-if", whatif_dataset="code", k="3", load="16")

    row = numbers(page).loc["Output throughput (tok/s), higher is better"]
    low, high = (float(v.replace(",", "")) for v in row["90 % band"].split(" to "))
    measured = float(row["measured"].replace(",", ""))
    assert low <= measured <= high


@pytest.mark.usefixtures("tuned_warehouse")
def test_beyond_the_measured_loads_it_warns_and_the_line_is_dashed() -> None:
    page = opened("what-if", whatif_dataset="code", k="3", load="256")

    assert "Concurrency of 256 is outside what was measured" in page.warning[0].value
    sheet, drawn = _drawn(Asked(3, 256), "output_throughput")
    line = whatif_drawings._line(sheet, drawn.over_load, "concurrency")
    assert set(line.loc[line["concurrency"] > 128, "inside"]) == {False}
    assert set(line.loc[line["concurrency"] <= 128, "inside"]) == {True}
    assert line["low"].notna().all()


def test_with_one_k_the_error_of_another_is_unknown(empty_place: Path, add_study: Study) -> None:
    add_study(empty_place, ks=(0, 3))

    page = opened("what-if", k="5", load="16", whatif_dataset="code")

    assert "K of 5 is outside what was measured (3)" in page.warning[0].value.replace("\\", "")
    row = numbers(page).loc["Output throughput (tok/s), higher is better"]
    assert row["90 % band"] == "unknown"
    assert "no band: error unknown" in titles(page)[0]


def test_without_a_baseline_there_is_no_gain(empty_place: Path, add_study: Study) -> None:
    add_study(empty_place, ks=(1, 2, 3))

    page = opened("what-if", whatif_dataset="code")

    assert "no baseline was measured" in page.header[0].value
    assert 0 not in page.select_slider(key="k").options
    assert set(numbers(page)["improvement"]) <= {"unknown", "–"}


def test_equal_prompts_do_not_tell_what_a_prompt_costs(empty_place: Path, add_study: Study) -> None:
    add_study(empty_place, dataset="code")

    page = opened("what-if", prompt="150")

    assert "prompt" not in [slider.key for slider in page.slider]
    assert any("nobody knows what another length would cost" in c.value for c in page.caption)
    assert not page.warning


@pytest.mark.usefixtures("warehouse")
def test_without_lengths_the_textbook_answers() -> None:
    page = opened("what-if")

    assert "only the textbook models can answer" in page.info[0].value
    assert "Textbook models, not measured" in titles(page)[0]
    assert "[" not in page.header[0].value


def test_the_textbook_is_a_choice_too(tuned_warehouse: Path) -> None:
    expected = told(tuned_warehouse, "--textbook", "--acceptance-rate", "0.85", "--k", "4")

    page = opened("what-if", basis="textbook models", book_rate="0.85", book_k="4")

    gain = f"{expected['end_to_end_gain']:.2f} times as fast end to end"
    assert gain in " ".join(text.value for text in page.markdown)
    assert len(titles(page)) == 1


@pytest.mark.usefixtures("tuned_warehouse")
def test_filters_that_match_nothing_are_named() -> None:
    page = opened("what-if", Filters(dataset=("no such dataset",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")


def test_an_empty_warehouse_says_how_to_fill_it(empty_place: Path) -> None:
    with open_writer(empty_place) as writer:
        writer.reject(Rejection("results/broken.json", "Not a result."))
        writer.commit()

    page = opened("what-if")

    assert "draftboard ingest" in page.info[0].value
    assert "Textbook models, not measured" in titles(page)[0]


@pytest.mark.parametrize(("link", "value"), [("k", "99"), ("load", "100000"), ("prompt", "-5"),
                                             ("rate", "nonsense")])  # fmt: skip
@pytest.mark.usefixtures("tuned_warehouse")
def test_a_link_that_asks_for_what_cannot_be_asked_still_opens(link: str, value: str) -> None:
    page = opened("what-if", whatif_dataset="code", **{link: value})

    assert page.header[0].value.startswith("Predicted for K = 4 at concurrency 16")


def test_a_question_of_one_dataset_survives_the_change_to_another(
    empty_place: Path, add_study: Study
) -> None:
    add_study(empty_place, ks=(0, 4, 8), dataset="long")
    add_study(empty_place, ks=(0, 1), dataset="short")
    page = page_of("what-if", whatif_dataset="long", k="16", load="16").run()
    assert page.select_slider(key="k").value == 16

    page.selectbox(key="whatif_dataset").set_value("short").run()

    assert not page.exception
    assert page.select_slider(key="k").value in (0, 1, 2)


def _drawn(asked: Asked, metric: str) -> tuple[Sheet, Lines]:
    shelf, filters = open_shelf(), Filters()
    (family,) = whatif.families(shelf, filters).values()
    known = whatif.known(shelf, Place(filters, family, "code"))
    return Sheet(known, asked, metric, "  [simulated]"), lines(known, asked)


def _fields(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
        return own.union(*(_fields(v) for key, v in spec.items() if key != "datasets"))
    if isinstance(spec, list):
        return set().union(*(_fields(v) for v in spec))
    return set()


@pytest.mark.usefixtures("tuned_warehouse")
def test_every_encoded_field_is_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (whatif_drawings, textbook):
        monkeypatch.setattr(module, "drawn", lambda chart: chart.to_dict())
    sheet, drawn = _drawn(Asked(3, 16), "itl")
    drawings = [
        whatif_drawings.over_load(sheet, drawn),
        whatif_drawings.over_k(sheet, drawn),
        whatif_drawings.withheld(sheet),
        textbook.textbook_drawing(Parameters(0.7, 4, "code", 0.6, 0.1)),
    ]
    for spec in drawings:
        columns = {column for rows in spec["datasets"].values() for row in rows for column in row}
        assert _fields(spec) <= columns
