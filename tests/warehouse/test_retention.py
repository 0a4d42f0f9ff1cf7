"""Requests of old runs go, everything that was measured stays, and each cell says so."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from commands.keeping.warehouse import warehouse
from warehouse import queries
from warehouse.filters import Filters
from warehouse.maintenance import check, compact
from warehouse.store import Reader, open_writer

NOW = datetime.now(UTC)
#: Days ago, by the name of the source.
AGES = {"new": 1, "recent": 40, "old": 200, "older": 201, "oldest": 400}


@pytest.fixture
def root(warehouse_path: Path, make_source: Any, make_cell: Any) -> Path:
    """A warehouse with one source of two cells of each age; the old ones are of a study ``old``."""
    with open_writer(warehouse_path) as writer:
        for name, days in AGES.items():
            source = make_source(name)
            facts = {"study": "old" if name.startswith("old") else "new"}
            made = {"started_at": NOW - timedelta(days=days), "run_id": name, "facts": facts}
            writer.add(source, [make_cell(source, i, **made) for i in range(2)])
            writer.commit()
    return warehouse_path


@pytest.fixture
def keep(root: Path) -> Callable[..., Result]:
    """``keep("--nights", 1)``: the command on that warehouse."""

    def call(*arguments: object) -> Result:
        words = ["keep", *map(str, arguments), "--warehouse", str(root)]
        return CliRunner().invoke(warehouse, words)

    return call


def _cells(root: Path) -> list[dict[str, Any]]:
    with Reader(root) as reader:
        found: list[dict[str, Any]] = queries.cells(reader, Filters()).to_pylist()
        return found


def _with_requests(root: Path) -> list[str]:
    """Return the runs whose cells have all their requests; the others have none."""
    found = []
    with Reader(root) as reader:
        for cell in _cells(root):
            count = queries.requests(reader, cell["cell_id"], ["index"]).num_rows
            assert count in (0, 20)
            found += [cell["run_id"]] * (count > 0)
    assert all(found.count(run) == 2 for run in found)
    return sorted(set(found), key=list(AGES).index)


@pytest.mark.parametrize(
    ("rules", "runs"),
    [
        (("--requests-for", "90d"), ["new", "recent"]),
        (("--runs-since", f"{NOW - timedelta(days=200):%Y-%m-%d}"), ["new", "recent", "old"]),
        (("--nights", 1), ["new", "old"]),
        (("--nights", 2, "--requests-for", "2d"), ["new", "recent", "old", "older"]),
        (("--nights", 9), list(AGES)),
    ],
)
@pytest.mark.parametrize("compacted", [False, True])
def test_a_run_that_one_rule_names_keeps_its_requests(
    root: Path,
    keep: Callable[..., Result],
    rules: tuple[object, ...],
    runs: list[str],
    compacted: bool,
) -> None:
    if compacted:
        with open_writer(root):
            compact(root)
    done = keep(*rules)
    assert done.exit_code == 0, done.output
    assert _with_requests(root) == runs
    assert check(root) == []


def test_what_was_measured_stays_and_each_cell_says_what_went(
    root: Path, keep: Callable[..., Result]
) -> None:
    def measured() -> list[dict[str, Any]]:
        with Reader(root) as reader:
            found: list[dict[str, Any]] = queries.measurements(
                reader, Filters(), ["output_throughput"], ["mean"]
            ).to_pylist()
            return found

    numbers, before = measured(), {one["cell_id"]: one for one in _cells(root)}
    assert keep("--requests-for", "90d").output.startswith("6 cells have no requests any more;")
    assert measured() == numbers
    after = _cells(root)
    with Reader(root) as reader:
        flags = queries.flags(reader, [one["cell_id"] for one in after]).to_pylist()
    said = {row["cell_id"]: row["sentence"] for row in flags if row["name"] == "requests_removed"}
    assert {one["cell_id"] for one in after if one["run_id"].startswith("old")} == said.keys()
    assert set(said.values()) == {next(iter(said.values()))}
    assert f"removed on {NOW:%Y-%m-%d}" in next(iter(said.values()))
    for one in after:
        former = before[one["cell_id"]]
        assert one == {**former, "flags": former["flags"] + (one["cell_id"] in said)}

    assert keep("--requests-for", "90d").output == "Every run keeps its requests.\n"


def test_the_files_go_with_gc_and_a_replaced_report_has_its_requests_again(
    root: Path, keep: Callable[..., Result], make_source: Any, make_cell: Any
) -> None:
    keep("--requests-for", "90d")
    assert len(list((root / "requests").glob("*.parquet"))) == 5
    source = make_source("oldest")
    with open_writer(root) as writer:
        for _ in range(3):
            writer.forget(source.source_id)
            writer.add(source, [make_cell(source, i, run_id="oldest") for i in range(2)])
            writer.commit()
    CliRunner().invoke(warehouse, ["gc", "--grace", "0", "--warehouse", str(root)])
    assert len(list((root / "requests").glob("*.parquet"))) == 3
    assert _with_requests(root) == ["new", "recent", "oldest"]


@pytest.mark.parametrize(
    ("rules", "said"),
    [((), "name at least one rule"), (("--requests-for", "90"), "a number of days, such as 90d")],
)
def test_what_says_nothing_of_what_stays_is_one_sentence(
    keep: Callable[..., Result], rules: tuple[str, ...], said: str
) -> None:
    done = keep(*rules)
    assert done.exit_code != 0
    assert said in done.output
