"""Files in a real browser: what is downloaded, and the report on paper."""

import io
import json
import re
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browser.seen import (
    DRAWN_MS,
    LAB,
    PUBLISHED,
    fresh,
    serious,
    settle,
    spaced,
    take,
    title,
    visit,
)

pytestmark = pytest.mark.browser
MOST_PAGES, MOST_BYTES = 4, 5_000_000


def _downloaded(page: Page, button: str) -> bytes:
    with page.expect_download() as started:
        page.get_by_role("button", name=button, exact=True).first.click()
    return Path(started.value.path()).read_bytes()


def test_the_rows_of_a_chart_are_the_same_as_csv_and_as_parquet(page: Page, address: str) -> None:
    visit(page, f"{address}/data?part=Charts&dataset=code")

    text = pd.read_csv(io.BytesIO(_downloaded(page, "Rows as CSV")))
    rows = pq.read_table(io.BytesIO(_downloaded(page, "Rows as Parquet"))).to_pandas()

    assert len(text) == len(rows) > 0
    assert list(text) == list(rows)
    assert text["cell_id"].tolist() == rows["cell_id"].tolist()


def test_a_figure_of_the_study_is_one_picture(page: Page, address: str) -> None:
    visit(page, f"{address}/compare?subject={PUBLISHED}")

    assert _downloaded(page, "PNG").startswith(b"\x89PNG")
    spec = json.loads(_downloaded(page, "Vega-Lite"))
    assert len(spec["concat"]) == 2


@pytest.mark.parametrize("path", [f"/{LAB}", "/cost", "/predict"])
def test_a_chart_is_downloaded_as_png_svg_and_vega_lite(
    page: Page, address: str, path: str
) -> None:
    visit(page, address + path)

    assert _chart_as(page, "PNG").startswith(b"\x89PNG")
    assert _chart_as(page, "SVG").startswith(b"<svg")
    spec = json.loads(_chart_as(page, "Vega-Lite"))
    assert all(spec["datasets"].values())


def _chart_as(page: Page, kind: str) -> bytes:
    menu = page.get_by_role("button", name="Charts as files").first
    with page.expect_download(timeout=DRAWN_MS) as started:
        take(menu, page.get_by_role("button", name=kind, exact=True).first)
    menu.press("Escape")
    return Path(started.value.path()).read_bytes()


def test_the_report_stands_alone_in_a_browser_and_prints_on_few_pages(
    page: Page, browser: Browser, address: str, tmp_path: Path
) -> None:
    visit(page, f"{address}/?dataset=structured")
    verdict = spaced(title(page))
    file = tmp_path / "report.html"
    with page.expect_download() as started:
        page.get_by_role("button", name="Report to send on", exact=True).click()
    started.value.save_as(file)
    asked: list[str] = []

    with fresh(browser, offline=True) as reader:
        reader.on("request", lambda request: asked.append(request.url))
        reader.goto(file.as_uri())
        expect(reader.locator(".chart svg").first).to_be_visible()
        assert verdict in spaced(reader.locator("body").inner_text())
        assert serious(reader) == []
        paper = reader.pdf(prefer_css_page_size=True)

    assert asked == [file.as_uri()]
    assert file.stat().st_size <= MOST_BYTES
    assert len(paper) <= MOST_BYTES
    assert len(re.findall(rb"/Type\s*/Page[^s]", paper)) <= MOST_PAGES


def test_what_is_shown_and_what_is_downloaded_are_the_same_cells(page: Page, address: str) -> None:
    visit(page, f"{address}/compare?dataset=code")
    page.get_by_text("Every arm and load, with interval and word").click()
    settle(page)

    rows = pd.read_csv(io.BytesIO(_downloaded(page, "Rows as CSV")))

    assert len(rows)
    assert rows["setting"].str.contains("code").all()
    assert not rows["setting"].str.contains("chat").any()
    assert rows["improvement"].notna().all()
