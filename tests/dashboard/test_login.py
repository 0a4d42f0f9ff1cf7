"""Who is let in, in a real Chromium, against a real OpenID provider that the test starts."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, WebSocket, expect

from dashboard.views import VIEWS
from tests.dashboard.browser.seen import DRAWN_MS, answered, chromium

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
#: A name that somebody else has pointed at this machine.
REBOUND = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
#: What every page with results tells, and no other may.
DATA = b"tiny-target"
SENTENCE = "Log in to see this dashboard."
USERS: tuple[dict[str, Any], ...] = (
    {"sub": "ed", "name": "Ed Itor", "email": "Ed@Example.com", "email_verified": True},
    {"sub": "vi", "name": "Vi Ewer", "email": "vi@viewers.example", "email_verified": True},
    {"sub": "gro", "name": "Gro Up", "groups": ["guests", "perf-team"]},
    {
        "sub": "stranger",
        "name": "S Tranger",
        "email": "s@elsewhere.example",
        "email_verified": True,
    },
    {"sub": "liar", "name": "Ed Itor", "email": "ed@example.com", "email_verified": False},
)
SETTINGS = """
[draftboard.access.editors]
addresses = ["ed@example.com"]
groups = ["perf-team"]
[draftboard.access.viewers]
domains = ["viewers.example"]
"""
SECRET = "a secret of a test, as long as one has to be"
#: Long enough to log in and see a page, short enough to wait for.
SHORT_S = 30


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def _running(words: list[str], url: str, **how: Any) -> Iterator[None]:
    """A server, from its first answer until the end of the block."""
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True, **how)
    try:
        answered(url)
        yield
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


@contextmanager
def _provider(lives_s: int) -> Iterator[str]:
    """An OpenID provider whose tokens expire after ``lives_s``; its address."""
    port = _free_port()
    words = [sys.executable, "-m", "oidc_provider_mock", f"--port={port}"]
    words += [f"--token-max-age={lives_s}", "--require-nonce"]
    words += [f"--user-claims={json.dumps(user)}" for user in USERS]
    with _running(words, f"http://127.0.0.1:{port}/jwks", stderr=subprocess.DEVNULL):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _dashboard(
    place: Path, warehouse: Path, secrets: str = "", words: tuple[str, ...] = (), **more: str
) -> Iterator[str]:
    """A dashboard as a person starts it, in a folder with these secrets; its address."""
    port = _free_port()
    folder = place / ".streamlit"
    folder.mkdir(parents=True)
    if secrets:
        (folder / "secrets.toml").write_text(secrets.replace("{port}", str(port)), encoding="utf-8")
    start = [str(Path(sys.executable).with_name("draftboard")), "dashboard", f"--port={port}"]
    environment = {**os.environ, "DRAFTBOARD_WAREHOUSE": str(warehouse), **more}
    with (
        (place / "log").open("wb") as log,
        _running([*start, *words], f"http://127.0.0.1:{port}/healthz", cwd=place,
                 env=environment, stderr=log),
    ):  # fmt: skip
        yield f"http://localhost:{port}"


def _auth(provider: str) -> str:
    return f"""
