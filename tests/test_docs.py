"""What the documents say about keys and commands is held to the code."""

import importlib.util
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from draftboard import COMMANDS, OLD, PARTS, SECTIONS, cli
from warehouse.catalogue import METRICS
from warehouse.contract import FACT_KEYS

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.md")]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("key", METRICS)
def test_every_metric_of_the_catalogue_is_defined(key: str) -> None:
    assert f"| `{key}` |" in text("docs/definitions.md")


def test_the_page_of_definitions_is_the_one_the_catalogue_makes() -> None:
    spec = importlib.util.spec_from_file_location("definitions", ROOT / "docs/make_definitions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert text("docs/definitions.md") == module.definitions()


def test_the_table_of_the_readme_follows_the_help() -> None:
    table = text("README.md").partition("| command | what it does |")[2].partition("\n\n")[0]
    told = re.findall(r"\| (?:\*\*(.+)\*\*|`draftboard ([^`]+)`) \|", table)
    headings = [heading for heading, _ in told if heading]
    rows = [words.split() for _, words in told if words]
    assert headings == list(SECTIONS)
    assert list(dict.fromkeys(row[0] for row in rows)) == list(COMMANDS)
    assert PARTS.keys() <= set(re.findall(r"draftboard (\w+ \w+)", table))


def test_there_are_few_commands_and_old_names_lead_to_them() -> None:
    assert len(COMMANDS) <= 20
    assert {part.partition(" ")[0] for part in PARTS} <= set(COMMANDS)
    assert set(OLD.values()) <= COMMANDS.keys() | PARTS.keys()


def test_the_verdict_in_the_page_on_decisions_is_the_one_of_the_examples(examples: Path) -> None:
    command, _, shown = (
        text("docs/decisions.md").partition("$ draftboard ")[2].partition("```")[0].partition("\n")
    )
    done = CliRunner().invoke(cli, [*command.split(), "--warehouse", str(examples)])
    assert [
        line.rstrip() for line in done.stdout.strip().splitlines()
    ] == shown.strip().splitlines()


def test_every_command_that_a_page_names_exists() -> None:
    named = {name for page in PAGES for name in re.findall(r"draftboard ([a-z]+)", text(str(page)))}
    assert named <= COMMANDS.keys() | OLD.keys()


def test_every_test_that_the_page_on_security_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", text("docs/security.md")))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 30
    assert named <= there


@pytest.mark.parametrize("key", FACT_KEYS)
def test_every_key_of_a_record_stands_in_the_page_on_ingest(key: str) -> None:
    assert f"`{key}`" in text("docs/ingest.md")


def anchors(page: Path) -> set[str]:
    """What a link to this page may name behind its #: each heading, as GitHub and the site write it."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"(?ms)^```.*?^```", "", page.read_text("utf-8")), re.M
    )
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    missing = [
        link
        for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
        if "://" not in link and not _leads_somewhere(page, *link.partition("#")[::2])
    ]
    assert not missing


def _leads_somewhere(page: Path, file: str, heading: str) -> bool:
    target = page.parent / file if file else page
    return target.exists() and (not heading or heading in anchors(target))


def test_every_page_stands_once_in_the_site_and_in_the_index() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    (site,) = re.findall(r"^nav:\n((?: .+\n)+)", text("mkdocs.yml"), re.M)
    assert sorted(re.findall(r": docs/(\S+)$", site, re.M)) == sorted(pages)
    assert pages - {"index.md"} == set(re.findall(r"\]\((\w+\.md)", text("docs/index.md")))
