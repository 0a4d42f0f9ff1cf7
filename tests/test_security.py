"""What docs/security.md promises, held to the code and to a running server."""

import ast
import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.published.claims_file import read_claims
from answers.explore import quoted
from benchmarks.house import PACKAGES
from commands import dashboard as dashboard_command
from dashboard import upload
from dashboard.upload import Report
from warehouse import queries
from warehouse.errors import DraftboardError, InvalidInput
from warehouse.filters import Filters
from warehouse.storage.question import ask
from warehouse.store import Reader

ROOT = Path(__file__).parents[1]
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
#: Generous, because the machine may be busy; no test waits for it to pass.
PATIENCE_S = 120.0
CONFIG = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
#: Formats that run code while they are read.
EXECUTING = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
#: Calls that run text, or show it as HTML.
RUNS = re.compile(
    r"eval|exec|os\.(system|popen)|st\.html|(.*\.)?components\.(v1\.)?html|pd\.read_pickle"
    r"|yaml\.(unsafe|full)_load"
)
HOSTILE = (
    "x' or 1=1 --",
    "x'; drop table cells; --",
    "x') union all select path from sources --",
    "$model",
    "'||(select content from read_text('/etc/passwd'))||'",
    "\\'; select 1 --",
    "\x00",
)


def _tree(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"))


def _calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(_tree(path)) if isinstance(node, ast.Call))


def test_no_module_reads_what_runs_code_or_writes_html() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {why}"
        for path in MODULES
        for node in ast.walk(_tree(path))
        for why in _doubts(node)
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call))
    ]
    assert not found


def _doubts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = {alias.name.partition(".")[0] for alias in node.names}
        module = getattr(node, "module", None) or ""
        yield from EXECUTING & {*names, module.partition(".")[0]}
    elif isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        said = {word.arg: ast.unparse(word.value) for word in node.keywords if word.arg}
        if said.get("unsafe_allow_html") or said.get("shell", "False") != "False":
            yield f"{called} with {said}"
        if said.get("allow_pickle", "False") != "False" or RUNS.fullmatch(called):
            yield called


def _is_sql_of_ours(argument: ast.expr) -> bool:
    """A text that stands in the code, or one made only from names that do."""
    if isinstance(argument, ast.Constant):
        return True
    return ast.unparse(argument) in KNOWN_SQL


#: What is run besides texts that stand in the code: files of warehouse/sql, and texts made of names
#: of our own tables. The one place that runs a reader's SQL is confined (storage/question.py).
KNOWN_SQL = {
    "sql_text(name)", "sql_text('schema')", "sql_text('views')", "sql_text('chosen')",
    "sql_text('kept')", "text", "statements[0]", "setting", "sql",
    "f'insert into {name} by name select * from batch'",
    "f'insert into {name} by name from store.{name}'", "f'from {name} order by {_ORDER[name]}'",
    "f'from store.{name}'", "f'from store.{table}'", "sql_text('outlived_requests')", "text + _YOUNGER.get(name, '')", "f'create table {name} as from batch'",
    "f'create table {name} as from nothing'",
    # A setting takes no parameter: the quotes in the folders' names are doubled.
    "f'set allowed_directories = [{folders}]'",
}  # fmt: skip


@pytest.mark.parametrize("path", sorted((ROOT / "warehouse").glob("*.py")), ids=lambda p: p.name)
def test_sql_is_never_made_of_what_somebody_wrote(path: Path) -> None:
    places = [
        call
        for call in _calls(path)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in {"execute", "sql"}
        and call.args
    ]
    assert not [ast.unparse(c.args[0]) for c in places if not _is_sql_of_ours(c.args[0])]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_filter_is_a_value_whatever_it_says(filled: Path, value: str) -> None:
    with Reader(filled) as reader:
        everything = queries.cells(reader, Filters()).num_rows
        for name in ("model", "dataset", "arm", "study"):
            chosen = Filters(**{name: (value,)})
            assert queries.cells(reader, chosen).num_rows == 0
            assert queries.runs(reader, chosen).num_rows == 0
        assert queries.cell_measurements(reader, value).num_rows == 0
        assert queries.requests(reader, value).num_rows == 0
        assert queries.cells(reader, Filters()).num_rows == everything


@pytest.mark.parametrize("value", HOSTILE[:-1])
def test_a_quoted_text_is_one_value_in_sql(filled: Path, value: str) -> None:
    answer = ask(filled, f"select {quoted(value)} as said")

    assert answer.rows.to_pylist() == [{"said": value}]


