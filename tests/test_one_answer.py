"""One question, one answer: every page, command and report tells the decision that JSON tells."""

import hashlib
import math
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from answers.decide.answer import decide
from answers.decide.overview import overviews
from answers.decide.tables import (
    NO_DRAFTS,
    arm_taken,
    by_arm,
    by_load,
    summary,
    tiles,
    words_by_load,
)
from answers.decide.values import DecideQuestion, Decision, Decisions
from answers.report import ReportRequest, report
from answers.wording import percent
from dashboard.shelf import open_shelf
from tests.commands.asking import run, told
from tests.conftest import FACTS
from tests.dashboard.opening import opened
from warehouse.contract import Facts
from warehouse.rows import Acceptance, Cell, Measurement, Source
from warehouse.store import Reader, open_writer

LOADS = (1, 4, 16)
START = datetime(2026, 11, 2, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Study:
    """``gains``: by method and K the log gain at each load; measured ``launches`` times, with noise
    (as a log) that is the same in every run of the tests. ``rate``: loads are rates."""

    name: str
    gains: dict[tuple[str, int], tuple[float, float, float]]
    datasets: tuple[str, ...] = ("code",)
    sizes: tuple[int, ...] = (1,)
    launches: int = 4
    rate: bool = False
    noise: float = 0.01


#: A gain everywhere; one that ends and K that follows the load, on two datasets; two sizes with
#: rates.
STUDIES = (
    Study("gains", {("eagle3", 3): (0.4, 0.35, 0.3), ("ngram", 2): (0.1, 0.1, 0.1)}),
    Study(
        "ends",
        {("draft_model", k): (0.1 * k, 0.1, 0.03 - 0.1 * k) for k in (1, 2, 4)},
        datasets=("code", "prose"),
    ),
    Study("sizes", {("eagle3", 2): (0.2, 0.2, -0.3)}, sizes=(1, 2), rate=True),
)


def cells(study: Study, source: Source) -> Iterator[Cell]:
    chance = random.Random(study.name)
    arms = [("none", None, (0.0, 0.0, 0.0)), *((m, k, g) for (m, k), g in study.gains.items())]
    number = 0
    for launch in range(study.launches):
        for dataset in study.datasets:
            for size in study.sizes:
                for method, k, gains in arms:
                    for load, gain in zip(LOADS, gains, strict=True):
                        speed = math.exp(gain + chance.gauss(0, study.noise))
                        at = {"dataset": dataset, "tensor_parallel_size": size, "repeat": launch}
                        known = facts(study, at, method, k, load)
                        yield cell(source, number, known, speed)
                        number += 1


def facts(study: Study, at: dict[str, Any], method: str, k: int | None, load: int) -> Facts:
    rate = {"load_profile": "constant", "rate": float(load), "concurrency": None}
    own = {
        "study": study.name, "gpu_count": at["tensor_parallel_size"], "spec_method": method,
        "num_speculative_tokens": k, "launch": f"{method}-{k}-{at}",
    }  # fmt: skip
    return Facts(**FACTS | at | own | (rate if study.rate else {"concurrency": load}))


def cell(source: Source, number: int, known: Facts, speed: float) -> Cell:
    level = (known.concurrency or known.rate or 1) ** 0.8
    values = {
        "output_throughput": 100 * level * speed, "itl": 10 / speed,
        "request_latency": 2 / speed, "ttft": 100.0, "error_rate": 0.0,
    }  # fmt: skip
    statistics = {"output_throughput": ("mean",), "error_rate": ("mean",)}
    drafted = known.num_speculative_tokens
    rate = 0.6
    length = 1 + rate * (drafted or 0)
    return Cell(
        cell_id=hashlib.sha256(f"{source.source_id}:{number}".encode()).hexdigest()[:20],
        index=number, facts=known, load_generator="guidellm", load_generator_version="0.8.1",
        schema_generation="G4", reported_definition="guidellm>=0.7.4", run_id="run",
        started_at=START + timedelta(minutes=number), duration=60.0, requests_made=100,
        completed=100, errored=0, incomplete=0, requests_complete=True, stop_reason=None,
        status="good", samples=(), flags=(), requests=None,
        measurements=tuple(
            Measurement("canonical", metric, statistic, value)
            for metric, value in values.items()
            for statistic in statistics.get(metric, ("mean", "p50", "p95"))
        ),
        acceptance=()
        if drafted is None
        else (
            Acceptance(
                "counters", 1000, 1000 * drafted, int(600 * drafted), rate, length,
                (rate,) * drafted,
            ),
        ),
    )  # fmt: skip


def generated(root: Path, study: Study) -> Path:
    source = Source(
        hashlib.sha256(study.name.encode()).hexdigest(), f"{study.name}.json", "guidellm", 1000,
        "made by a test", {}, {},
    )  # fmt: skip
    with open_writer(root) as writer:
        writer.add(source, cells(study, source))
        writer.commit()
    return root


#: The examples are large: what they show beyond the generated studies, `make test` looks at.
LARGE = pytest.param("examples", marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=[LARGE, *(study.name for study in STUDIES)])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of the examples, or of one generated study."""
    if request.param == "examples":
        root: Path = request.getfixturevalue("examples")
        return root
    root = tmp_path_factory.mktemp("one-answer") / "warehouse"
    return generated(root, next(study for study in STUDIES if study.name == request.param))


@pytest.fixture(scope="module")
def decided(results: Path) -> Decisions:
    """The decisions of a warehouse."""
    with Reader(results) as reader:
        return decide(reader, DecideQuestion())


@pytest.fixture
def shown(results: Path, decided: Decisions, monkeypatch: pytest.MonkeyPatch) -> Decisions:
    """The decisions, and the warehouse as the one that pages and commands open."""
    monkeypatch.setenv("DRAFTBOARD_WAREHOUSE", str(results))
    return decided


def plain(text: str) -> str:
    """Without what Streamlit needs to read it as text, without line ends."""
    return " ".join(text.replace("\\", "").split())


def tables(found: list[Any]) -> list[list[list[str]]]:
    return [[[str(v) for v in row] for row in one.value.to_numpy().tolist()] for one in found]


def rows(header_and_rows: tuple[list[str], list[list[str]]]) -> list[list[str]]:
    return [[text or "–" for text in row] for row in header_and_rows[1]]


def test_verdict_and_tune_print_the_json_of_the_decision(shown: Decisions) -> None:
    verdict, tune = told("verdict"), told("tune")

    for one, left, right in zip(
        shown.decisions, verdict["decisions"], tune["decisions"], strict=True
    ):
        extra = {"acceptance", "rules"}
        assert {name: value for name, value in right.items() if name not in extra} == left
        assert (left["arm"], left["answer"]) == (one.arm, one.answer)
        assert left["num_speculative_tokens"] == one.num_speculative_tokens
        assert left["paragraph"] == one.paragraph
        told_loads = [
            (x["load"]["value"], x["word"], x["num_speculative_tokens"]) for x in left["loads"]
        ]
        assert told_loads == [
            (x.load.value, x.difference.word, x.num_speculative_tokens) for x in one.levels
        ]


def test_the_terminal_prints_the_same_arm_loads_and_words(shown: Decisions) -> None:
    verdict = plain(run("verdict", "--all").output)
    tune = plain(run("tune").output)

    for one in shown.decisions:
        assert plain(one.paragraph) in verdict
        assert plain(one.headline) in tune
        assert plain(f"{arm_taken(one)} {words_by_load(one.levels)}") in verdict
        for level in rows(by_load(one)):
            assert plain(" ".join(level)) in verdict
            assert plain(" ".join(level)) in tune
        for config in filter(None, (one.config, one.serve)):
            assert plain(config) in verdict
            assert plain(config) in tune


def place(one: Decision, found: Decisions) -> dict[str, str]:
    """The parameters of a link to a decision."""
    overview = next(x for x in overviews(found.decisions) if one in x.decisions)
    return {"about": overview.name, "traffic": overview.place(one)}


def chosen(found: Decisions) -> list[Decision]:
    """The first and the last decision: a mix and a dataset where there are both."""
    return list({id(one): one for one in (found.decisions[0], found.decisions[-1])}.values())


def test_the_decide_page_shows_that_decision(shown: Decisions) -> None:
    for one in chosen(shown):
        page = opened("decide", **place(one, shown), which_k="true", by_load="true")

        assert plain(one.headline) in plain(page.header[0].value)
        there = tables(page.dataframe)
        line = rows(summary([one]))[0]
        assert any(line[3:5] == row[3:5] for row in there[0])
        assert rows(by_load(one)) in there
        assert rows(by_arm(one)) in there
        assert one.serve is None or one.serve in [code.value for code in page.code]
        assert [tile.label for tile in page.metric] == [tile.label for tile in tiles(one)]
        _mapped(page, one, shown)
        _outlined(page, one)


def marks(page: Any, column: str) -> list[dict[str, Any]]:
    """What the one chart of the page draws that has such a column."""
    sent = [data for chart in page.get("vega_lite_chart") for data in chart.proto.datasets]
    drawn = [pa.ipc.open_stream(data.data.data).read_all() for data in sent]
    (found,) = (table for table in drawn if column in table.column_names)
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _mapped(page: Any, one: Decision, shown: Decisions) -> None:
    """The load map has every load of the decision with its word and size, and outlines one."""
    where = place(one, shown)["traffic"]
    drawn = {mark["at"]: mark for mark in marks(page, "outlined") if mark["traffic"] == where}
    assert {at: (mark["word"], mark["gain"]) for at, mark in drawn.items()} == {
        level.load.text: (level.difference.word, percent(level.difference.improvement))
        for level in one.levels
    }
    outlined = [mark["at"] for mark in marks(page, "outlined") if mark["outlined"]]
    assert outlined == [one.operating_load.text]


def _outlined(page: Any, one: Decision) -> None:
    """Exactly one field of a load is outlined: the arm that is taken, with its expected gain."""
    drawn = marks(page, "taken")
    outlined = {mark["load"]: mark for mark in drawn if mark["taken"]}
    assert len(outlined) == sum(mark["taken"] for mark in drawn) == len(one.levels)
    for level in one.levels:
        mark = outlined[level.load.short]
        arm = level.arm if level.served is None else level.served.arm
        assert mark["place"] == (arm if level.drafts else NO_DRAFTS)
        assert level.own is None or mark["text"] == percent(level.own.improvement)


def test_the_report_tells_that_decision(shown: Decisions) -> None:
    for overview in overviews(shown.decisions):
        made = report(open_shelf().reader, ReportRequest(DecideQuestion(), overview.name))

        assert made.headline == overview.headline
        (pays, loads, *_) = made.sections
        assert pays.paragraphs == (overview.paragraph,)
        assert [list(row) for row in pays.grids[0].rows] == rows(summary(overview.decisions))
        for one, grid in zip(overview.ordered, loads.grids, strict=False):
            assert [list(row) for row in grid.rows] == rows(by_load(one))


def test_the_generated_studies_are_decided_as_they_were_made(tmp_path: Path) -> None:
    answers = {}
    for study in STUDIES:
        with Reader(generated(tmp_path / study.name, study)) as reader:
            answers[study.name] = decide(reader, DecideQuestion()).decisions

    (gains,) = answers["gains"]
    assert (gains.answer, gains.arm) == ("yes", "eagle3 K=3")
    mix, *parts = answers["ends"]
    # At the largest load every K loses; at the others it is named, with the table that would do both.
    assert mix.answer == "no"
    assert "One server could do both" in mix.paragraph
    assert [level.num_speculative_tokens for level in mix.levels] == [4, 4, 0]
    assert [one.traffic.dataset for one in parts] == ["code", "prose"]
    assert [one.subject.tensor_parallel_size for one in answers["sizes"]] == [1, 2]
    assert {level.difference.metric for level in answers["sizes"][0].levels} != set()


def test_a_filter_chooses_what_is_shown_and_changes_no_decision(shown: Decisions) -> None:
    one = shown.decisions[-1]
    with Reader(Path(os.environ["DRAFTBOARD_WAREHOUSE"])) as reader:
        asked = DecideQuestion()
        narrow = replace(asked, filters=replace(asked.filters, dataset=(str(one.traffic.dataset),)))
        found = decide(reader, narrow)

    assert one in found.decisions
    assert {x.traffic.dataset for x in found.decisions} == {one.traffic.dataset}
