"""Many series, arms and settings at once say what each of them says alone."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.matching.arms import ArmLevels
from analysis.matching.comparison import Comparison, compare
from analysis.matching.pairing import match
from analysis.service.slo import ArmReach, largest_loads, parse
from warehouse.loads import Load

LOADS = (1, 2, 4, 8, 16, 32, 64)
ARMS = ("baseline", "speculative")
LINES = (("output_throughput", "mean"), ("ttft", "p95"), ("output_tokens", "p50"))
BY = ["setting", "arm_id"]
seeds = st.integers(0, 10**6)
#: Shapes are drawn by numpy: what matters is how they meet, not their smallest example.
drawn = settings(max_examples=25)


def measured(seed: int) -> pd.DataFrame:
    """Values of arms at loads: some not measured, repeats that differ in number."""
    chance = np.random.default_rng(seed)
    rows = []
    for setting, arm, load in np.ndindex(3, 2, 4):
        # The lowest load is always there: an arm has one.
        if load and chance.random() < 0.2:
            continue
        at = 4**load
        usual = {("output_throughput", "mean"): 100.0 * at**0.5, ("ttft", "p95"): 20.0 * at,
                 ("total_throughput", "mean"): 150.0 * at**0.5, ("itl", "p99"): 4 + at / 10,
                 ("error_rate", "mean"): 0.0}  # fmt: skip
        for repeat in range(int(chance.integers(1, 4))):
            rows += [
                (setting, arm, load, f"{setting}{arm}{at}-{repeat}", *line,
                 value * np.exp(chance.normal(0, 0.3)))
                for line, value in usual.items() if chance.random() > 0.1 or line[0] == "ttft"
            ]  # fmt: skip
    columns = [*BY, "load", "cell_id", "metric", "statistic", "value"]
    return pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=seed)


SLO = parse("ttft:p95<200ms; itl:p99<10ms; error_rate<1%")


@drawn
@given(seeds)
def test_a_largest_load_is_the_one_that_its_arm_has_alone(seed: int) -> None:
    values = measured(seed)
    loads = tuple(Load("concurrency", 4.0**place) for place in range(4))

    def reached(rows: pd.DataFrame) -> dict[tuple[int, int], ArmReach]:
        return largest_loads(ArmLevels(rows, pd.DataFrame(), loads), SLO)

    alone = {key: found for _, own in values.groupby(BY) for key, found in reached(own).items()}

    assert reached(values) == alone


def cells_of(seed: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Cells, their values and flags: two datasets on two sizes, a baseline and two arms, some cells lost, some with a flag."""
    chance = np.random.default_rng(seed)
    cells, values = [], []
    for dataset, size, k, load, repeat in np.ndindex(2, 2, 3, 4, 3):
        if chance.random() < 0.05:
            continue
        cell = f"{dataset}{size}{k}{load}{repeat}"
        cells.append({
            "cell_id": cell, "spec_method": "eagle3" if k else "none", "status": "good",
            "repeat": repeat, "arm_label": f"eagle3 K={k}" if k else "baseline", "model": "m",
            "dataset": "ab"[dataset], "concurrency": 4**load, "gpu": "H200", "evidence": "gpu",
            "tensor_parallel_size": size + 1, "comparable_as": "canonical", "study": "s",
            "reported_definition": chance.choice(["guidellm>=0.7.4", "unknown"], p=[0.9, 0.1]),
        })  # fmt: skip
        gain = 1 + 0.2 * k - 0.05 * k * load
        told = {("output_throughput", "mean"): 100 * 4**load * gain, ("ttft", "p95"): 20 / gain,
                # No line of the study's table: no sentence counts it.
                ("ttft", "p50"): 10 / gain,
                ("request_latency", "p50"): 2 / gain, ("output_tokens", "p50"): 100.0}  # fmt: skip
        origin = chance.choice(["canonical", "reported"], p=[0.9, 0.1])
        values += [(cell, origin, *line, value * np.exp(chance.normal(0, 0.03)))
                   for line, value in told.items() if chance.random() > 0.02]  # fmt: skip
    columns = ["cell_id", "origin", "metric", "statistic", "value"]
    known = pd.DataFrame(cells)
    doubts = (
        known[["cell_id"]]
        .iloc[::5]
        .assign(name="short_run", severity="warning", sentence="Only a few requests were measured.")
    )
    return known, pd.DataFrame(values, columns=columns), doubts


def study(seed: int) -> Comparison:
    cells, values, doubts = cells_of(seed)
    return compare(cells, values, ("prompt_set_hash",), doubts)


@settings(max_examples=5)
@given(seeds)
def test_a_pair_is_compared_by_the_values_of_its_own_two_cells(seed: int) -> None:
    cells, values, doubts = cells_of(seed)
    definitions = dict(zip(cells["cell_id"], cells["reported_definition"], strict=True))
    known = {
        (row.cell_id, row.metric, row.statistic): (
            row.value, row.origin, "canonical" if row.origin == "canonical" else definitions[row.cell_id]
        )
        for row in values.itertuples()
    }  # fmt: skip
    lines = set(zip(values["metric"], values["statistic"], strict=True))

    found = compare(cells, values, ("prompt_set_hash",), doubts)

    wanted = []
    for pair in match(cells, ("prompt_set_hash",)).pairs.itertuples():
        for line in lines:
            old, new = (
                known.get((cell, *line)) for cell in (pair.baseline_id, pair.speculative_id)
            )
            if old and new and old[2] == new[2] != "unknown":
                wanted.append(
                    (pair.speculative_id, *line, pair.baseline_id, old[1], old[0], new[0])
                )
    names = ["speculative_id", "metric", "statistic", "baseline_id", "origin", *ARMS]
    assert sorted(found.pairs[names].itertuples(index=False, name=None)) == sorted(wanted)
    told = found.pairs.set_index("speculative_id")["flags"]
    doubted = set(doubts["cell_id"])
    for cell, flags in told.items():
        assert (cell in doubted) == any(
            flag.sentence.startswith("speculative: Only a few") for flag in flags
        )
