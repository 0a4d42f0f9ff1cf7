"""The Predict page: predictions as the command makes them, their errors, where they end; the draft."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from analysis.prediction.reach import Question, Textbook
from answers.predict.acceptance import (
    AcceptanceLine,
    DraftAcceptance,
    Measure,
    Over,
    accepted,
    headline,
)
from answers.predict.acceptance import lines as accepted_lines
from answers.predict.answer import (
    DraftFamily,
    acceptance_of_family,
    families,
    fitted,
    forecast_lines,
    subjects,
)
from answers.predict.break_even import break_even, real_drafts
from answers.predict.values import ForecastLines
from dashboard.charts import forecast
from dashboard.charts.forecast import ForecastSheet, acceptance, textbook, withheld
from dashboard.shelf import ask, open_shelf
from draftboard import cli
from tests.answers.test_break_even import fill
from tests.dashboard.opening import encoded, opened, page_of
from warehouse.filters import Filters
from warehouse.rows import Rejection
from warehouse.store import open_writer

Study = Callable[..., None]
NUMBERS = {"fold_numbers": "true"}
TRUST = {"fold_trust": "true"}
PAYS = {"fold_break_even": "true"}
BOOK = {"fold_textbook": "true"}


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

    page = opened("predict", whatif_dataset="code", k="3", load="32", **NUMBERS)

    for name, row in numbers(page).iterrows():
        assert name in printed
        assert row["predicted"] in printed
        assert row["90 % band"] in printed


def test_the_page_predicts_what_the_command_predicts(tuned_warehouse: Path) -> None:
    found = told(tuned_warehouse, "--dataset", "code", "--k", "3", "--concurrency", "32")
    (expected,) = found["forecasts"]

    page = opened("predict", whatif_dataset="code", k="3", load="32", **NUMBERS, **TRUST)

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
    assert len(titles(page)) == 4
    assert all("[simulated]" in title for title in titles(page))


def test_prompts_and_acceptance_can_be_others(tuned_warehouse: Path) -> None:
    asked = ("--k", "2", "--concurrency", "16", "--prompt-tokens", "500", "--output-tokens", "300")
    found = told(tuned_warehouse, *asked, "--acceptance-rate", "0.9")["forecasts"]
    (expected,) = [forecast for forecast in found if forecast["dataset"] == "chat"]

    page = opened("predict", 
        whatif_dataset="chat", k="2", load="16", prompt="500", output="300", own_rate="true",
        rate="0.9", **NUMBERS,
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
    page = opened("predict", whatif_dataset="code", k="3", load="16", **NUMBERS)

    row = numbers(page).loc["Output throughput (tok/s), higher is better"]
    low, high = (float(v.replace(",", "")) for v in row["90 % band"].split(" to "))
    measured = float(row["measured"].replace(",", ""))
    assert low <= measured <= high


@pytest.mark.usefixtures("tuned_warehouse")
def test_beyond_the_measured_loads_it_warns_and_the_line_is_dashed() -> None:
    page = opened("predict", whatif_dataset="code", k="3", load="256")

    assert "Concurrency of 256 is outside what was measured" in page.warning[0].value
    sheet, drawn = _drawn(Question(3, 256), "output_throughput")
    line = forecast._line(sheet, drawn.over_load, "concurrency")
    assert set(line.loc[line["concurrency"] > 128, "inside"]) == {False}
    assert set(line.loc[line["concurrency"] <= 128, "inside"]) == {True}
    assert line["low"].notna().all()


def test_with_one_k_the_error_of_another_is_unknown(empty_place: Path, add_study: Study) -> None:
    add_study(empty_place, ks=(0, 3))

    page = opened("predict", k="5", load="16", whatif_dataset="code", **NUMBERS)

    assert "K of 5 is outside what was measured (3)" in page.warning[0].value.replace("\\", "")
    row = numbers(page).loc["Output throughput (tok/s), higher is better"]
    assert row["90 % band"] == "unknown"
    assert "no band: error unknown" in titles(page)[0]


def test_without_a_baseline_there_is_no_gain(empty_place: Path, add_study: Study) -> None:
    add_study(empty_place, ks=(1, 2, 3))

    page = opened("predict", whatif_dataset="code", **NUMBERS)

    assert "no baseline was measured" in page.header[0].value
    assert 0 not in page.select_slider(key="k").options
    assert set(numbers(page)["improvement"]) <= {"unknown", "–"}


def test_equal_prompts_do_not_tell_what_a_prompt_costs(empty_place: Path, add_study: Study) -> None:
    add_study(empty_place, dataset="code")

    page = opened("predict", prompt="150")

    assert "prompt" not in [slider.key for slider in page.slider]
    assert any("nobody knows what another length would cost" in c.value for c in page.caption)
    assert not page.warning


@pytest.mark.usefixtures("warehouse")
def test_without_lengths_the_textbook_answers() -> None:
    page = opened("predict")

    assert "only the textbook models can answer" in page.info[0].value
    assert "Textbook models, not measured" in titles(page)[0]
    assert "[" not in page.header[0].value


def test_the_textbook_stands_below_too(tuned_warehouse: Path) -> None:
    expected = told(tuned_warehouse, "--textbook", "--acceptance-rate", "0.85", "--k", "4")

    page = opened("predict", book_rate="0.85", book_k="4", **BOOK)

    gain = f"{expected['end_to_end_gain']:.2f} times as fast end to end"
    assert gain in " ".join(text.value for text in page.markdown)
    assert len(titles(page)) == 4


@pytest.mark.usefixtures("tuned_warehouse")
def test_filters_that_match_nothing_are_named() -> None:
    page = opened("predict", Filters(dataset=("no such dataset",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")


def test_an_empty_warehouse_says_how_to_fill_it(empty_place: Path) -> None:
    with open_writer(empty_place) as writer:
        writer.reject(Rejection("results/broken.json", "Not a result."))
        writer.commit()

    page = opened("predict")

    assert "draftboard ingest" in page.info[0].value
    assert "Textbook models, not measured" in titles(page)[0]


@pytest.mark.parametrize(("link", "value"), [("k", "99"), ("load", "100000"), ("prompt", "-5"),
                                             ("rate", "nonsense")])  # fmt: skip
@pytest.mark.usefixtures("tuned_warehouse")
def test_a_link_that_asks_for_what_cannot_be_asked_still_opens(link: str, value: str) -> None:
    page = opened("predict", whatif_dataset="code", **{link: value})

    assert page.header[0].value.startswith("Predicted for K = 4 at concurrency 16")


def test_a_question_of_one_dataset_survives_the_change_to_another(
    empty_place: Path, add_study: Study
) -> None:
    add_study(empty_place, ks=(0, 4, 8), dataset="long")
    add_study(empty_place, ks=(0, 1), dataset="short")
    page = page_of("predict", whatif_dataset="long", k="16", load="16").run()
    assert page.select_slider(key="k").value == 16

    page.selectbox(key="whatif_dataset").set_value("short").run()

    assert not page.exception
    assert page.select_slider(key="k").value in (0, 1, 2)


def _drawn(asked: Question, metric: str) -> tuple[ForecastSheet, ForecastLines]:
    (subject,) = (one for one in ask(open_shelf(), subjects, Filters())
                  if one.place.dataset == "code")  # fmt: skip
    found = fitted(subject)
    return ForecastSheet(found, asked, metric, "  [simulated]"), forecast_lines(found, asked)


def _family() -> DraftFamily:
    (family,) = families(ask(open_shelf(), subjects, Filters()))
    return family


def _drafts() -> tuple[DraftAcceptance, ...]:
    return acceptance_of_family(ask(open_shelf(), accepted, Filters()), _family())


@pytest.mark.usefixtures("tuned_warehouse")
def test_a_family_is_named_by_what_a_reader_knows_of_it() -> None:
    family = _family()

    assert family.name == "draft_model, lab/target, TP 1, H200"
    assert family.badges == ("simulated",)
    assert family.datasets == ("chat", "code")


def test_families_of_one_name_are_told_apart_by_what_differs(
    empty_place: Path, add_study: Study
) -> None:
    for version in ("0.32.0", "0.33.0"):
        add_study(empty_place, ks=(0, 2), engine_version=version)

    names = {one.name for one in families(ask(open_shelf(), subjects, Filters()))}

    start = "draft_model, lab/target, TP 1, H200, engine version"
    assert names == {f"{start} 0.32.0", f"{start} 0.33.0"}


def test_two_drafts_of_one_method_are_told_apart_by_the_ends_of_their_paths(
    empty_place: Path, add_study: Study
) -> None:
    for draft in ("/models/of/mine/small", "/models/of/mine/large"):
        add_study(empty_place, ks=(0, 2), draft_model=draft)

    names = {one.name for one in families(ask(open_shelf(), subjects, Filters()))}

    start = "draft_model, lab/target, TP 1, H200, draft"
    assert names == {f"{start} small", f"{start} large"}


@pytest.mark.usefixtures("tuned_warehouse")
def test_a_link_by_the_name_that_an_arm_had_with_its_draft_still_leads_to_it() -> None:
    page = opened("predict", whatif_arm="draft_model (tiny-draft), lab/target, TP 1, H200")

    assert page.selectbox(key="whatif_arm").value == "draft_model, lab/target, TP 1, H200"
    assert not page.header[0].value.startswith("Not here")


def test_a_filter_changes_neither_the_order_nor_the_names_of_arms(
    empty_place: Path, add_study: Study
) -> None:
    # In chat alone, the second version has most points.
    for version, dataset, ks in (
        ("0.32.0", "code", (0, 2, 4)), ("0.32.0", "chat", (0, 2)), ("0.33.0", "chat", (0, 2, 4)),
    ):  # fmt: skip
        add_study(empty_place, ks=ks, dataset=dataset, engine_version=version)
    every = ask(open_shelf(), subjects, Filters())
    first, second = (one.name for one in families(every))
    assert first.endswith("0.32.0")

    for dataset, kept in (("chat", [first, second]), ("code", [first])):
        found = ask(open_shelf(), subjects, Filters(dataset=(dataset,)))
        assert [one.name for one in families(found, every)] == kept

    page = opened("predict", Filters(dataset=("code",)), whatif_arm=second)
    assert page.selectbox(key="whatif_arm").value == second
    assert (
        page.header[0]
        .value.replace("\\", "")
        .startswith(f"The filters leave nothing to show of {second}: remove one")
    )


@pytest.mark.usefixtures("tuned_warehouse")
def test_acceptance_is_a_line_for_each_dataset_with_the_length_in_the_title() -> None:
    chat, code = accepted_lines(_drafts(), "position", "of_all", 4)

    assert (chat.dataset, code.dataset) == ("chat", "code")
    assert [value for _, value in chat.points] == pytest.approx([0.62**i for i in range(1, 5)])
    length = 1 + sum(0.85**i for i in range(1, 5))
    assert f"{length:.2f} on code" in headline(_drafts(), 4)
    (title,) = [t for t in titles(opened("predict")) if "Tokens of a step" in t]
    assert title.startswith("Tokens of a step with K = 4: 2.39 on chat and 3.71 on code")
    assert "[simulated]" in title


@pytest.mark.usefixtures("tuned_warehouse")
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (("position", "of_those", 3), {1: 0.62, 2: 0.62, 3: 0.62}),
        (("k", "rate", 4), {1: 0.62, 2: (0.62 + 0.62**2) / 2}),
        (("k", "length", 4), {1: 1.62, 2: 1.62 + 0.62**2}),
        (("concurrency", "length", 1), {1: 1.62, 128: 1.62}),
    ],
)
def test_acceptance_over_k_and_load_is_that_of_the_counters(
    asked: tuple[Over, Measure, int], expected: dict[int, float]
) -> None:
    chat, _ = accepted_lines(_drafts(), *asked)

    found = dict(chat.points)
    assert {at: found[at] for at in expected} == pytest.approx(expected, abs=1e-3)


@pytest.mark.usefixtures("tuned_warehouse")
@pytest.mark.parametrize(
    "link", [{"draft_acceptance": "over draft tokens", "draft_measure": "Tokens per step"},
             {"draft_acceptance": "over concurrency", "draft_k": "2"}],
)  # fmt: skip
def test_a_link_reproduces_what_is_asked_of_the_draft(link: dict[str, str]) -> None:
    page = opened("predict", fold_accepted="true", **link)

    for name, value in link.items():
        assert page.segmented_control(key=name).value == value
    assert "by position" in page.dataframe[0].value


def test_an_acceptance_that_is_unknown_is_said() -> None:
    bare = DraftAcceptance((), "code", "eagle3", 3, 8, "eagle3 K=3", None, None, (), ())

    assert headline([bare], 3) == "With K = 3 the tokens of a step are unknown"
    assert accepted_lines([bare], "position", "of_all", 3) == ()
    spec = acceptance((), "position", "of_all", "eagle3 K=3", ("Draft", "")).to_dict()
    assert spec["title"]["text"].endswith("unknown")


def test_a_fold_says_from_when_on_a_draft_pays_as_the_command_does(
    empty_place: Path, add_study: Study
) -> None:
    fill(empty_place)
    add_study(empty_place, ks=(4,), gpu="A100", evidence="gpu")
    arm = "draft_model, lab/target, TP 1, H200"
    asked = ("--break-even", "--k", "4", "--concurrency", "64")
    (expected,) = told(empty_place, *asked)["break_even"][0]["pays_from"]

    page = opened("predict", whatif_arm=arm, k="4", load="64", **PAYS)

    assert expected["headline"] in " ".join(text.value.replace("\\", "") for text in page.markdown)
    assert "3.71 on code (A100): it pays" in expected["headline"]
    (drawn,) = [title for title in titles(page) if "it pays" in title]
    assert "[synthetic acceptance]" in drawn
    assert any("acceptance set by hand, K = 1, 2 and 4" in text.value for text in page.caption)


@pytest.mark.usefixtures("tuned_warehouse")
def test_a_fold_on_real_arms_says_so_and_beyond_the_measured_loads_says_nothing() -> None:
    page = opened("predict", whatif_dataset="code", k="3", load="16", **PAYS)
    assert any("arms with measured acceptance, K = 1, 2, 3 and 4" in c.value for c in page.caption)

    beyond = opened("predict", whatif_dataset="code", k="3", load="256", **PAYS)
    said = beyond.info[0].value.replace("\\", "")
    assert said.startswith("Cannot say from which acceptance on it pays: Concurrency of 256 is")
    assert not [title for title in titles(beyond) if "it pays" in title]


@pytest.mark.usefixtures("tuned_warehouse")
def test_every_encoded_field_is_a_column() -> None:
    sheet, drawn = _drawn(Question(3, 16), "itl")
    line = AcceptanceLine("code", ((1, 0.5), (2, 0.25)))
    pays = break_even(sheet.known, ask(open_shelf(), real_drafts), 3, sheet.known.model.reach.loads)
    charts = [
        forecast.over_load(sheet, drawn),
        forecast.over_k(sheet, drawn),
        withheld(sheet),
        textbook(Textbook(0.7, 4, "code", 0.6, 0.1)),
        *(acceptance([line], over, measure, "eagle3 K=3", ("Draft", ""))
          for over, measure in (("position", "of_all"), ("k", "length"), ("concurrency", "rate"))),
        forecast.break_even(pays, pays.steps[2], ""),
        forecast.break_even(replace(pays, real=()), pays.steps[2], ""),
    ]  # fmt: skip
    for chart in charts:
        spec = chart.to_dict()
        columns = {column for rows in spec["datasets"].values() for row in rows for column in row}
        assert encoded(spec) <= columns
