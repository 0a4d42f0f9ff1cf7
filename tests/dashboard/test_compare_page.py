"""The Compare page: which cells it compares, the study's figures, and what was published."""

import io
import json
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from analysis.matching.comparison import STUDY_TABLE
from answers.compare import subjects as answers_pair
from answers.compare.answer import compare, pair_lines
from answers.compare.kinds import by_kind
from answers.compare.subjects import answer, compared_subjects
from answers.compare.values import ArmComparison, ComparedSetting, CompareQuestion, interval
from answers.decide.answer import decide
from answers.decide.values import DecideQuestion as Decide
from answers.published.values import BADGE
from dashboard.charts import specification
from dashboard.charts.compare import LineView, kind_matrix, over_load
from dashboard.downloads import csv_bytes, one_figure, png_bytes, vega_lite
from dashboard.shelf import ask, open_shelf
from dashboard.views.compare import FIGURES, pair_rows
from dashboard.views.printed import kept
from tests.commands.asking import run
from tests.commands.mixed import APART, MixedStudy, write
from tests.commands.sessions import Talked
from tests.commands.sessions import write as write_sessions
from tests.dashboard.conftest import opened as shelved
from tests.dashboard.opening import encoded, opened
from warehouse import queries
from warehouse.contract import Facts
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.rows import Cell, Measurement, Source
from warehouse.store import open_writer

Fill = Callable[..., None]
BASELINE = {"spec_method": "none"}
DRAFT = {"spec_method": "draft_model", "num_speculative_tokens": 3, "draft_model": "one"}


SPEED = ("output_throughput", "mean")
STUDY = Path(__file__).parents[2] / "examples" / "claims" / "published-study.yaml"
PUBLISHED = f"gpt-oss-120b on NVIDIA H200 141GB  [{BADGE}]"


def found(**asked: Any) -> ArmComparison:
    return ask(open_shelf(), compare, CompareQuestion(**asked))


def setting(**asked: Any) -> ComparedSetting:
    (one,) = found(**asked).settings
    return one


def header(page: AppTest) -> str:
    return str(page.header[0].value).replace("\\", "")


def charts(page: AppTest) -> int:
    return len(page.get("vega_lite_chart"))


@pytest.fixture
def other_engine(empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]) -> Path:
    """A baseline on one engine version and a draft on another."""
    fill_cells(empty_place, "old", [make_facts(**BASELINE)])
    fill_cells(empty_place, "new", [make_facts(engine_version="0.26.0", **DRAFT)])
    return empty_place


@pytest.mark.usefixtures("other_engine")
def test_cells_without_a_partner_are_listed_with_the_field_and_both_values() -> None:
    known = found()

    reasons = [cell.reason for cell in known.unmatched]
    assert len(reasons) == 2
    assert all("engine version" in r and "0.26.0" in r and "0.25.1" in r for r in reasons)
    assert not known.settings


@pytest.mark.usefixtures("other_engine")
def test_a_page_without_pairs_says_so_and_shows_the_reasons() -> None:
    page = opened("compare")

    assert "No cell has a partner" in page.info[0].value
    assert any("Without a partner: 2 cells" in fold.label for fold in page.expander)
    assert "reason" in page.dataframe[-1].value.columns


@pytest.mark.usefixtures("other_engine")
def test_a_difference_that_is_allowed_makes_the_pair_and_marks_it() -> None:
    asked = CompareQuestion(allow=("engine_version",))

    rows = pair_rows(ask(open_shelf(), pair_lines, asked))
    assert {metric for metric, _ in STUDY_TABLE} <= set(rows["metric"])
    assert set(rows["allowed"]) == {"engine_version"}
    assert not found(allow=("engine_version",)).unmatched


@pytest.mark.usefixtures("warehouse")
def test_the_csv_holds_the_pairs_unrounded() -> None:
    rows = pair_rows(ask(open_shelf(), pair_lines, CompareQuestion()))

    read = pd.read_csv(io.BytesIO(csv_bytes(rows)), keep_default_na=False)

    cells = [met.arm_cell for one in found().settings for arm in one.arms for met in arm.pairs]
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

    (known,) = found().settings

    assert known.name == "code · TP 1"
    (arm,) = known.arms
    assert {change.load for change in arm.changes} == {
        Load("concurrency", float(at)) for at in (1, 2, 4)
    }