[auth]
redirect_uri = "http://localhost:{{port}}/oauth2callback"
cookie_secret = "{SECRET}"
client_id = "draftboard"
client_secret = "another secret"
server_metadata_url = "{provider}/.well-known/openid-configuration"
"""


@pytest.fixture(scope="module")
def address(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard with a login whose tokens hold for an hour."""
    place = tmp_path_factory.mktemp("login")
    with _provider(3600) as url, _dashboard(place, filled, _auth(url) + SETTINGS) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium, for as many profiles as the tests need."""
    with chromium(REBOUND) as opened:
        yield opened


@dataclass
class Visitor:
    """A person with a profile of their own, and everything that a server has sent to it."""

    page: Page
    received: list[bytes] = field(default_factory=list)

    def knows(self, what: bytes) -> bool:
        return any(what in frame for frame in self.received)

    def log_in(self, sub: str) -> None:
        """Go through the provider's own page."""
        self.page.get_by_role("link", name="Log in").click()
        self.page.get_by_role("button", name=sub, exact=True).click()


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    """A fresh profile."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    someone = Visitor(context.new_page())

    def listen(socket: WebSocket) -> None:
        socket.on("framereceived", lambda sent: someone.received.append(_bytes(sent)))

    someone.page.on("websocket", listen)
    yield someone
    context.close()


def _bytes(sent: str | bytes) -> bytes:
    return sent.encode() if isinstance(sent, str) else sent


def _sees(visitor: Visitor, text: str | re.Pattern[str]) -> None:
    expect(visitor.page.get_by_text(text)).to_be_visible(timeout=DRAWN_MS)


def _sees_results(visitor: Visitor) -> None:
    heading = visitor.page.get_by_role("heading", level=2).first
    expect(heading).to_be_visible(timeout=DRAWN_MS)
    # The pages of the frame name what was measured in their filters, if not in their first line.
    expect(visitor.page.get_by_test_id("stApp")).to_have_attribute(
        "data-test-script-state", "notRunning", timeout=DRAWN_MS
    )
    assert visitor.knows(DATA)


def _sees_only(visitor: Visitor, text: str | re.Pattern[str]) -> None:
    """The gate's own page: one sentence, and no frame of the dashboard that could ask for more."""
    _sees(visitor, text)
    assert visitor.page.get_by_test_id("stApp").count() == 0
    _sees_nothing_else(visitor)


def _sees_nothing_else(visitor: Visitor) -> None:
    """No heading, no filter, and nothing of the warehouse in anything that was sent."""
    assert visitor.page.get_by_role("heading").count() == 0
    assert visitor.page.get_by_test_id("stMultiSelect").count() == 0
    assert visitor.page.get_by_role("dialog").count() == 0
    assert not visitor.knows(DATA)


@pytest.mark.parametrize("path", ["", *(f"/{view.URL_PATH}" for view in VIEWS[1:])])
def test_without_a_login_no_address_tells_anything(
    visitor: Visitor, address: str, path: str
) -> None:
    visitor.page.goto(address + path)

    _sees_only(visitor, SENTENCE)
    expect(visitor.page.get_by_role("link", name="Log in")).to_be_visible()
    assert not visitor.received


