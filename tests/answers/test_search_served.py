"""Which arms break an SLO where, by the mean of their cells."""

import numpy as np
import pandas as pd

from analysis.search.space import SearchArm, SearchPlace, Space
from analysis.service.slo import parse
from answers.search.measured import broken

SPACE = Space(
    (SearchArm("baseline", "", 0), SearchArm("K=1", "draft", 1)), (SearchPlace("code", 1.0), SearchPlace("code", 8.0)),
    3.0, np.full(2, 2.0),
)  # fmt: skip


def test_a_bound_is_held_against_the_mean_of_the_cells_and_what_is_missing_breaks_it() -> None:
    cells = pd.DataFrame(
        {"cell_id": ["a", "b", "c", "d"], "number": [0, 0, 1, 1], "place": [0, 0, 0, 1]}
    )
    values = pd.DataFrame(
        {"cell_id": ["a", "b", "c"], "metric": "ttft", "statistic": "p95",
         "value": [150.0, 240.0, 210.0]}
    )  # fmt: skip
    found = broken(values, parse("ttft:p95<200ms"), cells, SPACE)
    # 195 ms on the average; 210 ms; not recorded; and not measured at all.
    assert found.tolist() == [[False, False], [True, True]]
    both = broken(values, parse("ttft:p95<200ms; itl:p95<10ms"), cells, SPACE)
    assert both.tolist() == [[True, False], [True, True]]
