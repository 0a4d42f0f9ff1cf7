"""``draftboard gate --comment``: what it writes on a pull request, against a fake of GitHub's API."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from answers.wording import markdown
from draftboard import cli
from tests.deploy.fake_github import TOKEN, FakeGitHub, fake_github

MARK = "<!-- draftboard gate: draftboard / gate -->\n"
Gate = Callable[..., Result]


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with fake_github() as fake:
        yield fake


@pytest.fixture
def gate(place: Path, github: FakeGitHub, tmp_path_factory: pytest.TempPathFactory) -> Gate:
    """``gate(NAME=value)``: the gate as a workflow on pull request 7 calls it."""
    event = tmp_path_factory.mktemp("runner") / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    usual = {
        "GITHUB_EVENT_PATH": str(event), "GITHUB_REPOSITORY": "team/serving",
        "GITHUB_API_URL": github.address, "GITHUB_TOKEN": TOKEN,
        "GITHUB_WORKFLOW": "draftboard", "GITHUB_JOB": "gate",
    }  # fmt: skip
    words = ["gate", "--comment", "--warehouse", str(place)]
    return lambda **said: CliRunner().invoke(cli, words, env=usual | said)


def test_the_comment_says_what_became_worse_and_what_is_decided(
    gate: Gate, github: FakeGitHub
) -> None:
    done = gate()

    (own,) = github.comments
    assert own["body"].startswith(f"{MARK}### ❌ Draftboard: regression\n")
    (row,) = [
        line for line in own["body"].splitlines() if line.startswith("| ") and "eagle3" in line
    ]
    assert "| 2026-01-06 (0.24.0) |" in row
    assert "the decision</summary>" in own["body"]
    assert (done.exit_code, done.stderr) == (1, f"Commented: {own['html_url']}\n")


def test_a_token_that_may_not_comment_changes_nothing_of_the_verdict(
    gate: Gate, github: FakeGitHub
) -> None:
    github.may_write = False

    done = gate()

    assert done.exit_code == 1
    assert "403 (Resource not accessible by integration)" in done.stderr
    assert "pull-requests: write" in done.stderr
    assert TOKEN not in done.output


def test_the_comment_that_is_changed_is_the_token_owner_s(gate: Gate, github: FakeGitHub) -> None:
    github.login = "ada"
    for author in ("a-stranger", "github-actions[bot]", "ada"):
        github.add(f"{MARK}of {author}", author)

    gate()

    stranger, bot, own = (one["body"] for one in github.comments)
    assert (stranger, bot) == (f"{MARK}of a-stranger", f"{MARK}of github-actions[bot]")
    assert "regression" in own


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"GITHUB_EVENT_PATH": "/none.json"}, "none.json names no pull request"),
        ({"GITHUB_TOKEN": ""}, "GITHUB_TOKEN is not set"),
        ({"GITHUB_TOKEN": "another"}, "401 (Bad credentials)"),
        ({"GITHUB_API_URL": "http://127.0.0.1:1"}, "ConnectError"),
    ],
)
def test_where_no_comment_can_be_written_it_is_one_sentence(
    gate: Gate, github: FakeGitHub, said: dict[str, str], sentence: str
) -> None:
    done = gate(**said)

    assert done.exit_code == 1
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not github.comments


def test_a_text_of_a_result_is_no_markup_and_calls_nobody() -> None:
    text = "<img src=x> @team #7 https://evil.example\n| [a](b) ~~c~~"

    assert markdown(text) == (
        "\\<img src=x\\> @\u2060team \\#\u20607 https://\u2060evil.example "
        "\\| \\[a\\](b) \\~\\~c\\~\\~"
    )
