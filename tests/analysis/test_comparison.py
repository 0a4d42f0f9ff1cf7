"""Comparison: values of pairs, means over repeats and load, what may not stand side by side."""

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from analysis.matching.comparison import Comparison, compare
from warehouse.errors import UnknownKey

OUTPUT, TTFT = ("output_throughput", "mean"), ("ttft", "p95")


def cell(cell_id: str, method: str, **facts: Any) -> dict[str, Any]:
    k = None if method == "none" else 3
    label = "baseline" if method == "none" else f"{method} K=3"
    return {
        "cell_id": cell_id, "spec_method": method, "num_speculative_tokens": k, "arm_label": label,
        "status": "good", "model": "m", "dataset": "code", "concurrency": 1, "repeat": 0,
        "comparable_as": "canonical", "reported_definition": "guidellm>=0.7.4", "study": None,
        "started_at": pd.Timestamp("2026-11-01", tz="UTC"), "evidence": "gpu", "path": "a.json",
        "tensor_parallel_size": 1, "gpu": "H200",
    } | facts  # fmt: skip


def measured(
    cell_id: str, *values: tuple[tuple[str, str], float], origin: str = "canonical"
) -> list[Any]:
    return [
        {"cell_id": cell_id, "origin": origin, "metric": m, "statistic": s, "value": v}
        for (m, s), v in values
    ]


def comparing(cells: list[Any], rows: list[Any], **options: Any) -> Comparison:
    return compare(pd.DataFrame(cells), pd.DataFrame(sum(rows, [])), **options)


def two_levels(*levels: tuple[float, float]) -> Comparison:
    """One baseline and one speculative cell per level, with the given output throughputs."""
    cells, rows = [], []
    for number, (old, new) in enumerate(levels):
        facts = {"concurrency": 2**number, "prompt_set_hash": f"set{number}"}
        cells += [cell(f"b{number}", "none", **facts), cell(f"s{number}", "eagle3", **facts)]
        rows += [measured(f"b{number}", (OUTPUT, old)), measured(f"s{number}", (OUTPUT, new))]
    return comparing(cells, rows)


def test_the_published_output_throughput_is_20_7_percent_better() -> None:
    found = two_levels((970.9, 1171.7))

    assert found.geomean["improvement"].tolist() == [pytest.approx(0.2068, abs=5e-5)]


def test_a_lower_latency_is_a_positive_improvement() -> None:
    found = comparing(
        [cell("b", "none"), cell("s", "eagle3")],
        [measured("b", (TTFT, 7310.0)), measured("s", (TTFT, 6520.0))],
    )

    assert found.pairs["improvement"].tolist() == [pytest.approx(0.10807, abs=1e-5)]


def test_the_geometric_mean_is_over_levels_although_each_has_prompts_of_its_own() -> None:
    # sqrt(100 * 400) = 200, sqrt(200 * 450) = 300
    found = two_levels((100, 200), (400, 450))

    row = found.geomean.iloc[0]
    assert (row["baseline"], row["speculative"]) == (pytest.approx(200), pytest.approx(300))
    assert row["improvement"] == pytest.approx(0.5)
    assert row["loads"] == ("1", "2")


def test_repeats_count_once_in_the_mean_over_levels() -> None:
    # level 1, two repeats: sqrt(100 * 400) = 200 -> 400; level 2: 200 -> 400
    values = [("r0", 1, 0, 100.0), ("r1", 1, 1, 400.0), ("x0", 2, 0, 200.0)]
    cells, rows = [], []
    for name, level, repeat, value in values:
        facts = {"concurrency": level, "repeat": repeat}
        cells += [cell(f"b{name}", "none", **facts), cell(f"s{name}", "eagle3", **facts)]
        rows += [measured(f"b{name}", (OUTPUT, value)), measured(f"s{name}", (OUTPUT, 2 * value))]

    found = comparing(cells, rows)

    assert found.levels["pairs"].tolist() == [2, 1]
    assert found.geomean["baseline"].tolist() == [pytest.approx(200)]
    assert found.geomean["improvement"].tolist() == [pytest.approx(1.0)]


