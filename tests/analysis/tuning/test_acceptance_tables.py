"""Acceptance per dataset, arm and load: repeats pooled by their counts, one source for a cell."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from analysis.drafts.acceptance_tables import (
    acceptance_by_level,
    acceptance_by_position,
    position_counts,
)

Study = Callable[..., Any]
COUNTS = ["cell_id", "source", "drafts", "draft_tokens", "accepted_tokens", "rate", "mean_length"]
RATES = ["cell_id", "source", "position", "rate"]


def two_repeats(study: Study) -> tuple[pd.DataFrame, str, str]:
    cells = study(ks=(2,), loads=(8,), repeats=2).cells
    return cells, *cells["cell_id"]


def test_repeats_are_pooled_by_their_totals(study: Study) -> None:
    cells, one, other = two_repeats(study)
    # 100 drafts of 2 with 150 accepted, 300 of 2 with 150: 300/800; length 1 + 300/400.
    rows = [
        (one, "counters", 100, 200, 150, 0.75, 2.5),
        (other, "counters", 300, 600, 150, 0.25, 1.5),
    ]
    (found,) = acceptance_by_level(cells, pd.DataFrame(rows, columns=COUNTS)).to_dict("records")
    assert (found["dataset"], found["k"], found["concurrency"]) == ("code", 2, 8)
    assert (found["repeats"], found["drafts"], found["source"]) == (2, 400, "counters")
    assert found["rate"] == pytest.approx(0.375)
    assert found["mean_length"] == pytest.approx(1.75)


def test_positions_are_pooled_by_drafts_and_conditional_by_what_got_so_far(study: Study) -> None:
    cells, one, other = two_repeats(study)
    counts = [
        (one, "counters", 100, 200, 120, 0.6, 2.2),
        (other, "counters", 300, 600, 240, 0.4, 1.8),
    ]
    rates = [(one, "counters", 0, 0.8), (one, "counters", 1, 0.4),
             (other, "counters", 0, 0.6), (other, "counters", 1, 0.2)]  # fmt: skip
    found = acceptance_by_position(
        cells, pd.DataFrame(counts, columns=COUNTS), pd.DataFrame(rates, columns=RATES)
    )
    # r_1 = (80 + 180) / 400, r_2 = (40 + 60) / 400; p_2 = 100 / 260.
    assert found["position"].tolist() == [1, 2]
    assert found["rate"].tolist() == pytest.approx([0.65, 0.25])
    assert found["conditional"].tolist() == pytest.approx([0.65, 100 / 260])


def test_counters_are_believed_before_requests_and_never_added_to_them(study: Study) -> None:
    cells, one, _ = two_repeats(study)
    rows = [(one, "vllm_bench", 90, 180, 90, 0.5, 2.0), (one, "requests", 100, 200, 50, 0.25, 1.5),
            (one, "counters", 100, 200, 60, 0.3, 1.6)]  # fmt: skip
    (found,) = acceptance_by_level(cells, pd.DataFrame(rows, columns=COUNTS)).to_dict("records")
    assert (found["source"], found["rate"], found["drafts"]) == ("counters", 0.3, 100)


def test_a_source_without_counts_gives_its_ratios(study: Study) -> None:
    cells, one, other = two_repeats(study)
    rows = [(one, "vllm_bench", None, None, None, 0.4, 1.8),
            (other, "vllm_bench", None, None, None, 0.5, 2.0)]  # fmt: skip
    (found,) = acceptance_by_level(cells, pd.DataFrame(rows, columns=COUNTS)).to_dict("records")
    assert found["rate"] == pytest.approx(0.45)
    assert found["mean_length"] == pytest.approx(1.9)
    assert pd.isna(found["drafts"])


def test_a_group_is_an_arm_on_a_dataset_at_a_load(study: Study, fake_server: Any) -> None:
    lengths = {"code": (100, 200), "prose": (100, 200)}
    frames = study(ks=(0, 2, 3), loads=(1, 8), repeats=2, server=fake_server(lengths=lengths))
    found = acceptance_by_level(frames.cells, frames.acceptance)
    assert len(found) == 8
    assert set(found["repeats"]) == {2}
    by_position = acceptance_by_position(frames.cells, frames.acceptance, frames.positions)
    assert len(by_position) == 2 * 2 * (2 + 3)
    third = by_position[by_position["position"] == 3]
    assert third["conditional"].tolist() == pytest.approx([0.66] * 4)


def test_failed_cells_are_left_out(study: Study) -> None:
    frames = study(ks=(2,), loads=(8,))
    failed = frames.cells.assign(status="failed")
    assert acceptance_by_level(failed, frames.acceptance).empty
    assert position_counts(failed, frames.acceptance, frames.positions).empty
