"""The catalogue is complete, agrees with itself, and is what the store keeps."""

import typing

import duckdb
import pytest

from warehouse.catalogue import (
    METRICS,
    PERCENTILES,
    QUANTILES,
    REQUEST_METRICS,
    STATISTICS,
    Better,
    percentile_label,
)
from warehouse.contract import FACT_KEYS, TABLE, arm_label, steps_of
from warehouse.rows import REQUEST_SCHEMA
from warehouse.storage.draft import BATCHES
from warehouse.storage.tables import sql_text


@pytest.mark.parametrize("key", METRICS)
def test_every_metric_says_what_it_is(key):
    metric = METRICS[key]
    assert metric.key == key
    assert all((metric.label, metric.unit, metric.definition))
    assert metric.definition.endswith(".")
    assert metric.better in typing.get_args(Better)
    assert metric.decimals >= 0


def test_no_two_metrics_share_a_label():
    assert len({metric.label for metric in METRICS.values()}) == len(METRICS)


def test_percentiles_have_their_quantile_in_rising_order():
    assert tuple(QUANTILES) == PERCENTILES
    quantiles = list(QUANTILES.values())
    assert quantiles == sorted(quantiles)
    assert all(0 < quantile < 1 for quantile in quantiles)
    assert [float(f"0.{name[1:]}") for name in PERCENTILES if name != "p001"] == [
        q for name, q in QUANTILES.items() if name != "p001"
    ]
    assert len(set(STATISTICS)) == len(STATISTICS)
    assert set(PERCENTILES) < set(STATISTICS)


@pytest.mark.parametrize(
    ("statistic", "label"),
    [("p50", "median"), ("p95", "P95"), ("p001", "P0.1"), ("p999", "P99.9"), ("mean", "mean")],
)
def test_a_percentile_is_shown_by_its_number(statistic, label):
    assert percentile_label(statistic) == label


@pytest.mark.parametrize(
    ("method", "k", "config", "label"),
    [(None, None, None, "unknown"), ("none", None, None, "baseline"),
     ("none", None, {"equal_engine": ["async_scheduling"]}, "baseline, equal engine"),
     ("eagle3", 3, {"draft_sample_method": "greedy"}, "eagle3 K=3"),
     ("ngram", None, None, "ngram K=?"), ("suffix", 24, None, "suffix K<=24"),
     ("draft_model", 5, {TABLE: [[6, 16, 2], [1, 5, 5]]}, "draft_model K=5/2 by table"),
     ("draft_model", 5, {TABLE: "nothing to read"}, "draft_model K=5 by table"),
     ("dspark", 7, {"enable_adaptive_verification": True}, "dspark K<=7 adaptive"),
     ("dspark", 7, {"enable_adaptive_verification": False}, "dspark K=7")],
)  # fmt: skip
def test_an_arm_has_one_name_which_says_who_sets_its_draft_tokens(method, k, config, label):
    assert arm_label(method, k, config) == label


def test_tables_that_say_the_same_to_vllm_have_the_same_steps():
    assert steps_of(((1, 4, 3), (5, 8, 3), (9, 16, 2))) == steps_of(((1, 8, 3), (9, 9, 2)))
    assert steps_of(((1, 8, 3),)) != steps_of(((1, 9, 2),))


def test_metrics_of_requests_are_columns_of_requests_and_distributions():
    for key in REQUEST_METRICS:
        assert key in REQUEST_SCHEMA.names
        assert METRICS[key].distribution


def test_the_tables_hold_every_fact_and_every_column_of_a_batch():
    with duckdb.connect() as connection:
        connection.execute(sql_text("schema"))
        columns = {
            name: {row[0] for row in connection.execute(f"describe {name}").fetchall()}
            for name in BATCHES
        }
    assert set(FACT_KEYS) <= columns["cells"]
    assert columns == {name: set(schema.names) for name, schema in BATCHES.items()}
