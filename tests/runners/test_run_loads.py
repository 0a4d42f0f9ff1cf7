"""Rates, traces and sweeps end to end: the FAKE engine, the real GuideLLM, ingest and the decision."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from draftboard import cli
from tests.runners.small_study import SmallStudy, small_study
from warehouse import queries
from warehouse.filters import Filters
from warehouse.store import Reader

pytestmark = [pytest.mark.long, pytest.mark.alone]
RATE = 5.0


def trace(folder: Path) -> str:
    """Two bursts of four requests, two seconds apart."""
    times = [0, 0.05, 0.1, 0.15, 2, 2.05, 2.1, 2.15]
    rows = [{"timestamp": at, "input_length": 9, "output_length": 6} for at in times]
    (folder / "bursts.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return "bursts.jsonl"


def starts(study: SmallStudy, key: str) -> list[float]:
    """When each request of a cell was due, in seconds after the first."""
    report = json.loads((study.cell(key) / "guidellm.json").read_bytes())
    done = report["benchmarks"][0]["requests"]["successful"]
    at = sorted(one["info"]["timings"]["targeted_start"] for one in done)
    return [one - at[0] for one in at]


def asked(warehouse: Path, *words: str) -> str:
    done = CliRunner().invoke(cli, [*words, "--warehouse", str(warehouse)], catch_exceptions=False)
    return done.output


def test_rates_and_traces_run_pair_and_are_judged_by_latency(tmp_path: Path) -> None:
    study = small_study(
        tmp_path,
        concurrency=None,
        load={"poisson": [RATE], "seconds": 4, "replay": trace(tmp_path)},
    )
    done = study.run()
    assert done.returncode == 0, done.stderr

    arms = [f"{arm}/tp1/numbers" for arm in ("baseline", "draft")]
    random = [starts(study, f"{arm}/poisson5-r0") for arm in arms]
    assert len(random[0]) == len(random[1]) == 20
    # The same gaps for both arms, no two of them alike as they are with several workers.
    assert all(abs(a - b) < 0.001 for a, b in zip(*random, strict=True))
    gaps = [round(b - a, 2) for a, b in pairwise(random[0])]
    assert len(set(gaps)) > len(gaps) / 2
    for arm in arms:
        bursts = starts(study, f"{arm}/trace-bursts-r0")
        assert len(bursts) == 8
        assert bursts[3] < 1 < bursts[4]

    warehouse = tmp_path / "warehouse"
    taken = asked(warehouse, "ingest", str(study.results), "--json")
    assert json.loads(taken)["rejected"] == [], taken
    said = asked(warehouse, "verdict")
    assert "requests/s (Poisson)" in said
    assert "trace bursts.jsonl" in said


def test_a_sweep_finds_rates_on_the_baseline_and_every_arm_gets_them(tmp_path: Path) -> None:
    study = small_study(tmp_path, "--fake-delay 0.02", concurrency=None, load={"sweep": 2})
    done = study.run()
    assert done.returncode == 0, done.stderr
    assert "rates are frozen" in done.stderr

    records = [json.loads(path.read_text()) for path in study.layout.root.rglob("*/record.json")]
    rates = {record["arm"]: set() for record in records}
    for record in records:
        rates[record["arm"]].add(record["rate"])
    assert len(rates["baseline"]) == 2
    assert rates["baseline"] == rates["draft"]
    assert {record["load_profile"] for record in records} == {"constant"}
    again = study.run()
    assert "4 good already, 0 to run" in again.stderr


def test_a_server_that_dies_before_a_sweep_is_said(tmp_path: Path) -> None:
    study = small_study(tmp_path, "--fake-crash-after 2", concurrency=None, load={"sweep": 2})
    done = study.run()
    assert done.returncode == 1
    assert "draftboard: The sweep on baseline failed in its warm-up: " in done.stderr
    assert "cannot be written" not in done.stderr


def test_conversations_are_sent_with_the_recorded_answers_and_pair(tmp_path: Path) -> None:
    talks = [
        [{"from": "human", "value": f"What is {number}?"}, {"from": "gpt", "value": "A number."},
         {"from": "human", "value": "And then?"}]
        for number in range(10)
    ]  # fmt: skip
    (tmp_path / "talks.jsonl").write_text("".join(json.dumps({"talk": t}) + "\n" for t in talks))
    dataset = {"name": "talks", "file": "talks.jsonl", "field": "talk", "conversations": True,
               "prompts_per_level": 16}  # fmt: skip
    study = small_study(
        tmp_path, datasets=[dataset], request={"format": "chat_completions", "max_tokens": 8}
    )
    done = study.run()
    assert done.returncode == 0, done.stderr

    cells = [study.cell(f"{arm}/tp1/talks/c2-r0") for arm in ("baseline", "draft")]
    for cell in cells:
        sent = [
            json.loads(one["request_args"])["body"]["messages"]
            for one in json.loads((cell / "guidellm.json").read_bytes())["benchmarks"][0][
                "requests"
            ]["successful"]
        ]
        assert {len(one) for one in sent} == {1, 3}
        assert all(one[1]["content"] == "A number." for one in sent if len(one) == 3)
        kept = json.loads((cell / "prompts.json").read_text())
        assert {"hash"} == {name for row in kept["prompts"] for name in row}

    warehouse = tmp_path / "warehouse"
    taken = asked(warehouse, "ingest", str(study.results), "--json")
    assert json.loads(taken)["rejected"] == [], taken
    compared = json.loads(asked(warehouse, "compare", "--json"))
    assert compared["unmatched"] == []


def test_sessions_wait_for_the_servers_own_answers_and_are_told_turn_by_turn(
    tmp_path: Path,
) -> None:
    talks = [[f"What is {number}?", "And then?", f"Sure of {number}?"] for number in range(10)]
    (tmp_path / "talks.jsonl").write_text("".join(json.dumps({"talk": t}) + "\n" for t in talks))
    sessions = {"turns": 3, "think_time_s": 0.2}
    dataset = {"name": "talks", "file": "talks.jsonl", "field": "talk", "sessions": sessions,
               "prompts_per_level": 8}  # fmt: skip
    study = small_study(
        tmp_path, datasets=[dataset], request={"format": "chat_completions", "max_tokens": 8}
    )
    done = study.run()
    assert done.returncode == 0, done.stderr

    for arm in ("baseline", "draft"):
        cell = study.cell(f"{arm}/tp1/talks/c2-r0")
        report = json.loads((cell / "guidellm.json").read_bytes())
        talked: dict[str, list[dict[str, Any]]] = {}
        for one in report["benchmarks"][0]["requests"]["successful"]:
            talked.setdefault(one["info"]["conversation_id"], []).append(one)
        assert len(talked) == 8
        for turns in talked.values():
            turns.sort(key=lambda one: one["info"]["turn_index"])
            sent = [json.loads(one["request_args"])["body"]["messages"] for one in turns]
            assert [len(one) for one in sent] == [1, 3, 5]
            for before, after in pairwise(range(3)):
                own = {"role": "assistant", "content": turns[before]["output"]}
                assert sent[after] == [*sent[before], own, sent[after][-1]]
                times = [turns[at]["info"]["timings"] for at in (before, after)]
                assert times[1]["request_start"] - times[0]["request_end"] >= 0.2
        kept = json.loads((cell / "prompts.json").read_text())
        assert {name for row in kept["prompts"] for name in row} == {
            "hash", "requeue_delay_0", "requeue_delay_1",
        }  # fmt: skip

    warehouse = tmp_path / "warehouse"
    taken = asked(warehouse, "ingest", str(study.results), "--json")
    assert json.loads(taken)["rejected"] == [], taken
    assert json.loads(asked(warehouse, "compare", "--json"))["unmatched"] == []
    (setting,) = json.loads(asked(warehouse, "compare", "--by", "turn", "--json"))["settings"]
    assert [(one["kind"], one["requests"]) for one in setting["loads"][0]["arms"]] == [
        ("turn 1", 8), ("turn 2", 8), ("turn 3", 8),
    ]  # fmt: skip
    # What ingest found in the report is what the runner asked for.
    record = study.record(cell)
    alone = tmp_path / "alone"
    asked(alone, "ingest", str(cell / "guidellm.json"))
    with Reader(alone) as reader:
        (found,) = queries.cells(reader, Filters()).column("prompt_set_hash").to_pylist()
    assert found == record["prompt_set_hash"]
