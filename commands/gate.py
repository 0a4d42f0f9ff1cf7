"""``draftboard gate``: has anything become worse over the nights? The exit status says so."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import click

from answers.wording import markdown
from commands.terminal import (
    Table,
    author_option,
    errors_end_with_2,
    filter_options,
    filters_from,
    json_option,
    judging_options,
    reading,
    show,
    show_json,
    warehouse_option,
    whole_warehouse_option,
)
from warehouse.errors import DraftboardError, InvalidInput
from warehouse.filters import Filters
from warehouse.storage.cache import warehouse_path

if TYPE_CHECKING:
    import httpx

    from answers.decide.overview import Overview
    from answers.trend.answer import Trend, TrendLine

# --- What the gate found, as a comment on a pull request: the verdict, what became worse, the decision.


#: GitHub takes 65,536 letters of a comment; a name may be long.
_MOST_LINES, _MOST_DECISIONS, _LONGEST = 20, 6, 60_000
_HEADER = ("series", "metric", "change", "95 % interval", "budget", "since", "changed with it")
_SIGNS = {"fine": "✅", "regression": "❌", "not enough evidence": "❔"}


def comment(found: "Trend", decided: "Sequence[Overview]") -> str:
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
        import httpx  # It costs more than a gate without a pull request.

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

    def _own(self, client: "httpx.Client") -> int | None:
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

    def _comments(self, client: "httpx.Client") -> Iterator[dict[str, Any]]:
        path: str | None = (
            f"/repos/{self.repository}/issues/{self.number}/comments?per_page={_PAGE}"
        )
        while path:
            answer = client.get(path)
            yield from _checked(answer)
            path = answer.links.get("next", {}).get("url")


def _checked(answer: "httpx.Response") -> Any:
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


def junit(found: "Trend") -> str:
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
            failure.text = _xml(_detail(line))
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


def _detail(line: "TrendLine") -> str:
    return f"{line.said}\nChanged with {line.since}: {line.changed_text}"


def sarif(found: "Trend", path: str | None) -> str:
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
            results.append(_result(line, "regression", _detail(line), path))
        if line.drift is not None and line.drift.total < 0:
            results.append(_result(line, "drift", f"It {line.drift_text}.", path))
    driver = {"name": "draftboard", "semanticVersion": version("draftboard"), "rules": rules}
    run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _result(line: "TrendLine", rule: str, said: str, path: str | None) -> Json:
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


# --- The command itself, and what else judges over nights.


_FILE = click.Path(path_type=Path, dir_okay=False)
EXIT = {"fine": 0, "regression": 1, "not enough evidence": 2}


@click.group(invoke_without_command=True)
@warehouse_option
@filter_options
@judging_options
@click.option(
    "--otava",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also write the series into this folder, as Apache Otava reads them.",
)
@click.option("--junit", type=_FILE, help="Also write a test report, a case for each series.")
@click.option("--sarif", type=_FILE, help="Also write annotations (SARIF) of what became worse.")
@click.option(
    "--sarif-at", metavar="PATH", help="File of the repository at which annotations stand."
)
@click.option("--comment", is_flag=True, help="Also comment on the pull request of the workflow.")
@json_option
@click.pass_context
def gate(
    ctx: click.Context,
    /,
    warehouse: Path | None,
    max_regression: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Hold the last nights of every series against the best level before, and say what became worse.

    A series is one model, hardware, arm, dataset and load. What was shown to be worse stays so until
    its end is shown, or until it is accepted: draftboard gate accept. Exit status: 0 fine, 1
    regression, 2 not enough evidence, wrong usage or an error.

    Example: draftboard gate --dataset code --max-regression itl=3% --max-regression 5%
    """
    from answers.trend import answer

    if ctx.invoked_subcommand is not None:
        return
    with errors_end_with_2():
        root = warehouse_path(warehouse)
        filters, since = filters_from(given), given["since"]
        found = judge(root, filters, since, max_regression, given["otava"])
        if given["junit"] is not None:
            _write(given["junit"], junit(found))
        if given["sarif"] is not None:
            _write(given["sarif"], sarif(found, given["sarif_at"]))
    status = EXIT[found.status]
    if as_json:
        show_json(answer.trend_json(found) | {"exit": status})
    else:
        _show(found)
    if given["comment"]:
        _comment(found, root, filters)
    raise SystemExit(given["open_exit"] if status == 2 else status)


