"""Cells of a plan that are named one by one."""

from collections.abc import Callable

import pytest

from runners.planning.plan import make_plan, select
from runners.planning.study_file import Study
from warehouse.errors import RunnerError


def test_named_cells_alone_are_run_in_the_order_of_the_plan(study_of: Callable[..., Study]) -> None:
    plan = make_plan(study_of())
    first, last = plan.cells[0], plan.cells[-1]
    assert select(plan, (), None, (last.key, first.key)) == (first, last)
    assert select(plan, (), plan.launches[0].launch_id, (last.key, first.key)) == (first,)


def test_a_cell_that_the_study_has_not_is_refused_by_its_name(
    study_of: Callable[..., Study],
) -> None:
    with pytest.raises(RunnerError, match="has no cell 'k9/tp1/code/c1-r0'"):
        select(make_plan(study_of()), (), None, ("k9/tp1/code/c1-r0",))
