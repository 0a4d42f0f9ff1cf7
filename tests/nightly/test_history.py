"""The history: what is written is read again, and damage is said, not met."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nightly.nights import markdown, outcome_of, write_summary
from warehouse import beside
from warehouse.beside import Changed, Failure, NightCells, NightSummary, Regression, Stage, Verdict

BEGAN = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)


def night(**changes: object) -> NightSummary:
    """A night with all that a summary can say."""
    worse = Regression(
        series="tiny, CPU, baseline, code, concurrency 8", metric="output_throughput",
        statistic="mean", line="Output throughput", improvement=-0.62, low=-0.66, high=-0.58,
        budget=0.05, since="2026-11-21 (0.32.0)", before="2026-11-20 (0.32.0)",
        changed=(Changed(field="server_args.max_num_seqs", before=32, after=2),),
    )  # fmt: skip
    known = NightSummary(
        study="lab", night="2026-11-21", started=BEGAN, ended=BEGAN + timedelta(hours=2), calls=2,
        outcome="regression", exit_status=1,
        stages=tuple(Stage(name=name, status="done", seconds=60) for name in beside.STAGES),
        cells=NightCells(planned=24, good=22, failed=1, missing=1),
        failures=(Failure(cell="draft/tp1/code/c8-r0", said="The server ran out of memory."),),
        changed=(Changed(field="engine_version", before="0.31.0", after="0.32.0"),),
        verdict=Verdict(status="regression", series=6, fine=5, regressions=1),
        regressions=(worse,), measuring_hours=1.5, cost_usd=12.3,
    )  # fmt: skip
    return known.model_copy(update=changes)


def test_what_is_written_is_read_again_newest_first(tmp_path: Path) -> None:
    later = night(started=BEGAN + timedelta(days=1), night="2026-11-22")
    for one in (later, night()):
        write_summary(tmp_path, one)

    assert beside.nights_history(tmp_path).nights == (later, night())
    assert (tmp_path / "nights" / "lab" / "2026-11-21T22-00-00Z.json").exists()


def test_a_night_that_goes_on_replaces_its_own_entry(tmp_path: Path) -> None:
    write_summary(tmp_path, night(outcome="unfinished", exit_status=None))
    before = beside.nights_version(tmp_path)
    write_summary(tmp_path, night())

    assert [one.outcome for one in beside.nights_history(tmp_path).nights] == ["regression"]
    assert beside.nights_version(tmp_path) != before


def test_the_markdown_says_when_what_how_long_and_how_bad(tmp_path: Path) -> None:
    text = write_summary(tmp_path, night()).with_suffix(".md").read_text()

    for said in (
        "# lab, night 2026-11-21: regression",
        "22 of 24 cells good, 1 failed, 1 not measured; measured for 1.5 h, 12.30 USD",
        "Output throughput -62.0 % (95 %: -66.0 % to -58.0 %) since 2026-11-21 (0.32.0)",
        "server_args.max_num_seqs: 32 → 2",
        "engine_version: 0.31.0 → 0.32.0",
        "The server ran out of memory.",
        "| gate | done | 60 s |",
        "Began 2026-11-21 22:00 UTC, ended 2026-11-22 00:00 UTC, in 2 calls.",
    ):
        assert said in text


def test_markup_in_what_a_stage_said_stays_text() -> None:
    stages = tuple(Stage(name=name, status="failed", said="<b>|*") for name in beside.STAGES)

    assert "<b>" not in markdown(night(stages=stages)).replace("\\<b\\>", "")


@pytest.mark.parametrize("content", [b"", b"{", b'{"study": "lab"}', b"\xff\xfe", b"[]"])
def test_a_damaged_file_is_passed_over_and_named(tmp_path: Path, content: bytes) -> None:
    write_summary(tmp_path, night())
    bad = tmp_path / "nights" / "lab" / "2026-11-20T22-00-00Z.json"
    bad.write_bytes(content)

    found = beside.nights_history(tmp_path)

    assert found.nights == (night(),)
    assert len(found.damaged) == 1
    assert "lab/2026-11-20T22-00-00Z.json is no summary of a night" in found.damaged[0]


def test_other_files_are_not_taken_for_nights(tmp_path: Path) -> None:
    write_summary(tmp_path, night())
    for name in (".outbox.json", ".tmp-2026-11-21T22-00-00Z.json", "notes.json"):
        (tmp_path / "nights" / "lab" / name).write_text("{")

    assert beside.nights_history(tmp_path).damaged == ()


def test_no_folder_is_no_night(tmp_path: Path) -> None:
    assert beside.nights_history(tmp_path / "nothing").nights == ()
    beside.nights_version(tmp_path / "nothing")


def with_stages(**status: str) -> tuple[Stage, ...]:
    return tuple(Stage(name=n, status=status.get(n, "done")) for n in beside.STAGES)  # type: ignore[arg-type]


FINE = Verdict(status="fine", series=6, fine=6)
WORSE = Verdict(status="regression", series=6, regressions=1)


@pytest.mark.parametrize(
    ("stages", "verdict", "outcome"),
    [
        (with_stages(), FINE, "fine"),
        (with_stages(), WORSE, "regression"),
        (with_stages(), Verdict(status="not enough evidence"), "not enough evidence"),
        (with_stages(run="stopped"), FINE, "incomplete"),
        (with_stages(run="stopped", ingest="skipped", gate="skipped"), None, "incomplete"),
        (with_stages(run="failed"), FINE, "failed"),
        (with_stages(run="stopped", ingest="failed"), FINE, "failed"),
        (with_stages(run="failed"), WORSE, "regression"),
        (with_stages(report="failed"), FINE, "failed"),
        (with_stages(gate="failed"), None, "failed"),
    ],
)
def test_a_regression_comes_before_a_failure_and_that_before_the_budget(
    stages: tuple[Stage, ...], verdict: Verdict | None, outcome: str
) -> None:
    assert outcome_of(night(stages=stages, verdict=verdict)) == outcome
