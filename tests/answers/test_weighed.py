"""Where a decision expects another gain than an arm's own launches say, it says both."""

from pathlib import Path
from typing import Any

import pytest

from answers.compare.answer import compare
from answers.compare.values import CompareQuestion
from answers.decide.answer import decide
from answers.decide.values import DecideQuestion, Decision
from answers.wording import percent
from tests.answers.test_compare import Fill, fill
from warehouse.rows import Measurement
from warehouse.store import Reader, open_writer

__all__ = ["fill"]
SAYS = "Its own launches say"
TABLE = [[1, 2, 5], [3, 5, 3], [6, 16, 2]]
#: Output tokens/s of each launch, alone and at 16 at once, as `studies/lab-k-table.yaml` measured them.
MEASURED: dict[Any, dict[int, tuple[float, float, float]]] = {
    None: {1: (59.9, 58.9, 50.3), 16: (510.0, 407.6, 522.0)},
    2: {1: (109.3, 118.2, 80.6), 16: (642.5, 599.6, 577.4)},
    5: {1: (131.2, 129.2, 133.2), 16: (628.0, 567.3, 486.1)},
    "table": {1: (124.5, 103.8, 123.5), 16: (602.7, 613.3, 616.7)},
}


def facts(arm: Any, load: int, launch: int) -> dict[str, Any]:
    config = {"method": "draft_model", "num_speculative_tokens": 5}
    table = config | {"num_speculative_tokens_per_batch_size": TABLE}
    return {
        "study": "lab-k-table", "dataset": "code", "concurrency": load, "repeat": launch,
        "launch": f"{arm}-{launch}", "spec_method": "none" if arm is None else "draft_model",
        "num_speculative_tokens": 5 if arm == "table" else arm,
        "speculative_config": table if arm == "table" else None,
    }  # fmt: skip


@pytest.fixture
def measured(warehouse_path: Path, make_source: Any, make_cell: Any) -> Path:
    """A warehouse of what the lab measured of a table of K and its rivals."""
    with open_writer(warehouse_path) as writer:
        for arm, loads in MEASURED.items():
            for launch in range(3):
                source = make_source(f"{arm}-{launch}")
                cells = [
                    make_cell(
                        source, place, facts=facts(arm, load, launch), flags=(),
                        measurements=(
                            Measurement("canonical", "output_throughput", "mean", values[launch]),
                        ),
                    )
                    for place, (load, values) in enumerate(loads.items())
                ]  # fmt: skip
                writer.add(source, iter(cells))
        writer.commit()
    return warehouse_path


def decided(path: Path) -> tuple[Decision, float]:
    """The decision, and what Compare says of the same arm at the operating load."""
    with Reader(path) as reader:
        (one,) = decide(reader, DecideQuestion()).decisions
        (setting,) = compare(reader, CompareQuestion()).settings
    assert one.operating is not None
    (own,) = (
        change.improvement
        for arm in setting.arms
        for change in arm.changes
        if (arm.label, change.load) == (one.operating.arm, one.operating.load)
        and change.line == ("output_throughput", "mean")
    )
    assert own is not None
    return one, own


def test_both_gains_are_said_where_they_differ(measured: Path) -> None:
    one, own = decided(measured)

    assert one.operating is not None
    expected = one.operating.difference.improvement
    assert expected is not None
    assert abs(expected - own) > 0.02
    assert f"{SAYS} {percent(own)} there; {percent(expected)} is expected" in one.paragraph


def test_one_gain_is_said_where_they_are_alike(fill: Fill) -> None:
    with Reader(fill()) as reader:
        (one,) = decide(reader, DecideQuestion()).decisions
    assert SAYS not in one.paragraph
