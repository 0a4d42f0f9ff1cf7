"""Pages that ask the same of the warehouse stand on one answer, and judge all that there is."""

from collections.abc import Callable
from pathlib import Path

import pytest
import streamlit as st

from analysis.money.paying import Paying
from answers.decide.values import Question
from dashboard.answers import cost as answers_cost
from dashboard.answers import slo as answers_slo
from dashboard.data import cost as data_cost
from dashboard.data import decide as data_decide
from dashboard.data import slo as data_slo
from dashboard.shelf import open_shelf
from warehouse.contract import Facts
from warehouse.filters import Filters

DRAFT = {"spec_method": "draft_model", "num_speculative_tokens": 3, "draft_model": "tiny-draft"}
PAYING = Paying(usd_per_hour=2.0)


def test_subjects_that_differ_in_their_evidence_are_decided_apart(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Facts]
) -> None:
    for engine, evidence in (("vllm", "cpu"), ("vllm", "simulated")):
        known = [
            make_facts(engine=engine, evidence=evidence, concurrency=4, **arm)
            for arm in ({"spec_method": "none"}, DRAFT)
        ]
        fill_cells(empty_place, evidence, known)

    subjects = data_decide.subjects(open_shelf(), Question()).values()

    assert [one.subject.evidence for s in subjects for one in s.decisions] == [
        "cpu",
        "simulated",
    ]
    for subject in subjects:
        (cell,) = subject.decisions[0].arms
        assert len(cell.pairs) == 1


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
    assert len(few_loads.strips) == len(few_costs.drawings) == 1
    assert few_loads.headline == all_loads.headline
    assert few_loads.totals == all_loads.totals
    assert few_costs.headline == all_costs.headline
    assert few_costs.totals == all_costs.totals
