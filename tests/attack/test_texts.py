"""Scripts, what steers a terminal, and formulas, in every text of a result: through every command, question,
page and file."""

import csv
import io
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from answers.doors.parameters import Page
from answers.doors.questions import QUESTIONS, answer_json
from dashboard.doors.api import rendered
from dashboard.views import VIEWS
from draftboard import cli
from ingest.clean import clean_cell, clean_text
from tests.attack.everything import commands, text_fields
from tests.dashboard.opening import opened
from tests.test_not_finite import WORDS
from warehouse import annotations
from warehouse.contract import Facts
from warehouse.rows import Flag, Rejection
from warehouse.store import Reader, open_writer

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"
STEERING = "\x1b[2J\x9b31m\x07\x00\r\u2066\u202e\u2028\u200f\U000e0041"
FORMULA = " =HYPERLINK(0)"
WIDE = "\uff1d1+1"
KINDS = {"script": SCRIPT, "steering": STEERING, "formula": FORMULA, "wide formula": WIDE}
#: What a load and its kind are told by: with another word there is no pair to show.
_TELLING = {"load_profile", "request_format", "evidence", "prefix_cache", "failure_cause"}
#: How a command that shows what the warehouse holds is asked; None: it shows nothing of it.
SHOWS: dict[str, list[str] | None] = {
    **{
        name: [] for name in ("runs", "verdict", "compare", "cost", "pareto", "tune", "gate", "note list",
                              "token list", "audit", "warehouse info", "warehouse check")
    },
    "cost": ["--usd-per-hour", "3"],
    "slo": ["itl:p95<20s"],
    "whatif": ["--k", "2", "--concurrency", "4"],
    "diff": ["run-a", "run-b"],
}  # fmt: skip
#: What asks for more than a warehouse (a study, a cluster, a terminal of its own), or only changes it: the
#: disk's table has it.
OTHERS = {
    "ingest", "plan", "doctor", "run", "reproduce", "cluster cancel", "cluster logs", "cluster status",
    "live", "release", "collect", "gate accept", "search", "claims", "serve", "dashboard", "mcp", "token new",
    "token revoke", "note", "exclude", "include", "nightly", "nightly history", "report", "share", "publish", "verify",
    "warehouse clone", "warehouse compact", "warehouse convert", "warehouse export", "warehouse gc",
    "warehouse keep", "warehouse publish", "warehouse pull", "warehouse push", "warehouse restore",
    "token list",
}  # fmt: skip


def _facts(kind: str, **more: Any) -> dict[str, Any]:
    """Every text of the facts with something hostile in it, where the contract takes it."""
    known: dict[str, Any] = {}
    for name in text_fields():
        if name in _TELLING or name in more:
            continue
        text = clean_text(f"{KINDS[kind]}{name}")
        try:
            Facts(**{name: text})
        except ValidationError:
            continue
        known[name] = text
    assert len(known) > 10
    return {**known, **more}


@pytest.fixture(scope="module", params=KINDS)
def hostile(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory,
    make_source: Callable[..., Any], make_cell: Callable[..., Any],
) -> tuple[str, Path]:  # fmt: skip
    """A warehouse of two arms in which every text is hostile, as ingest would have taken it in."""
    kind: str = request.param
    root = tmp_path_factory.mktemp("hostile") / "warehouse"
    told = clean_text(KINDS[kind])
    with open_writer(root) as writer:
        for arm in ("none", f"{told}drafts"):
            drafts = {"num_speculative_tokens": 3} if arm != "none" else {}
            source = make_source(f"{arm}", path=f"{told}{arm}.json", provenance=told)
            facts = _facts(kind, spec_method=arm, arm=f"{told}{arm}", **drafts)
            cells = [
                make_cell(source, at, 1.0 + len(drafts), facts, run_id=f"{told}run {arm}",
                          flags=(Flag("odd", "warning", told),))
                for at in range(3)
            ]  # fmt: skip
            writer.add(source, (clean_cell(cell, keep_text=True) for cell in cells))
        writer.reject(Rejection(f"{told}.json", told))
        writer.commit()
    with Reader(root) as reader:
        run = annotations.AnnotationTarget(f"{told}run none", make_source("none").source_id)
        del reader, run
    return kind, root


def test_every_command_stands_in_a_table() -> None:
    assert commands().keys() - SHOWS.keys() <= OTHERS


def _steers(text: str) -> set[str]:
    """What a terminal would obey, or turn."""
    doing = {"Cc", "Zl", "Zp", "Cs"}
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return {
        one for one in text
        if one not in "\n\t" and (unicodedata.category(one) in doing or unicodedata.bidirectional(one) in turning)
    }  # fmt: skip


@pytest.mark.parametrize("command", [name for name in SHOWS if name in commands()])
@pytest.mark.parametrize("how", [[], ["--json"]])
def test_no_command_sends_a_terminal_what_it_obeys(
    hostile: tuple[str, Path], command: str, how: list[str]
) -> None:
    if how and "as_json" not in {one.name for one in commands()[command].params}:
        return
    words = [*command.split(), *(SHOWS[command] or []), "--warehouse", str(hostile[1]), *how]
    done = CliRunner().invoke(cli, words)

    assert done.exception is None or isinstance(done.exception, SystemExit) or command == "diff"
    assert not _steers(done.output + done.stderr)


def _runs_as_formula(cell: str) -> bool:
    return unicodedata.normalize("NFKC", cell).lstrip(" \t\r\n;,\u200b\ufeff")[:1] in {*"=+-@"}


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_form_of_an_answer_holds_a_formula_or_what_steers(
    hostile: tuple[str, Path], name: str
) -> None:
    asking = QUESTIONS[name]
    words, _ = asking.read(WORDS.get(name, {}))
    with Reader(hostile[1], everything=asking.everything) as reader:
        told = answer_json(asking, asking.ask(reader, words), Page())
    told |= {"generation": 1, "not_fresh": None}

    assert not _steers(bytes(rendered(asking, told, "application/json", {}).body).decode())
    if asking.listed:
        said = bytes(rendered(asking, told, "text/csv", {}).body).decode()
        for row in csv.reader(io.StringIO(said)):
            assert not [cell for cell in row if _runs_as_formula(cell) and not _number(cell)]


def _number(cell: str) -> bool:
    return re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", cell) is not None


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.URL_PATH)
def test_no_page_shows_a_text_as_more_than_text(
    hostile: tuple[str, Path], view: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(hostile[1]))
    page = opened(view.URL_PATH)

    assert not any(element.allow_html for element in page.markdown)
    said = [*page.header, *page.subheader, *page.markdown, *page.caption, *page.info, *page.warning]
    for element in said:
        assert SCRIPT not in element.value
        assert not _steers(element.value)


def test_no_file_to_pass_on_holds_a_script(hostile: tuple[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    words = ["report", "--warehouse", str(hostile[1]), "--out", str(out), "--usd-per-hour", "3"]
    done = CliRunner().invoke(cli, words)

    assert done.exception is None, done.output
    text = out.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert not _steers(text.split('id="charts">')[1].split("</script>")[0])
