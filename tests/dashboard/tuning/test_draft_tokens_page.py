"""The Draft tokens page: the K of each load, its reasons, and what nobody knows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from answers.decide.accepted import Accepted, accepted_in
from answers.decide.tables import table_notes
from answers.decide.values import Decision, Question
from dashboard import data
from dashboard.answers import decide as drawn_decide
from dashboard.cells import LINK
from dashboard.charts.drafts import SQUARE
from dashboard.data import decide as data_decide
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
    texts = [*page.header, *page.subheader, *page.markdown, *page.caption, *page.info]
    return "\n".join(text.value for text in texts).replace("\\", "")


def decisions() -> dict[str, Decision]:
    """Dataset -> its decision."""
    found = data_decide.found(open_shelf(), Question()).decisions
    return {str(one.traffic.dataset): one for one in found if not one.traffic.mix}


def drafts(one: Decision) -> tuple[Accepted, ...]:
    return accepted_in(one, data_decide.drafts(open_shelf(), Filters()))


def told(root: Path, *arguments: str) -> Any:
    result = CliRunner().invoke(cli, ["tune", "--warehouse", str(root), *arguments, "--json"])
    assert result.exception is None, result.output
    return json.loads(result.stdout)


def test_the_page_gives_the_lines_that_the_command_gives(tuned_warehouse: Path) -> None:
    (expected,) = told(tuned_warehouse, "--dataset", "chat")["decisions"]

    page = opened("draft-tokens", traffic="chat")

    assert [code.value for code in page.code] == [
        "num_speculative_tokens_per_batch_size: "
        f"{json.dumps(expected['num_speculative_tokens_per_batch_size'])}",
        f"--speculative-config '{expected['speculative_config']}'",
        expected["serve"],
    ]
    assert page.header[0].value.replace("\\", "") == expected["headline"]
    assert all(note in said(page) for note in table_notes(decisions()["chat"]))


@pytest.mark.usefixtures("tuned_warehouse")
def test_the_title_says_what_to_draft_at_which_load() -> None:
    entries = decisions()["chat"].table
    assert entries is not None
    ends = [end for _, end, _ in entries]

    page = opened("draft-tokens", traffic="chat")

    ks = [k for _, _, k in entries]
    assert ks == sorted(ks, reverse=True)
    assert f"{ks[0]} draft tokens in batches up to {ends[0]}" in page.header[0].value
    assert "[simulated]" in str(page.selectbox(key="about").options)


@pytest.mark.usefixtures("tuned_warehouse")
def test_an_slo_that_no_arm_meets_leaves_nothing_to_serve_with() -> None:
    page = opened("draft-tokens", draft_slo="ttft:p95<1ms")

    assert "No arm meets the SLO" in page.info[0].value
    assert not page.code


@pytest.mark.usefixtures("tuned_warehouse")
def test_an_slo_that_cannot_be_read_is_one_sentence() -> None:
    assert "there is no metric 'speed'" in refused("draft-tokens", draft_slo="speed<3")


@pytest.mark.usefixtures("tuned_warehouse")
def test_a_link_reproduces_the_controls() -> None:
    page = opened("draft-tokens",
        objective="Latency", traffic="chat", at_load="16",
    )  # fmt: skip

    assert page.selectbox(key="traffic").value == "chat"
    assert "Request latency" in str(page.dataframe[0].value["in"].tolist())


@pytest.mark.usefixtures("tuned_warehouse")
def test_a_choice_of_arms_keeps_the_baseline() -> None:
    page = opened("draft-tokens", Filters(arm=("draft_model K=2",)), traffic="code")

    assert set(page.dataframe[0].value["K"]) <= {"2", "no drafts"}


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


@pytest.mark.parametrize("ks", [(0,), (1, 2)], ids=["no arm", "no baseline"])
def test_results_without_a_partner_are_said(
    empty_place: Path, add_study: Study, ks: tuple[int, ...]
) -> None:
    add_study(empty_place, ks=ks)

    page = opened("draft-tokens")

    assert "No pair of cells" in page.info[0].value
    assert not page.get("vega_lite_chart")


def test_a_metric_that_was_not_measured_decides_nothing(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    for k in (None, 3):
        arm = {"spec_method": "eagle3" if k else "none", "num_speculative_tokens": k}
        facts = [make_facts(**arm)]
        fill_cells(empty_place, f"bare {k}", facts, measurements=(), acceptance=())

    assert "no metric in common" in said(opened("draft-tokens"))


def test_a_single_repeat_settles_nothing(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Any]
) -> None:
    for k in (None, 3):
        arm = {"spec_method": "eagle3" if k else "none", "num_speculative_tokens": k}
        fill_cells(empty_place, f"arm {k}", [make_facts(concurrency=c, **arm) for c in (1, 2)])

    (one,) = decisions().values()

    assert {cell.difference.word for cell in one.arms} == {"open"}
    assert one.at_stake is None
    assert "At stake in the choice: unknown" in said(opened("draft-tokens"))


def test_names_with_markup_stay_text(empty_place: Path, add_study: Study) -> None:
    name = "<img src=x onerror=alert(1)> **b**"
    add_study(empty_place, ks=(0, 1), model=name, dataset=name)

    for page in (opened("draft-tokens"), opened("verdict")):
        raw = [*page.header, *page.subheader, *page.markdown, *page.caption, *page.info]
        assert all(name not in text.value for text in raw)


def _fields(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
        return own.union(*(_fields(v) for key, v in spec.items() if key != "datasets"))
    if isinstance(spec, list):
        return set().union(*(_fields(v) for v in spec))
    return set()


@pytest.mark.usefixtures("tuned_warehouse")
def test_every_encoded_field_is_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn_decide, "drawn", lambda chart: chart.to_dict())
    one = decisions()["code"]
    for spec in (drawn_decide.heat_map(one),):
        columns = {column for rows in spec["datasets"].values() for row in rows for column in row}
        assert _fields(spec) <= columns
        assert "[simulated]" in f"{spec['title']['text']} {spec['title'].get('subtitle')}"


@pytest.mark.usefixtures("tuned_warehouse")
def test_the_heat_map_has_the_largest_k_on_top_and_one_outline_a_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drawn_decide, "drawn", lambda chart: chart.to_dict())
    one = decisions()["chat"]
    found = drawn_decide.heat_map(one)

    encoding = found["layer"][0]["encoding"]
    assert encoding["x"]["sort"] == ["1", "4", "16", "64", "128"]
    arms = [f"draft_model K={k}" for k in (4, 3, 2, 1)]
    assert encoding["y"]["sort"] == [*arms, "no drafts"]
    rows = pd.DataFrame(found["datasets"][found["data"]["name"]])
    assert rows.groupby("load")["taken"].sum().eq(1).all()
    by_load = rows[rows["taken"]].set_index("load")["draft"].to_dict()
    assert by_load == {
        level.load.short: level.arm if level.num_speculative_tokens else "no drafts"
        for level in one.levels
    }


@pytest.mark.usefixtures("tuned_warehouse")
def test_the_file_holds_every_load_and_arm_unrounded() -> None:
    one = decisions()["chat"]

    rows = drawn_decide.rows([one])

    assert len(rows) == 20
    assert set(rows["evidence"]) == {"simulated"}
    (row,) = rows[(rows["arm"] == "draft_model K=4") & (rows["load"] == "64 at once")].to_dict(
        "records"
    )
    (cell,) = [c for c in one.arms if (c.arm, c.load.value) == ("draft_model K=4", 64)]
    assert row["expected"] == cell.difference.improvement
    assert row["word"] == cell.difference.word


@pytest.mark.usefixtures("tuned_warehouse")
def test_acceptance_is_that_of_the_counters() -> None:
    (four,) = [x for x in drafts(decisions()["chat"]) if (x.k, x.concurrency) == (4, 64)]

    assert four.rate == pytest.approx(sum(0.62**i for i in range(1, 5)) / 4, abs=1e-3)
    assert four.of_all == pytest.approx([0.62**i for i in range(1, 5)])
    assert four.of_those == pytest.approx([0.62] * 4)


@pytest.mark.usefixtures("tuned_warehouse")
@pytest.mark.parametrize(
    ("square", "method"), [("draft_model K=4", "draft_model"), ("no drafts", "none")]
)
def test_every_square_of_the_heat_map_leads_to_its_cells(square: str, method: str) -> None:
    page = opened("draft-tokens", traffic="code", square=f"{square} at 64 at once")

    (found,) = [frame.value for frame in page.dataframe if LINK in frame.value]
    cells = data.cells(open_shelf(), Filters(dataset=("code",)))
    here = cells[(cells["concurrency"] == 64) & (cells["spec_method"] == method)]
    if method != "none":
        here = here[here["num_speculative_tokens"] == 4]
    assert len(here) == 3
    assert set(found[LINK]) == {cell_link(cell_id) for cell_id in here["cell_id"]}


@pytest.mark.usefixtures("tuned_warehouse")
def test_the_marks_of_a_heat_map_name_the_squares_that_can_be_chosen() -> None:
    one = decisions()["chat"]

    drawing = drawn_decide.heat_map(one)

    assert [param["select"]["fields"] for param in drawing["params"]] == [[SQUARE]]
    (rows,) = vega_lite(drawing)["datasets"].values()
    assert {row[SQUARE] for row in rows} == set(drawn_decide.squares(one))
