"""What was measured on what: cells counted by where they come from, and why other hardware may differ."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from answers.decide.overview import SubjectsQuestion, other_hardware, subjects
from answers.runs.read import origins
from warehouse.filters import Filters
from warehouse.store import Reader, open_writer

GPU, CPU = {"evidence": "gpu", "gpu": "H200"}, {"evidence": "cpu", "gpu": "EPYC"}
DUMMY = {"evidence": "dummy_weights", "gpu": "H200", "synthetic_acceptance": True}
EAGLE = {"spec_method": "eagle3", "num_speculative_tokens": 3}


@pytest.fixture
def add(warehouse_path: Path, make_source: Any, make_cell: Any) -> Callable[..., None]:
    """Adds a source of as many cells as are given facts."""

    def add(*facts: dict[str, Any]) -> None:
        with open_writer(warehouse_path) as writer:
            source = make_source(repr(facts))
            writer.add(source, (make_cell(source, at, 1.0, one) for at, one in enumerate(facts)))
            writer.commit()

    return add


def told(root: Path, filters: Filters | None = None) -> str:
    with Reader(root) as reader:
        return origins(reader, filters or Filters())


def test_cells_are_counted_by_what_they_were_measured_on(
    warehouse_path: Path, add: Callable[..., None]
) -> None:
    add(GPU, GPU | {"gpu": "B200"}, CPU, CPU, CPU, DUMMY, {"evidence": "simulated"})
    add({"evidence": None, "gpu": None})

    assert told(warehouse_path) == (
        "Of 8 cells: 2 on B200 and H200; 3 in the CPU lab; 1 simulated, not measured; 1 with dummy "
        "weights, which decide nothing; 1 nobody said on what; 1 of them with an acceptance set by hand."
    )
    assert told(warehouse_path, Filters(gpu=("EPYC",))) == ("Of 3 cells: 3 in the CPU lab.")


def test_a_gpu_and_a_cpu_lab_may_say_otherwise_of_each_other_and_nothing_else_does(
    warehouse_path: Path, add: Callable[..., None]
) -> None:
    for facts in (GPU, CPU, {"evidence": "simulated", "gpu": "model"}):
        add(facts, facts | EAGLE)
    with Reader(warehouse_path) as reader:
        known = {one.about.evidence: one for one in subjects(reader, SubjectsQuestion())}

    lab = other_hardware(known["gpu"].about, known.values())
    gpu = other_hardware(known["cpu"].about, known.values())

    why = "what a draft costs beside a step of the model depends on hardware and engine, so measure where you serve."
    assert lab == (f"The CPU lab may say otherwise: {why}", known["cpu"])
    assert gpu == (f"A GPU may say otherwise: {why}", known["gpu"])
    assert other_hardware(known["simulated"].about, known.values()) is None
    assert other_hardware(known["gpu"].about, [known["gpu"]]) is None
    assert other_hardware(replace(known["gpu"].about, evidence=None), known.values()) is None
