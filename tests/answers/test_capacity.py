"""Capacity: service levels that are offered, how far each arm goes, and what is traded for what."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from analysis.money.paying import Hardware, Paying
from analysis.service.slo import ArmReach, Level, Pooled, parse
from answers.cost import words
from answers.cost.capacity import (
    ArmCapacity,
    ArmPlace,
    LoadService,
    ServiceCapacity,
    capacity,
    offered,
    offered_of,
    trade,
)
from warehouse.filters import Filters
from warehouse.loads import Load
from warehouse.rows import Cell, Source
from warehouse.store import Reader, open_writer

SLO = "ttft:p95<80ms"
AT_8 = Load("concurrency", 8.0)
MONDAY = Load("trace", None, "monday")


def _arm(name: str, met: bool | None, load: Load = AT_8) -> ArmCapacity:
    level = Level(load, met, () if met else ("ttft:p95<80ms (90.0 ms)",), (), 1, int(met is True))
    place = ArmPlace("code", name, name, (), None, "code", "gpu", Hardware())
    at = LoadService(level, None, Pooled(None, None, None), frozenset({f"{name} cell"}))
    reach = ArmReach(load if met else None, (level,), "")
    return ArmCapacity(place, reach, (at,), None, None, "")


def _capacity(*arms: ArmCapacity) -> ServiceCapacity:
    return ServiceCapacity(parse(SLO), arms, False, 1)


def test_a_bound_is_offered_in_the_middle_of_what_was_measured_two_digits_upwards() -> None:
    rows = pd.DataFrame({"metric": "ttft", "statistic": "p95", "value": [123.4, 123.4, 123.4]})

    found = offered_of(rows)

    assert found.bounds == ("ttft:p95<130ms",)
    assert found.first == "ttft:p95<130ms"
    assert offered_of(rows.iloc[:0]).first is None


def test_the_headline_counts_arms_and_takes_none() -> None:
    said = _capacity(_arm("baseline", False), _arm("eagle3 K=3", True)).headline

    assert said.startswith("1 of 2 arms in 1 setting meet ttft:p95<80ms at some load")
    assert "eagle3" not in said
    assert _capacity().headline.startswith("Of nothing that was measured the load is known")


def test_cells_meet_a_level_only_where_all_their_loads_do() -> None:
    found = _capacity(_arm("a", True), _arm("b", False), _arm("c", None))

    assert found.meets(["a cell"]) is True
    assert found.meets(["a cell", "b cell"]) is False
    assert found.meets(["a cell", "c cell"]) is None
    assert found.meets(["of nobody"]) is None


def test_a_trace_stands_in_the_tables_by_its_name() -> None:
    _, rows = words.arms(_capacity(_arm("baseline", True, MONDAY)))

    assert rows[0][2] == "trace monday"


@pytest.fixture
def reader(
    warehouse_path: Path, make_source: Callable[..., Source], make_cell: Callable[..., Cell]
) -> Reader:
    """Two arms at two loads, one of them with an acceptance that nobody measured."""
    with open_writer(warehouse_path) as writer:
        for method, scale in (("none", 1.0), ("eagle3", 1.5)):
            source = make_source(method)
            k = {"num_speculative_tokens": 3} if scale > 1 else {}
            facts = [
                {
                    "spec_method": method,
                    "concurrency": c,
                    "evidence": "gpu",
                    "synthetic_acceptance": scale > 1,
                    **k,
                }
                for c in (1, 8)
            ]
            cells = [make_cell(source, at, scale, known) for at, known in enumerate(facts)]
            writer.add(source, cells)
        writer.commit()
    with Reader(warehouse_path) as opened:
        yield opened


def test_what_is_offered_can_be_asked_for(reader: Reader) -> None:
    found = offered(reader, Filters())

    assert found.bounds
    assert all(parse(text).text == text for text in found.bounds)


def test_acceptance_that_was_set_by_hand_carries_its_badge(reader: Reader) -> None:
    arms = capacity(reader, Filters(), "ttft:p95<1s", Paying()).arms

    assert [arm.place.badges for arm in arms] == [(), ("synthetic acceptance",)]


def test_every_load_stands_on_the_cells_behind_it(reader: Reader) -> None:
    arms = capacity(reader, Filters(), "ttft:p95<1s", Paying()).arms

    behind = [at.cells for arm in arms for at in arm.loads]
    assert [len(cells) for cells in behind] == [1, 1, 1, 1]
    assert len(frozenset().union(*behind)) == 4


def test_without_a_gap_between_tokens_a_load_is_no_point_and_that_is_counted(
    reader: Reader,
) -> None:
    found = trade(reader, Filters())

    assert len(found.points) + found.left_out == 4
