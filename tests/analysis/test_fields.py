"""What cells must share: their loads, and facts that only some of a setting state."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.matching.fields import filled, loads_of
from warehouse.loads import Load

Row = Callable[..., dict[str, Any]]


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


def test_each_cell_has_the_load_that_its_facts_state(row: Row) -> None:
    poisson = {"load_profile": "poisson", "concurrency": None, "rate": 2.0}
    unknown = {"load_profile": None, "concurrency": None}
    cells = frame(row("a"), row("b", **poisson), row("c", **unknown), row("d"))
    at_once = Load("concurrency", 8)
    assert loads_of(cells) == [at_once, Load("poisson", 2), None, at_once]


def test_no_cells_have_no_loads(row: Row) -> None:
    assert loads_of(frame(row("a")).iloc[:0]) == []
    assert loads_of(frame(row("a"))[["cell_id"]]) == [None]


def test_a_fact_that_one_cell_of_a_setting_states_holds_for_all_of_it(row: Row) -> None:
    cells = frame(row("b", engine=None), row("s", "eagle3"), row("t", engine=None, concurrency=64))
    assert filled(cells)["engine"].tolist() == ["same"] * 3
    assert cells["engine"].isna().tolist() == [True, False, True]


@pytest.mark.parametrize("apart", [{"gpu": "H100"}, {"dataset": "math"}, {"study": "other"}])
def test_another_setting_lends_no_fact(row: Row, apart: dict[str, Any]) -> None:
    cells = frame(row("b", engine=None, study="one"), row("s", "eagle3", study="one") | apart)
    assert filled(cells)["engine"].isna().tolist() == [True, False]


def test_where_a_setting_states_two_values_an_unknown_one_stays_unknown(row: Row) -> None:
    cells = frame(row("b", precision=None), row("s", precision="fp8"), row("t", precision="bf16"))
    assert filled(cells)["precision"].isna().tolist() == [True, False, False]


def test_prompts_are_lent_to_no_other_cell(row: Row) -> None:
    cells = frame(row("b", prompt_set_hash=None), row("s", "eagle3"))
    assert filled(cells)["prompt_set_hash"].isna().tolist() == [True, False]