@pytest.mark.slow
@pytest.mark.parametrize(
    "question",
    [
        "from read_text('/etc/hostname')", "from read_csv('/etc/passwd')",
        "from glob('/*')", "from '/etc/passwd'", "copy cells to '/tmp/stolen'",
        "attach '/tmp/other.duckdb'", "install httpfs", "load httpfs",
        "set enable_external_access = true", "select 1; select 2",
        "from read_parquet('https://example.com/x.parquet')", "pragma database_list",
    ],
)  # fmt: skip
def test_a_question_in_sql_reaches_no_file_no_network_and_no_setting(
    filled: Path, question: str
) -> None:
    with pytest.raises(InvalidInput):
        ask(filled, question)


@pytest.mark.parametrize(
    "name",
    ["../../../etc/cron.d/x.json", "/etc/passwd", "..", "record.json", "a\x00b.json", "-o.json",
     "CURRENT", "x" * 500 + ".json", "~/.ssh/config.json.gz", "a\\..\\b.json"],
)  # fmt: skip
def test_an_uploaded_name_can_name_nothing_else(tmp_path: Path, name: str) -> None:
    place = upload._written(tmp_path, "1", Report(name, b"{}"))

    assert place.parent == tmp_path / "1"
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*\.json(\.gz|\.zst)?", place.name)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [place]


def test_a_report_that_names_files_has_none_of_them_opened(tmp_path: Path) -> None:
    """What an upload reads is the upload: neither its name nor its content leads anywhere."""
    secret = tmp_path / "secret.json"
    secret.write_text('{"benchmarks": [], "args": {"data": "KINGFISHER"}}', encoding="utf-8")
    hostile = f'{{"$ref": "{secret}", "results": "{secret}", "benchmarks": "{secret}"}}'

    told = upload.take_in([Report(str(secret), hostile.encode(), ())])

    assert told.held is None
    assert told.rejections
    assert "KINGFISHER" not in str(told.rejections)
    assert str(tmp_path) not in "".join(reason for _, reason in told.rejections)


@pytest.mark.parametrize(
    "fact", ["@/etc/passwd", "path=/etc/passwd", "--rebuild", "server_args=@x"]
)
def test_a_fact_of_an_upload_is_a_value_or_a_sentence(fact: str) -> None:
    with pytest.raises(DraftboardError) as refused:
        upload.take_in([Report("report.json", b"{}", (fact,))])

    assert "\n" not in str(refused.value)
    assert "root:" not in str(refused.value)


def test_uploads_are_limited_alike_on_the_page_and_on_the_server() -> None:
    too_large = b" " * ((upload.MOST_MB << 20) + 1)
    with pytest.raises(InvalidInput, match="larger than"):
        upload.take_in([Report("report.json", too_large)])
    with pytest.raises(InvalidInput, match="too much"):
        upload.take_in([Report("report.json", b"{}")] * (upload.MOST_FILES + 1))
    assert CONFIG["server"]["maxUploadSize"] == upload.MOST_MB
    assert f"--server.maxUploadSize={upload.MOST_MB}" in dashboard_command._ALWAYS


def test_a_table_of_claims_cannot_unfold_into_more_than_was_sent() -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    bomb = f"a0: &a0 [{'x' * 1000}]\n{levels}study: {{source: *a29}}\n"

    with pytest.raises(InvalidInput, match="alias"):
        read_claims(bomb, "bomb.yaml")


@pytest.mark.parametrize("option", ["enableCORS", "enableXsrfProtection"])
def test_other_sites_are_kept_out_however_the_dashboard_is_started(option: str) -> None:
    assert CONFIG["server"][option] is True
    assert f"--server.{option}=true" in dashboard_command._ALWAYS


def test_the_server_serves_this_machine_and_no_files_and_sends_nothing_home() -> None:
    assert CONFIG["server"]["address"] == "localhost"
    assert CONFIG["server"]["enableStaticServing"] is False
    assert CONFIG["server"]["enableAgentApi"] is False
    assert CONFIG["browser"]["gatherUsageStats"] is False
    assert CONFIG["client"]["showErrorDetails"] == "none"
    assert "--server.enableStaticServing=false" in dashboard_command._ALWAYS
    assert "--browser.gatherUsageStats=false" in dashboard_command._ALWAYS
    assert "--client.showErrorDetails=none" in dashboard_command._ALWAYS


