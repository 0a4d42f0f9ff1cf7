"""Every address and every action of the dashboard, asked by everybody who may come.

Both tables are whole: an address or a button that has no row fails the test, so whoever adds one says
whom it is for, and it is asked whether that holds.
"""

import ast
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from streamlit import config
from streamlit.testing.v1 import AppTest
from streamlit.web.server.starlette.starlette_app_utils import generate_xsrf_token_string

from dashboard import annotating
from dashboard.shelf import Shelf, open_shelf
from dashboard.upload import Report
from dashboard.views import adding, data, trends
from dashboard.views.printed import uploaded_table
from tests.dashboard.doors import guarded, opens_a_session, visiting
from warehouse import annotations
from warehouse.filters import Filters

ROOT = Path(__file__).parents[2]
#: From the least to the most: who has one role has those before it. ``None``: nobody is logged in.
VISITORS = (None, "stranger", "viewer", "editor", "admin")
ANYBODY = None
#: Each address and whom it lets in at least.
ADDRESSES: dict[str, str | None] = {
    # They tell nothing, or are the way in and out.
    **dict.fromkeys(
        ("GET /healthz", "GET /_stcore/health", "GET /login", "GET /auth/login",
         "GET /auth/logout"), ANYBODY,
    ),
    **dict.fromkeys(
        ("GET /{path}", "WEBSOCKET /_stcore/stream", "GET /claims", "GET /decide",
         "GET /draft-tokens", "GET /explore", "GET /nights", "GET /runs", "GET /slo",
         "GET /seen", "GET /verdict", "GET /what-if", "GET /_stcore/host-config", "GET /_stcore/metrics",
         "GET /_stcore/bidi-components/{path:path}", "GET /component/{path:path}",
         "GET /media/{file_id:path}"), "viewer",
    ),
    **dict.fromkeys(
        ("GET /metrics", "GET /llms.txt", "POST /mcp", "GET /api/v1/openapi.json",
         "GET /api/v1/cells", "GET /api/v1/claims", "GET /api/v1/compare", "GET /api/v1/cost",
         "GET /api/v1/decide", "GET /api/v1/health", "GET /api/v1/predict", "GET /api/v1/runs",
         "GET /api/v1/slo", "GET /api/v1/trends"), "viewer",
    ),
    "PUT /_stcore/upload_file/{session_id}/{file_id}": "editor",
    "DELETE /_stcore/upload_file/{session_id}/{file_id}": "editor",
}  # fmt: skip
#: Whom the provider sends back: what it says decides, and no visitor here has been there.
_WAY_BACK = "GET /oauth2callback"
#: Streamlit's own for agents, which is switched off: whoever is let in is told so.
_SWITCHED_OFF = re.compile(r"\w+ /_stcore/agent/(interact|mcp|openapi\.json)")


