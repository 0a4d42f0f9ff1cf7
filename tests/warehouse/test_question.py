"""Questions in SQL: the documented views answer; every way out of them is one sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from answers.doors.agents import answer
from dashboard.downloads import csv_bytes, parquet_bytes
from dashboard.views.data.questions import flat, named_once
from draftboard import cli
from warehouse.errors import DraftboardError, InvalidInput, WarehouseMissing
from warehouse.storage.question import VIEWS, Bounds, ask

EXAMPLES = Path(__file__).parents[1] / "fixtures" / "lab-first"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("questions")
    words = ["ingest", str(EXAMPLES / "baseline" / "code"), "--warehouse", str(place)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    return place


@pytest.mark.parametrize("view", VIEWS)
def test_every_documented_view_answers(root: Path, view: str) -> None:
    answer = ask(root, f"select * from {view}")
    assert answer.rows.num_columns > 1
    if view in {"cells", "measurements", "samples"}:
        assert answer.rows.num_rows > 0


def test_an_answer_is_what_the_warehouse_holds(root: Path) -> None:
    answer = ask(root, "select dataset, count(*) as n from cells group by all;")
    assert answer.rows.to_pylist() == [{"dataset": "code", "n": 3}]
    assert not answer.cut


def test_rows_beyond_the_limit_are_cut_and_it_is_said(root: Path) -> None:
    answer = ask(root, "select * from range(5000)", Bounds(rows=100))
    assert (answer.rows.num_rows, answer.cut) == (100, True)
    whole = ask(root, "select * from range(100)", Bounds(rows=100))
    assert (whole.rows.num_rows, whole.cut) == (100, False)


BEYOND = [
    "select * from test_all_types()",
    "select '5877642-06-25 (BC)'::date as d, 'infinity'::timestamp as t",
    "select ['5877642-06-25 (BC)'::date] as many, {'a': 'infinity'::date} as one",
    "select interval 1 year as i, union_value(a := 1) as u",
]


@pytest.mark.parametrize("question", BEYOND)
def test_a_value_that_python_has_no_word_for_is_told_as_text(root: Path, question: str) -> None:
    found = ask(root, question)

    assert found.rows.to_pylist()
    told = answer(root, "sql", {"question": question})
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert len(told["columns"]) == found.rows.num_columns
    shown = flat(named_once(found.rows))
    assert csv_bytes(shown)
    assert parquet_bytes(found.rows)


ATTACKS = [
    "select * from read_csv('/etc/passwd')",
    "select * from read_text('/etc/passwd')",
    "select * from read_blob('/etc/hostname')",
    "select * from '/etc/passwd'",
    "select * from glob('/*')",
    "select * from read_parquet('requests/*.parquet')",
    "select * from sniff_csv('/etc/passwd')",
    "copy cells to 'out.csv'",
    "copy (select 1) to '/dev/stdout'",
    "export database 'out'",
    "attach 'other.duckdb'",
    "attach ':memory:' as m",
    "detach store",
    "install httpfs",
    "load httpfs",
    "select * from read_csv('https://example.org/x.csv')",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset memory_limit",
    "pragma memory_limit = '10GB'",
    "create table t as select 1",
    "create temp table t as select 1",
    "insert into store.cells select * from store.cells",
    "delete from store.cells",
    "drop view cells",
    "update store.cells set model = 'x'",
    "create secret s (type s3)",
    "call pragma_database_size()",
    "checkpoint",
    "begin",
    "prepare p as select 1",
    "select 1; select 2",
    "select 1; drop view cells",
    "explain analyze create table t as select 1",
    "",
    "not sql at all",
    "select no_such_column from cells",
    "select * from no_such_view",
    "select * from query('create table t as select 1')",
    "select * from query('select 1; select 2')",
    "select getenv('PATH')",
]


@pytest.mark.slow
@pytest.mark.parametrize("sql", ATTACKS)
def test_every_way_out_is_one_sentence(root: Path, sql: str) -> None:
    before = sorted(p.name for p in root.rglob("*"))
    with pytest.raises(InvalidInput) as caught:
        ask(root, sql)
    said = str(caught.value)
    assert said
    assert "\n" not in said
    assert said.startswith(("Ask with one select", "The database does not answer this: "))
    assert sorted(p.name for p in root.rglob("*")) == before


ENDLESS = [
    "select count(*) from range(1000000000000) a, range(1000000) b",
    "with recursive t(n) as (select 1 union all select n + 1 from t) select max(n) from t",
    "select sum(length(repeat('a', (range % 100000)::int))) from range(100000000)",
    "select max(md5(range::varchar)) from range(100000000000)",
]


@pytest.mark.slow
@pytest.mark.parametrize("sql", ENDLESS)
def test_an_endless_question_is_stopped(root: Path, sql: str) -> None:
    with pytest.raises(InvalidInput, match="longer than|more memory|does not answer"):
        ask(root, sql, Bounds(seconds=1.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "select list(range) from range(1000000000)",
        "select repeat('a', 2000000000)",
        "select repeat('x', 100000) from range(100000)",
    ],
)
def test_a_question_that_would_fill_the_memory_is_stopped(root: Path, sql: str) -> None:
    with pytest.raises(InvalidInput):
        ask(root, sql)
    assert ask(root, "select 1 as one").rows.to_pylist() == [{"one": 1}]


_MEASURED = """
import resource, sys
from pathlib import Path
from warehouse.errors import DraftboardError
from warehouse.storage.question import ask
try:
    ask(Path(sys.argv[1]), sys.argv[2])
except DraftboardError as error:
    print(error, file=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "select repeat('x', 1000000) from range(10001)",
        "select a.range from range(100000) a, range(100000) b order by b.range",
    ],
)
def test_the_limit_of_memory_holds_for_what_is_computed_and_for_the_answer(
    root: Path, sql: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(root), sql],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip

    # The program itself takes about 150 MB before it is asked.
    assert int(done.stdout) < (512 + 200) << 20


def test_of_an_answer_without_end_the_first_rows_come(root: Path) -> None:
    answer = ask(root, "select * from range(1000000000)", Bounds(rows=10))

    assert (answer.rows.num_rows, answer.cut) == (10, True)


def test_without_a_warehouse_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(WarehouseMissing):
        ask(tmp_path, "select 1")
    assert issubclass(WarehouseMissing, DraftboardError)
