"""The runs on Data: links to one cell, the server over time, the log, and how to run it again."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from answers.runs import read
from answers.runs import read as words
from answers.runs.read import CellRow, RunRow
from dashboard import filters as offered
from dashboard.shelf import ask, open_shelf
from dashboard.views.data.runs import server_drawings
from tests.dashboard.opening import opened
from warehouse.contract import Facts
from warehouse.filters import Filters
from warehouse.rows import Flag, Sample


@pytest.mark.usefixtures("warehouse")
def test_a_link_to_a_cell_opens_its_run_and_the_cell() -> None:
    cells = offered.cells(open_shelf(), Filters())
    asked = cells[(cells["dataset"] == "structured") & (cells["concurrency"] == 8)].iloc[1]

    page = opened("data", open=asked["cell_id"])

    assert page.selectbox(key="run").value == asked["run_id"]
    name = f"structured, {asked['arm_label']}, 8 at once"
    assert page.selectbox(key="cell").value == name


@pytest.mark.usefixtures("warehouse")
def test_a_link_to_a_cell_that_is_gone_or_filtered_out_says_so() -> None:
    assert "not here" in opened("data", open="0" * 20).warning[0].value

    cell_id = str(offered.cells(open_shelf(), Filters(dataset=("structured",)))["cell_id"].iloc[0])
    assert "leave out" in opened("data", Filters(dataset=("code",)), open=cell_id).warning[0].value


@pytest.mark.usefixtures("warehouse")
def test_a_cell_of_an_older_link_is_found_under_its_load() -> None:
    page = opened("data", Filters(dataset=("code",), arm=("baseline",)),
                  cell="code, baseline, concurrency 8")  # fmt: skip

    assert page.selectbox(key="cell").value == "code, baseline, 8 at once"


@pytest.mark.usefixtures("warehouse")
def test_the_title_says_how_much_was_measured_and_what_is_doubtful() -> None:
    page = opened("data")

    assert page.header[0].value.replace("\\", "") == (
        "31 cells measured in 7 runs [CPU lab]: short run in 1"
    )
    doubts = page.dataframe[0].value
    assert doubts.to_dict("records") == [
        {"doubt": "short run", "cells": 1, "what follows": "told beside every answer",
         "for example": "Only 20 requests were measured."},
    ]  # fmt: skip
    assert any("Rejected files: 1" in box.label for box in page.expander)


def test_a_failed_cell_is_counted_once_and_decides_nothing(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Facts]
) -> None:
    lost = Flag("failed", "error", "This run failed: Only 19 of 20 requests were completed.")
    busy = Flag("busy_machine", "warning", "Other processes kept the machine busy.")
    fill_cells(empty_place, "one", [make_facts()], flags=(busy, lost), status="failed")

    page = opened("data")

    assert page.header[0].value.endswith(": 1 cell failed, busy machine in 1")
    follows = page.dataframe[0].value.set_index("doubt")["what follows"]
    assert follows.to_dict() == {
        "failed": "decides nothing",
        "busy machine": "told beside every answer",
    }


def _samples() -> tuple[Sample, ...]:
    rates = {"num_requests_running": 0, "kv_cache_usage_perc": 0.0, "generation_tokens": 100,
             "spec_decode_num_drafts": 10, "spec_decode_num_draft_tokens": 30,
             "spec_decode_num_accepted_tokens": 18}  # fmt: skip
    return tuple(
        Sample(1e9 + second, name, float(rate * second + (not rate)))
        for name, rate in rates.items()
        for second in range(12)
    )


def test_the_server_is_drawn_over_time_with_the_evidence_in_each_title(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Facts]
) -> None:
    fill_cells(empty_place, "one", [make_facts()], samples=_samples())
    shelf = open_shelf()
    run = ask(shelf, read.runs, Filters()).runs[0]
    (cell,) = ask(shelf, read.one_run, Filters(), run, "").cells

    drawings = server_drawings(ask(shelf, read.server, cell.cell_id), cell)

    assert [drawing["title"]["text"] for drawing in drawings] == [
        "Requests in the server  [CPU lab]",
        "KV cache in use  [CPU lab]",
        "Output, tok/s  [CPU lab]",
        "Acceptance rate  [CPU lab]",
        "Acceptance length, tokens/step  [CPU lab]",
    ]
    closed, opened_ = opened("data"), opened("data", server_part="true")
    charts = [len(page.get("vega_lite_chart")) for page in (closed, opened_)]
    assert charts[1] - charts[0] == len(drawings)


def test_a_cell_without_samples_says_so(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Facts]
) -> None:
    fill_cells(empty_place, "one", [make_facts()], samples=())

    page = opened("data", server_part="true")

    assert any("No server metrics" in caption.value for caption in page.caption)


def test_unknown_everywhere_is_shown_as_unknown(
    empty_place: Path, fill_cells: Callable[..., None]
) -> None:
    fill_cells(empty_place, "bare", [Facts(**dict.fromkeys(Facts.model_fields))])

    page = opened("data")

    assert page.selectbox(key="cell").value == "unknown, unknown, unknown load"
    assert any("unknown" in code.value for code in page.code)


def _run(**changes: Any) -> RunRow:
    commands = {"vllm": ["vllm", "serve", "a model"], "guidellm": ["guidellm", "benchmark"]}
    values: dict[str, Any] = dict.fromkeys(RunRow.__dataclass_fields__) | {
        "commands": json.dumps(commands), "report_config": "{}", "gpu": "H200", "study": "spring",
        "load_generator": "guidellm", "load_generator_version": "0.8.1",
    }  # fmt: skip
    return RunRow(**(values | changes))


def _cell(dataset: str) -> CellRow:
    values: dict[str, Any] = dict.fromkeys(CellRow.__dataclass_fields__) | {
        "engine": "vllm", "engine_version": "0.32.0", "model": "a model", "gpu": "H200",
        "dataset": dataset, "spec_method": "eagle3", "num_speculative_tokens": 3,
    }  # fmt: skip
    return CellRow(**values)


CELLS = [_cell("code"), _cell("chat")]


def test_the_instructions_state_software_commands_and_facts() -> None:
    said = words.again(_run(), CELLS)

    assert "vllm 0.32.0, guidellm 0.8.1" in said
    assert "vllm serve 'a model' &" in said
    assert said.index("vllm serve") < said.index("guidellm benchmark") < said.index("ingest")
    assert "--set 'model=a model'" in said
    assert "dataset=" not in said
    assert "draftboard run STUDY.yaml" in said
    assert "Model revision: unknown" in said


@pytest.mark.parametrize(
    ("engine", "more", "port"),
    [
        ("vllm", ["--port", "37663"], 37663), ("vllm", ["--port=37663"], 37663),
        ("vllm", [], 8000), ("llama.cpp", [], 8080), ("sglang", [], 30000),
    ],
)  # fmt: skip
def test_the_instructions_wait_where_the_server_listens(
    engine: str, more: list[str], port: int
) -> None:
    commands = json.dumps({engine: ["serve", *more], "guidellm": ["guidellm"]})
    said = words.again(_run(commands=commands), [replace(_cell("code"), engine=engine)])

    assert f"serve {' '.join(more)}".rstrip() + " &" in said
    assert f"http://localhost:{port}/health" in said


def test_a_name_with_a_line_break_cannot_leave_its_comment() -> None:
    said = words.again(_run(gpu="H200\nrm -rf /", study="x\nrm -rf /"), CELLS)

    assert not [line for line in said.splitlines() if line.startswith("rm")]


def test_without_commands_the_instructions_say_what_is_missing() -> None:
    said = words.again(_run(commands="{}", study=None), CELLS)

    assert said.count("The record does not state") == 2
    assert "STUDY.yaml" not in said


def test_a_log_excerpt_and_how_it_went_are_read_where_the_record_kept_them() -> None:
    record = {"log_excerpt": ["one", "two"], "attempt": 2, "failure_cause": "out_of_memory",
              "timeline": {"server_start": 41.04}}  # fmt: skip
    run = _run(report_config=json.dumps({"record": record}))

    assert words.log_excerpt(run) == ("one", "two")
    assert words.how_it_went(run) == ("attempt 2, failed: out of memory, server start 41.0 s")
    assert words.log_excerpt(_run()) == ()
    assert words.how_it_went(_run()) == ""