@pytest.mark.parametrize(
    "path",
    ["/", "/_stcore/host-config", "/media/x.csv", "/_stcore/upload_file/a/b", "/_stcore/metrics"],
)
def test_without_a_login_the_gate_answers_before_streamlit_does(address: str, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(address + path, timeout=60)

    with refused.value as answer:
        assert answer.code == 403
        assert SENTENCE in answer.read().decode()


def test_whoever_watches_the_server_needs_no_login(address: str) -> None:
    with urllib.request.urlopen(f"{address}/healthz", timeout=60) as answer:
        assert answer.read() == b"ok"


def test_without_a_login_no_websocket_opens(address: str) -> None:
    host = address.removeprefix("http://")
    asks = f"GET /_stcore/stream HTTP/1.1\r\nHost: {host}\r\nOrigin: {address}\r\n"
    asks += "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    asks += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    with socket.create_connection(("localhost", int(host.partition(":")[2])), 60) as line:
        line.sendall(asks.encode())
        assert line.recv(64).split()[1] == b"403"


def test_an_editor_logs_in_sees_the_pages_and_may_upload(visitor: Visitor, address: str) -> None:
    visitor.page.goto(address)
    visitor.log_in("ed")

    _sees_results(visitor)
    _sees(visitor, "Ed Itor, editor")
    visitor.page.goto(f"{address}/?add=true")
    expect(visitor.page.get_by_test_id("stFileUploader")).to_be_visible(timeout=DRAWN_MS)


def test_a_viewer_sees_the_pages_and_cannot_upload(visitor: Visitor, address: str) -> None:
    visitor.page.goto(address)
    visitor.log_in("vi")

    _sees_results(visitor)
    _sees(visitor, "Vi Ewer, viewer")
    for path in ("?add=true", "data?part=Published+figures"):
        visitor.page.goto(f"{address}/{path}")
        _sees_results(visitor)
        expect(visitor.page.get_by_test_id("stFileUploader")).to_have_count(0)
    visitor.page.goto(f"{address}/?add=true")
    _sees(visitor, re.compile("upload reports takes the role editor"))


def test_a_link_waits_until_its_reader_has_logged_in(visitor: Visitor, address: str) -> None:
    visitor.page.goto(f"{address}/trends?budget=7%25")
    _sees_only(visitor, SENTENCE)

    visitor.log_in("vi")

    _sees_results(visitor)
    budget = visitor.page.get_by_role("textbox", name="How much worse is still fine?")
    expect(budget).to_have_value("7%")
    # It waited for once: the first page is the first page again.
    visitor.page.goto(address)
    _sees_results(visitor)
    assert visitor.page.url.rstrip("/") == address


@pytest.mark.parametrize(
    "path", ["//elsewhere.example/x", "/\\elsewhere.example", "////elsewhere.example/x"]
)
def test_a_link_that_waits_leads_nowhere_else(visitor: Visitor, address: str, path: str) -> None:
    context = visitor.page.context
    context.add_cookies(
        [{"name": "draftboard_asked", "value": quote(path, safe=""), "url": address}]
    )
    visitor.page.goto(address + "/runs")
    context.add_cookies(
        [{"name": "draftboard_asked", "value": quote(path, safe=""), "url": address}]
    )
    visitor.log_in("vi")

    visitor.page.wait_for_load_state()

    assert visitor.page.url.startswith(address + "/")


def test_a_group_gives_its_role(visitor: Visitor, address: str) -> None:
    visitor.page.goto(address)
    visitor.log_in("gro")

    _sees(visitor, "Gro Up, editor")


@pytest.mark.parametrize("sub", ["stranger", "liar"])
def test_who_is_not_named_or_whose_address_is_not_verified_sees_nothing(
    visitor: Visitor, address: str, sub: str
) -> None:
    visitor.page.goto(address)
    visitor.log_in(sub)

    _sees_only(visitor, re.compile("nobody has given you access"))
    for view in VIEWS[1:]:
        visitor.page.goto(f"{address}/{view.URL_PATH}")
        _sees_only(visitor, re.compile("nobody has given you access"))
    visitor.page.get_by_role("link", name="Log out").click()
    visitor.page.get_by_role("button", name="End session").click()
    _sees_only(visitor, SENTENCE)


def test_after_logging_out_nothing_is_told_any_more(visitor: Visitor, address: str) -> None:
    visitor.page.goto(address)
    visitor.log_in("vi")
    _sees_results(visitor)

    visitor.page.get_by_role("button", name="Log out").click()
    visitor.page.get_by_role("button", name="End session").click()

    visitor.received.clear()
    visitor.page.goto(f"{address}/data")
    _sees_only(visitor, SENTENCE)


def test_a_login_that_somebody_signed_with_another_secret_does_not_count(
    visitor: Visitor, address: str
) -> None:
    visitor.page.goto(address)
    visitor.log_in("ed")
    _sees_results(visitor)
    context = visitor.page.context
    held = next(one for one in context.cookies() if one.get("name") == "_streamlit_user")
    value = str(held.get("value"))
    context.add_cookies([{**held, "value": value[:-4] + ("AAAA" if value[-4:] != "AAAA" else "BBBB")}])  # type: ignore[list-item,typeddict-item]  # fmt: skip

    visitor.received.clear()
    visitor.page.goto(f"{address}/data")

    _sees_only(visitor, SENTENCE)


def test_an_expired_login_tells_nothing_more_and_is_renewed_by_logging_in(
    visitor: Visitor, filled: Path, tmp_path: Path
) -> None:
    with _provider(SHORT_S) as url, _dashboard(tmp_path, filled, _auth(url) + SETTINGS) as address:
        visitor.page.goto(address)
        visitor.log_in("ed")
        expires = time.monotonic() + SHORT_S
        _sees_results(visitor)
        visitor.page.wait_for_timeout(max(0.0, expires - time.monotonic()) * 1000)

        # The page that was open stays as it is; the next thing it asks for is refused.
        visitor.received.clear()
        visitor.page.get_by_role("link", name="Data", exact=True).click()
        _sees(visitor, "Your login has expired; log in again.")
        _sees_nothing_else(visitor)
        # The cookie would hold for a month.
        visitor.page.goto(address)
        _sees_only(visitor, "Your login has expired; log in again.")

        visitor.log_in("ed")
        _sees_results(visitor)


def test_a_name_that_somebody_pointed_at_this_machine_tells_nothing(
    visitor: Visitor, filled: Path, tmp_path: Path
) -> None:
    with _dashboard(tmp_path, filled) as address:
        port = address.rpartition(":")[2]
        visitor.page.goto(f"http://rebound.example:{port}")
        _sees_only(visitor, re.compile("not known under the name"))

        visitor.page.goto(address)
        _sees_results(visitor)
        assert visitor.page.get_by_role("button", name="Log out").count() == 0


def test_the_command_refuses_other_machines_without_a_login(tmp_path: Path) -> None:
    draftboard = str(Path(sys.executable).with_name("draftboard"))

    told = subprocess.run(
        [draftboard, "dashboard", "--host", "0.0.0.0"],
        cwd=tmp_path, capture_output=True, text=True, timeout=DRAWN_MS / 1000, check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip

    assert told.returncode == 1
    assert told.stdout == ""
    assert told.stderr.count("\n") == 1
    assert "set up a login" in told.stderr


def test_streamlit_by_itself_opened_to_other_machines_shows_one_sentence(
    visitor: Visitor, filled: Path
) -> None:
    port = _free_port()
    words = [str(Path(sys.executable).with_name("streamlit")), "run", "dashboard/app.py"]
    words += [f"--server.port={port}", "--server.address=0.0.0.0"]
    environment = {**os.environ, "DRAFTBOARD_WAREHOUSE": str(filled)}
    url = f"http://localhost:{port}"
    with _running(words, f"{url}/healthz", cwd=ROOT, env=environment):
        visitor.page.goto(url)

        _sees_only(visitor, re.compile("reached from other machines"))


def test_opened_to_everyone_in_so_many_words_everybody_is_what_was_said(
    visitor: Visitor, filled: Path, tmp_path: Path
) -> None:
    words = ("--host=0.0.0.0", "--open-to-everyone=viewer", "--name=rebound.example")
    with (
        socket.create_server(("127.0.0.1", 0)) as way_out,
        _dashboard(tmp_path, filled, words=words, **_proxy(way_out)) as address,
    ):
        port = address.rpartition(":")[2]
        for name in ("localhost", "rebound.example"):
            visitor.received.clear()
            visitor.page.goto(f"http://{name}:{port}/?add=true")

            _sees(visitor, re.compile("upload reports takes the role editor"))
            assert visitor.knows(DATA)
        way_out.setblocking(False)
        with pytest.raises(BlockingIOError):
            way_out.accept()  # The server has asked nobody for anything.


def _proxy(listening: socket.socket) -> dict[str, str]:
    """Settings under which every request to the internet comes to us."""
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    return dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), address)


