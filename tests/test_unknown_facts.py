"""Unknown is said as unknown: every command and page, with every fact missing, for every format."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from click.testing import CliRunner
from zstandard import ZstdDecompressor

from draftboard import cli
from tests.dashboard.conftest import BASELINE, DRAFT, START, cell, facts, source
from tests.dashboard.opening import opened
from warehouse.contract import Facts
from warehouse.errors import DraftboardError
from warehouse.rows import Cell, Measurement
from warehouse.store import open_writer

FIXTURES = Path(__file__).parent / "fixtures"
#: What a cell may lack beside its facts: a column of the cell, or what was measured.
LACKING: dict[str, dict[str, Any]] = {
    "start time": {"started_at": None},
    "duration": {"duration": None},
    "requests": {"requests": None},
    "acceptance": {"acceptance": ()},
    "requests made": {"requests_made": None},
}
KEPT: dict[str, tuple[Measurement, ...]] = {
    "only p99": (Measurement("canonical", "request_latency", "p99", 2.0),),
    "only throughput": (Measurement("canonical", "output_throughput", "mean", 100.0),),
    "zero throughput": (Measurement("canonical", "output_throughput", "mean", 0.0),),
    "nothing measured": (),
}
FACTS = [name for name in Facts.model_fields if name not in ("spec_method", "study")]
#: Asked of each case alone: over several they tell of the first one only. A verdict is the same alone as
#: among all (``answers/test_subjects.py``).
DECIDING: tuple[tuple[str, ...], ...] = (("tune",), ("compare",), ("cost", "--usd-per-hour", "2"))
COMMANDS: tuple[tuple[str, ...], ...] = (
    *DECIDING, ("verdict", "--all"), ("verdict", "--json"), ("cost",), ("compare", "--json"), ("tune", "--json"), ("cost", "--usd-per-hour", "2", "--json"),
    ("pareto",), ("slo", "ttft:p95<200ms"), ("whatif", "--k", "2", "--concurrency", "4"), ("gate",),
    ("runs",),
)  # fmt: skip
PAGES = (
    "decide", "compare", "cost", "predict", "trends", "data",
)  # fmt: skip
_NAN = re.compile(r"(?i:\bnan\b)|\bNaT\b|\bNone\b(?!\.)|<NA>")


def measured(study: str, changes: dict[str, Any], rest: dict[str, Any]) -> list[Cell]:
    """Two arms at two loads with three launches each, one of them lacking what ``rest`` says."""
    rows = []
    origin = source(study)
    for repeat in (1, 2, 3):
        for arm in (BASELINE, DRAFT):
            for load in (1, 16):
                known = {"study": study, "repeat": repeat, "concurrency": load,
                         "launch": f"{study}-{arm['spec_method']}-{repeat}", **arm}  # fmt: skip
                known |= {k: v for k, v in changes.items() if k in known or v is None}
                at = {"started_at": START + timedelta(minutes=len(rows))}
                rows.append(cell(origin.source_id, len(rows), facts(**known), **(at | rest)))
    return rows


def cases() -> Iterator[tuple[str, list[Cell]]]:
    """Name of a study -> its cells."""
    yield "everything known", measured("everything known", {}, {})
    for name in FACTS:
        yield f"no {name}", measured(f"no {name}", {name: None}, {})
    yield "no study", measured("no study", {"study": None}, {})
    for name, rest in LACKING.items():
        yield f"no {name}", measured(f"no {name}", {}, rest)
    for name, kept in KEPT.items():
        yield name, measured(name, {}, {"measurements": kept})


CASES = [name for name, _ in cases()]


def answered(root: Path, command: tuple[str, ...]) -> str:
    """What a command prints; a refusal is one sentence."""
    result = CliRunner().invoke(cli, [*command, "--warehouse", str(root)])
    if isinstance(result.exception, DraftboardError):
        told = str(result.exception)
        assert "\n" not in told
        return told
    assert result.exception is None or isinstance(result.exception, SystemExit), (
        command, result.exception,
    )  # fmt: skip
    if "--json" in command:
        json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} in {command}"))
        return ""
    return result.output


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One warehouse with all cases."""
    root = tmp_path_factory.mktemp("unknown")
    with open_writer(root) as writer:
        for name, cells in cases():
            writer.add(source(name), iter(cells))
        writer.commit()
    return root


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_decision_is_told_with_any_fact_unknown(everything: Path, name: str) -> None:
    study = "unknown" if name == "no study" else name
    for command in DECIDING:
        told = answered(everything, (*command, "--study", study))
        assert not _NAN.search(told), (command, _NAN.search(told), told)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_answers_over_all_of_them(everything: Path, command: tuple[str, ...]) -> None:
    told = answered(everything, command)
    assert not _NAN.search(told), (_NAN.search(told), told)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_with_all_of_them(
    everything: Path, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(everything))
    st.cache_resource.clear()
    shown = opened(page)
    words = " ".join(str(e.value) for e in (*shown.markdown, *shown.caption, *shown.title))
    assert not _NAN.search(words), _NAN.search(words)


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with a pair of every recorded format, a dataset each, and little else known."""
    place = tmp_path_factory.mktemp("formats")
    runner = CliRunner()
    for report in sorted((FIXTURES / "reports").glob("*.zst")):
        text = ZstdDecompressor().stream_reader(report.read_bytes()).read()
        for method in ("none", "ngram"):
            copy = place / f"{method}-{report.name.removesuffix('.zst')}"
            # The content tells two results apart: a space makes another one, with the same numbers.
            copy.write_bytes(text + (b" " if method == "ngram" else b""))
            known = ("--set", f"spec_method={method}", "--set", f"dataset={report.name}")
            done = runner.invoke(
                cli, ["ingest", str(copy), "--warehouse", str(place / "w"), *known]
            )
            assert done.exit_code == 0, done.output
    return place / "w"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_answers_on_every_format(formats: Path, command: tuple[str, ...]) -> None:
    told = answered(formats, command)
    assert not _NAN.search(told), (_NAN.search(told), told)
