"""Messages: what is worth one, that it is told once, that it arrives, and what must not be in it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightly import messages
from nightly.messages import Outbox, Settings, digest, events, flush, notify, queued, read
from nightly.nights import Decline, Judgement
from tests.nightly.called import SECRET, Receiver, receiver
from tests.nightly.test_history import FINE, night, with_stages
from warehouse.beside import Regression, Stage
from warehouse.catalogue import METRICS

QUIET = {"verdict": FINE, "regressions": (), "stages": with_stages(), "outcome": "fine"}


def row(metric: str = "output_throughput", status: str = "regression", **changes: Any) -> Any:
    """A series as `draftboard gate --json` says it."""
    known = {
        "series": "tiny, CPU, baseline, code, concurrency 8",
        "about": {"study": "lab", "dataset": "code", "concurrency": 8},
        "metric": metric, "statistic": "mean" if metric.endswith("throughput") else "p95",
        "line": METRICS[metric].label + ("" if metric.endswith("throughput") else " P95"),
        "status": status, "why": "", "budget": 0.05, "improvement": -0.62, "low": -0.66,
        "high": -0.58, "p_value": 0.0, "first_bad": "2026-11-21 (0.32.0)",
        "last_before": "2026-11-20 (0.32.0)", "nights": 3,
        "changed": [{"field": "server_args.max_num_seqs", "before": 32, "after": 2}],
    }  # fmt: skip
    return known | changes


def judged(*rows: Any) -> Judgement:
    """What the gate judged of these series."""
    worse = [
        Regression(
            **{name: one[name] for name in _SAME}, since=one["first_bad"],
            before=one["last_before"], gain=one.get("gain"),
        )
        for one in rows
        if one["status"] == "regression"
    ]  # fmt: skip
    drifts = [
        Decline(
            key=f"drift {one['about']}", line=one["line"], about=one["about"],
            since=one["drift"]["since"],
            said=f"{one['series']}: {one['line']} {one['drift']['said']}",
        )
        for one in rows
        if one.get("drift") and one["drift"]["total"] < 0
    ]  # fmt: skip
    worse.sort(key=lambda one: one.improvement)
    return Judgement(verdict=FINE, regressions=tuple(worse), drifts=tuple(drifts))


_SAME = ("series", "about", "metric", "statistic", "line", "improvement", "low", "high", "budget",
         "changed")  # fmt: skip


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver, as the environment names it."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    with receiver() as known:
        monkeypatch.setenv(messages.VARIABLE, known.address)
        yield known


@pytest.fixture
def said() -> list[str]:
    """What went to the terminal."""
    return []


@pytest.fixture
def settings(tmp_path: Path, said: list[str]) -> Settings:
    """Of a call with places of its own."""
    return Settings(
        study=tmp_path / "study.yaml", results=tmp_path / "results",
        warehouse=tmp_path / "warehouse", echo=said.append, link="http://board:8501",
    )  # fmt: skip


def test_a_regression_arrives_with_size_interval_start_cause_and_link(
    reader: Receiver, settings: Settings
) -> None:
    assert notify(night(stages=with_stages()), judged(row()), settings) == 0

    assert reader.titles == [
        "Draftboard: lab: Output throughput 62.0 % worse since 2026-11-21 (0.32.0) (1 series)"
    ]
    message = reader.got[0]
    assert message["type"] == "failure"
    for part in (
        "Output throughput -62.0 % (95 %: -66.0 % to -58.0 %)",
        "Since 2026-11-21 (0.32.0); before that, up to 2026-11-20 (0.32.0), it was not so.",
        "server_args.max_num_seqs: 32 → 2",
        "http://board:8501/trends?study=lab&dataset=code&line=Output+throughput",
    ):
        assert part in message["message"]


def test_a_lost_gain_is_told_in_its_own_words_beside_a_slower_series(
    reader: Receiver, settings: Settings
) -> None:
    fell = "the gain of a over the baseline fell from +30.0 to +8.3 %: the baseline became 20.0 % faster"
    lost = row(gain=fell, line="Gain in output throughput", improvement=-0.167, low=-0.2, high=-0.1)
    slower = row(first_bad="2026-11-19 (0.32.0)")
    notify(night(stages=with_stages()), judged(lost, slower), settings)
    notify(night(stages=with_stages()), judged(lost, slower), settings)

    assert reader.titles == [
        "Draftboard: lab: Output throughput 62.0 % worse since 2026-11-19 (0.32.0) (1 series)",
        f"Draftboard: lab: {fell} since 2026-11-21 (0.32.0) (1 series)",
    ]
    assert "line=Gain+in+output+throughput" in reader.got[1]["message"]


def test_the_same_regression_is_not_told_every_night(reader: Receiver, settings: Settings) -> None:
    notify(night(stages=with_stages()), judged(row()), settings)
    for evening in ("2026-11-22", "2026-11-23"):
        later = night(stages=with_stages(), night=evening)
        notify(later, judged(row()), settings)

    assert len(reader.got) == 1


def test_it_is_told_again_when_it_became_worse_once_more(
    reader: Receiver, settings: Settings
) -> None:
    notify(night(stages=with_stages()), judged(row()), settings)
    notify(night(**QUIET, night="2026-11-22"), judged(row(status="fine")), settings)
    again = row(first_bad="2026-11-23 (0.32.0)")
    for evening in ("2026-11-23", "2026-11-24"):
        later = night(stages=with_stages(), night=evening)
        notify(later, judged(again), settings)

    assert [title.partition(" since ")[2] for title in reader.titles] == [
        "2026-11-21 (0.32.0) (1 series)",
        "2026-11-23 (0.32.0) (1 series)",
    ]


def test_series_that_became_worse_together_make_one_message(
    reader: Receiver, settings: Settings
) -> None:
    rows = [row(metric, improvement=-size) for metric, size in
            (("itl", 0.2), ("output_throughput", 0.62), ("ttft", 3.0))]  # fmt: skip
    notify(night(stages=with_stages()), judged(*rows), settings)

    assert len(reader.got) == 1
    assert "(3 series)" in reader.titles[0]
    assert "TTFT" in reader.titles[0]


def test_a_drift_downwards_is_told_once_and_one_upwards_never(
    reader: Receiver, settings: Settings
) -> None:
    falls = {"since": "2026-11-02 (0.32.0)", "per_night": -0.0015, "total": -0.03,
             "said": "drifts by -0.15 % a night since 2026-11-02 (0.32.0), -3.0 % so far"}  # fmt: skip
    rises = falls | {"per_night": 0.001, "total": 0.02}
    rows = [row(status="fine", drift=falls), row("itl", status="fine", drift=rises)]
    for evening in ("2026-11-21", "2026-11-22"):
        notify(night(**QUIET, night=evening), judged(*rows), settings)

    assert reader.titles == ["Draftboard: lab: 1 series drift downwards"]
    assert "Output throughput drifts by -0.15 % a night since" in reader.got[0]["message"]
    assert reader.got[0]["type"] == "warning"


def test_no_message_when_nothing_happened(reader: Receiver, settings: Settings) -> None:
    notify(night(**QUIET), judged(row(status="fine")), settings)

    assert reader.asked == 0


def test_a_failed_stage_and_a_spent_budget_are_told_once(
    reader: Receiver, settings: Settings
) -> None:
    stages = tuple(
        Stage(name=one.name, status="stopped", said="the budget of 3 h is spent")
        if one.name == "run"
        else Stage(name=one.name, status="failed", said="the disk is full")
        if one.name == "ingest"
        else one
        for one in with_stages()
    )
    for _ in range(2):
        bad = night(stages=stages, verdict=FINE, regressions=())
        notify(bad, judged(row(status="fine")), settings)

    assert [title.partition("11-21: ")[2] for title in reader.titles] == [
        "something failed",
        "not everything was measured",
    ]
    assert "ingest failed: the disk is full" in reader.got[0]["message"]
    assert "the budget of 3 h is spent" in reader.got[1]["message"]
    assert "http://board:8501/trends?last_nights=true&study=lab" in reader.got[1]["message"]


def test_a_digest_is_one_message_a_day_also_when_nothing_happened(
    reader: Receiver, settings: Settings
) -> None:
    daily = Settings(**{**vars(settings), "digest": True})
    for _ in range(2):
        notify(night(**QUIET), judged(row(status="fine")), daily)
    notify(night(stages=with_stages(), night="2026-11-22"), judged(row()), daily)

    assert reader.titles == [
        "Draftboard: lab, night 2026-11-21: fine",
        "Draftboard: lab, night 2026-11-22: regression",
    ]
    assert "Nothing new happened." in reader.got[0]["message"]
    assert "Output throughput -62.0 %" in reader.got[1]["message"]


def test_a_digest_tells_of_a_regression_once() -> None:
    found = events(night(), judged(row()), Outbox(), "")
    told = queued(Outbox(), [digest(night(), found, "")], ("json-0000",), "2026-11-21")

    later = night(night="2026-11-22", stages=with_stages())
    assert events(later, judged(row()), told, "") == []


def test_a_dry_run_prints_and_neither_sends_nor_remembers(
    reader: Receiver, settings: Settings, said: list[str]
) -> None:
    dry = Settings(**{**vars(settings), "dry_run": True})
    notify(night(stages=with_stages()), judged(row()), dry)

    assert reader.asked == 0
    assert "Output throughput 62.0 % worse" in "".join(said)
    assert read(settings.warehouse, "lab") == Outbox()


def test_without_receivers_nothing_counts_as_told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(messages.VARIABLE, raising=False)
    assert notify(night(), judged(row()), settings) == 0

    with receiver() as later:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv(messages.VARIABLE, later.address)
        notify(night(stages=with_stages()), judged(row()), settings)
        assert len(later.got) == 1


def test_what_could_not_be_delivered_is_said_and_tried_again(
    reader: Receiver, settings: Settings, said: list[str]
) -> None:
    reader.status = 503
    assert notify(night(stages=with_stages()), judged(row()), settings) == 1
    assert "it answered with status 503; the next call tries again" in "".join(said)

    reader.status = 200
    assert flush(settings, "lab") == 0
    assert len(reader.got) == 1


def test_one_receiver_that_fails_does_not_make_the_other_hear_it_twice(
    reader: Receiver, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as broken:
        broken.status = 500
        monkeypatch.setenv(messages.VARIABLE, f"{reader.address}\n{broken.address}")
        assert notify(night(stages=with_stages()), judged(row()), settings) == 1
        broken.status = 200
        assert flush(settings, "lab") == 0

        assert (len(reader.got), len(broken.got)) == (1, 1)


@pytest.mark.parametrize("address", ["nonsense", f"nosuch://{SECRET}@host", f"slack://{SECRET}"])
def test_an_address_that_apprise_does_not_know_is_said_without_it(
    address: str, settings: Settings, said: list[str],
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv(messages.VARIABLE, address)

    assert notify(night(stages=with_stages()), judged(row()), settings) == 1

    told = "".join(said) + "".join(capfd.readouterr())
    assert "Apprise does not understand the address" in told
    assert SECRET not in told


def test_no_secret_is_kept_or_shown(
    reader: Receiver, settings: Settings, said: list[str], tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    reader.status = 403
    notify(night(stages=with_stages()), judged(row()), settings)

    kept = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    shown = "".join(said) + "".join(capfd.readouterr()) + repr(messages.receivers())
    assert "json-" in kept
    assert SECRET not in kept + shown
    messages.forget_addresses()
    assert SECRET not in json.dumps(dict(os.environ))
