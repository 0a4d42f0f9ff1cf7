"""``ingest --columns``: tables of one row a run that somebody else made, read by a map of their columns."""

import json
from pathlib import Path
from typing import Any

import pytest

from warehouse import queries

#: As people keep a sweep: a row a load, the arm as a model's name, nothing for what was not drafted.
WIDE = """\
model,offered_concurrency,offered_rps,repeat,ok,tps,mean_itl_ms,p99_ttft_s,length,drafts,accepted,note
baseline,1,,1,26,91.6,5.4,0.0521,,0,0,x
baseline,16,,1,337,1249.9,6.9,1.3299,,0,0,x
mtp,1,,1,26,180.1,5.4,0.0521,2.25,9581,11993,x
mtp,16,,1,337,2249.4,6.9,1.3299,,118304,149367,x
"""
MAP = {
    "spec_method": {"column": "model", "values": {"baseline": "none"}},
    "dataset": {"value": "CodeSet"}, "model": {"value": "acme/chat"},
    "concurrency": "offered_concurrency", "rate": "offered_rps", "repeat": "repeat",
    "output_throughput": "tps", "itl": "mean_itl_ms",
    "ttft_p99": {"column": "p99_ttft_s", "unit": "s"}, "mean_acceptance_length": "length",
    "completed": "ok", "drafts": "drafts", "accepted_tokens": "accepted",
}  # fmt: skip
#: A list of objects under a name, with members of members; a line of JSON a run.
NESTED = {
    "host": "a", "runs": [
        {"arm": {"method": "eagle3", "k": 3}, "load": {"users": 8}, "launch": 1,
         "latency": {"ttft": {"p50": 61000, "p99": 95000}}, "rate": 12.5, "accepted": 63.5},
        {"arm": {"method": "none", "k": None}, "load": {"users": 8}, "launch": "tuesday",
         "latency": {"ttft": {"p50": 60000, "p99": None}}, "rate": 10, "accepted": None},
    ],
}  # fmt: skip
OF_NESTED = {
    "rows": "runs", "spec_method": "arm.method", "num_speculative_tokens": "arm.k",
    "concurrency": "load.users", "launch": "launch", "request_throughput": "rate",
    "ttft_median": {"column": "latency.ttft.p50", "unit": "us"},
    "ttft_p99": {"column": "latency.ttft.p99", "unit": "us"},
    "acceptance_rate": {"column": "accepted", "unit": "%"},
}  # fmt: skip
LINES = [{"qps": 4, "e2e_p99_s": 2.5, "k": k, "tok_s": 100 + k, "gpu": "L4"} for k in (2, 4)]
OF_LINES = {
    "spec_method": {"value": "ngram"}, "num_speculative_tokens": "k", "rate": "qps", "gpu": "gpu",
    "load_profile": {"value": "poisson"}, "request_latency_p99": "e2e_p99_s",
    "output_throughput": "tok_s",
}  # fmt: skip


@pytest.fixture
def ingest(run: Any, tmp_path: Path) -> Any:
    """Ingest a table of a name by a map."""

    def with_map(name: str, text: str, columns: Any, *more: str) -> Any:
        (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / "map.yaml").write_text(json.dumps(columns), "utf-8")
        return run(tmp_path / name, "--columns", tmp_path / "map.yaml", *more)

    return with_map


def measured(run: Any, cell: Any) -> dict[str, float]:
    rows = run.of_cell(queries.cell_measurements, cell["cell_id"])
    return {f"{one['metric']}.{one['statistic']}.{one['origin']}": one["value"] for one in rows}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_each_row_of_a_csv_is_a_cell(run: Any, ingest: Any, delimiter: str) -> None:
    done = ingest("t.csv", "\ufeff" + WIDE.replace(",", delimiter), MAP)
    assert (done.status, len(run.cells())) == (0, 4)
    found = {(one["spec_method"], one["concurrency"]): one for one in run.cells()}
    assert set(found) == {("none", 1), ("none", 16), ("mtp", 1), ("mtp", 16)}
    one = found["mtp", 16]
    assert (one["dataset"], one["repeat"], one["rate"], one["completed"]) == (
        "CodeSet",
        1,
        None,
        337,
    )
    told = measured(run, one)
    assert told["output_throughput.mean.reported"] == 2249.4
    assert told["itl.mean.reported"] == 6.9
    assert told["ttft.p99.reported"] == pytest.approx(1329.9)
    assert told["mean_acceptance_length.mean.canonical"] == pytest.approx(1 + 149367 / 118304)
    assert measured(run, found["mtp", 1])["mean_acceptance_length.mean.canonical"] == 2.25
    assert not [key for key in measured(run, found["none", 16]) if "acceptance" in key]
    assert "not_read" not in run.flags(one["cell_id"])


