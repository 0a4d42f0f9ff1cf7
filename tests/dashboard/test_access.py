"""Who is let in and as what: the settings, the claims of a provider, and where a server stands."""

import copy
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit import config
from streamlit.testing.v1 import AppTest

from dashboard.doors.access import (
    LoginNeeded,
    NotAllowed,
    NotLetIn,
    User,
    decided,
    limits_from,
    login_from,
)

APP = Path(__file__).parents[2] / "dashboard" / "frame.py"
DOCS = Path(__file__).parents[2] / "docs"
SECRET = "a secret of a test, as long as one has to be"
NOW = 1_800_000_000.0
SECRETS: dict[str, Any] = {
    "auth": {
        "redirect_uri": "https://board.example.com/oauth2callback",
        "cookie_secret": SECRET,
        "client_id": "draftboard",
        "client_secret": "another",
        "server_metadata_url": "https://login.example.com/.well-known/openid-configuration",
    },
    "draftboard": {
        "access": {
            "editors": {
                "addresses": [
                    "Ed@example.com",
                    "s@example.com",
                    "k@example.com",
                    "groß@example.com",
                ],
                "groups": ["perf-team"],
            },
            "viewers": {"domains": ["@Viewers.example", "Straße.example"]},
            "admins": {"groups": ["owners"]},
        }
    },
}
ED: dict[str, Any] = {
    "is_logged_in": True, "sub": "1", "name": "Ed Itor", "email": "ed@EXAMPLE.com",
    "email_verified": True, "iat": NOW - 60, "exp": NOW + 60,
}  # fmt: skip


def _changed(*path: str, to: Any) -> dict[str, Any]:
    """SECRETS with one value set, or taken out where ``to`` is None."""
    secrets = copy.deepcopy(SECRETS)
    place = secrets
    for name in path[:-1]:
        place = place.setdefault(name, {})
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return secrets


def _decided(claims: dict[str, Any], secrets: dict[str, Any] = SECRETS, now: float = NOW) -> User:
    login = login_from(secrets)
    assert login is not None
    return decided(login, claims, now)


def test_the_settings_that_the_page_shows_let_in_whom_they_name() -> None:
    text = (DOCS / "sharing.md").read_text("utf-8").replace('"…"', f'"{SECRET}"')
    shown = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    secrets = tomllib.loads(shown[1])

    for name, role in (("ada", "editor"), ("grace", "admin"), ("joan", "viewer")):
        claims = {**ED, "email": f"{name}@example.com"}
        assert _decided(claims, secrets).role == role
    with pytest.raises(NotAllowed):
        _decided({**ED, "email": "joan@elsewhere.org"}, secrets)


def test_without_settings_there_is_no_login() -> None:
    assert login_from({}) is None
    assert login_from({"something": "else"}) is None


@pytest.mark.parametrize(
    ("claims", "known"),
    [
        (ED, User("Ed Itor", "ed@example.com", "editor")),
        ({**ED, "groups": ["owners"]}, User("Ed Itor", "ed@example.com", "admin")),
        ({**ED, "email": "x@viewers.EXAMPLE"}, User("Ed Itor", "x@viewers.example", "viewer")),
        ({**ED, "email_verified": False, "groups": "perf-team"}, User("Ed Itor", "", "editor")),
        ({**ED, "email_verified": "true"}, User("Ed Itor", "ed@example.com", "editor")),
        ({**ED, "name": "Ed\n\u202eItor"}, User("Ed Itor", "ed@example.com", "editor")),
        ({**ED, "name": None}, User("ed@example.com", "ed@example.com", "editor")),
        ({**ED, "email": "groß@Example.com"}, User("Ed Itor", "groß@example.com", "editor")),
        # One domain, as its own rules say: in any letters, and as it is registered.
        *(
            ({**ED, "email": f"x@{domain}"}, User("Ed Itor", "x@xn--strae-oqa.example", "viewer"))
            for domain in ("straße.example", "STRAße.example", "xn--strae-oqa.example")
        ),
    ],
)
def test_address_domain_and_group_give_a_role(claims: dict[str, Any], known: User) -> None:
    assert _decided(claims) == known


