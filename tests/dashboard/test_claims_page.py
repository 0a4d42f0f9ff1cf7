"""Published figures on Data: figures judged as the command judges them, ours beside them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from answers.published.answer import measured_here
from answers.published.values import here
from commands.claims import claims
from dashboard.charts import published as charts_claims
from dashboard.shelf import ask, open_shelf
from dashboard.views import printed as part
from dashboard.views.printed import MOST_MB
from tests.dashboard.opening import opened
from warehouse.beside import PublishedTable
from warehouse.contract import Facts
from warehouse.errors import InvalidInput
from warehouse.filters import Filters

EXAMPLE = Path(__file__).parents[2] / "examples" / "claims" / "published-study.yaml"
OURS = """
study: {target_model: lab/tiny-target}
tables:
  - {dataset: code, tp: 1, metric: output_tokens_per_second, baseline: 100, speculative: 120, published_pct: 20}
  - {dataset: code, tp: 1, metric: ttft_p95_s, baseline: 2.0, speculative: 3.0, published_pct: 50}
"""


def _opened(filters: Filters | None = None, **link: str) -> AppTest:
    return opened("data", filters, part="Published figures", **link)


@pytest.mark.usefixtures("warehouse")
def test_the_page_and_the_command_flag_the_same_figures(warehouse: Path) -> None:
    words = [str(EXAMPLE), "--warehouse", str(warehouse), "--json"]
    told = json.loads(CliRunner().invoke(claims, words).output)

    page = _opened()

    assert page.header[0].value.startswith(f"{told['flagged']} of {told['checked']} published")
    flagged = [row for row in told["rows"] if row["flagged"]]
    assert list(page.dataframe[0].value["why"]) == [row["reason"] for row in flagged]
    assert page.get("vega_lite_chart")


@pytest.mark.usefixtures("warehouse")
def test_all_figures_are_shown_when_asked_for() -> None:
    page = _opened()
    before = len(page.dataframe[0].value)

    page.toggle(key="all_figures").set_value(True).run()

    assert not page.exception
    assert len(page.dataframe[0].value) > before
    assert "follows" in set(page.dataframe[0].value["flag"])


@pytest.mark.usefixtures("warehouse")
def test_our_own_measurements_stand_beside_a_claim_of_the_same_model() -> None:
    tables, judged = part.judged_table(PublishedTable("ours.yaml", OURS))

    found = ask(open_shelf(), measured_here, judged, tables.model, Filters())

    rows = list(here(found))
    assert {row.arm for row in rows} == {"draft_model K=3", "eagle3 K=5"}
    assert {row.evidence for row in rows} == {"CPU lab"}
    assert {row.interval for row in rows} == {"unknown: a single launch"}
    title = charts_claims.claimed(found, "ours").to_dict()["title"]["text"]
    assert "[CPU lab]  [published]" in title


@pytest.mark.usefixtures("warehouse")
def test_nothing_is_read_of_models_that_no_figure_is_about() -> None:
    tables, judged = part.judged_table(PublishedTable("ours.yaml", OURS))
    shelf = open_shelf()

    other = ask(shelf, measured_here, judged, "another/model", Filters())
    hidden = ask(shelf, measured_here, judged, tables.model, Filters(model=("another/model",)))

    assert other == hidden == judged.findings


@pytest.mark.usefixtures("warehouse")
def test_an_uploaded_table_is_judged_instead() -> None:
    page = _opened()

    page.file_uploader(key="claims_file").upload("mine.yaml", OURS.encode(), "text/yaml").run()

    assert not page.exception
    assert page.header[0].value.startswith("1 of 2 published figures")


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"\xff\xfe\x00", "must be YAML or CSV in UTF-8"),
        (b" " * (MOST_MB * 1_000_000 + 1), "larger"),
    ],
)
def test_an_upload_that_is_no_table_is_refused_with_its_name(sent: bytes, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        part.uploaded_table("mine.yaml", sent)

    assert str(refused.value).startswith("mine.yaml is")


def test_a_table_that_does_not_come_along_is_refused() -> None:
    with pytest.raises(InvalidInput, match="published-study"):
        part.shipped_table("../../pyproject.toml")


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("filters", [Filters(), Filters(dataset=("none such",))])
def test_without_measurements_of_the_same_the_figures_stand_and_it_is_said(
    filters: Filters,
) -> None:
    page = _opened(filters, measured="true")

    assert any("Nothing here was measured" in caption.value for caption in page.caption)
    assert len(page.dataframe) == 1
    assert page.get("vega_lite_chart")


def test_markup_in_a_claim_stays_text(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Facts]
) -> None:
    fill_cells(empty_place, "one", [make_facts()])
    page = _opened()
    hostile = OURS.replace("tables", "'<img src=x>'").replace("code", "'**bold** $x$'")

    page.file_uploader(key="claims_file").upload("mine.yaml", hostile.encode(), "text/yaml").run()

    said = [*page.header, *page.subheader, *page.markdown, *page.caption]
    assert not page.exception
    assert all("<img" not in e.value and "**bold**" not in e.value for e in said)
    assert page.dataframe[0].value["where"].str.contains("<img src=x>", regex=False).all()


@pytest.mark.usefixtures("warehouse")
def test_figures_are_told_in_words_and_not_in_the_keys_of_a_file() -> None:
    rows = _opened().dataframe[0].value

    assert not rows[["where", "metric"]].map(lambda text: "_" in text).to_numpy().any()
    assert "Inter-token latency (ITL), P95" in set(rows["metric"])
    assert "cost, USD per hour 5" in set(rows["where"])


def _fields(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
        return own.union(*(_fields(v) for key, v in spec.items() if key != "datasets"))
    return set().union(*(_fields(v) for v in spec)) if isinstance(spec, list) else set()


def test_every_encoded_field_is_a_column() -> None:
    _, judged = part.judged_table(PublishedTable("ours.yaml", OURS))
    told = {"arm": "eagle3 K=3", "evidence": "gpu", "improvement": 4.0, "low": 3.0, "high": 5.0}
    findings = [replace(judged.findings[0], measured=(told,)), judged.findings[1]]

    spec = charts_claims.claimed(findings, "b").to_dict()

    rows = charts_claims.claim_rows(findings)
    assert _fields(spec) - {"even"} <= set(rows.columns)
    assert list(rows["kind"].unique()) == ["its own row gives", "published", "measured here"]
