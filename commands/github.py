"""A comment on the pull request of a GitHub workflow: written once, then changed."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from warehouse.errors import InvalidInput

_PATIENCE_S = 30.0
_PAGE = 100
_NEEDED = ("GITHUB_REPOSITORY", "GITHUB_TOKEN", "GITHUB_EVENT_PATH")


@dataclass(frozen=True)
class PullRequest:
    """Where a comment goes. ``comments``: address of the comments of the pull request; ``mark``: how
    the comment of this job begins, which nobody sees."""

    api: str
    repository: str
    number: int
    token: str
    mark: str

    @property
    def _issues(self) -> str:
        return f"/repos/{self.repository}/issues"

    def say(self, text: str) -> str:
        """Write the comment, or change the one that this job wrote before. Returns its address.

        Raises InvalidInput where GitHub does not take it.
        """
        body = {"body": f"{self.mark}\n{text}"}
        try:
            with self._client() as client:
                own = self._own(client)
                path = (
                    f"{self._issues}/comments/{own}"
                    if own
                    else f"{self._issues}/{self.number}/comments"
                )
                return str(
                    _checked(client.request("PATCH" if own else "POST", path, json=body))[
                        "html_url"
                    ]
                )
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise InvalidInput(
                f"The comment was not written: {type(error).__name__} ({error})."
            ) from None

    def _client(self) -> httpx.Client:
        said = {
            "Authorization": f"Bearer {self.token}", "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }  # fmt: skip
        return httpx.Client(base_url=self.api, headers=said, timeout=_PATIENCE_S)

    def _own(self, client: httpx.Client) -> int | None:
        """Return the number of the comment that this job wrote before; None where there is none.

        A stranger may begin a comment with the same mark, so its author has to be ours.
        """
        answer = client.get("/user")
        login = str(answer.json()["login"]) if answer.is_success else None
        for one in self._comments(client):
            author = one.get("user") or {}
            ours = author.get("login") == login if login else author.get("type") == "Bot"
            if ours and str(one.get("body", "")).startswith(self.mark):
                return int(one["id"])
        return None

    def _comments(self, client: httpx.Client) -> Iterator[dict[str, Any]]:
        path: str | None = f"{self._issues}/{self.number}/comments?per_page={_PAGE}"
        while path:
            answer = client.get(path)
            yield from _checked(answer)
            path = answer.links.get("next", {}).get("url")


def _checked(answer: httpx.Response) -> Any:
    """Return what GitHub answered. Raises InvalidInput for a refusal, in GitHub's own words."""
    if answer.is_success:
        return answer.json()
    kind = answer.headers.get("content-type", "")
    said = answer.json().get("message") if kind.startswith("application/json") else None
    raise InvalidInput(
        f"The comment was not written: GitHub answered {answer.status_code} ({said or answer.reason_phrase}); "
        "the job needs `permissions: pull-requests: write`, and a pull request from a fork has none."
    )


def pull_request(said: Mapping[str, str] = os.environ) -> PullRequest:
    """Return the pull request of the workflow at hand, from the variables that GitHub sets.

    Raises InvalidInput where this is no workflow of a pull request.
    """
    missing = [name for name in _NEEDED if not said.get(name)]
    if missing:
        raise InvalidInput(
            f"--comment is for a workflow of GitHub: {', '.join(missing)} is not set; leave --comment out."
        )
    return PullRequest(
        said.get("GITHUB_API_URL", "https://api.github.com"), said["GITHUB_REPOSITORY"],
        _number(Path(said["GITHUB_EVENT_PATH"])), said["GITHUB_TOKEN"],
        f"<!-- draftboard gate: {said.get('GITHUB_WORKFLOW', '')} / {said.get('GITHUB_JOB', '')} -->",
    )  # fmt: skip


def _number(path: Path) -> int:
    try:
        event = json.loads(path.read_text(encoding="utf-8"))
        return int(event["pull_request"]["number"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidInput(
            f"{path.name} names no pull request; run the gate with --comment on: pull_request only."
        ) from None