def test_no_part_but_the_login_reads_streamlits_secrets() -> None:
    readers = [
        str(path.relative_to(ROOT))
        for path in MODULES
        if re.search(r"\bst\.secrets|secrets_singleton", path.read_text(encoding="utf-8"))
    ]
    # The gate reads the cookie's secret, where a login is configured.
    assert readers == ["dashboard/doors/access.py", "dashboard/doors/gate.py"]


def test_nothing_that_is_committed_is_a_file_of_secrets() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not [name for name in listed if name.endswith(("secrets.toml", ".pem", ".key", "/.env"))]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert ".streamlit/secrets.toml" in ignored


#: The one origin besides its own that the server of these tests allows.
ALLOWED = "https://allowed.example"
#: Who asked the proxy for something that lies outside of this machine.
ASKED_OUTSIDE: list[bytes] = []


@pytest.fixture(scope="module")
def outside() -> Iterator[str]:
    """The address of a proxy that records what is asked of it, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as line:

        def record() -> None:
            with contextlib.suppress(OSError):
                while True:
                    asked, _ = line.accept()
                    ASKED_OUTSIDE.append(asked.recv(200))
                    asked.close()

        threading.Thread(target=record, daemon=True).start()
        yield f"http://127.0.0.1:{line.getsockname()[1]}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, outside: str) -> Iterator[int]:
    """The port of a dashboard as the command starts it, far from our configuration."""
    place = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [str(Path(sys.executable).with_name("draftboard")), "dashboard", f"--port={port}"]
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), outside)
    process = subprocess.Popen(
        [*words, "--warehouse", str(place / "none")], cwd=place,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={
            **os.environ, **proxies, "HOME": str(place), "NO_PROXY": "", "no_proxy": "",
            "STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS": ALLOWED,
        },
    )  # fmt: skip
    try:
        for _ in range(600):
            if process.poll() is None and _status(port, "/healthz") == 200:
                break
            time.sleep(0.2)
        else:
            pytest.fail("The dashboard did not start.")
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _answer(port: int, path: str, **headers: str) -> Any:
    return urllib.request.urlopen(
        urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers),
        timeout=PATIENCE_S,
    )


def _status(port: int, path: str, **headers: str) -> int:
    try:
        with _answer(port, path, **headers) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


@pytest.mark.slow
def test_another_site_gets_no_leave_to_read(server: int) -> None:
    for path in ("/", "/healthz", "/_stcore/health", "/_stcore/host-config", "/_stcore/metrics"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            _answer(server, path, Origin="https://evil.example")
        with refused.value as answer:
            assert answer.code == 403
            assert answer.headers["Access-Control-Allow-Origin"] is None
        with _answer(server, path, Origin=f"http://127.0.0.1:{server}") as answer:
            assert answer.status == 200
    assert ASKED_OUTSIDE == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "http://localhost"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 403),
        ({"Origin": "http://localhost:{port}"}, 101),
        ({"Origin": ALLOWED}, 101),
        ({}, 101),
    ],
)
def test_another_site_cannot_open_a_connection(
    server: int, headers: dict[str, str], status: int
) -> None:
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", **headers,
    }  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in upgrade.items()).replace(
        "{port}", str(server)
    )
    with socket.create_connection(("127.0.0.1", server), timeout=PATIENCE_S) as connection:
        connection.sendall(
            f"GET /_stcore/stream HTTP/1.1\r\nHost: localhost:{server}\r\n{lines}\r\n".encode()
        )
        assert connection.recv(64).split()[1] == str(status).encode()
    assert ASKED_OUTSIDE == []


@pytest.mark.slow
def test_an_upload_needs_a_session_and_its_token(server: int) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{server}/_stcore/upload_file/somebody/file", data=b"x", method="PUT"
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=PATIENCE_S)
    with refused.value:
        assert refused.value.code == 403


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/../../etc/passwd",
             "/app/static/../app.py", "/media/../../etc/passwd", "//etc/passwd"],
)  # fmt: skip
def test_no_path_of_an_address_is_opened(server: int, path: str) -> None:
    with socket.create_connection(("127.0.0.1", server), timeout=PATIENCE_S) as connection:
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost:{server}\r\nConnection: close\r\n\r\n".encode()
        )
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    assert b"root:" not in received
    assert b"import streamlit" not in received
