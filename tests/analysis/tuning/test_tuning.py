"""Advice as a whole: a table for vLLM with its reasons, as text and as plain values."""

import json
from collections.abc import Callable
from typing import Any

from analysis.drafts import tuning_tables
from analysis.drafts.best_k import Goal
from analysis.drafts.tuning import Advice, Inputs, advice
from analysis.prediction.forecast_tables import title
from analysis.service.slo import parse
from analysis.verdicts.methods import rankings

Study = Callable[..., Any]
#: Drafts pay at low load and cost more than they gain at high load.
GRID = {"ks": (0, 2, 4), "loads": (1, 8, 64, 256), "repeats": 3, "noise": 0.005}


def advised(frames: Any, margin: float = 0.02, **goal: Any) -> Advice:
    given = Inputs(frames.cells, frames.measurements, frames.acceptance, frames.positions)
    (found,) = advice(given, Goal(**goal), margin)
    return found


def test_k_falls_with_the_load_in_the_table_the_config_and_the_line(
    study: Study, fake_server: Any
) -> None:
    found = advised(study(server=fake_server(sequence=0.02, draft_token=0.4), **GRID))
    assert found.table is not None
    ks = [k for _, _, k in found.table.entries]
    assert ks == sorted(ks, reverse=True)
    assert ks[0] == 4
    assert ks[-1] == 0
    assert found.config == {
        "method": "draft_model",
        "model": "org/draft",
        "num_speculative_tokens": 4,
        "num_speculative_tokens_per_batch_size": [list(entry) for entry in found.table.entries],
    }
    assert found.serve is not None
    assert found.serve.startswith("vllm serve org/target --tensor-parallel-size 1")
    assert "K = 0 was measured on a server without a draft" in " ".join(found.notes)


def test_where_drafting_never_pays_there_is_no_config(study: Study, fake_server: Any) -> None:
    found = advised(study(server=fake_server(draft_token=20.0), **GRID))
    assert found.table is not None
    assert found.table.largest == 0
    assert found.config is None
    assert found.serve is not None
    assert "--speculative-config" not in found.serve


def test_a_load_at_which_no_k_meets_the_slo_is_left_out_and_said(study: Study) -> None:
    exact = study(**GRID)
    itl = exact.measurements[exact.measurements["metric"] == "itl"].merge(exact.cells)
    at_eight = itl.loc[itl["concurrency"] == 8, "value"].max()
    found = advised(exact, slo=parse(f"itl:mean<{at_eight * 1.01:.4f}ms"))
    assert found.best.choices[-1].k is None
    assert "No K meets the SLO at concurrency 64, 256" in found.notes[-1]
    impossible = advised(exact, slo=parse("itl:mean<0.01ms"))
    assert (impossible.table, impossible.config, impossible.serve) == (None, None, None)
    assert impossible.notes == ()


def test_the_table_says_where_it_keeps_a_neighbours_k(study: Study, fake_server: Any) -> None:
    frames = study(server=fake_server(sequence=0.02, draft_token=0.4), **GRID)
    found = advised(frames, margin=10.0)
    assert found.table is not None
    assert len(found.table.entries) == 1
    assert "keeps its neighbour's K" in " ".join(found.notes)


def test_rules_are_judged_at_every_load_of_every_arm(study: Study) -> None:
    found = advised(study(**GRID))
    assert len(found.rules) == 3 * 2 * 4
    header, rows = tuning_tables.rules(found)
    assert len(rows) == 3 * 2
    for row in rows:
        told = ", ".join(text for text in row[2:5] if text).split(", ")
        assert sorted(map(int, told)) == [1, 8, 64, 256]
    assert len(header) == len(rows[0])


def test_every_table_is_as_wide_as_its_header_and_tells_every_load(study: Study) -> None:
    frames = study(**GRID)
    found = advised(frames)
    header, rows = tuning_tables.by_load(found)
    assert header[:4] == ["concurrency", "baseline", "K=2", "K=4"]
    assert [row[0] for row in rows] == ["1", "8", "64", "256"]
    assert all(len(row) == len(header) for row in rows)
    header, rows = tuning_tables.acceptance(found)
    assert all(len(row) == len(header) for row in rows)
    two = next(row for row in rows if row[0] == "K=2")
    assert two[4:] == ["0.75 0.52", "0.75 0.70"]


def test_acceptance_that_was_set_and_not_measured_is_marked(study: Study) -> None:
    frames = study(**GRID)
    drafted = frames.cells["spec_method"] != "none"
    frames.cells["synthetic_acceptance"] = drafted.where(drafted, None)
    assert title(advised(frames).about).endswith("[simulated] [synthetic acceptance]")


def test_everything_is_plain_json(study: Study) -> None:
    frames = study(**GRID)
    given = json.loads(json.dumps(tuning_tables.as_json(advised(frames)), allow_nan=False))
    assert given["dataset"] == "code"
    assert given["num_speculative_tokens_per_batch_size"][0][0] == 1
    assert {row["concurrency"] for row in given["choices"]} == {1, 8, 64, 256}
    assert {row["rule"] for row in given["rules"]}
    single = study(**(GRID | {"repeats": 1}))
    once = json.loads(json.dumps(tuning_tables.as_json(advised(single)), allow_nan=False))
    assert once["choices"][0]["gain"]["low"] is None
    (ranking,) = rankings(frames.cells, frames.measurements, Goal())
    assert json.loads(json.dumps(tuning_tables.ranking_json(ranking)))["arms"][0]["rank"] == 1


def test_a_ranking_shows_intervals_where_there_are_repeats(study: Study) -> None:
    for repeats, sign in ((3, " to "), (1, " %")):
        frames = study(**(GRID | {"repeats": repeats}))
        (ranking,) = rankings(frames.cells, frames.measurements, Goal())
        _, rows = tuning_tables.ranking(ranking, "output_throughput")
        assert sign in rows[0][4]
        assert ("(" in rows[0][4]) == (repeats > 1)