@pytest.mark.parametrize(
    "claims",
    [
        {**ED, "email_verified": False},
        {key: value for key, value in ED.items() if key != "email_verified"},
        {**ED, "email": "ed@example.com@elsewhere.example"},
        {**ED, "email": "ed@sub.viewers.example"},
        {**ED, "email": "ed@notviewers.example"},
        {**ED, "email": ["ed@example.com"]},
        {**ED, "email": "viewers.example"},
        {**ED, "email": "", "groups": ["perf-team-friends", 7, None]},
        {**ED, "email": "", "groups": {"perf-team": True}},
        {key: value for key, value in ED.items() if key != "exp"},
        {**ED, "exp": True},
        {**ED, "exp": "9999999999"},
        {**ED, "exp": math.nan},
        {**ED, "exp": math.inf},
        {**ED, "exp": 10**400},
        {**ED, "exp": (NOW + 60) * 1000},
        {**ED, "email_verified": 1},
        {**ED, "email_verified": 1.0},
        {**ED, "email_verified": "True"},
        {**ED, "email_verified": ["true"]},
        # What only looks alike once letters are folded is somebody else.
        {**ED, "email": "\u017f@example.com"},
        {**ED, "email": "\u212a@example.com"},
        {**ED, "email": "gross@example.com"},
        {**ED, "email": "GROSS@example.com"},
        {**ED, "email": "x@strasse.example"},
        {**ED, "email": "x@\ud800.example"},
    ],
)
def test_in_doubt_nobody_is_let_in(claims: dict[str, Any]) -> None:
    with pytest.raises(NotAllowed):
        _decided(claims)


@pytest.mark.parametrize("said", [None, False, "true", 1])
def test_only_a_plain_yes_of_streamlit_is_a_login(said: object) -> None:
    with pytest.raises(LoginNeeded):
        _decided({**ED, "is_logged_in": said})


def test_a_login_ends_when_its_token_does_or_after_the_hours_that_are_set() -> None:
    with pytest.raises(LoginNeeded, match="expired"):
        _decided(ED, now=NOW + 60)
    hours = _changed("draftboard", "access", "session_hours", to=2)
    assert _decided(ED, hours, now=NOW + 7000).role == "editor"
    with pytest.raises(LoginNeeded, match="expired"):
        _decided(ED, hours, now=NOW + 7200)


def test_addresses_that_are_not_verified_count_only_where_that_is_said() -> None:
    trusted = _changed("draftboard", "access", "trust_addresses", to=True)

    assert _decided({**ED, "email_verified": False}, trusted).role == "editor"


def test_the_claim_that_holds_the_groups_can_be_named() -> None:
    named = _changed("draftboard", "access", "group_claim", to="https://example.com/roles")

    assert _decided({**ED, "email": "", "https://example.com/roles": ["perf-team"]}, named).role
    with pytest.raises(NotAllowed):
        _decided({**ED, "email": "", "groups": ["perf-team"]}, named)


@pytest.mark.parametrize(
    ("secrets", "what"),
    [
        (_changed("auth", to=None), "(auth)"),
        (_changed("draftboard", to=None), "(draftboard.access)"),
        (_changed("draftboard", to="open"), "(draftboard.access)"),
        (_changed("draftboard", "limits", "sessions", to=0), "draftboard.limits.sessions"),
        (_changed("draftboard", "limits", "sesions", to=9), "draftboard.limits: an unknown"),
        (_changed("draftboard", "access", to={}), "neither viewers nor editors"),
        (_changed("draftboard", "access", "viewers", "domains", to="x.example"), "viewers.domains"),
        (_changed("draftboard", "access", "viewers", "domains", to=["*.example"]), "domains"),
        (_changed("draftboard", "access", "viewers", "domains", to=[""]), "viewers.domains"),
        (_changed("draftboard", "access", "editors", "addresses", to=["ed"]), "editors.addresses"),
        (_changed("draftboard", "access", "editors", "groups", to=[""]), "editors.groups"),
        (_changed("draftboard", "access", "veiwers", to={}), "an unknown entry"),
        (_changed("draftboard", "access", "session_hours", to=0), "session_hours"),
        (_changed("auth", "cookie_secret", to="short"), "auth.cookie_secret"),
        (
            _changed("auth", "redirect_uri", to="http://board.example.com/oauth2callback"),
            "redirect",
        ),
        (_changed("auth", "redirect_uri", to="https://board.example.com/"), "redirect_uri"),
        (_changed("auth", "client_secret", to=""), "auth.client_secret"),
        (_changed("auth", "server_metadata_url", to="http://login.example.com"), "metadata_url"),
        (_changed("auth", "client_id", to=None), "no provider"),
        (_changed("auth", "my_google", to={"client_id": "x"}), "underscore"),
    ],
)
def test_wrong_settings_let_nobody_in_and_name_the_setting(
    secrets: dict[str, Any], what: str
) -> None:
    with pytest.raises(NotLetIn) as refused:
        login_from(secrets) and limits_from(secrets)

    assert what in str(refused.value)
    assert type(refused.value) is NotLetIn