def test_two_drafts_with_one_label_are_two_arms_with_their_names(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    fill_cells(empty_place, "base", [make_facts(**BASELINE)])
    for draft in ("one", "two"):
        fill_cells(empty_place, draft, [make_facts(**(DRAFT | {"draft_model": draft}))])

    assert {arm.name for arm in setting().arms} == {
        "draft_model K=3 (one)",
        "draft_model K=3 (two)",
    }


def test_at_most_six_panels_are_drawn_and_the_others_are_counted(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    names = [f"set {i}" for i in range(8)]
    for arm in (BASELINE, DRAFT):
        known = [make_facts(dataset=name, **arm) for name in names]
        fill_cells(empty_place, arm["spec_method"], known)

    page = opened("compare", chart="One metric, every dataset")

    assert charts(page) == 6
    assert any(text.value.startswith("6 of 8 settings are drawn") for text in page.caption)
    assert len(page.selectbox(key="setting").options) == 8


@pytest.mark.usefixtures("warehouse")
def test_each_chart_has_its_own_statistic_in_the_order_of_the_study() -> None:
    page = opened("compare")

    assert charts(page) == len(STUDY_TABLE) == 6
    assert FIGURES["All metrics"] == STUDY_TABLE
    table = page.dataframe[0].value
    assert [name.split(" (")[0] for name in table["metric, geometric mean"]] == [
        "Output throughput", "Total throughput", "Time to first token", "Time per output token",
        "Inter-token latency", "Request latency, median",
    ]  # fmt: skip
    assert all(text[0] in "+-" for text in table["improvement"])


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("figure", list(FIGURES))
def test_each_figure_is_one_click_away_and_has_one_picture_and_one_link(figure: str) -> None:
    page = opened("compare")
    page.segmented_control(key="chart").set_value(figure).run()

    assert not page.exception
    assert charts(page) == len(FIGURES[figure])
    assert [one.label for one in page.get("download_button")][:3] == ["PNG", "SVG", "Vega-Lite"]
    link = next(one.value for one in page.code if "chart=" in one.value)
    assert f"chart={figure.replace(' ', '+')}" in link
    assert "setting=" in link
    assert "subject=" in link


@pytest.mark.usefixtures("warehouse")
def test_the_picture_of_a_figure_holds_all_its_charts() -> None:
    one = found().settings[0]
    view = LineView(SPEED, (one.arms[0].name,), "baseline", True, "speed")
    other = LineView(("ttft", "p95"), (one.arms[0].name,), "baseline", True, "first token")
    drawings = [specification(over_load(one, each)) for each in (view, other)]

    figure = vega_lite(one_figure("Two", drawings))

    assert [chart["title"]["text"] for chart in figure["concat"]] == ["speed", "first token"]
    named = [layer["data"]["name"] for chart in figure["concat"] for layer in chart["layer"]
             if "data" in layer] + [c["data"]["name"] for c in figure["concat"] if "data" in c]  # fmt: skip
    assert len(set(named)) > 1
    assert all(figure["datasets"][name] for name in named)
    assert png_bytes(one_figure("Two", drawings)).startswith(b"\x89PNG")


@pytest.mark.usefixtures("warehouse")
def test_the_page_stands_under_the_decision_on_its_setting_and_colours_its_arm() -> None:
    shelf = open_shelf()
    decided = ask(shelf, decide, Decide(Filters())).decisions
    page = opened("compare")
    first = compared_subjects(found())[0].settings[0]

    told = answer(first, decided, "baseline")

    assert told.headline in [one.headline for one in decided]
    assert header(page) == told.headline
    assert page.selectbox(key="in_colour").value == told.arm


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("named", [{"subject": "gone on H200"}, {"setting": "gone · TP 1"}])
def test_a_link_to_what_is_gone_shows_no_verdict_until_another_is_chosen(
    named: dict[str, str],
) -> None:
    page = opened("compare", **named)

    assert header(page) == f"Not here any more: {next(iter(named.values()))}"
    assert not charts(page)
    (key,) = named
    box = page.selectbox(key=key) if key == "subject" else page.segmented_control(key=key)
    box.set_value(box.options[0]).run()
    assert not page.exception
    assert not header(page).startswith("Not here")
    assert charts(page) == 6


@pytest.mark.usefixtures("warehouse")
def test_other_arms_are_faint_until_they_are_clicked_and_the_reference_is_not() -> None:
    one = found().settings[0]
    chosen = one.arms[0].name

    spec = over_load(one, LineView(SPEED, (chosen,), "baseline", True, "speed")).to_dict()

    (picked,) = spec["params"]
    assert picked["value"] == [{"arm": chosen}, {"arm": "baseline"}]
    assert picked["select"]["fields"] == ["arm"]
    shades = [layer["encoding"].get("opacity") for layer in spec["layer"]]
    assert {shade["value"] for shade in shades if shade} <= {0, 0.22}


@pytest.fixture
def repeated(repeats: Path, empty_place: Path) -> Path:
    """Three repeats of a baseline and two arms at two loads, 50 % and 20 % faster, with texts."""
    shutil.copytree(repeats, empty_place)
    return empty_place


@pytest.fixture(scope="module")
def repeats(
    tmp_path_factory: pytest.TempPathFactory,
    make_source: Callable[..., Source],
    make_cell: Callable[..., Cell],
) -> Path:
    """What ``repeated`` is a copy of: nobody else touches it."""
    root = tmp_path_factory.mktemp("repeats") / "warehouse"
    with open_writer(root) as writer:
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
    return root


def _values(rate: float) -> tuple[Measurement, ...]:
    values = {
        ("output_throughput", "mean"): rate,
        ("request_throughput", "mean"): rate / 100,
        ("ttft", "p99"): 1e5 / rate,
        ("achieved_concurrency", "mean"): 7.5,
    }
    return tuple(Measurement("canonical", m, s, value) for (m, s), value in values.items())


def test_the_figure_of_draft_tokens_shows_every_k_of_a_method(
    empty_place: Path, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> None:
    fill_cells(empty_place, "base", [make_facts(**BASELINE)])
    for method, k in (("ngram", 3), ("draft_model", 2), ("draft_model", 4)):
        arm = {"spec_method": method, "num_speculative_tokens": k}
        fill_cells(empty_place, f"{method}{k}", [make_facts(**arm)])

    page = opened("compare", chart="Draft tokens", in_colour="ngram K=3")

    spec = json.loads(page.get("vega_lite_chart")[0].proto.spec)
    (picked,) = spec["params"]
    assert {one["arm"] for one in picked["value"]} == {
        "ngram K=3", "draft_model K=2", "draft_model K=4", "baseline",
    }  # fmt: skip


@pytest.mark.usefixtures("repeated")
def test_launches_give_an_interval_and_a_word_to_every_line_and_load() -> None:
    first = setting().arms[0].changes[0]

    levels = opened("compare").dataframe[1].value

    assert levels["95 % interval"][0] == interval(first.low, first.high)
    assert levels["word"][0] == first.word == "gain"
    assert set(levels["load"]) == {"1 at once", "8 at once"}
    assert levels["95 % interval"].str.contains("%").all()


@pytest.mark.usefixtures("repeated")
@pytest.mark.parametrize("absolute", [False, True])
def test_every_encoded_field_is_a_column_and_the_loads_are_ticks_of_a_log_axis(
    absolute: bool,
) -> None:
    one = setting()

    view = LineView(SPEED, (one.arms[0].name,), "baseline", absolute, "code")
    spec = over_load(one, view).to_dict()

    columns = {column for rows in spec["datasets"].values() for column in rows[0]}
    assert encoded(spec) <= columns | {"zero"}
    points = spec["layer"][-2]["encoding"]
    x = points["x"]
    assert (x["scale"]["type"], x["scale"]["base"], x["axis"]["values"]) == ("log", 2, [1, 8])
    assert points["fillOpacity"]["field"] == "solid"
    # Improvements have a line of no difference.
    assert (spec["layer"][0]["mark"]["type"] == "rule") is not absolute


@pytest.mark.usefixtures("repeated")
def test_the_band_of_the_chart_is_the_interval() -> None:
    one = setting()
    told = [c for arm in one.arms for c in arm.changes if c.line == SPEED]

    chart = over_load(one, LineView(SPEED, (one.arms[0].name,), "baseline", False, "code"))

    rows = next(layer.data for layer in chart.layer if isinstance(layer.data, pd.DataFrame))
    assert sorted(rows["high"]) == sorted(c.high or 0 for c in told)
    assert all(words.endswith(": gain") for words in rows["told"])


@pytest.mark.usefixtures("repeated")
def test_any_arm_can_stand_where_the_baseline_stands_under_the_same_decision() -> None:
    page = opened("compare")
    before = header(page)
    page.selectbox(key="reference").set_value("ngram K=5").run()

    assert header(page) == before
    assert {arm.name for arm in setting(reference="ngram K=5").arms} == {"baseline", "eagle3 K=3"}


@pytest.mark.usefixtures("repeated")
def test_a_filtered_arm_keeps_its_reference_and_its_words() -> None:
    whole = setting().arms

    (arm,) = setting(filters=Filters(arm=("eagle3 K=3",))).arms

    assert arm in whole


@pytest.mark.usefixtures("repeated")
def test_a_metric_of_which_neither_direction_is_better_is_drawn_in_its_own_unit() -> None:
    page = opened("compare", metric="Achieved concurrency")

    assert any(text.value == "Achieved concurrency, requests" for text in page.subheader)
    assert charts(page) == 1


@pytest.mark.usefixtures("repeated")
def test_any_percentile_can_be_chosen() -> None:
    page = opened("compare", chart="One metric, every dataset")
    page.selectbox(key="metric").set_value("Time to first token (TTFT)").run()
    page.selectbox(key="statistic").set_value("P99").run()

    assert not page.exception
    assert any("TTFT\\), P99, improvement" in text.value for text in page.subheader)
    levels = page.dataframe[1].value
    assert "Time to first token (TTFT), P99 (ms)" in set(levels["metric"])


def configuration_of(page: AppTest) -> pd.DataFrame:
    return next(f.value for f in page.dataframe if "setting" in f.value.columns
                and len(f.value.columns) == 3)  # fmt: skip


@pytest.mark.usefixtures("repeated")
def test_a_pair_shows_what_differs_in_its_configuration_and_nothing_else() -> None:
    rows = configuration_of(opened("compare", chart="One pair"))

    told = {row.setting: (row.iloc[1], row.iloc[2]) for _, row in rows.iterrows()}
    assert told["spec_method"] == ("none", "eagle3")
    assert told["num_speculative_tokens"] == ("not stated", "3")
    assert told["commands.vllm.for"] == ("none", "eagle3")
    assert "model" not in told


@pytest.mark.usefixtures("repeated")
def test_a_pair_whose_baseline_the_filter_hides_is_shown_whole() -> None:
    page = opened("compare", Filters(arm=("eagle3 K=3",)), chart="One pair")

    assert "spec_method" in set(configuration_of(page)["setting"])


@pytest.mark.usefixtures("repeated")
def test_single_requests_are_read_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    known = queries.requests
    monkeypatch.setattr(
        queries, "requests", lambda reader, cell, *rest: (asked.append(cell), known(reader, cell, *rest))[1]
    )  # fmt: skip

    page = opened("compare", chart="One pair")
    assert not asked
    assert not charts(page)
    page.toggle(key="requests").set_value(True).run()

    assert len(asked) == 2
    assert charts(page) == 5
    assert any("Median output over 20 prompts" in text.value for text in page.markdown)


@pytest.mark.usefixtures("repeated")
def test_a_former_link_to_single_requests_leads_to_them() -> None:
    assert charts(opened("compare", requests="true")) == 5


@pytest.mark.usefixtures("repeated")
def test_the_requests_of_a_pair_are_told_for_both_arms_and_counted() -> None:
    known = found()
    one = answers_pair.pairs(known, known.settings[0])[0]

    told = answers_pair.requests(open_shelf().reader, one)

    assert [arm for arm, _ in told.distributions[0].arms] == ["baseline", "eagle3 K=3"]
    assert [first.total for first in told.first_tokens] == [20, 20]
    assert [len(first.points) for first in told.first_tokens] == [20, 20]


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

    one = setting(also=(("ttft", "p50"),))
    drawing = over_load(
        one, LineView(("ttft", "p50"), (one.arms[0].name,), "baseline", False, "code")
    )

    spec = drawing.to_dict()
    axes = [layer["encoding"]["x"]["axis"] for layer in spec["layer"] if "x" in layer["encoding"]]
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


@pytest.fixture
def with_study(beside_study: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The published study, and one of its arms measured here at two loads."""
    yield from shelved(beside_study, monkeypatch)


@pytest.fixture(scope="module")
def beside_study(
    tmp_path_factory: pytest.TempPathFactory, fill_cells: Fill, make_facts: Callable[..., Facts]
) -> Path:
    """The warehouse of ``with_study``, which nobody may change."""
    root = tmp_path_factory.mktemp("study") / "warehouse"
    place = {
        "model": "openai/gpt-oss-120b", "dataset": "sharegpt", "gpu": "H200", "evidence": "gpu",
    }  # fmt: skip
    for method, k in (("none", None), ("eagle3", 3)):
        arm = {"spec_method": method, "num_speculative_tokens": k, "draft_model": None}
        known = [make_facts(**(place | arm), concurrency=load) for load in (1, 100)]
        fill_cells(root, method, known)
    assert run("ingest", str(STUDY), "--warehouse", str(root)).exit_code == 0
    return root


@pytest.mark.usefixtures("with_study")
def test_the_page_opens_on_the_subject_on_which_decide_opens() -> None:
    on_decide = opened("decide").selectbox(key="about")

    here = opened("compare").selectbox(key="subject")

    # Measured on a GPU, so it stands before the published study.
    assert here.value == on_decide.value == "openai/gpt-oss-120b on H200, vllm 0.25.1"
    assert here.options == on_decide.options == [here.value, PUBLISHED]


@pytest.mark.usefixtures("with_study")
def test_a_link_to_a_figure_that_names_no_subject_opens_the_published_study() -> None:
    page = opened("compare", figure="5: MLPerf, TP 1: all metrics")

    assert page.selectbox(key="subject").value == PUBLISHED
    assert page.segmented_control(key="figure").value == "5: MLPerf, TP 1: all metrics"


@pytest.mark.usefixtures("with_study")
def test_a_published_study_says_everywhere_that_it_is_one() -> None:
    page = opened("compare", subject=PUBLISHED)

    assert header(page) == (
        "Published: EAGLE-3 with 3 draft tokens, 9.5 to 20.7 % more output tokens per second on "
        "average over loads 1 to 200."
    )
    assert page.selectbox(key="subject").value == PUBLISHED
    assert len(page.segmented_control(key="figure").options) == 8
    words = " ".join(str(e.value) for e in (*page.header, *page.subheader, *page.caption))
    assert not any(word in words for word in ("likely", "pays", "open:", "Yes:", "serve with"))


@pytest.mark.usefixtures("with_study")
@pytest.mark.parametrize(("number", "count"), list(enumerate((2, 2, 2, 2, 6, 6, 2, 3))))
def test_each_of_the_eight_figures_is_one_click_away(number: int, count: int) -> None:
    page = opened("compare", subject=PUBLISHED)
    names = page.segmented_control(key="figure").options
    page.segmented_control(key="figure").set_value(names[number]).run()

    assert not page.exception
    assert charts(page) == count
    assert any(text.value.startswith(f"Figure {number + 1}\\: ") for text in page.subheader)
    assert "PNG" in [one.label for one in page.get("download_button")]
    assert any("figure=" in one.value for one in page.code)


@pytest.mark.usefixtures("with_study")
def test_the_printed_table_of_a_figure_stands_beside_what_its_rows_give_and_what_was_measured() -> (
    None
):
    table = opened("compare", subject=PUBLISHED).dataframe[0].value

    speed = table.iloc[0]
    assert (speed["baseline"], speed["eagle3 K=3"], speed["printed"]) == (
        "970.9", "1,171.7", "+20.7 %",
    )  # fmt: skip
    assert speed["measured here"].startswith("eagle3 K=3 +")
    other = opened("compare", figure="6: MLPerf, TP 2: all metrics").dataframe[0].value
    first = other[other["geometric mean over the loads"].str.startswith("Time to first")].iloc[0]
    assert (first["printed"], first["its row gives"].replace("\u202f", " "), first["check"]) == (
        "+9.3 %", "-9.2 %", "wrong sign",
    )  # fmt: skip
    assert set(other["measured here"]) == {"not measured"}


@pytest.mark.usefixtures("with_study")
def test_the_errors_in_print_are_four_with_their_consequences_under_them() -> None:
    page = opened("compare", subject=PUBLISHED)

    assert any("11 of 51 figures do not follow" in fold.label for fold in page.expander)
    errors = [text.value.replace("\\", "") for text in page.markdown if "printed" in text.value]
    first = (
        "**MLPerf, TP 2: Time to first token (TTFT), P95, printed +9.3 %, its row gives -9.2 %**"
    )
    assert any(text.startswith(first) for text in errors)
    assert sum(text.startswith("**") for text in errors) >= 4


@pytest.mark.usefixtures("with_study")
def test_a_filter_that_a_published_study_cannot_meet_hides_it() -> None:
    shelf = open_shelf()

    assert kept(shelf, Filters(model=("openai/gpt-oss-120b",)))
    assert not kept(shelf, Filters(model=("other",)))
    assert not kept(shelf, Filters(arm=("eagle3 K=3",)))
    assert BADGE not in opened("compare", Filters(gpu=("H200",))).selectbox(key="subject").value


# --- Kinds of prompts.


def test_the_page_tells_each_kind_of_prompt_and_whether_one_k_fits_all(
    empty_place: Path, tmp_path: Path
) -> None:
    few = MixedStudy("few", {"coding": 0.9, "writing": 0.3, "poetry": 0.5}, prompts={"poetry": 3})
    for study in (MixedStudy("apart", APART), few):
        write(study, tmp_path / study.name)
    run("ingest", str(tmp_path / "apart"), "--warehouse", str(empty_place))
    page = opened("compare", chart="Kinds of prompts")
    (said,) = [one.value for one in page.subheader if "One K" in one.value]
    assert "One K does not fit all at 8 at once" in said
    assert charts(page) == 1
    (known,) = ask(open_shelf(), by_kind, CompareQuestion()).settings
    matrix = kind_matrix(known.loads[0], "Kinds of prompts", "").to_dict()
    assert encoded(matrix) >= {"column", "place", "gain", "gain_short", "length"}
    shown = page.dataframe[0].value
    assert list(shown["kind of prompt"]) == ["coding", "coding", "writing", "writing"]
    assert any("none has a throughput of its own" in one.value for one in page.caption)

    run("ingest", str(tmp_path / "few"), "--warehouse", str(empty_place), "--rebuild")
    page = opened("compare", chart="Kinds of prompts")
    assert any("fewer than 8 requests in a launch" in one.value for one in page.caption)
    assert "unknown" in set(page.dataframe[0].value["ITL gain"])


def test_a_filter_to_an_arm_that_lacks_the_largest_load_shows_those_that_it_has(
    empty_place: Path, tmp_path: Path
) -> None:
    write(MixedStudy("fell", APART, loads=(8, 32)), tmp_path)
    for place in tmp_path.glob("*/k5-c32-*"):
        shutil.rmtree(place)
    run("ingest", str(tmp_path), "--warehouse", str(empty_place))
    page = opened("compare", Filters(arm=("draft_model K=5",)), chart="Kinds of prompts")
    assert any("at 8 at once" in one.value for one in page.subheader)


def test_the_page_says_what_to_do_where_no_kind_is_known(empty_place: Path, tmp_path: Path) -> None:
    write(MixedStudy("apart", APART, told=False), tmp_path)
    run("ingest", str(tmp_path / "apart"), "--warehouse", str(empty_place))
    page = opened("compare", chart="Kinds of prompts")
    assert any(
        "\\-\\-categories" in one.value or "--categories" in one.value for one in page.markdown
    )


def test_the_page_tells_each_turn_of_sessions(empty_place: Path, tmp_path: Path) -> None:
    write_sessions(Talked(), tmp_path)
    run("ingest", str(tmp_path), "--warehouse", str(empty_place))
    page = opened("compare", chart="Turns of sessions")
    (said,) = [one.value for one in page.subheader if "One K" in one.value]
    assert "One K fits all turns at 4 at once" in said
    assert charts(page) == 1
    (rows,) = [one.value for one in page.dataframe if "turn" in one.value]
    assert list(rows["turn"]) == ["turn 1", "turn 2", "turn 3"]
    told = [" ".join(one.value.replace("\\", "").split()) for one in page.caption]
    assert any("that the prefix cache held, over all turns: 50.0 %" in one for one in told)
