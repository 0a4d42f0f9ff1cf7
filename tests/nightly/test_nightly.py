"""``draftboard nightly`` end to end: the FAKE engine, the real GuideLLM, real processes and signals."""

import json
import shutil
import signal
import subprocess
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from nightly.nights import NightFolder, night_folders
from tests.nightly.called import SECRET, Nightly, receiver
from tests.runners.fake_kubernetes import fake_kubernetes
from tests.runners.slurm_cluster import missing_tools, running_cluster
from tests.runners.small_study import SmallStudy, small_study, wait_for
from warehouse.beside import STAGES, NightSummary, nights_folder

pytestmark = [pytest.mark.slow, pytest.mark.alone]


def nightly_of(tmp_path: Path, notify: str = "", fake: str = "", **changes: Any) -> Nightly:
    return Nightly(small_study(tmp_path, fake, **changes).path, tmp_path / "place", notify)


def starts(night: Nightly) -> int:
    return SmallStudy(night.study, night.results, night.study.with_name("starts")).starts()


def left_running(night: Nightly) -> list[str]:
    return SmallStudy(night.study, night.folder, night.study.with_name("starts")).running()


def place_of(night: Nightly) -> NightFolder:
    found = night_folders(night.results, "small")
    assert len(found) == 1
    return found[0]


def good(night: Nightly) -> int:
    return len(list(night.results.rglob("c2-r0@*/record.json")))


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_night_killed_in_any_stage_is_finished_by_the_next_call(tmp_path: Path) -> None:
    with receiver() as reader:
        night = nightly_of(tmp_path, reader.address)
        for stage in STAGES:
            reader.delay_s = 5.0 if stage == "notify" else 0.0
            process = night.start("--digest")
            _wait_until_at(night, stage, lambda: bool(reader.asked))
            kill(process)
            wait_for(lambda: left_running(night) == [], "the stage ended with its night", 60)
            assert [one.outcome for one in night.history()] == ["unfinished"]
        reader.delay_s = 0.0

        done = night.call("--digest", "--json")

        # One night alone is not enough evidence, and says so.
        assert done.returncode == 2, done.stderr
        summary = NightSummary.model_validate_json(done.stdout)
        assert [stage.status for stage in summary.stages] == ["done"] * 6
        assert (summary.cells.planned, summary.cells.good) == (2, 2)
        assert summary.calls == 1 + len(STAGES)
        assert night.history() == [summary]
        # The first cell was good when `run` was killed: only the second server may start twice.
        assert starts(night) <= 3
        # The message was on its way when `notify` was killed: it may arrive twice, never not.
        assert set(reader.titles) == {
            f"Draftboard: small, night {summary.night}: not enough evidence"
        }
        assert place_of(night).report.read_text().startswith("<!")

        again = night.call("--digest")
        assert again.returncode == 2
        assert "nothing is due" in again.stderr
        assert night.history() == [summary]
        _no_secret(night, done.stdout + done.stderr)


def _wait_until_at(night: Nightly, stage: str, asked: Any) -> None:
    """Until this call is in the midst of a stage."""

    def there() -> bool:
        if not night.said.exists() or f"nightly: {stage}\n" not in night.said.read_text():
            return False
        if stage == "run":
            return good(night) == 1
        if stage == "notify":
            return bool(asked())
        found = night_folders(night.results, "small")
        return bool(found) and found[0].read_state().child is not None

    night.folder.mkdir(exist_ok=True)
    night.said.write_text("")
    wait_for(there, f"the night is at {stage}")


def _no_secret(night: Nightly, shown: str) -> None:
    assert SECRET not in shown
    assert [path for path, text in night.texts() if SECRET in text] == []


@pytest.mark.long
def test_a_spent_budget_stops_cleanly_says_what_is_missing_and_the_night_goes_on(
    tmp_path: Path,
) -> None:
    with receiver() as reader:
        night = nightly_of(tmp_path, reader.address, "--fake-ready-after 20")

        stopped = night.call("--max-hours", "0.001")

        assert stopped.returncode == 3, stopped.stderr
        wait_for(lambda: left_running(night) == [], "nothing is left", 20)
        summary = night.history()[0]
        assert summary.outcome == "incomplete"
        assert summary.stage("run").status == "stopped"
        assert summary.stage("run").said == (
            "the budget of 0.001 h is spent; 2 cells of 2 are not measured"
        )
        assert [title.partition(": ")[2] for title in reader.titles] == [
            f"small, night {summary.night}: not everything was measured"
        ]

        assert night.call("--max-hours", "0.001").returncode == 3
        assert len(reader.got) == 1

        done = night.call("--max-hours", "1")
        assert done.returncode == 2, done.stderr
        assert night.history()[0].cells.good == 2


@pytest.mark.long
@pytest.mark.skipif(bool(missing_tools()), reason=f"no Slurm here: {missing_tools()} not found")
def test_a_spent_budget_leaves_no_job_in_the_queue_of_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_cluster() as cluster:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, cluster.env[name])
        limits = {"server_ready_s": 600, "cell_s": 60, "retries": 0}
        night = nightly_of(tmp_path, fake="--fake-ready-after 600", limits=limits)

        process = night.start("--max-hours", "0.006", "--", "--on", "slurm", "--partition", "gpu")
        wait_for(lambda: cluster.call("squeue", "-h") != "", "a launch became a job")

        assert process.wait(600) == 3, night.said.read_text()
        cluster.wait_until(lambda: cluster.call("squeue", "-h") == "")
        assert "may still run" not in night.history()[0].stage("run").said


