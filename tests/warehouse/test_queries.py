"""Every query, on whole rows."""

from datetime import UTC, datetime

import pytest

from warehouse import queries
from warehouse.errors import UnknownKey
from warehouse.filters import FILTER_FIELDS, Filters
from warehouse.store import Reader, open_writer


@pytest.fixture
def reader(filled):
    with Reader(filled) as opened:
        yield opened


@pytest.fixture
def first_spec(reader):
    return queries.cells(reader, Filters(arm=("eagle3 K=3",))).column("cell_id")[0].as_py()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "tiny"), ("gpu", "H200"), ("engine_version", "0.24.0"),
        ("dataset", "HumanEval"), ("tensor_parallel_size", "1"), ("study", "fixture"),
    ],
)  # fmt: skip
def test_each_filter_keeps_its_value_and_nothing_else(reader, field, value):
    assert queries.cells(reader, Filters(**{field: (value,)})).num_rows == 6
    assert queries.cells(reader, Filters(**{field: ("unknown",)})).num_rows == 0


def test_a_value_nobody_stated_is_found_as_unknown(warehouse_path, make_source, make_cell):
    source = make_source()
    nothing = dict.fromkeys(
        ("study", "model", "gpu", "engine_version", "dataset", "tensor_parallel_size")
    )
    with open_writer(warehouse_path) as writer:
        writer.add(source, [make_cell(source, facts={**nothing, "spec_method": None})])
        writer.commit()
    with Reader(warehouse_path) as opened:
        for field in FILTER_FIELDS:
            assert queries.cells(opened, Filters(**{field: ("unknown",)})).num_rows == 1


def test_sql_in_a_filter_is_only_text(reader):
    assert queries.cells(reader, Filters(model=("'; drop table cells; --",))).num_rows == 0


def test_canonical_wins_over_reported(reader, first_spec):
    found = queries.measurements(
        reader, Filters(arm=("eagle3 K=3",)), ["output_throughput", "ttft"], ["mean", "p99"]
    ).to_pylist()
    assert [row for row in found if row["cell_id"] == first_spec] == [
        {"cell_id": first_spec, "origin": "canonical", "metric": "output_throughput",
         "statistic": "mean", "value": 1500.0},
        {"cell_id": first_spec, "origin": "reported", "metric": "ttft", "statistic": "p99",
         "value": 200.0},
    ]  # fmt: skip


def test_one_cell_shows_reported_values_too(reader, first_spec):
    found = queries.cell_measurements(reader, first_spec).to_pylist()
    assert {"origin": "reported", "metric": "output_throughput", "statistic": "mean",
            "value": 1515.0} in found  # fmt: skip
    assert len(found) == 4


def test_acceptance_and_its_positions(reader, first_spec):
    (row, *_) = queries.acceptance(reader, Filters()).to_pylist()
    assert row == {
        "cell_id": first_spec, "source": "counters", "drafts": 100, "draft_tokens": 300,
        "accepted_tokens": 210, "rate": 0.7, "mean_length": 3.1,
    }  # fmt: skip
    positions = queries.acceptance_by_position(reader, Filters()).to_pylist()[:3]
    assert positions == [
        {"cell_id": first_spec, "source": "counters", "position": i, "rate": rate}
        for i, rate in enumerate((0.9, 0.7, 0.5))
    ]


def test_filter_options_count_cells(reader):
    found = queries.filter_options(reader).to_pylist()
    assert {row["field"] for row in found} == set(FILTER_FIELDS)
    assert {"field": "arm", "value": "baseline", "cells": 3} in found


def test_one_run_per_source(reader):
    found = queries.runs(reader, Filters()).to_pylist()
    assert sorted(row["path"] for row in found) == ["base.json", "spec.json"]
    assert [(row["cells"], row["completed"], row["flags"]) for row in found] == [(3, 60, 3)] * 2
    assert found[0]["concurrencies"] == [1, 2, 4]


def test_flags_samples_sources_and_overview(reader, first_spec):
    assert queries.flags(reader, [first_spec]).to_pylist() == [
        {"cell_id": first_spec, "name": "short_window", "severity": "warning",
         "sentence": "The window is short."}
    ]  # fmt: skip
    assert queries.flags(reader, []).num_rows == 0
    assert queries.samples(reader, first_spec).to_pylist() == [
        {"at": 1.0, "name": "vllm:num_requests_running", "value": 8.0}
    ]
    assert [row["requests"] for row in queries.sources(reader).to_pylist()] == [60, 60]
    assert reader.query("overview").to_pylist()[0]["requests"] == 120


def test_the_distribution_is_by_nearest_rank(reader, first_spec):
    found = queries.request_distribution(reader, first_spec, "ttft").to_pylist()
    assert len(found) == 200
    at = {round(row["share"], 3): row["value"] for row in found}
    assert (at[0.5], at[0.95], at[1.0]) == (109.0, 118.0, 119.0)


def test_a_metric_that_requests_do_not_have_is_refused(reader, first_spec):
    with pytest.raises(UnknownKey):
        queries.request_distribution(reader, first_spec, "output_throughput")


def test_a_cell_without_records_has_no_requests(warehouse_path, make_source, make_cell):
    source = make_source()
    cell = make_cell(source, requests=None)
    with open_writer(warehouse_path) as writer:
        writer.add(source, [cell])
        writer.commit()
    with Reader(warehouse_path) as opened:
        assert queries.requests(opened, cell.cell_id).num_rows == 0
        assert queries.request_distribution(opened, cell.cell_id, "ttft").num_rows == 0


def test_days_keep_the_cells_that_started_then_both_included(
    warehouse_path, make_source, make_cell
):
    source = make_source()
    starts = [datetime(2026, 11, day, 23, 30, tzinfo=UTC) for day in (1, 2, 3)] + [None]
    with open_writer(warehouse_path) as writer:
        writer.add(
            source,
            [make_cell(source, index=i, started_at=start) for i, start in enumerate(starts)],
        )
        writer.commit()
    with Reader(warehouse_path) as opened:

        def days(**bounds):
            rows = queries.cells(opened, Filters(**bounds)).column("started_at").to_pylist()
            return [start and start.day for start in rows]

        assert days(since="2026-11-02", until="2026-11-02") == [2]
        assert days(since="2026-11-02") == [2, 3]
        assert days(until="2026-11-02") == [1, 2]
        assert days() == [1, 2, 3, None]