def test_a_refusal_never_repeats_a_value_nor_a_name_that_is_not_ours() -> None:
    secret = "hunter2-hunter2"
    for wrong in (
        _changed("auth", "cookie_secret", to=secret),
        _changed("auth", "redirect_uri", to=f"http://{secret}.example"),
        _changed("draftboard", "access", secret, to=1),
        _changed("draftboard", "access", "editors", "addresses", to=[secret]),
    ):
        with pytest.raises(NotLetIn) as refused:
            login_from(wrong)
        assert secret not in str(refused.value)


def test_named_providers_are_offered_by_their_names() -> None:
    own = SECRETS["auth"]
    provider = {key: own[key] for key in ("client_id", "client_secret", "server_metadata_url")}
    shared = {key: own[key] for key in ("redirect_uri", "cookie_secret")}

    both = login_from({**SECRETS, "auth": {**shared, "keycloak": provider, "google": provider}})
    one = login_from({**SECRETS, "auth": {**own, "client_kwargs": {"prompt": "login"}}})

    assert both is not None
    assert both.providers == ("keycloak", "google")
    assert one is not None
    assert one.providers == (None,)


@pytest.fixture
def address() -> Iterator[Any]:
    """Sets the address that the server listens on, and puts the old one back."""
    before = config.get_option("server.address")
    yield lambda value: config.set_option("server.address", value)
    config.set_option("server.address", before)


def _opened(**user: Any) -> AppTest:
    app = AppTest.from_file(str(APP), default_timeout=60)
    if user:
        app.secrets = copy.deepcopy(SECRETS)
        app.user = user
    return app.run()


def _said(app: AppTest) -> list[str]:
    return [one.value.replace("\\", "") for one in app.markdown]


@pytest.mark.usefixtures("empty_place")
@pytest.mark.parametrize(
    "user", [{"is_logged_in": False}, {**ED, "exp": 1}, {**ED, "email": "x@y.z"}]
)
def test_nothing_is_read_before_it_is_decided_who_reads(user: dict[str, Any]) -> None:
    """There is no warehouse: whoever looked for one would say so."""
    app = _opened(**user)

    assert not app.error
    assert not app.exception
    assert len(_said(app)) == 1
    assert len([*app.button, *app.get("link_button")]) == 1


@pytest.mark.usefixtures("warehouse")
def test_on_this_machine_alone_everybody_is_an_editor_and_nobody_logs_in() -> None:
    app = _opened()

    assert app.header
    assert "log-out" not in [button.key for button in app.button]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("place", [None, "0.0.0.0", "::", "192.0.2.7", "board.example.com"])
def test_where_other_machines_can_come_in_it_takes_a_login_or_plain_words(
    address: Any, place: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    address(place)
    for said in (None, "yes", "Viewer"):
        monkeypatch.delenv("DRAFTBOARD_OPEN_TO_EVERYONE", raising=False)
        if said is not None:
            monkeypatch.setenv("DRAFTBOARD_OPEN_TO_EVERYONE", said)
        closed = _opened()
        assert not closed.header
        assert "reached from other machines" in _said(closed)[0]

    monkeypatch.setenv("DRAFTBOARD_OPEN_TO_EVERYONE", "viewer")
    assert _opened().header


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("place", ["localhost", "127.0.0.1", "::1", "127.0.0.8"])
def test_this_machine_has_several_names(address: Any, place: str) -> None:
    address(place)

    assert _opened().header