def test_rows_of_json_may_stand_under_a_name_and_have_members_of_members(
    run: Any, ingest: Any
) -> None:
    assert ingest("t.json", json.dumps(NESTED), OF_NESTED).status == 0
    arm, baseline = sorted(run.cells(), key=lambda one: one["spec_method"])
    assert (arm["spec_method"], arm["num_speculative_tokens"], arm["launch"]) == (
        "eagle3", 3, "1",
    )  # fmt: skip
    told = measured(run, arm)
    assert told["ttft.p50.reported"] == pytest.approx(61.0)
    assert told["acceptance_rate.mean.reported"] == pytest.approx(0.635)
    assert "ttft.p99.reported" not in measured(run, baseline)
    assert (baseline["num_speculative_tokens"], baseline["concurrency"]) == (None, 8)


def test_each_line_of_json_is_a_cell_and_numbers_that_are_not_read_are_named(
    run: Any, ingest: Any
) -> None:
    lines = [one | {"watts": 400} for one in LINES]
    assert ingest("t.jsonl", "\n".join(map(json.dumps, lines)), OF_LINES).status == 0
    found = run.cells()
    assert {(one["num_speculative_tokens"], one["rate"], one["gpu"]) for one in found} == {
        (2, 4.0, "L4"), (4, 4.0, "L4"),
    }  # fmt: skip
    assert measured(run, found[0])["request_latency.p99.reported"] == 2.5
    flags = run.of_cell(queries.flags, [found[0]["cell_id"]])
    assert "Numbers of this file that were not read: watts." in [one["sentence"] for one in flags]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("337,2249.4", "337,fast"), "Row 4 of this file: column 'tps': 'fast' is no number"),
        (("337,2249.4", "33.7,2249.4"), "Row 4 of this file: completed is 33.7 where a whole number"),
        (("mtp,16", "mtp,many"), "Row 4 of this file: column 'offered_concurrency': 'many' is no concurrency"),
        (("mtp,16,", "mtp,16,4,4,"), "Row 4 of this table has 14 values for 12 columns"),
        (("p99_ttft_s", "p99_ttft"), "names the column 'p99_ttft_s', which this table lacks; it has"),
        (("offered_rps", "repeat"), "two columns 'repeat'"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_read_refuses_the_table_by_row_and_column(
    run: Any, ingest: Any, change: tuple[str, str], said: str
) -> None:
    done = ingest("t.csv", WIDE.replace(*change), MAP)
    assert done.status == 1
    assert said in done.out
    assert not run.generation or not run.cells()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tfft_p99": "p99_ttft_s"}, "'tfft_p99' is no fact, count or metric; did you mean ttft_p99"),
        ({"ttft_p99": "p99"}, "'ttft_p99' is a time: say its unit"),
        ({"ttft_p99": {"column": "a", "unit": "weeks"}}, "weeks"),
        ({"output_throughput": {"column": "tps", "unit": "MB"}}, "has the unit 'MB'; it may be tok/s"),
        ({"gpu": {"column": "a", "value": "b"}}, "either column or value"),
        ({"repeat": {"value": "first"}}, "repeat"),
        (None, "names no metric"),
    ],
)  # fmt: skip
def test_a_map_that_says_what_nobody_knows_is_wrong_usage(
    ingest: Any, change: Any, said: str
) -> None:
    columns = {"gpu": "a"} if change is None else MAP | change
    done = ingest("t.csv", WIDE, columns)
    assert done.status == 2
    assert said in " ".join(done.err.split())


def test_a_line_that_is_no_json_is_named(ingest: Any) -> None:
    done = ingest("t.jsonl", json.dumps(LINES[0]) + '\n{"qps": 4,\n', OF_LINES)
    assert done.status == 1
    assert "Line 2 of this table cannot be read" in done.out


@pytest.mark.parametrize("values", ["", ", values: {off: none, on: ngram}"])
def test_a_column_of_methods_may_say_that_there_was_none(
    run: Any, tmp_path: Path, values: str
) -> None:
    """A speculative arm named "off" would be compared with what it is."""
    (tmp_path / "t.csv").write_text("spec,launch,users,tps\noff,1,8,100\non,2,8,150\n", "utf-8")
    columns = f"spec_method: {{column: spec{values}}}\nlaunch: launch\nconcurrency: users\n"
    (tmp_path / "map.yaml").write_text(f"{columns}output_throughput: tps\n", "utf-8")
    assert run(tmp_path / "t.csv", "--columns", tmp_path / "map.yaml").status == 0
    assert {one["spec_method"] for one in run.cells()} == {"none", "ngram" if values else "on"}


def test_a_map_is_for_tables_that_are_named(run: Any, ingest: Any, tmp_path: Path) -> None:
    ingest("t.csv", WIDE.replace("mtp", "x,y"), MAP)
    assert run(tmp_path, "--columns", tmp_path / "map.yaml").status == 2
    alone = run(tmp_path / "t.csv")
    assert "columns are by --columns" in alone.out


def test_a_table_is_read_again_with_its_map(run: Any, ingest: Any) -> None:
    ingest("t.csv", WIDE, MAP, "--set", "gpu=H200")
    before = {one["cell_id"] for one in run.cells()}
    assert run("--rebuild").status == 0
    assert {one["cell_id"] for one in run.cells()} == before
    assert {one["gpu"] for one in run.cells()} == {"H200"}
