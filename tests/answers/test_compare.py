"""How arms compare: whole studies are judged, filters only choose what is shown of them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answers.compare.answer import compare, pair_lines
from answers.compare.values import (
    KEPT_UP,
    ONE_LAUNCH,
    ArmComparison,
    ComparedArm,
    CompareQuestion,
    comparison_json,
    load_name,
    means_over,
    summary,
    sure,
    unmatched_rows,
    word,
)
from answers.decide.answer import decide
from answers.decide.values import DecideQuestion
from warehouse.filters import Filters
from warehouse.rows import Measurement
from warehouse.store import Reader, open_writer

LOADS: tuple[dict[str, Any], ...] = (
    {"load_profile": "concurrent", "concurrency": 1},
    {"load_profile": "concurrent", "concurrency": 8},
)
ARMS = {"none": 1.0, "eagle3": 1.5, "ngram": 1.02}
SPEED, WAIT = ("output_throughput", "mean"), ("ttft", "p95")
Fill = Callable[..., Path]


@pytest.fixture
def fill(warehouse_path: Path, make_source: Any, make_cell: Any) -> Fill:
    """``fill(loads, datasets, launches, attained, **facts)``: a study of ARMS, each launch a source,
    with 2 % noise. ``attained``: method -> share of the offered rate that it serves."""

    def build(
        loads: tuple[dict[str, Any], ...] = LOADS, datasets: tuple[str, ...] = ("code",),
        launches: int = 3, attained: dict[str, float] | None = None,
        methods: tuple[str, ...] = tuple(ARMS), **facts: Any,
    ) -> Path:  # fmt: skip
        draw = np.random.default_rng(7)
        with open_writer(warehouse_path) as writer:
            for dataset in datasets:
                for method in methods:
                    for launch in range(launches):
                        source = make_source(f"{dataset}-{method}-{launch}")
                        cells = []
                        for place, load in enumerate(loads):
                            value = ARMS[method] * float(np.exp(0.02 * draw.standard_normal()))
                            own = {
                                "study": "s", "spec_method": method, "dataset": dataset,
                                "num_speculative_tokens": None if method == "none" else 3,
                                "repeat": launch, "launch": f"{method}-{launch}", "concurrency": None,
                            }  # fmt: skip
                            told = {"output_throughput": 1000 * value, "ttft": 100 / value}
                            if attained is not None:
                                told["request_attainment"] = attained.get(method, 1.0)
                            cells.append(make_cell(
                                source, place, facts=own | load | facts, flags=(),
                                measurements=tuple(
                                    Measurement("canonical", m, "p95" if m == "ttft" else "mean", v)
                                    for m, v in told.items()
                                )
                                + (Measurement("canonical", "ttft", "p90", 90 * (1 + 0.1 * (launch * len(method) % 3))),),
                            ))  # fmt: skip
                        writer.add(source, iter(cells))
            writer.commit()
        return warehouse_path

    return build


def asked(path: Path, **question: Any) -> ArmComparison:
    with Reader(path) as reader:
        return compare(reader, CompareQuestion(**question))


def arms(found: ArmComparison) -> Iterator[tuple[str | None, ComparedArm]]:
    for setting in found.settings:
        for arm in setting.arms:
            yield setting.dataset, arm


def test_what_is_shown_does_not_change_how_sure_it_is(fill: Fill) -> None:
    path = fill(datasets=("code", "prose"))
    whole = {(dataset, arm.label): arm.changes for dataset, arm in arms(asked(path))}

    for filters in (Filters(dataset=("code",)), Filters(arm=("eagle3 K=3",))):
        part = {
            (dataset, arm.label): arm.changes for dataset, arm in arms(asked(path, filters=filters))
        }
        assert part
        assert len(part) < len(whole)
        assert all(changes == whole[key] for key, changes in part.items())


def test_an_arm_that_is_chosen_keeps_its_baseline(fill: Fill) -> None:
    ((_, arm),) = arms(asked(fill(), filters=Filters(arm=("eagle3 K=3",))))

    assert arm.label == "eagle3 K=3"
    assert [change.load.text for change in arm.changes if change.load and change.line == SPEED] == [
        "1 at once", "8 at once",
    ]  # fmt: skip


def test_lines_shown_beside_the_table_change_no_word(fill: Fill) -> None:
    path = fill()
    more = dict(arms(asked(path, also=(("output_tokens", "mean"), ("ttft", "p90")))))
    few = dict(arms(asked(path)))

    assert ("ttft", "p90") in {change.line for change in more["code"].changes}
    assert [c for c in more["code"].changes if c.line in (SPEED, WAIT)] == [
        c for c in few["code"].changes if c.line in (SPEED, WAIT)
    ]


def test_compare_and_the_decision_use_one_word_for_one_difference(fill: Fill) -> None:
    path = fill(datasets=("code", "prose"))
    with Reader(path) as reader:
        decisions = decide(reader, DecideQuestion()).decisions
    shown = {(d, arm.label): arm for d, arm in arms(asked(path))}

    cells = [
        (one.traffic.dataset, cell) for one in decisions if not one.traffic.mix for cell in one.arms
    ]
    assert len(cells) == 8
    for dataset, cell in cells:
        told = cell.difference
        at = (cell.load, (told.metric, told.statistic))
        (change,) = (x for x in shown[dataset, cell.arm].changes if (x.load, x.line) == at)
        assert (change.word, change.adjusted_low) == (told.word, pytest.approx(told.adjusted_low))


RATE = ({"load_profile": "constant", "rate": 4.0},)


def test_at_a_rate_that_all_keep_up_with_only_latency_is_compared(fill: Fill) -> None:
    ((_, arm), _) = arms(asked(fill(RATE, attained={})))

    speed, wait = (next(c for c in arm.changes if c.line == line) for line in (SPEED, WAIT))
    assert (speed.compared, speed.improvement, speed.word) == (False, None, None)
    assert word(speed) == KEPT_UP
    assert (wait.compared, wait.word) == (True, "gain")
    assert {mean.metric for mean in arm.means} == {"ttft"}


def test_where_an_arm_no_longer_keeps_up_throughput_is_compared(fill: Fill) -> None:
    ((_, arm), _) = arms(asked(fill(RATE, attained={"none": 0.7})))

    speed = next(c for c in arm.changes if c.line == SPEED)
    assert (speed.compared, speed.word) == (True, "gain")


def test_loads_of_every_kind_have_names_of_their_own(fill: Fill) -> None:
    loads = (
        {"load_profile": "concurrent", "concurrency": 4}, {"load_profile": "constant", "rate": 4.0},
        {"load_profile": "poisson", "rate": 4.0}, {"load_profile": "trace", "trace": "azure"},
        {"load_profile": "throughput"},
    )  # fmt: skip
    ((_, arm), _) = arms(asked(fill(loads)))

    names = [load_name(change.load) for change in arm.changes if change.line == WAIT]
    assert names == [
        "4 at once", "4 requests/s", "4 requests/s (Poisson)", "trace azure",
        "as fast as it takes them",
    ]  # fmt: skip


def test_a_mean_over_loads_has_no_word_and_names_its_loads(fill: Fill) -> None:
    ((_, arm), _) = arms(asked(fill()))

    assert arm.means[0].loads == ("1", "8")
    assert arm.means[0].improvement == pytest.approx(0.5, abs=0.05)
    assert not hasattr(arm.means[0], "word")
    assert "no server runs at their mean" in means_over(arm)


def test_launches_that_nobody_stated_are_said_to_cap_the_words(fill: Fill) -> None:
    ((_, arm), _) = arms(asked(fill(launch=None)))

    assert not arm.launches_stated
    assert {change.word for change in arm.changes if change.line == SPEED} == {"likely gain"}
    assert "launch=" in summary(arm)


def test_one_launch_is_open_and_says_so(fill: Fill) -> None:
    ((_, arm), _) = arms(asked(fill(launches=1)))

    assert {change.word for change in arm.changes} == {"open"}
    assert {sure(change) for change in arm.changes} == {ONE_LAUNCH}


def test_any_arm_can_stand_where_the_baseline_stands(fill: Fill) -> None:
    found = asked(fill(), reference="ngram K=3")

    told = {arm.label: arm.changes[0].improvement for _, arm in arms(found)}
    assert found.reference == "ngram K=3"
    assert told == {
        "baseline": pytest.approx(-0.02, abs=0.03),
        "eagle3 K=3": pytest.approx(0.47, abs=0.05),
    }


def test_cells_without_a_partner_are_listed_with_their_load_and_the_reason(fill: Fill) -> None:
    fill()
    path = fill(launches=1, datasets=("alone",), methods=("eagle3",))

    found = asked(path)

    assert {(cell.arm, cell.dataset, cell.load) for cell in found.unmatched} == {
        ("eagle3 K=3", "alone", "1 at once"), ("eagle3 K=3", "alone", "8 at once"),
    }  # fmt: skip
    rows = unmatched_rows(found)
    assert {row[:4] for row in rows} == {
        ("eagle3 K=3", "alone", load, "alone-eagle3-0.json") for load in ("1 at once", "8 at once")
    }
    assert all("dataset" in row[-1] for row in rows)


def test_every_pair_is_listed_unrounded(fill: Fill) -> None:
    with Reader(fill()) as reader:
        lines = pair_lines(reader, CompareQuestion())

    assert len(lines) == 2 * 2 * 3 * 2
    assert {(line.metric, line.statistic) for line in lines} == {SPEED, WAIT}
    one = lines[0]
    assert one.metric == "output_throughput"
    assert one.improvement == pytest.approx(one.value / one.reference - 1)


def test_the_json_is_plain_and_unknown_is_null(fill: Fill) -> None:
    path = fill(launches=1, gpu=None, tensor_parallel_size=None, dataset=None)

    told = json.loads(json.dumps(comparison_json(asked(path)), allow_nan=False))

    (setting,) = told["settings"]
    level = setting["arms"][0]["levels"][0]
    assert (setting["gpu"], setting["tensor_parallel_size"], setting["dataset"]) == (None,) * 3
    assert level["load"] == {"kind": "concurrency", "value": 1.0, "name": None}
    assert (level["low"], level["adjusted_high"], level["word"]) == (None, None, "open")


def test_filters_that_keep_nothing_say_so(fill: Fill) -> None:
    found = asked(fill(), filters=Filters(dataset=("none",)))

    assert found.settings == ()
    assert found.why_none is not None
    assert found.why_none.startswith("No cell matches these filters")
