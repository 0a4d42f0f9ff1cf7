"""The Claims page: published figures judged as the command judges them, ours beside them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from commands.claims import claims
from dashboard.charts import claims as charts_claims
from dashboard.data import claims as data_claims
from dashboard.data.claims import MOST_MB, Table
from dashboard.shelf import open_shelf
from tests.dashboard.opening import opened
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


@pytest.mark.usefixtures("warehouse")
def test_the_page_and_the_command_flag_the_same_figures(warehouse: Path) -> None:
    words = [str(EXAMPLE), "--warehouse", str(warehouse), "--json"]
    told = json.loads(CliRunner().invoke(claims, words).output)

    page = opened("claims")

    assert page.header[0].value.startswith(f"{told['flagged']} of {told['checked']} published")
    flagged = [row for row in told["rows"] if row["flagged"]]
    assert list(page.dataframe[0].value["why"]) == [row["reason"] for row in flagged]
    assert page.get("vega_lite_chart")


@pytest.mark.usefixtures("warehouse")
def test_all_figures_are_shown_when_asked_for() -> None:
    page = opened("claims")
    before = len(page.dataframe[0].value)

    page.toggle(key="all_figures").set_value(True).run()

    assert not page.exception
    assert len(page.dataframe[0].value) > before
    assert "follows" in set(page.dataframe[0].value["flag"])


@pytest.mark.usefixtures("warehouse")
def test_our_own_measurements_stand_beside_a_claim_of_the_same_model() -> None:
    shelf = open_shelf()

    known = data_claims.claims_answer(shelf, Filters(), Table("ours.yaml", OURS), False)

    rows = known.measured.rows.to_pandas()
    assert set(rows["arm"]) == {"draft_model K=3", "eagle3 K=5"}
    assert set(rows["evidence"]) == {"CPU lab"}
    assert set(rows["95 % interval"]) == {"unknown: a single launch"}
    assert "[CPU lab]" in known.drawing["title"]["text"]  # type: ignore[index]
    assert known.headline == "1 of 2 published figures does not follow from their own row."


@pytest.mark.usefixtures("warehouse")
def test_an_uploaded_table_is_judged_instead() -> None:
    page = opened("claims")

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
        data_claims.uploaded_table("mine.yaml", sent)

    assert str(refused.value).startswith("mine.yaml is")


def test_a_table_that_does_not_come_along_is_refused() -> None:
    with pytest.raises(InvalidInput, match="published-study"):
        data_claims.shipped_table("../../pyproject.toml")


@pytest.mark.usefixtures("warehouse")
def test_filters_that_match_nothing_leave_the_figures_and_say_so() -> None:
    page = opened("claims", Filters(dataset=("none such",)))

    assert "Remove one in the sidebar" in page.info[0].value
    assert len(page.dataframe[0].value) == 11
    assert not page.get("vega_lite_chart")


@pytest.mark.usefixtures("warehouse")
def test_without_measurements_of_the_same_the_page_lists_what_there_is() -> None:
    page = opened("claims")

    assert any("Nothing here was measured" in caption.value for caption in page.caption)
    assert "lab/tiny-target" in set(page.dataframe[-1].value["model"])


def test_markup_in_a_claim_stays_text(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Facts]
) -> None:
    fill_cells(empty_place, "one", [make_facts()])
    page = opened("claims")
    hostile = OURS.replace("tables", "'<img src=x>'").replace("code", "'**bold** $x$'")

    page.file_uploader(key="claims_file").upload("mine.yaml", hostile.encode(), "text/yaml").run()

    said = [*page.header, *page.subheader, *page.markdown, *page.caption]
    assert not page.exception
    assert all("<img" not in e.value and "**bold**" not in e.value for e in said)
    assert page.dataframe[0].value["where"].str.contains("<img src=x>", regex=False).all()


@pytest.mark.usefixtures("warehouse")
def test_figures_are_told_in_words_and_not_in_the_keys_of_a_file() -> None:
    rows = opened("claims").dataframe[0].value

    assert not rows[["where", "metric"]].map(lambda text: "_" in text).to_numpy().any()
    assert "Inter-token latency (ITL), P95" in set(rows["metric"])
    assert "cost, USD per hour 5" in set(rows["where"])


def _fields(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {spec["field"]} if isinstance(spec.get("field"), str) else set()
        return own.union(*(_fields(v) for key, v in spec.items() if key != "datasets"))
    return set().union(*(_fields(v) for v in spec)) if isinstance(spec, list) else set()


def test_every_encoded_field_is_a_column() -> None:
    rows = pd.DataFrame(
        {
            "place": "000 itl", "label": ["itl", ""], "kind": ["published", "measured here"],
            "arm": ["baseline", "eagle3 K=3"], "value": [3.0, 4.0], "low": [3.0, 3.0],
            "high": [3.0, 5.0], "solid": [0, 1], "told": ["follows", ""],
        }
    )  # fmt: skip

    spec = charts_claims.claimed(rows, ("a", "b")).to_dict()

    assert _fields(spec) - {"zero"} <= set(rows.columns)
