"""Runs in the environment of DuckLake, with its DuckDB and nothing of ours: looks, or publishes.

In: one JSON object in a line. Out: JSON objects, a line each: {"done": 1} for every step, and at last
what was found, or {"error": …}, or {"missing": a package}. All that is published is one transaction,
so one snapshot.
"""

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: package -> the name by which DuckDB knows its extension
_EXTENSIONS = {"httpfs": "httpfs", "postgres": "postgres_scanner", "ducklake": "ducklake"}


def main() -> None:
    """Answer one question of the other side."""
    asked = json.loads(sys.stdin.readline())
    with tempfile.TemporaryDirectory() as place:
        _say(_answer(asked, Path(place)))


def _answer(asked: Mapping[str, Any], place: Path) -> dict[str, Any]:
    try:
        duckdb = importlib.import_module("duckdb")
        connection = _connection(duckdb, place)
    except ModuleNotFoundError as error:
        return {"missing": error.name}
    try:
        _bucket(connection)
        where = f" (data_path {_text(asked['location'])})" if asked["location"] else ""
        connection.execute(f"attach {_text('ducklake:' + asked['catalogue'])} as lake{where}")
        if "tables" in asked:
            return _publish(connection, asked)
        return {"found": _look(connection, asked)}
    except duckdb.Error as error:
        return {"error": str(error)}


def _bucket(connection: Any) -> None:
    """Hand over what the environment says of a bucket, for this process only."""
    env, at = os.environ, urlsplit(os.environ.get("AWS_ENDPOINT_URL", ""))
    given = {
        "key_id": env.get("AWS_ACCESS_KEY_ID"),
        "secret": env.get("AWS_SECRET_ACCESS_KEY"),
        "session_token": env.get("AWS_SESSION_TOKEN"),
        "region": env.get("AWS_REGION"),
        "endpoint": at.netloc,
        "url_style": "path" if at.netloc else None,
        "use_ssl": "false" if at.scheme == "http" else None,
    }
    if given["key_id"]:
        words = ", ".join(f"{key} {_text(value)}" for key, value in given.items() if value)
        connection.execute(f"create secret (type s3, {words})")


def _connection(duckdb: Any, place: Path) -> Any:
    """Open DuckDB with its extensions, which packages bring; nothing is fetched."""
    connection = duckdb.connect(
        config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    )
    for package, name in _EXTENSIONS.items():
        module = importlib.import_module(f"duckdb_extension_{package}")
        (file,) = Path(str(module.__file__)).parent.rglob(f"{package}.duckdb_extension")
        # DuckDB takes the name of the file for the name of the extension.
        (place / f"{name}.duckdb_extension").symlink_to(file)
        connection.execute(f"load {_text(place / f'{name}.duckdb_extension')}")
    return connection


def _look(connection: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    if (held := _held(connection, asked["schema"])) is not None:
        files = connection.execute(f"select distinct file from {_of(asked, 'requests')}")
        return {"held": held, "foreign": [], "files": [file for (file,) in files.fetchall()]}
    there = connection.execute(
        "select table_name from duckdb_tables() where database_name = 'lake' and schema_name = ?",
        [asked["schema"]],
    )
    theirs = {name for (name,) in there.fetchall()} & set(asked["names"])
    return {"held": None, "foreign": sorted(theirs), "files": []}


def _held(connection: Any, schema: str) -> list[Any] | None:
    """Return generation and identity of what was published last; None where nothing was."""
    columns = connection.execute(
        "select column_name from duckdb_columns() where database_name = 'lake' "
        "and schema_name = ? and table_name = 'publication'",
        [schema],
    ).fetchall()
    if not {("generation",), ("identity",)} <= set(columns):
        return None
    row = connection.execute(
        f'select generation, identity from lake."{schema}".publication'
    ).fetchone()
    return list(row) if row else None


def _publish(connection: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    connection.execute("begin")
    if _held(connection, asked["schema"]) != asked["held"]:
        return {"error": "conflict with another publication"}
    connection.execute(f'create schema if not exists lake."{asked["schema"]}"')
    for name, path in asked["tables"].items():
        table = _of(asked, name)
        # Made, or given the columns that a newer version has.
        connection.execute(
            f"create table if not exists {table} as from read_parquet({_text(path)}) limit 0"
        )
        there = {row[0] for row in connection.execute(f"describe {table}").fetchall()}
        columns = connection.execute("describe from read_parquet(?)", [path]).fetchall()
        for column, kind, *_ in columns:
            if column not in there:
                connection.execute(f'alter table {table} add column "{column}" {kind}')
        if name != "requests":
            connection.execute(f"truncate {table}")
            connection.execute(f"insert into {table} by name from read_parquet(?)", [path])
        _say({"done": 1})
    table = _of(asked, "requests")
    connection.execute(
        f"delete from {table} where not list_contains(?::varchar[], file)", [asked["wanted"]]
    )
    for path in asked["requests"]:
        connection.execute(
            f"insert into {table} by name select *, ?::varchar as file from read_parquet(?)",
            [Path(path).name, path],
        )
        _say({"done": 1})
    generation, identity = asked["generation"]
    connection.execute(
        f"call lake.set_commit_message('draftboard', {_text(f'generation {generation}')}, "
        f"extra_info => {_text(json.dumps({'generation': generation, 'identity': identity}))})"
    )
    connection.execute("commit")
    return {"published": generation}


def _of(asked: Mapping[str, Any], name: str) -> str:
    return f'lake."{asked["schema"]}"."{name}"'


def _text(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _say(words: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
