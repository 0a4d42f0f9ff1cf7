"""Pages that ask the same of the warehouse stand on one answer, and judge all that there is."""

from collections.abc import Callable
from pathlib import Path

import pytest
import streamlit as st

from dashboard import data
from dashboard.answers import cost as answers_cost
from dashboard.answers import slo as answers_slo
from dashboard.data import cost as data_cost
from dashboard.data import slo as data_slo
from dashboard.data import verdict as data_verdict
from dashboard.paying import OWN, Paying
from dashboard.shelf import open_shelf
from warehouse.contract import Facts
from warehouse.filters import Filters

DRAFT = {"spec_method": "draft_model", "num_speculative_tokens": 3, "draft_model": "tiny-draft"}
PAYING = Paying(OWN, usd_per_hour=2.0)


@pytest.mark.usefixtures("warehouse")
def test_verdict_cost_and_compare_share_the_comparison_of_a_subject() -> None:
    shelf = open_shelf()
    subject = next(iter(data_verdict.subjects(shelf, Filters()).values()))

    found = data_verdict.judged(shelf, Filters(), subject).known.found

    mine = subject.filters(Filters())
    assert data_cost.study(shelf, mine, "") is found
    assert data.study(shelf, data.Question(mine, "p50", ())) is found


def test_a_subject_that_shares_its_filters_with_another_has_cells_of_its_own_alone(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Facts]
) -> None:
    for engine, evidence in (("vllm", "cpu"), ("vllm", "simulated")):
        known = [
            make_facts(engine=engine, evidence=evidence, concurrency=4, **arm)
            for arm in ({"spec_method": "none"}, DRAFT)
        ]
        fill_cells(empty_place, evidence, known)
    shelf = open_shelf()

    for subject in data_verdict.subjects(shelf, Filters()).values():
        known = data_verdict.judged(shelf, Filters(), subject).known
        assert set(known.cells["evidence"]) == {subject.evidence}
        assert len(known.found.pairs["speculative_id"].unique()) == 1


@pytest.mark.usefixtures("warehouse")
def test_settings_that_are_not_drawn_are_judged_and_costed_nevertheless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf = open_shelf()
    slo = data_slo.Asked(Filters(), "ttft:p95<80ms", PAYING, goodput=False)
    costed = data_cost.Asked(Filters(), PAYING)
    all_loads, all_costs = data_slo.slo_answer(shelf, slo), data_cost.cost_answer(shelf, costed)
    assert min(all_loads.panels, all_costs.panels) > 1

    monkeypatch.setattr(answers_slo, "MOST_PANELS", 1)
    monkeypatch.setattr(answers_cost, "MOST_PANELS", 1)
    st.cache_resource.clear()

    few_loads, few_costs = data_slo.slo_answer(shelf, slo), data_cost.cost_answer(shelf, costed)
    assert len(few_loads.strips) == len(data_cost.cost_drawings(shelf, costed)) == 1
    assert few_loads.headline == all_loads.headline
    assert few_loads.totals == all_loads.totals
    assert few_costs.headline == all_costs.headline
    assert few_costs.totals == all_costs.totals