def test_levels_that_one_arm_lacks_are_left_out_and_named() -> None:
    cells = [cell("b1", "none"), cell("b2", "none", concurrency=8), cell("s1", "eagle3"),
             cell("s2", "eagle3", concurrency=64)]  # fmt: skip
    rows = [measured(c["cell_id"], (OUTPUT, 100.0)) for c in cells]

    row = comparing(cells, rows).geomean.iloc[0]

    assert row["loads"] == ("1",)
    assert row["only_baseline"] == ("8",)
    assert row["only_speculative"] == ("64",)


def test_a_metric_that_a_level_lacks_is_averaged_over_the_levels_that_have_it() -> None:
    cells = [cell("b1", "none"), cell("s1", "eagle3"), cell("b2", "none", concurrency=8),
             cell("s2", "eagle3", concurrency=8)]  # fmt: skip
    rows = [measured(c["cell_id"], (OUTPUT, 100.0)) for c in cells]
    rows += [measured("b1", (TTFT, 10.0)), measured("s1", (TTFT, 10.0))]

    found = comparing(cells, rows).geomean.set_index("metric")["loads"]

    assert found.to_dict() == {"output_throughput": ("1", "8"), "ttft": ("1",)}


def test_reported_values_of_two_definitions_are_refused_and_listed() -> None:
    cells = [
        cell("b", "none", comparable_as="reported: a", reported_definition="guidellm 0.4-0.7.3"),
        cell("s", "eagle3", comparable_as="reported: b", reported_definition="guidellm>=0.7.4"),
    ]
    rows = [
        measured("b", (OUTPUT, 100.0), origin="reported"),
        measured("s", (OUTPUT, 120.0), origin="reported"),
    ]

    found = comparing(cells, rows)

    assert found.pairs.empty
    assert found.unmatched["cell_id"].tolist() == ["s"]
    assert "guidellm 0.4-0.7.3 and guidellm>=0.7.4" in found.unmatched["reason"].iloc[0]


def test_a_pair_with_one_refused_metric_keeps_the_others_and_says_so() -> None:
    cells = [cell("b", "none"), cell("s", "eagle3")]
    rows = [
        measured("b", (OUTPUT, 100.0)), measured("s", (OUTPUT, 120.0)),
        measured("b", (TTFT, 10.0)), measured("s", (TTFT, 9.0), origin="reported"),
    ]  # fmt: skip

    found = comparing(cells, rows)

    assert found.pairs["metric"].tolist() == ["output_throughput"]
    assert [f.name for f in found.pairs["flags"].iloc[0]][-1] == "definition_differs"


def test_flags_of_the_cells_say_whose_they_are() -> None:
    flags = pd.DataFrame(
        [{"cell_id": "s", "name": "errors", "severity": "warning", "sentence": "2 % failed."}]
    )

    found = comparing(
        [cell("b", "none"), cell("s", "eagle3")],
        [measured("b", (OUTPUT, 1.0)), measured("s", (OUTPUT, 2.0))],
        flags=flags,
    )

    assert "speculative: 2 % failed." in [f.sentence for f in found.pairs["flags"].iloc[0]]


def test_an_unknown_field_to_allow_is_refused() -> None:
    with pytest.raises(UnknownKey, match="colour"):
        comparing([cell("b", "none")], [measured("b", (OUTPUT, 1.0))], allow=["colour"])


def test_nothing_to_compare_is_an_empty_comparison() -> None:
    """An empty answer of the warehouse: columns of text without a chunk."""

    def emptied(rows: list[Any]) -> pd.DataFrame:
        empty: pd.DataFrame = pa.Table.from_pylist(rows).schema.empty_table().to_pandas()
        return empty

    found = compare(emptied([cell("b", "none")]), emptied(measured("b", (OUTPUT, 1.0))))

    assert found.pairs.empty
    assert found.geomean.empty
