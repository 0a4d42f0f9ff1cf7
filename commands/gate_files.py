"""What the gate found, as other tools read it: JUnit XML for the tests of a CI, SARIF for annotations."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx

from answers.decide.overview import Overview
from answers.trend.answer import Trend, TrendLine
from answers.wording import markdown
from warehouse.errors import InvalidInput

# --- What the gate found, as a comment on a pull request: the verdict, what became worse, the decision.


#: GitHub takes 65,536 letters of a comment; a name may be long.
_MOST_LINES, _MOST_DECISIONS, _LONGEST = 20, 6, 60_000
_HEADER = ("series", "metric", "change", "95 % interval", "budget", "since", "changed with it")
_SIGNS = {"fine": "✅", "regression": "❌", "not enough evidence": "❔"}


def comment(found: Trend, decided: Sequence[Overview]) -> str:
    """Return the comment in Markdown. Nothing in a name or a text of a result is markup."""
    parts = [
        f"### {_SIGNS[found.status]} Draftboard: {found.status}",
        f"{markdown(found.headline)}. {markdown(found.summary)}".strip(),
    ]
    worse = [line for line in found.lines if line.status == "regression"]
    if worse:
        rows = [_row((*line.table_cells, line.changed_text)) for line in worse[:_MOST_LINES]]
        parts.append("\n".join([_row(_HEADER), "|" + "---|" * len(_HEADER), *rows]))
        if len(worse) > _MOST_LINES:
            parts.append(f"{len(worse) - _MOST_LINES:,} more became worse.")
    if decided:
        told = [f"**{markdown(one.name)}**\n\n{markdown(one.paragraph)}" for one in decided]
        left = len(told) - _MOST_DECISIONS
        more = [f"{left:,} more: draftboard verdict."] if left > 0 else []
        inside = "\n\n".join([*told[:_MOST_DECISIONS], *more])
        summary = "<summary>Speculative decoding: the decision</summary>"
        parts.append(f"<details>{summary}\n\n{inside}\n\n</details>")
    return "\n\n".join(parts)[:_LONGEST] + "\n"


def _row(values: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown, values))} |"


# --- A comment on the pull request of a GitHub workflow: written once, then changed.


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

    def say(self, text: str) -> str:
        """Write the comment, or change the one that this job wrote before. Returns its address.

        Raises InvalidInput where GitHub does not take it.
        """
        body = {"body": f"{self.mark}\n{text}"}
        headers = {
            "Authorization": f"Bearer {self.token}", "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }  # fmt: skip
        try:
            with httpx.Client(base_url=self.api, headers=headers, timeout=_PATIENCE_S) as client:
                own = self._own(client)
                at = f"comments/{own}" if own else f"{self.number}/comments"
                path = f"/repos/{self.repository}/issues/{at}"
                answer = client.request("PATCH" if own else "POST", path, json=body)
                return str(_checked(answer)["html_url"])
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise InvalidInput(
                f"The comment was not written: {type(error).__name__} ({error})."
            ) from None

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
        path: str | None = (
            f"/repos/{self.repository}/issues/{self.number}/comments?per_page={_PAGE}"
        )
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
    path = Path(said["GITHUB_EVENT_PATH"])
    try:
        number = int(json.loads(path.read_text(encoding="utf-8"))["pull_request"]["number"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidInput(
            f"{path.name} names no pull request; run the gate with --comment on: pull_request only."
        ) from None
    return PullRequest(
        said.get("GITHUB_API_URL", "https://api.github.com"), said["GITHUB_REPOSITORY"],
        number, said["GITHUB_TOKEN"],
        f"<!-- draftboard gate: {said.get('GITHUB_WORKFLOW', '')} / {said.get('GITHUB_JOB', '')} -->",
    )  # fmt: skip


# --- What the gate found, as other tools read it: JUnit XML for the tests of a CI, SARIF for annotations.


Json = dict[str, Any]
#: The rules, as SARIF lists them: id -> (what it says, its level).
_RULES = {
    "regression": ("A series became worse by more than its budget.", "error"),
    "drift": ("A series becomes worse, a little every night.", "warning"),
}


def junit(found: Trend) -> str:
    """Return one suite with a test case for each series: a regression is a failure, a series that
    cannot be judged yet is skipped."""
    suite = ElementTree.Element("testsuite", name="draftboard gate")
    for line in found.lines:
        case = ElementTree.SubElement(
            suite, "testcase", name=_xml(f"{line.name}, {line.metric}"),
            classname=_xml(f"draftboard.{line.study or 'gate'}"), time="0",
        )  # fmt: skip
        if line.status == "regression":
            why = _xml(line.why)
            failure = ElementTree.SubElement(case, "failure", type="regression", message=why)
            failure.text = _xml(_told(line))
        elif line.status != "fine":
            ElementTree.SubElement(case, "skipped", message=_xml(line.why))
    for name, tag in (("tests", "testcase"), ("failures", ".//failure"), ("skipped", ".//skipped")):
        suite.set(name, str(len(suite.findall(tag))))
    suite.set("errors", "0")
    suites = ElementTree.Element("testsuites", suite.attrib)
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Return a text without the control characters that XML has no form for."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def _told(line: TrendLine) -> str:
    return f"{line.said}\nChanged with {line.since}: {line.changed_text}"


def sarif(found: Trend, path: str | None) -> str:
    """Return a log of SARIF 2.1.0 with a result for each regression and each drift downwards.

    ``path``: the file of the repository at whose first line they stand, as GitHub asks for one.
    """
    rules = [
        {"id": name, "shortDescription": {"text": said}, "defaultConfiguration": {"level": level}}
        for name, (said, level) in _RULES.items()
    ]
    results = []
    for line in found.lines:
        if line.status == "regression":
            results.append(_result(line, "regression", _told(line), path))
        if line.drift is not None and line.drift.total < 0:
            results.append(_result(line, "drift", f"It {line.drift_text}.", path))
    driver = {"name": "draftboard", "semanticVersion": version("draftboard"), "rules": rules}
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _result(line: TrendLine, rule: str, said: str, path: str | None) -> Json:
    name = f"{line.name}, {line.metric}"
    location: Json = {"logicalLocations": [{"fullyQualifiedName": name, "kind": "series"}]}
    if path is not None:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": path}, "region": {"startLine": 1},
        }  # fmt: skip
    return {
        "ruleId": rule,
        "ruleIndex": list(_RULES).index(rule),
        "level": _RULES[rule][1],
        "message": {"text": f"{name}: {said}"},
        "locations": [location],
        # By it a finding of a later run is known to be the same one.
        "partialFingerprints": {"series/v1": hashlib.sha256(f"{rule} {name}".encode()).hexdigest()},
    }
