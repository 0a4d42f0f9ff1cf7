"""What an upgrade does, of twenty studies each whose truth is known; and how it is said."""

import json
import re
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from analysis.nightly.regressions import OPEN, REGRESSION, Budgets
from answers.trend.upgrade import Upgrade, both_measured, upgrade
from commands.keeping.ingest import take_in
from tests.truth.row import table
from tests.truth.upgrades import AFTER, BEFORE, CASES, of_a_slower_release, write_study
from warehouse.filters import Filters
from warehouse.store import Reader, open_writer


@pytest.mark.slow
def test_upgrades_are_judged_as_they_are() -> None:
    found = of_a_slower_release(20)

    # Of twenty studies each: at least 19 quiet, at least 18 red.
    wanted = {row.goal: 19 if "95" in row.goal else 18 for row in found}
    missed = [row for row in found if round(row.value * 20) < wanted[row.goal]]
    assert not missed, table(missed)


def judged(folder: Path, case: str, budgets: Budgets | None = None) -> Upgrade:
    write_study(case, CASES[case], 0, folder / "drops")
    root = folder / "warehouse"
    assert not take_in([folder / "drops"], root).rejected
    with Reader(root) as reader:
        assert both_measured(reader, Filters()) == ((BEFORE, AFTER),)
        found = upgrade(reader, Filters(), BEFORE, AFTER, budgets)
        assert upgrade(reader, Filters(), BEFORE, "0.99.0") is None
    assert found is not None
    return found


def compared(folder: Path, budgets: Budgets | None = None) -> Upgrade:
    """What is said of a folder's drops; a loss of half is fine unless the budgets say otherwise."""
    assert not take_in([folder / "drops"], folder / "warehouse").rejected
    with Reader(folder / "warehouse") as reader:
        found = upgrade(reader, Filters(), BEFORE, AFTER, budgets or Budgets(0.5))
    assert found is not None
    return found


def test_a_slower_release_is_said_in_one_paragraph(tmp_path: Path) -> None:
    found = judged(tmp_path, "slower by 10 %")

    assert (found.status, found.launches) == (REGRESSION, 3)
    assert found.headline.startswith("vLLM 0.33.0 against 0.32.0: regression. ")
    assert re.search(
        r"baseline \(prose, TP 1, all loads\): (9|1[0-2])\.\d % fewer output tokens",
        found.paragraph,
    )
    assert "The gain of draft_model K=3 (prose, TP 1, all loads): " in found.paragraph
    assert "Tokens of the median answer: " in found.paragraph
    assert "baseline (prose) 101 then and 101 now" in found.paragraph
    assert found.doubts == ()
    told = json.loads(json.dumps(asdict(found)))
    assert told["status"] == "regression"
    first = next(line for line in told["lines"] if line["metric"] == "output_throughput")
    assert first["after"] / first["before"] == pytest.approx(1 + first["improvement"])


def test_an_arm_that_drafts_nothing_with_the_newer_release_is_never_fine(tmp_path: Path) -> None:
    write_study("quiet", {}, 0, tmp_path / "drops")
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    for record in (tmp_path / "drops").glob("*/record.json"):
        said = json.loads(record.read_text())
        if (said["engine_version"], said["spec_method"]) == (AFTER, "draft_model"):
            zero = "".join(f'vllm:spec_decode_{name}_total{{engine="0"}} 0.0\n' for name in names)
            for when in ("before", "after"):
                record.with_name(f"metrics-{when}.prom").write_text(zero)
    root = tmp_path / "warehouse"
    assert not take_in([tmp_path / "drops"], root).rejected
    with Reader(root) as reader:
        found = upgrade(reader, Filters(), BEFORE, AFTER, Budgets(0.5))
    assert found is not None
    assert {line.arm for line in found.lines} == {"baseline", "ngram K=3"}
    assert found.status == OPEN
    assert (
        "nothing is known of draft_model K=3 (prose, 1 at once): The draft_model arm never drafted"
        in found.headline
    )


def otherwise(folder: Path, case: str) -> None:
    """A study whose arm with the draft model keeps prefixes with the newer release."""
    write_study(case, CASES[case], 0, folder / "drops")
    for record in (folder / "drops").glob("*/record.json"):
        said = json.loads(record.read_text())
        if (said["engine_version"], said["spec_method"]) == (AFTER, "draft_model"):
            record.write_text(json.dumps(said | {"prefix_caching": True}))


def test_beside_a_regression_the_arm_of_which_nothing_is_known_is_named(tmp_path: Path) -> None:
    otherwise(tmp_path, "slower by 10 %")
    found = compared(tmp_path, Budgets())
    assert found.status == REGRESSION
    assert "; nothing is known of draft_model K=3 (prose, 1 at once): prefix" in found.headline


def test_an_arm_that_ran_otherwise_with_the_newer_release_is_never_fine(tmp_path: Path) -> None:
    otherwise(tmp_path, "quiet")
    found = compared(tmp_path)
    assert {line.arm for line in found.lines} == {"baseline", "ngram K=3"}
    assert found.status == OPEN
    assert found.headline.endswith(
        "nothing is known of draft_model K=3 (prose, 1 at once): prefix caching is True now and False then "
        "and draft_model K=3 (prose, 16 at once): prefix caching is True now and False then."
    )


def test_a_figure_that_one_release_alone_tells_is_never_fine(tmp_path: Path) -> None:
    write_study("quiet", {}, 0, tmp_path / "drops")
    names = {"num_drafts": 1000, "num_draft_tokens": 3000, "num_accepted_tokens": 1500}
    for record in (tmp_path / "drops").glob("*/record.json"):
        said = json.loads(record.read_text())
        if (said["engine_version"], said["spec_method"]) == (BEFORE, "draft_model"):
            for when, times in (("before", 0), ("after", 1)):
                record.with_name(f"metrics-{when}.prom").write_text("".join(
                    f'vllm:spec_decode_{name}_total{{engine="0"}} {times * count}\n'
                    for name, count in names.items()
                ))  # fmt: skip
    found = compared(tmp_path)
    assert {line.arm for line in found.lines} == {"baseline", "ngram K=3", "draft_model K=3"}
    assert found.status == OPEN
    assert (
        "nothing is known of Mean acceptance length of draft_model K=3 (prose, 1 at once), which one "
        "release alone tells" in found.headline
    )


def test_a_candidate_of_a_release_stands_before_it(
    warehouse_path: Path, make_source: Any, make_cell: Any
) -> None:
    versions = ("0.33.0rc1", "0.33.0rc2", "0.33.0", "0.33.0.post1", "0.33.1")
    with open_writer(warehouse_path) as writer:
        for version in versions[::-1]:
            source = make_source(version)
            facts = {"study": "one", "engine_version": version}
            writer.add(source, [make_cell(source, 0, facts=facts)])
        writer.commit()
    with Reader(warehouse_path) as reader:
        assert both_measured(reader, Filters()) == tuple(pairwise(versions))


def test_a_release_that_makes_the_baseline_alone_faster_is_a_regression_of_the_gains(
    tmp_path: Path,
) -> None:
    found = judged(tmp_path, "baseline faster by 12 %")

    assert {line.of_gain for line in found.lines if line.status == REGRESSION} == {True}
    assert "regression. The gain of " in found.headline


def test_what_the_budget_allows_is_no_regression(tmp_path: Path) -> None:
    assert judged(tmp_path, "slower by 10 %", Budgets(0.3)).status == "fine"
