"""Files of what a page shows: complete, unrounded, and rendered without a network."""

import io
import json

import altair as alt
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dashboard import downloads
from dashboard.charts import Drawing, specification

ROWS = pd.DataFrame(
    {
        "panel": "code", "series": ["baseline", "eagle3 K=3"], "x": [1, 16], "y": [0.1 + 0.2, 2.0],
        "low": 0.1, "high": 2.0, "cells": 2, "solid": 1, "evidence": "cpu",
    }
)  # fmt: skip


@pytest.fixture
def drawing() -> Drawing:
    return specification(alt.Chart(ROWS, title="Throughput").mark_point().encode(x="x:Q", y="y:Q"))


def test_csv_is_unrounded_and_keeps_every_row() -> None:
    read = pd.read_csv(io.BytesIO(downloads.csv_bytes(ROWS)))

    assert read["y"].tolist() == ROWS["y"].tolist()
    assert len(read) == len(ROWS)


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@sum", "\tx", " =1+1", "\u00a0=1", ";=1", " ; @x", "\uff1d1+1", "\uff20x", "\ufe62x",
             "\u200b=1", "\ufeff=1", "\n=1"],
)  # fmt: skip
def test_a_text_that_a_spreadsheet_would_run_stays_text(text: str) -> None:
    said = downloads.csv_bytes(pd.DataFrame({"model": [text], "value": [-1.5]})).decode()

    assert f"'{text}" in said
    assert said.rstrip().endswith(",-1.5")


@pytest.mark.parametrize("text", ["a = 1", "K=3", "c16-r0", "32 at once; -5 %", "", "; and more"])
def test_a_text_that_a_spreadsheet_shows_stays_as_it_is(text: str) -> None:
    assert text in downloads.csv_bytes(pd.DataFrame({"a": [text]})).decode()
    assert "'" not in downloads.csv_bytes(pd.DataFrame({"a": [text]})).decode()


def test_parquet_holds_the_same_rows() -> None:
    read = pq.read_table(io.BytesIO(downloads.parquet_bytes(ROWS))).to_pandas()

    assert read.equals(pd.read_csv(io.BytesIO(downloads.csv_bytes(ROWS))).astype(read.dtypes))


def test_the_vega_lite_file_stands_alone(drawing: Drawing) -> None:
    spec = json.loads(downloads.vega_lite_bytes(drawing))

    assert spec["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
    rows = next(iter(spec["datasets"].values()))
    assert [row["y"] for row in rows] == ROWS["y"].tolist()
    assert drawing["datasets"] != spec["datasets"]


def test_png_and_svg_are_pictures_of_the_chart(drawing: Drawing) -> None:
    svg = downloads.svg_bytes(drawing).decode()

    assert downloads.png_bytes(drawing).startswith(b"\x89PNG")
    assert svg.startswith("<svg")
    assert "Throughput" in svg