def test_secrets_that_may_not_be_read_are_one_sentence(tmp_path: Path) -> None:
    # A folder, since root may read every file.
    (tmp_path / ".streamlit" / "secrets.toml").mkdir(parents=True)
    draftboard = str(Path(sys.executable).with_name("draftboard"))

    done = subprocess.run(
        [draftboard, "dashboard"],
        cwd=tmp_path, capture_output=True, text=True, timeout=DRAWN_MS / 1000, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert "secrets.toml cannot be read (Is a directory)" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("secrets", "sentence"),
    [
        ("[auth\nclient_secret = 'very secret'", "secrets are there but cannot be read"),
        (f"[auth]\ncookie_secret = '{SECRET}'", "not set up correctly (auth.redirect_uri)"),
    ],
)
def test_secrets_that_are_wrong_let_nobody_in_and_are_not_told(
    visitor: Visitor, filled: Path, tmp_path: Path, secrets: str, sentence: str
) -> None:
    with _dashboard(tmp_path, filled, secrets) as address:
        visitor.page.goto(address)

        _sees_only(visitor, re.compile(re.escape(sentence)))
        assert not visitor.knows(b"secret =")
        assert not visitor.knows(SECRET.encode())
    assert "very secret" not in (tmp_path / "log").read_text()
    assert SECRET not in (tmp_path / "log").read_text()
