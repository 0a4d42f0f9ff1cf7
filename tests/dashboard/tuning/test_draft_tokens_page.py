"""The Draft tokens page: the K of each load, its reasons, and what nobody knows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from analysis.drafts.best_k import Goal
from dashboard import data
from dashboard.answers import draft_drawings
from dashboard.answers import draft_tokens as words
from dashboard.answers.draft_tokens import Setting
from dashboard.cells import LINK
from dashboard.charts.drafts import SQUARE
from dashboard.data import draft_tokens as drafts
from dashboard.data import families as data_families
from dashboard.data.draft_tokens import Question
from dashboard.downloads import vega_lite
from dashboard.links import cell_link
from dashboard.shelf import open_shelf
from draftboard import cli
from tests.dashboard.opening import opened, refused
from warehouse.filters import Filters
from warehouse.rows import Rejection
from warehouse.store import open_writer

Study = Callable[..., None]


def said(page: AppTest) -> str:
    texts = [*page.header, *page.markdown, *page.caption, *page.info]
    return "\n".join(text.value for text in texts).replace("\\", "")


def settings(goal: Goal | None = None) -> dict[str, Setting]:
    shelf, filters = open_shelf(), Filters()
    (family,) = data_families.names(shelf, filters).values()
    return drafts.settings(shelf, Question(filters, family, goal or Goal(), 0.02))


def told(root: Path, *arguments: str) -> Any:
    result = CliRunner().invoke(cli, ["tune", "--warehouse", str(root), *arguments, "--json"])
    assert result.exception is None, result.output
    return json.loads(result.stdout)


def test_the_page_gives_the_line_that_the_command_gives(tuned_warehouse: Path) -> None:
    (expected,) = told(tuned_warehouse, "--dataset", "chat")["tables"]

    page = opened("draft-tokens", draft_dataset="chat")

    assert [code.value for code in page.code] == [
        "num_speculative_tokens_per_batch_size: "
        f"{json.dumps(expected['num_speculative_tokens_per_batch_size'])}",
        expected["serve"],
    ]
    assert all(note in said(page) for note in expected["notes"])


@pytest.mark.usefixtures("tuned_warehouse")
def test_the_title_says_what_to_draft_at_which_load() -> None:
    entries = settings()["chat"].advice.table
    assert entries is not None
    ends = [end for _, end, _ in entries.entries]

    page = opened("draft-tokens", draft_dataset="chat")

    assert page.header[0].value == (
        f"On chat, draft 3 tokens in batches up to {ends[0]}, 2 tokens up to {ends[1]}, "
        f"1 token up to {ends[2]}, then nothing."
    )
    assert any("simulated" in text.value for text in page.markdown)


def test_every_gain_is_that_of_the_command(tuned_warehouse: Path) -> None:
    (expected,) = told(tuned_warehouse, "--dataset", "chat")["tables"]
    rows = settings()["chat"].cells

    taken = rows[rows["taken"]].set_index("concurrency")
    for choice in expected["choices"]:
        row = taken.loc[choice["concurrency"]]
        assert row["k"] == choice["k"]
        assert row["value"] == pytest.approx(choice["values"][str(choice["k"])])
        gain = {"improvement": 0, "low": 0} if choice["gain"] is None else choice["gain"]
        assert row["gain"] == pytest.approx(gain["improvement"])
        assert row["gain_low"] == pytest.approx(gain["low"])
    assert len(rows) == 25
    assert (rows["low"] <= rows["value"]).all()
    assert (rows["value"] <= rows["high"]).all()
    assert set(rows["repeats"]) == {3}


@pytest.mark.usefixtures("tuned_warehouse")
def test_an_slo_that_no_k_meets_leaves_nothing_to_serve_with() -> None:
    page = opened("draft-tokens", draft_slo="ttft:p95<1ms")

    assert "no number of draft tokens meets the SLO" in page.header[0].value
    assert not page.code
    assert "no K meets the SLO" in str(drawn_titles(page))


@pytest.mark.usefixtures("tuned_warehouse")
def test_an_slo_that_cannot_be_read_is_one_sentence() -> None:
    assert "there is no metric 'speed'" in refused("draft-tokens", draft_slo="speed<3")


@pytest.mark.usefixtures("tuned_warehouse")
def test_a_link_reproduces_the_controls() -> None:
    page = opened("draft-tokens", 
        goal="Inter-token latency (ITL)", goal_statistic="P95", draft_dataset="chat",
        draft_measure="Mean acceptance length", draft_acceptance="over concurrency",
    )  # fmt: skip

    assert page.selectbox(key="draft_dataset").value == "chat"
    assert "inter-token latency (itl)" in said(page)
    titles = str(drawn_titles(page))
    assert "Inter-token latency (ITL) P95 (ms), chat" in titles
    assert "Mean acceptance length, chat" in titles

    page = opened("draft-tokens", draft_position="of drafts that got so far")
    assert "of drafts that got so far" in str(drawn_titles(page))


@pytest.mark.usefixtures("tuned_warehouse")
def test_a_choice_of_arms_keeps_the_baseline() -> None:
    page = opened("draft-tokens", Filters(arm=("draft_model K=2",)))

    assert "Improvement of output throughput over the baseline" in said(page)


@pytest.mark.usefixtures("tuned_warehouse")
def test_filters_that_match_nothing_are_named() -> None:
    page = opened("draft-tokens", Filters(dataset=("no such dataset",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert not page.get("vega_lite_chart")


def test_an_empty_warehouse_says_how_to_fill_it(empty_place: Path) -> None:
    with open_writer(empty_place) as writer:
        writer.reject(Rejection("results/broken.json", "Not a result."))
        writer.commit()

    assert "draftboard ingest" in opened("draft-tokens").info[0].value


def test_results_without_a_draft_are_said(empty_place: Path, add_study: Study) -> None:
    add_study(empty_place, ks=(0,))

    page = opened("draft-tokens")

    assert "No speculative cell" in page.info[0].value
    assert not page.get("vega_lite_chart")


def test_an_unknown_k_makes_no_arm(empty_place: Path, add_study: Study) -> None:
    add_study(empty_place, ks=(0, 2), spec_method="eagle3", num_speculative_tokens=None)

    assert "No speculative cell with a known K" in opened("draft-tokens").info[0].value


def test_without_a_baseline_the_gain_is_unknown(empty_place: Path, add_study: Study) -> None:
    add_study(empty_place, ks=(1, 2))

    page = opened("draft-tokens")

    assert "Gain over the baseline: unknown" in said(page)
    assert "gain unknown, no baseline  [simulated]" in str(drawn_titles(page))


@pytest.mark.usefixtures("tuned_warehouse")
def test_acceptance_by_position_that_is_unknown_is_said() -> None:
    (setting, _) = settings().values()
    without = Setting(
        setting.name,
        type(setting.advice)(**vars(setting.advice)
                             | {"positions": setting.advice.positions.iloc[:0],
                                "acceptance": setting.advice.acceptance.iloc[:0]}),
        setting.cells,
    )  # fmt: skip

    drawings = [*draft_drawings.position_drawings({"code": without}, False),
                *draft_drawings.acceptance_drawings({"code": without}, "k", "acceptance_rate")]  # fmt: skip

    titles = [drawing["title"]["text"] for drawing in drawings]
    assert all(title.endswith("unknown  [simulated]") for title in titles), titles


def test_a_metric_that_was_not_measured_is_unknown(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    arm = {"spec_method": "eagle3", "num_speculative_tokens": 3}
    fill_cells(empty_place, "bare", [make_facts(**arm)], measurements=(), acceptance=())

    page = opened("draft-tokens")

    assert "Output throughput is unknown for this arm" in page.info[0].value


def test_a_single_repeat_settles_nothing(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    for k in (None, 3):
        arm = {"spec_method": "eagle3" if k else "none", "num_speculative_tokens": k}
        fill_cells(empty_place, f"arm {k}", [make_facts(concurrency=c, **arm) for c in (1, 2)])

    (setting,) = settings().values()

    assert setting.cells.set_index("k")["unsettled"].to_dict() == {0: False, 3: True}
    assert "nobody knows the noise" in words.evidence(setting)


def test_systems_with_one_name_are_told_apart(empty_place: Path, add_study: Study) -> None:
    for version in ("0.31.0", "0.32.0"):
        add_study(empty_place, ks=(0, 1), engine_version=version)

    names = list(data_families.names(open_shelf(), Filters()))

    assert [name.split(", ")[-1] for name in names] == [
        "engine_version 0.31.0", "engine_version 0.32.0"
    ]  # fmt: skip


def test_names_with_markup_stay_text(empty_place: Path, add_study: Study) -> None:
    name = "<img src=x onerror=alert(1)> **b**"
    add_study(empty_place, ks=(0, 1), model=name, dataset=name)

    page = opened("draft-tokens")

    raw = [*page.header, *page.subheader, *page.markdown, *page.caption, *page.info]
    assert all(name not in text.value for text in raw)
    assert name in page.header[0].value.replace("\\", "")


def drawn_titles(page: AppTest) -> list[Any]:
    return [json.loads(chart.proto.spec).get("title") for chart in page.get("vega_lite_chart")]


def _fields(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
        return own.union(*(_fields(v) for key, v in spec.items() if key != "datasets"))
    if isinstance(spec, list):
        return set().union(*(_fields(v) for v in spec))
    return set()


@pytest.mark.usefixtures("tuned_warehouse")
def test_every_encoded_field_is_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_drawings, "drawn", lambda chart: chart.to_dict())
    known = settings()
    drawings = [
        *draft_drawings.gain_drawings(known),
        *draft_drawings.value_drawings(known["code"]),
        *draft_drawings.position_drawings(known, True),
        *draft_drawings.acceptance_drawings(known, "k", "acceptance_rate"),
        *draft_drawings.acceptance_drawings(known, "concurrency", "mean_acceptance_length"),
    ]
    for spec in drawings:
        columns = {column for rows in spec["datasets"].values() for row in rows for column in row}
        assert _fields(spec) <= columns
        assert "[simulated]" in f"{spec['title']['text']} {spec['title'].get('subtitle')}"


@pytest.mark.usefixtures("tuned_warehouse")
def test_the_heat_map_has_the_largest_k_on_top_and_loads_ascending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(draft_drawings, "drawn", lambda chart: chart.to_dict())
    first = draft_drawings.gain_drawings(settings())[0]

    encoding = first["layer"][0]["encoding"]
    assert encoding["x"]["sort"] == ["1", "4", "16", "64", "128"]
    assert encoding["y"]["sort"] == ["K = 4", "K = 3", "K = 2", "K = 1", "no drafts"]
    rows = pd.DataFrame(first["datasets"][first["data"]["name"]])
    assert rows.groupby("load")["taken"].sum().eq(1).all()


@pytest.mark.usefixtures("tuned_warehouse")
def test_the_file_holds_every_load_and_k_unrounded() -> None:
    known = settings()

    rows = words.rows(known)

    assert len(rows) == 2 * 25
    assert set(rows["badge"]) == {"[simulated]"}
    row = rows[(rows["dataset"] == "chat") & (rows["k"] == 4) & (rows["concurrency"] == 64)].iloc[0]
    (choice,) = [c for c in known["chat"].advice.best.choices if c.concurrency == 64]
    assert row["value"] == choice.values[4]
    assert row["acceptance_rate"] == pytest.approx(sum(0.62**i for i in range(1, 5)) / 4, abs=1e-3)
    assert rows.loc[rows["k"] == 0, "acceptance_rate"].isna().all()


@pytest.mark.usefixtures("tuned_warehouse")
@pytest.mark.parametrize(("square", "method"), [("K = 4", "draft_model"), ("no drafts", "none")])
def test_every_square_of_the_heat_map_leads_to_its_cells(square: str, method: str) -> None:
    page = opened("draft-tokens", square=f"code: {square} at concurrency 64")

    (found,) = [frame.value for frame in page.dataframe if LINK in frame.value]
    cells = data.cells(open_shelf(), Filters(dataset=("code",)))
    here = cells[(cells["concurrency"] == 64) & (cells["spec_method"] == method)]
    if method != "none":
        here = here[here["num_speculative_tokens"] == 4]
    assert len(here) == 3
    assert set(found[LINK]) == {cell_link(cell_id) for cell_id in here["cell_id"]}


@pytest.mark.usefixtures("tuned_warehouse")
def test_the_marks_of_a_heat_map_name_the_squares_that_can_be_chosen() -> None:
    known = settings()

    drawn = set()
    for drawing in draft_drawings.gain_drawings(known):
        assert [one["select"]["fields"] for one in drawing["params"]] == [[SQUARE]]
        (rows,) = vega_lite(drawing)["datasets"].values()
        drawn |= {row[SQUARE] for row in rows}
    assert drawn == set(words.squares(known))