@gate.command()
@click.argument("night", required=False, type=click.DateTime(["%Y-%m-%d"]))
@click.option("--why", required=True, help="One sentence; it is shown wherever it counts.")
@click.option("--study", help="Only the series of this study [all].")
@click.option(
    "--series",
    metavar="PARTS",
    help='Only series with these parts in their name, as the gate prints it, e.g. "eagle3 K=3, '
    'code" or "Output throughput" [all].',
)
@author_option
@whole_warehouse_option
@click.pass_context
def accept(
    ctx: click.Context, /, night: datetime | None, warehouse: Path | None, **given: Any
) -> None:
    """Accept how things stand in NIGHT, the last one by default, as the reference from then on.

    What became worse up to that night is no regression any more; what was better before it does
    not count any more. Of several acceptances of a series the last said holds, so accepting an
    earlier night again takes a later one back.

    Example: draftboard gate accept 2026-11-21 --why "the new sampler is slower, and right"
    """
    from answers.trend import answer
    from warehouse.annotations import AnnotationTarget

    parent = ctx.parent.params.get("warehouse") if ctx.parent else None
    day = None if night is None else f"{night:%Y-%m-%d}"
    what = AnnotationTarget(night=day, study=given["study"], series=given["series"])
    with reading(warehouse or parent) as reader:
        show(answer.accept(reader, what, given["why"], given["author"]))


def judge(
    root: Path,
    filters: Filters,
    since: datetime | None,
    max_regression: Sequence[str],
    otava: Path | None = None,
) -> "Trend":
    """Judge every series over its nights; write them into the folder ``otava``, as Apache Otava reads
    them, where one is named."""
    from analysis.nightly import nights
    from analysis.nightly.regressions import budgets
    from answers.trend import answer

    allowed = budgets(tuple(max_regression))
    with reading(root) as reader:
        series = answer.series(reader, filters, since)
    if otava is not None:
        otava.mkdir(parents=True, exist_ok=True)
        for name, text in nights.otava_files(series).items():
            (otava / name).write_text(text, encoding="utf-8")
    return answer.trend(series, allowed, answer.accepted(root))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written ({error.strerror}).") from None


def _comment(found: "Trend", root: Path, filters: Filters) -> None:
    """Comment on the pull request. The gate's exit status stands, whatever becomes of the comment."""
    from answers.decide.answer import decide
    from answers.decide.overview import overviews
    from answers.decide.values import DecideQuestion

    try:
        there = pull_request()
        with reading(root) as reader:
            decided = decide(reader, DecideQuestion(filters=filters)).decisions
        address = there.say(comment(found, overviews(decided)))
    except DraftboardError as error:
        show(f"draftboard: {error}", err=True)
    else:
        show(f"Commented: {address}", err=True)


def _show(found: "Trend") -> None:
    if not found.lines:
        show("not enough evidence: no good cell with a known start matches.")
        return
    header = ("series", "metric", "change", "95 % interval", "budget", "since", "against", "why")
    rows = [
        (*line.table_cells, line.against, line.why)
        for line in found.lines
        if line.status == found.status != "fine"
    ]
    show(
        f"{found.status}: {found.headline}. {found.summary}", Table(header, rows) if rows else None
    )
    for line in found.lines:
        name, worse = f"{line.name}, {line.metric}", line.status == "regression"
        show(
            f"{name}: changed with {line.since}: {line.changed_text}" if worse else None,
            None if line.drift is None else f"{name} {line.drift_text}",
        )