def addresses() -> list[str]:
    """Return every address that the application answers, with its method."""
    code = (
        "import json\n"
        "from starlette.routing import Mount, WebSocketRoute\n"
        "from dashboard.app import app\n"
        "def walk(routes, before=''):\n"
        "    for one in routes:\n"
        "        path = before + getattr(one, 'path', '')\n"
        "        if isinstance(one, Mount) and one.routes: yield from walk(one.routes, path)\n"
        "        elif isinstance(one, Mount): yield f'GET {path}/{{path}}'\n"
        "        elif isinstance(one, WebSocketRoute): yield f'WEBSOCKET {path}'\n"
        "        else:\n"
        "            for method in one.methods or {'POST'}: yield f'{method} {path}'\n"
        "print(json.dumps(sorted(set(walk(app._build_starlette_app().routes)))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return [one for one in found if not one.startswith(("HEAD ", "OPTIONS "))]


@pytest.mark.slow
def test_every_address_has_a_row() -> None:
    found = [one for one in addresses() if not _SWITCHED_OFF.fullmatch(one)]
    assert sorted(found) == sorted([*ADDRESSES, _WAY_BACK])


@pytest.fixture(scope="module")
def address(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with guarded(tmp_path_factory.mktemp("matrix"), filled) as (url, _):
        yield url


def _lets_in(client: httpx.Client, asked: str) -> bool:
    """Return whether somebody is let in who asks this; whatever is said then."""
    method, path = asked.replace("{path:path}", "x").replace("{", "").replace("}", "").split()
    if method == "WEBSOCKET":
        return opens_a_session(client) == 101
    token = generate_xsrf_token_string()
    client.cookies.delete("_streamlit_xsrf")
    client.cookies.set("_streamlit_xsrf", token)
    answer = client.request(method, path, headers={"X-Xsrftoken": token})
    assert answer.status_code < 500, answer.text
    return answer.status_code not in (401, 403)


@pytest.mark.slow
@pytest.mark.parametrize("visitor", VISITORS)
def test_each_address_lets_in_whom_it_should_and_nobody_else(
    address: str, visitor: str | None
) -> None:
    with visiting(address, visitor) as client:
        let_in = {asked for asked in ADDRESSES if _lets_in(client, asked)}
    rank = VISITORS.index(visitor)
    assert let_in == {a for a, least in ADDRESSES.items() if VISITORS.index(least) <= rank}


@dataclass(frozen=True)
class Action:
    """What somebody does on a page, and who may at least; ``does``: it needs no browser."""

    least: str
    does: Callable[[Shelf], Any]


def _note(shelf: Shelf) -> None:
    annotating._write(shelf, "note", annotations.AnnotationTarget(night="2026-11-02"), "a note")


def _accept(shelf: Shelf) -> None:
    trends._accepted(shelf, annotations.AnnotationTarget(night="2026-11-02"), "as it should be")


def _read_files(shelf: Shelf) -> None:
    file = io.BytesIO(b"{}")
    file.name = "report.json"
    adding._answer(shelf, Filters(), [file])


ACTIONS = {
    "write a note, exclude a run": Action("editor", _note),
    "accept a night": Action("editor", _accept),
    "have files read": Action("editor", _read_files),
    "keep files": Action("editor", lambda shelf: adding._keep(shelf, [Report("a.json", b"{}")])),
    "have a table of claims read": Action(
        "editor", lambda _: uploaded_table("claims.yaml", b"study: {}")
    ),
    "read the audit trail": Action("admin", lambda shelf: data.audit_trail(shelf, Filters())),
}
#: Each button and each place for files, and the action behind it; None: it changes nothing, for nobody
#: but who presses it.
WIDGETS: dict[str, str | None] = {
    "annotating.py: 'Note on the night'": "write a note, exclude a run",
    "annotating.py: button": "write a note, exclude a run",
    "views/trends.py: 'Accept'": "accept a night",
    "views/adding.py: 'Your files'": "have files read",
    "views/adding.py: 'Keep these files in the warehouse'": "keep files",
    "views/printed.py: f'Check a table of your own, up to {MOST_MB} MB'":
        "have a table of claims read",
    "views/data/questions.py: 'Run'": None,
    "views/decide.py: 'Only this on all pages'": None,
    "links.py: 'Show the page without it'": None,
    "welcome.py: 'Drop your two files here'": None,
    "welcome.py: 'Look at the examples'": None,
    "frame.py: 'Log out'": None,
}  # fmt: skip
_TAKING = {
    "button", "form_submit_button", "file_uploader", "camera_input", "audio_input", "chat_input",
    "data_editor",
}  # fmt: skip


def _widgets() -> Iterator[str]:
    folder = ROOT / "dashboard"
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in _TAKING:
                yield f"{path.relative_to(folder)}: {ast.unparse(node.args[0])}"


def test_every_button_has_a_row_and_its_action_is_asked() -> None:
    assert sorted(_widgets()) == sorted(WIDGETS)
    assert set(WIDGETS.values()) - {None} <= ACTIONS.keys()


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str | None], None]]:
    """``become("viewer")``: whoever acts from now on has that role."""
    before = config.get_option("server.address")

    def change(role: str | None) -> None:
        # Without a login an admin is whoever sits at the server itself.
        config.set_option("server.address", "localhost" if role == "admin" else "0.0.0.0")
        monkeypatch.delenv("DRAFTBOARD_OPEN_TO_EVERYONE", raising=False)
        if role in ("viewer", "editor"):
            monkeypatch.setenv("DRAFTBOARD_OPEN_TO_EVERYONE", role)

    yield change
    config.set_option("server.address", before)


def _script(name):  # type: ignore[no-untyped-def]  # its text alone becomes a script
    import streamlit as st

    from dashboard.doors.access import NotLetIn
    from tests.dashboard import test_guard_matrix as matrix

    # What was done draws the page again.
    if not st.session_state.get("asked"):
        st.session_state["asked"] = True
        try:
            matrix.ACTIONS[name].does(matrix.open_shelf())
        except NotLetIn as refusal:
            st.error(f"refused: {refusal}")


def _files(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def own(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the filled warehouse, to write on, as the one that the dashboard opens."""
    root = tmp_path / "own"
    shutil.copytree(filled, root)
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(root))
    open_shelf()
    return root


@pytest.mark.parametrize("visitor", [None, "viewer", "editor", "admin"])
@pytest.mark.parametrize("name", ACTIONS)
def test_each_action_is_done_by_whom_it_should_and_nobody_else(
    own: Path, become: Callable[[str | None], None], visitor: str | None, name: str
) -> None:
    before = _files(own)
    become(visitor)
    page = AppTest.from_function(_script, args=(name,), default_timeout=60).run()
    assert not page.exception, page.exception
    refused = any(one.value.startswith("refused: ") for one in page.error)
    assert refused == (VISITORS.index(visitor) < VISITORS.index(ACTIONS[name].least))
    if refused:
        assert _files(own) == before
