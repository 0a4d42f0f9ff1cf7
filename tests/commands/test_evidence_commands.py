"""compare, verdict, gate and diff on a real warehouse with repeats over three nights."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import draftboard
from tests.commands.asking import run, told
from warehouse.rows import Measurement
from warehouse.store import open_writer

Draftboard = Callable[..., tuple[int, str]]


@pytest.fixture
def draftboard_says(capsys: pytest.CaptureFixture[str]) -> Draftboard:
    """``draftboard_says(*arguments)``: exit status and what was printed."""

    def run(*arguments: str | Path) -> tuple[int, str]:
        try:
            draftboard.main([str(word) for word in arguments])
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


@pytest.fixture
def filling(
    tmp_path: Path, make_source: Callable[..., Any], make_cell: Callable[..., Any]
) -> Callable[..., Path]:
    """``filling(nights=[tokens/s of the speculative arm, …], repeats)``: both arms each night, at
    concurrency 1, 2 and 4; the baseline makes 1000 tokens/s."""

    def fill(nights: list[float], repeats: int = 3, noise: float = 0.005) -> Path:
        draw = np.random.default_rng(5)
        path = tmp_path / "warehouse"
        with open_writer(path) as writer:
            for night, speed in enumerate(nights):
                for repeat in range(repeats):
                    for method, k, level in (("none", None, 1000.0), ("eagle3", 3, speed)):
                        source = make_source(f"{method}-{night}-{repeat}")
                        cells = []
                        for index in range(3):
                            value = level * float(np.exp(noise * draw.standard_normal()))
                            facts = {
                                "spec_method": method, "num_speculative_tokens": k,
                                "repeat": repeat, "engine_version": f"0.{30 + night}",
                            }  # fmt: skip
                            measured = (
                                Measurement("canonical", "output_throughput", "mean", value),
                                Measurement("canonical", "ttft", "p95", 1e5 / value),
                            )
                            at = datetime(2026, 1, 2, 20, tzinfo=UTC)
                            cells.append(
                                make_cell(
                                    source, index, 1.0, facts, measurements=measured,
                                    started_at=at + timedelta(days=night, minutes=repeat),
                                )
                            )  # fmt: skip
                        writer.add(source, iter(cells))
            writer.commit()
        return path

    return fill


def test_compare_prints_the_interval_and_the_word_of_every_load(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    status, said = draftboard_says("compare", "--warehouse", filling([1500.0]))

    assert status == 0
    assert "95 % interval" in said
    assert "1 at once" in said
    assert "Of 6 lines: 6 likely gain." in said
    assert "no server runs at their mean" in said


def test_compare_json_has_an_interval_for_each_load_and_none_for_the_mean(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    _, said = draftboard_says("compare", "--warehouse", filling([1500.0]), "--json")

    (arm,) = json.loads(said)["settings"][0]["arms"]
    rows = [row for row in arm["levels"] if row["metric"] == "output_throughput"]
    assert [row["load"]["value"] for row in rows] == [1, 2, 4]
    assert all(row["low"] < 0.5 < row["high"] for row in rows)
    # Nobody stated which cells share a server start.
    assert {row["word"] for row in rows} == {"likely gain"}
    assert all("low" not in mean for mean in arm["means"])


def test_one_launch_has_no_interval_and_says_so(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    _, said = draftboard_says("compare", "--warehouse", filling([1500.0], repeats=1))

    assert "none: one launch" in said
    assert "6 open" in said


def test_verdict_is_a_paragraph_with_a_line_for_each_traffic(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    path = filling([1500.0])

    _, said = draftboard_says("verdict", "--warehouse", path)
    _, everything = draftboard_says("verdict", "--warehouse", path, "--all")
    _, told = draftboard_says("verdict", "--warehouse", path, "--json")

    assert said.startswith("tiny on H200, vllm 0.30")
    # Which repeats shared a server start was not stated: nothing is more than likely.
    assert "Open at 4 at once: EAGLE-3 with 3 draft tokens" in " ".join(said.split())
    (line,) = [line for line in said.splitlines() if line.startswith("HumanEval")]
    assert "eagle3 K=3" in line
    assert "likely gain 1, 2, 4" in line
    assert max(len(line) for line in said.splitlines() if not line.startswith("HumanEval")) < 120
    assert "Every arm" in everything
    assert "Nothing to paste while nothing is settled" in everything
    (one,) = json.loads(told)["decisions"]
    assert (one["answer"], one["arm"]) == ("open", "eagle3 K=3")


def test_a_recorded_decision_is_the_last_one_and_changes_are_told(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    path = filling([1500.0])
    draftboard_says("verdict", "--warehouse", path, "--record")
    with (path / "decisions.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"half')
    _, same = draftboard_says("verdict", "--warehouse", path)
    assert "Changed" not in same

    filling([1500.0, 700.0])
    _, said = draftboard_says("verdict", "--warehouse", path, "--engine-version", "0.31")
    _, told = draftboard_says("verdict", "--warehouse", path, "--engine-version", "0.31", "--json")

    assert "likely loss, was likely gain" in " ".join(said.split())
    assert "with vllm 0.31, was 0.30" in " ".join(said.split())
    assert json.loads(told)["changed"]


@pytest.mark.parametrize("command", ["verdict", "compare"])
def test_filters_that_keep_nothing_are_one_sentence(
    command: str, filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    _, said = draftboard_says(command, "--warehouse", filling([1500.0]), "--dataset", "none")

    assert "No cell matches" in said


def test_verdict_without_a_pair_says_so(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    _, said = draftboard_says("verdict", "--warehouse", filling([1500.0]), "--arm", "baseline")

    assert "No speculative cell" in said


def test_gate_passes_steady_nights(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    status, said = draftboard_says("gate", "--warehouse", filling([1500.0, 1500.0, 1500.0]))

    assert (status, said.split(":")[0]) == (0, "fine")


def test_gate_fails_a_drop_and_names_size_night_and_change(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    path = filling([1500.0, 1500.0, 1500.0, 1200.0])

    status, said = draftboard_says("gate", "--warehouse", path)

    assert status == 1
    assert said.startswith("regression: ")
    assert "2026-01-05 (0.33)" in said
    assert "engine_version: 0.32 → 0.33" in said


def test_gate_json_says_the_same(filling: Callable[..., Path], draftboard_says: Draftboard) -> None:
    status, said = draftboard_says(
        "gate", "--warehouse", filling([1500.0, 1500.0, 1200.0]), "--arm", "eagle3 K=3", "--json"
    )

    told = json.loads(said)
    assert (status, told["status"], told["exit"]) == (1, "regression", 1)
    bad = [row for row in told["series"] if row["metric"] == "output_throughput"]
    assert {row["first_bad"] for row in bad} == {"2026-01-04 (0.32)"}
    assert all(row["low"] < -0.2 < row["high"] + 0.05 for row in bad)


def test_gate_keeps_to_its_budget(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    path = filling([1500.0, 1500.0, 1500.0, 1440.0], noise=0.001)
    budgets = ["--max-regression", "output_throughput=3%", "--max-regression", "20%"]

    wide, _ = draftboard_says("gate", "--warehouse", path, "--max-regression", "20%")
    tight, said = draftboard_says("gate", "--warehouse", path, *budgets)

    assert (wide, tight) == (0, 1)
    assert "Time to first token" not in said


def test_gate_without_enough_evidence_ends_as_it_was_told(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    path = filling([1500.0])

    assert draftboard_says("gate", "--warehouse", path)[0] == 2
    assert draftboard_says("gate", "--warehouse", path, "--open-exit", "0")[0] == 0
    assert "one night only" in draftboard_says("gate", "--warehouse", path)[1]


def test_gate_looks_only_at_nights_since_a_day(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    path = filling([1500.0, 1500.0, 1500.0, 1200.0, 1200.0, 1200.0])

    assert draftboard_says("gate", "--warehouse", path)[0] == 1
    assert draftboard_says("gate", "--warehouse", path, "--since", "2026-01-05")[0] == 0


def test_gate_refuses_an_unknown_metric_in_one_sentence(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    status, said = draftboard_says(
        "gate", "--warehouse", filling([1.0]), "--max-regression", "speed=3%"
    )

    assert status == 2
    assert said.startswith("draftboard: 'speed' is no metric")


def test_gate_never_calls_a_missing_warehouse_a_regression(
    draftboard_says: Draftboard, tmp_path: Path
) -> None:
    status, said = draftboard_says("gate", "--warehouse", tmp_path / "none")

    assert status == 2
    assert "draftboard ingest" in said


def test_gate_writes_what_otava_reads(
    filling: Callable[..., Path], draftboard_says: Draftboard, tmp_path: Path
) -> None:
    folder = tmp_path / "otava"

    draftboard_says("gate", "--warehouse", filling([1500.0, 1500.0]), "--otava", folder)

    tests = json.loads((folder / "otava.yaml").read_text())["tests"]
    name, test = next(item for item in tests.items() if "eagle3" in item[0])
    assert len(tests) == 6
    assert test["metrics"]["ttft_p95"]["direction"] == -1
    lines = (folder / f"{name}.csv").read_text().splitlines()
    assert lines[0] == "time,version,output_throughput_mean,ttft_p95"
    assert lines[1].startswith("2026-01-02 20:00:00 +0000,0.30,1")
    assert len(lines) == 3


def test_diff_of_two_runs_lists_settings_and_no_outcomes(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    path = filling([1500.0], repeats=1)

    status, said = draftboard_says(
        "runs", "diff", "none-0-0.json", "eagle3-0-0.json", "--warehouse", path, "--json"
    )

    fields = {
        change["field"]: (change["before"], change["after"])
        for change in json.loads(said)["changes"]
    }
    assert status == 0
    assert fields["spec_method"] == ("none", "eagle3")
    assert fields["num_speculative_tokens"] == (None, 3)
    assert not {"started_at", "completed", "cell_id"} & set(fields)


def test_diff_of_something_unknown_or_ambiguous_is_one_sentence(
    filling: Callable[..., Path], draftboard_says: Draftboard
) -> None:
    path = filling([1500.0], repeats=1)

    assert (
        "No cell or run begins with 'zzz'"
        in draftboard_says("diff", "zzz", "zzz", "--warehouse", path)[1]
    )
    assert "names 2 of them" in draftboard_says("diff", "run-", "run-", "--warehouse", path)[1]


def test_a_baseline_with_equal_engine_is_a_reference_and_never_the_baseline(
    tmp_path: Path, make_source: Callable[..., Any], make_cell: Callable[..., Any]
) -> None:
    """Drafts bring 10 % of what the engine loses to them: twice as fast with an equal engine."""
    arms = [("none", {}, None, 100.0), ("draft_model", {}, {"method": "draft_model"}, 110.0),
            ("none", {"async_scheduling": False}, {"equal_engine": ["async_scheduling"]}, 55.0)]  # fmt: skip
    cells = []
    with open_writer(tmp_path) as writer:
        source = make_source("equal")
        for at, (arm, repeat) in enumerate(product(arms, range(3))):
            method, args, config, speed = arm
            facts = {"spec_method": method, "server_args": args, "speculative_config": config,
                     "num_speculative_tokens": 3 if method == "draft_model" else None,
                     "launch": f"{at}", "repeat": repeat, "concurrency": 8}  # fmt: skip
            values = (Measurement("canonical", "output_throughput", "mean", speed + repeat / 50),)
            cells.append(make_cell(source, at, facts=facts, measurements=values, flags=()))
        writer.add(source, iter(cells))
        writer.commit()
    place = ("--warehouse", str(tmp_path))

    (one,) = told("verdict", *place)["decisions"]
    assert one["arm"] == "draft_model K=3"
    assert one["loads"][0]["improvement"] == pytest.approx(0.1, abs=0.005)
    result = run("compare", *place, "--reference", "baseline, equal engine")
    assert result.exception is None, result.exception
    printed = result.stdout
    assert "+100" in printed
    assert "plain" not in printed
