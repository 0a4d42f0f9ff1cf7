"""The manager's paragraph: what is said of which evidence."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.significance.comparison import compare
from analysis.significance.confidence import intervals
from analysis.significance.output_check import OutputCheck
from analysis.verdicts.decision import Decision, as_json, decisions

LOADS = (1, 4, 16, 64)


def decide(
    *gains: float, ttft: float = 0.0, repeats: int = 3, noise: float = 0.005,
    outputs: Any = None, p_value: float | None = None, **facts: Any,
) -> list[Decision]:  # fmt: skip
    """Cells of both arms with output throughput up by ``gains`` and TTFT up by ``ttft``."""
    draw = np.random.default_rng(3)
    cells, values = [], []
    for load, gain in zip(LOADS, gains, strict=False):
        for repeat in range(repeats):
            for method, factor in (("none", 1.0), ("eagle3", 1 + gain)):
                cell = f"{method}-{load}-{repeat}"
                speculates = method != "none"
                cells.append({
                    "cell_id": cell, "spec_method": method, "status": "good", "repeat": repeat,
                    "arm_label": f"{method} K=3" if speculates else "baseline", "model": "gpt",
                    "dataset": "code", "concurrency": load, "gpu": "H200", "evidence": "gpu",
                    "tensor_parallel_size": 1, "comparable_as": "canonical", "study": "s",
                    "reported_definition": "guidellm>=0.7.4",
                    "started_at": pd.Timestamp("2026-11-01", tz="UTC"),
                } | facts)  # fmt: skip
                jitter = float(np.exp(noise * draw.standard_normal()))
                later = 1 + (ttft if speculates else 0)
                values += [
                    ("output_throughput", "mean", cell, 100.0 * factor * jitter),
                    ("ttft", "p95", cell, 50.0 * later * jitter),
                    ("request_latency", "p50", cell, 2.0 / factor * jitter),
                ]
    rows = pd.DataFrame(values, columns=["metric", "statistic", "cell_id", "value"])
    found = compare(pd.DataFrame(cells), rows.assign(origin="canonical"))
    sure = intervals(found.pairs)
    if p_value is not None:
        sure = replace(sure, geomean=sure.geomean.assign(p_value=p_value))
    return decisions(found, sure, outputs)


def test_a_gain_at_every_load_is_a_yes_with_size_interval_and_saving() -> None:
    made = decide(0.5, 0.4, 0.3, 0.25)[0]

    assert made.answer == "yes"
    assert made.paragraph.startswith("Yes: serve gpt on code with eagle3 K=3. Over the measured")
    assert "output throughput is 36% higher (95 % interval +3" in made.paragraph
    assert "26% fewer GPU hours for the same tokens" in made.paragraph
    assert "the median request is 26% faster" in made.paragraph


def test_a_gain_that_ends_is_a_yes_up_to_that_load() -> None:
    made = decide(0.5, 0.3, 0.1, -0.1)[0]

    assert made.answer == "yes, up to a load"
    assert made.paragraph.startswith("Yes, up to about concurrency 31: serve gpt on code")
    assert any("ends at about concurrency 31" in line for line in made.evidence)


def test_a_loss_is_a_no() -> None:
    made = decide(-0.2, -0.2, -0.3)[0]

    assert made.answer == "no"
    assert "lower" in made.paragraph
    assert "more GPU hours" in made.paragraph


def test_no_measurable_difference_is_a_no() -> None:
    made = decide(0.0, 0.0, 0.0)[0]

    assert made.answer == "no"
    assert "practically the same" in made.paragraph


def test_noise_leaves_it_undecided_and_says_how_many_repeats_would_do() -> None:
    made = decide(0.1, 0.1, noise=0.3, repeats=2)[0]

    assert made.answer == "undecided"
    assert made.paragraph.startswith("Not decided: whether to serve gpt on code with eagle3 K=3")
    assert "repeats" in made.paragraph or "find the noise first" in made.paragraph


def test_a_difference_that_does_not_stand_among_all_is_undecided() -> None:
    made = decide(0.5, 0.4, 0.3, p_value=0.06)[0]

    assert made.answer == "undecided"
    assert "alone it would count, but not among so many comparisons" in made.paragraph


def test_one_repeat_never_decides() -> None:
    assert decide(2.0, 2.0, repeats=1)[0].answer == "undecided"


def test_what_users_lose_is_never_left_out() -> None:
    made = decide(0.5, 0.4, 0.3, ttft=0.2)[0]

    assert made.answer == "yes"
    assert "But the first token comes 2" in made.paragraph
    assert "later at P95." in made.paragraph


@pytest.mark.parametrize("evidence", ["cpu", "mock", "simulated"])
def test_numbers_that_are_not_of_a_gpu_say_so(evidence: str) -> None:
    made = decide(0.5, 0.4, evidence=evidence)[0]

    assert made.paragraph.endswith(
        f"These numbers are of kind {evidence!r}: they say nothing about the speed of a GPU."
    )


def test_the_output_check_stands_under_the_paragraph() -> None:
    check = OutputCheck(3, None, None, None, None, ("Lengths agree.",))

    made = decide(0.5, 0.4, outputs={(0, 1): check})[0]

    assert made.evidence[-1] == "Lengths agree."
    assert as_json(made)["evidence"][-1] == "Lengths agree."