@pytest.mark.long
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_a_spent_budget_leaves_no_job_on_kubernetes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_kubernetes(tmp_path) as (fake, config):
        monkeypatch.setenv("KUBECONFIG", str(config))
        night = nightly_of(tmp_path)

        process = night.start("--max-hours", "0.006", "--", "--on=kubernetes", "--image", "x")

        assert process.wait(600) == 3, night.said.read_text()
        assert len(fake.created) == 2
        assert not fake.jobs
        assert "may still run" not in night.history()[0].stage("run").said


def test_money_is_a_budget_where_the_study_has_a_price(tmp_path: Path) -> None:
    price = {"usd_per_hour": 3600.0, "gpus_per_instance": 1}
    night = nightly_of(tmp_path, fake="--fake-ready-after 20", price=price)

    assert night.call("--max-usd", "3").returncode == 3

    summary = night.history()[0]
    assert "the budget of 3 USD is spent" in summary.stage("run").said
    assert summary.cost_usd == pytest.approx(summary.measuring_hours * 3600)
    assert summary.cost_usd >= 3


@pytest.mark.long
def test_a_failed_night_keeps_what_is_good_and_says_why(tmp_path: Path) -> None:
    with receiver() as reader:
        limits = {"server_ready_s": 120, "cell_s": 300, "retries": 0}
        night = nightly_of(tmp_path, reader.address, "--fake-crash-after 5", limits=limits)

        failed = night.call()

        assert failed.returncode == 4, failed.stderr
        summary = night.history()[0]
        assert (summary.outcome, summary.cells.failed) == ("failed", 2)
        assert summary.failures[0].said
        assert summary.stage("ingest").status == "done"
        assert [title.partition("small, ")[2] for title in reader.titles] == [
            f"night {summary.night}: something failed"
        ]
        assert summary.failures[0].said[:40] in reader.got[0]["message"]


def test_a_night_that_overlaps_is_refused_and_names_the_other(tmp_path: Path) -> None:
    night = nightly_of(tmp_path, fake="--fake-ready-after 25")
    first = night.start()
    try:
        wait_for(lambda: bool(night_folders(night.results, "small")), "the first night began")
        second = night.call()
    finally:
        first.send_signal(signal.SIGTERM)
        first.wait()

    assert second.returncode == 5
    assert f"process {first.pid} on " in second.stderr
    assert first.returncode == 128 + signal.SIGTERM
    # The tracker of multiprocessing ends a moment after whom it served.
    wait_for(lambda: left_running(night) == [], "nothing is left", 20)
    assert "the next call goes on from here" in night.said.read_text()


@pytest.mark.long
def test_an_evening_later_a_killed_night_is_closed_and_a_new_one_begins(tmp_path: Path) -> None:
    night = nightly_of(tmp_path)
    process = night.start()
    wait_for(lambda: good(night) == 1, "the first cell is good")
    kill(process)
    wait_for(lambda: left_running(night) == [], "nothing is left")
    _a_day_passes(place_of(night), night)

    done = night.call("--open-exit", "0")

    new, old = night.history()
    # The first night's cell is a point of the same evening's series for the warehouse: it was
    # measured today. What counts here is that it was taken in and nothing was measured for it.
    assert done.returncode == 0, done.stderr
    assert (old.outcome, old.cells.good, old.cells.missing) == ("incomplete", 1, 1)
    assert "was not taken up in time" in old.stage("run").said
    assert (new.outcome, new.cells.good) == ("not enough evidence", 2)


def _a_day_passes(place: NightFolder, night: Nightly) -> None:
    """The state and the history as if they were written a day ago."""
    text = place.state.read_text()
    began = json.loads(text)["summary"]["started"]
    earlier = (date.fromisoformat(place.night) - timedelta(days=1)).isoformat()
    aged = began.replace(began[:10], earlier)
    place.state.write_text(text.replace(began, aged).replace(place.night, earlier))
    place.root.rename(place.root.with_name(earlier))
    for path in nights_folder(night.warehouse).rglob("*Z.*"):
        path.unlink()


def test_a_study_that_cannot_be_read_ends_with_4_and_a_sentence(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text("name: [")

    refused = Nightly(study, tmp_path / "place").call()

    assert refused.returncode == 4
    assert refused.stderr.count("\n") == 1
    assert "cannot be read" in refused.stderr


def test_a_study_with_a_mistake_fails_the_night_with_the_runners_words(tmp_path: Path) -> None:
    night = nightly_of(tmp_path, arms=[])

    refused = night.call()

    assert refused.returncode == 4, refused.stderr
    summary = night.history()[0]
    assert summary.stage("plan").status == "failed"
    assert "arms" in summary.stage("plan").said
    assert summary.stage("run").status == "skipped"


def test_the_history_is_listed(tmp_path: Path) -> None:
    night = nightly_of(tmp_path, arms=[])
    night.call()

    listed = night.call("--history")
    told = json.loads(night.call("--history", "--json").stdout)

    assert listed.returncode == 0
    assert "failed" in listed.stdout
    assert [one["study"] for one in told["nights"]] == ["small"]
    assert told["damaged"] == []
