"""Pages that ask the same of the warehouse stand on one answer, and judge all that there is."""

from collections.abc import Callable
from pathlib import Path

from answers.decide.answer import decide
from answers.decide.overview import overviews
from answers.decide.values import DecideQuestion
from dashboard.shelf import open_shelf
from warehouse.contract import Facts

DRAFT = {"spec_method": "draft_model", "num_speculative_tokens": 3, "draft_model": "tiny-draft"}


def test_subjects_that_differ_in_their_evidence_are_decided_apart(
    empty_place: Path, fill_cells: Callable[..., None], make_facts: Callable[..., Facts]
) -> None:
    for engine, evidence in (("vllm", "cpu"), ("vllm", "simulated")):
        known = [
            make_facts(engine=engine, evidence=evidence, concurrency=4, **arm)
            for arm in ({"spec_method": "none"}, DRAFT)
        ]
        fill_cells(empty_place, evidence, known)

    subjects = overviews(decide(open_shelf().reader, DecideQuestion()).decisions)

    assert [one.subject.evidence for s in subjects for one in s.decisions] == [
        "cpu",
        "simulated",
    ]
    for subject in subjects:
        (cell,) = subject.decisions[0].arms
        assert len(cell.pairs) == 1
