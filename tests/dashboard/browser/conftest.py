"""A server on the recorded runs of examples/, one browser for a file of tests, a fresh profile each."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboard.browser.seen import chromium, fresh, served


@pytest.fixture(scope="session")
def recorded(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of the recorded runs: a copy, because what is written on the pages is kept in it."""
    root = tmp_path_factory.mktemp("recorded") / "warehouse"
    shutil.copytree(examples, root)
    return root


@pytest.fixture(scope="session")
def address(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard process on the recorded runs."""
    with served(recorded, tmp_path_factory.mktemp("log") / "server.log") as found:
        yield found


# The API of playwright has one loop for a thread: other files of tests start their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a file."""
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page in a fresh profile."""
    with fresh(browser) as opened:
        yield opened


@pytest.fixture(scope="module")
def kept(browser: Browser) -> Iterator[Page]:
    """A page for all tests of a file: another address is another session, but no code is fetched
    twice."""
    with fresh(browser) as opened:
        yield opened


@pytest.fixture(scope="module")
def dark(browser: Browser) -> Iterator[Page]:
    """The same on a dark ground."""
    with fresh(browser, color_scheme="dark") as opened:
        yield opened
