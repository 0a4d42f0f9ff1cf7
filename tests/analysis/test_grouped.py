"""Many series, arms and settings at once say what each of them says alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit
from scipy.stats import false_discovery_control

from analysis import tables
from analysis.matching.pairing import match
from analysis.money.cost import Basis
from analysis.money.demand import Demand
from analysis.money.worth import Terms, worth
from analysis.prediction.step_time import Fit
from analysis.service.largest_load import largest_load, largest_loads
from analysis.service.operating_point import Rule, operating_point, operating_points
from analysis.service.slo import parse
from analysis.significance.comparison import Comparison, compare
from analysis.significance.confidence import SERIES, intervals
from analysis.significance.crossover import crossovers
from analysis.significance.evidence import (
    FALSE_DISCOVERIES,
    MARGIN,
    MOST_REPEATS,
    POWER,
    repeats_enough,
    standing,
)
from analysis.significance.evidence_tables import shared_sentences, summary_of
from analysis.significance.shared_moves import ALARM, SHUFFLES, share_moves
from analysis.verdicts.decision import decisions
from analysis.verdicts.overall import overalls

LOADS = (1, 2, 4, 8, 16, 32, 64)
ARMS = ("baseline", "speculative")
LINES = (("output_throughput", "mean"), ("ttft", "p95"), ("output_tokens", "p50"))
BY = ["setting", "arm_id"]
seeds = st.integers(0, 10**6)
#: Shapes are drawn by numpy: what matters is how they meet, not their smallest example.
drawn = settings(max_examples=25, deadline=None)


def series(
    chance: np.random.Generator, setting: int, line: tuple[str, str]
) -> list[dict[str, Any]]:
    """Pairs of one series: some levels, some repeats, a few missing, some values unusable, often
    with a move that whole repeats share."""
    repeats = int(chance.integers(1, 5))
    moves = chance.normal(0, 0.1, repeats) * chance.integers(0, 2)
    gaps = chance.choice([0.0, 0.1])
    rows = []
    for load in LOADS[: chance.integers(1, len(LOADS) + 1)]:
        for repeat in range(repeats):
            if repeat and chance.random() < gaps:
                continue
            ratio = np.exp(0.05 + moves[repeat] + chance.normal(0, 0.02))
            rows.append({
                "setting": setting, "arm_id": setting % 2, "metric": line[0], "statistic": line[1],
                "concurrency": None if chance.random() < gaps / 10 else float(load),
                # Repeats of one setting need not be numbered as those of another.
                "repeat": repeat * (1 + setting % 3),
                "baseline_id": f"{setting}-{load}-{0 if chance.random() < gaps else repeat}",
                "baseline": 100.0 * load,
                "speculative": 0.0 if chance.random() < gaps / 10 else 100.0 * load * ratio,
            })  # fmt: skip
    return rows


def pairs(seed: int) -> pd.DataFrame:
    chance = np.random.default_rng(seed)
    numbers = range(int(chance.integers(1, 7)))
    rows = [row for number in numbers for line in LINES for row in series(chance, number, line)]
    return pd.DataFrame(rows).astype({"concurrency": "float64"})


def ordered(rows: pd.DataFrame) -> pd.DataFrame:
    names = [*SERIES, *(["concurrency"] if "concurrency" in rows else [])]
    return rows.sort_values(names, ignore_index=True)


@drawn
@given(seeds)
def test_an_interval_is_the_one_that_its_series_has_alone(seed: int) -> None:
    rows = pairs(seed)

    whole = intervals(rows)
    alone = [intervals(own) for _, own in rows.groupby(list(SERIES))]

    for name in ("levels", "geomean"):
        # A metric of which neither direction is better has none.
        known = [part for one in alone if len(part := getattr(one, name))]
        parts = pd.concat(known, ignore_index=True)
        pd.testing.assert_frame_equal(
            ordered(getattr(whole, name)), ordered(parts), rtol=1e-12, atol=1e-12
        )


def moves_alone(log_ratios: Any) -> bool:
    """The permutation test as its definition reads, shuffle by shuffle, of (levels, repeats)."""
    chance = np.random.default_rng(0)
    seen = log_ratios.mean(axis=0).var(ddof=1)
    shuffled = [
        chance.permuted(log_ratios, axis=-1).mean(axis=0).var(ddof=1) for _ in range(SHUFFLES)
    ]
    as_large = sum(value >= seen * (1 - 1e-9) for value in shuffled)
    return bool((as_large + 1) / (SHUFFLES + 1) <= ALARM)


@pytest.mark.parametrize(("levels", "repeats"), [(3, 2), (4, 5), (7, 3), (10, 3)])
def test_many_series_are_shuffled_as_each_would_be_alone(levels: int, repeats: int) -> None:
    chance = np.random.default_rng(levels)
    own = chance.normal(0, 0.02, (30, levels, repeats))
    shared = chance.normal(0, 0.04, (30, 1, repeats)) * (np.arange(30) % 2)[:, None, None]

    found = share_moves(own + shared)

    assert found.tolist() == [moves_alone(one) for one in own + shared]
    # Two repeats have but two orders a level, and three levels but eight: chance explains them all.
    assert found.any() == ((levels, repeats) != (3, 2))


@drawn
@given(seeds)
def test_the_fewest_repeats_are_those_found_by_trying_one_after_the_other(seed: int) -> None:
    chance = np.random.default_rng(seed)
    mean, noise, dof = (
        chance.normal(0, 0.08, 20),
        chance.exponential(0.1, 20),
        chance.uniform(1, 9, 20),
    )

    def tried(mean: float, noise: float, dof: float) -> float:
        reach = max(abs(mean), MARGIN - abs(mean))
        for repeats in range(2, MOST_REPEATS + 1):
            width = stdtrit(dof * (repeats - 1), 0.975) + stdtrit(dof * (repeats - 1), POWER)
            if width * noise / np.sqrt(repeats) <= reach:
                return float(repeats)
        return np.nan

    wanted = [tried(*one) for one in zip(mean, noise, dof, strict=True)]

    np.testing.assert_array_equal(repeats_enough(mean, noise, dof), wanted)


@drawn
@given(seeds)
def test_what_stands_among_many_stands_by_the_library_s_procedure_too(seed: int) -> None:
    chance = np.random.default_rng(seed)
    p_values = chance.choice([chance.uniform(0, 0.1, 60), chance.uniform(0, 1, 60)], axis=0)
    p_values[chance.random(60) < 0.1] = np.nan
    known = np.isfinite(p_values)

    found = standing(p_values)

    wanted = false_discovery_control(p_values[known]) <= FALSE_DISCOVERIES
    assert found[known].tolist() == wanted.tolist()
    assert not found[~known].any()


@drawn
@given(seeds)
def test_a_gain_ends_where_it_ends_for_its_arm_alone(seed: int) -> None:
    levels = intervals(pairs(seed)).levels

    alone = [one for _, own in levels.groupby(BY) for one in crossovers(own, *LINES[1])]

    assert crossovers(levels, *LINES[1]) == alone


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
                (setting, arm, at, f"{setting}{arm}{at}-{repeat}", *line,
                 value * np.exp(chance.normal(0, 0.3)))
                for line, value in usual.items() if chance.random() > 0.1 or line[0] == "ttft"
            ]  # fmt: skip
    columns = [*BY, "concurrency", "cell_id", "metric", "statistic", "value"]
    return pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=seed)


SLO = parse("ttft:p95<200ms; itl:p99<10ms; error_rate<1%")


@drawn
@given(seeds)
def test_a_largest_load_is_the_one_that_its_arm_has_alone(seed: int) -> None:
    values = measured(seed)

    alone = {key: largest_load(own, SLO) for key, own in values.groupby(BY)}

    assert largest_loads(values, SLO) == alone


@drawn
@given(seeds, st.sampled_from([Rule(), Rule(concurrency=4), Rule(slo=SLO)]))
def test_an_arm_is_run_where_it_is_run_alone(seed: int, rule: Rule) -> None:
    values = measured(seed)

    alone = {key: operating_point(own, rule) for key, own in values.groupby(BY)}

    assert operating_points(values, rule) == {k: v for k, v in alone.items() if v is not None}


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


@settings(max_examples=5, deadline=None)
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


@settings(max_examples=5, deadline=None)
@given(seeds)
def test_a_decision_tells_of_its_arm_what_the_tables_tell_of_it(seed: int) -> None:
    found = study(seed)
    sure = intervals(found.pairs)

    made = decisions(found, sure)

    assert len(made) == 8
    for one in made:
        key = (one.setting, one.arm_id)
        assert one.evidence == (
            tables.levels_sentence(found, *key),
            one.crossover.sentence,
            summary_of(sure, *key),
            *shared_sentences(sure, *key),
            *(f"Allowed to differ: {name}." for name in tables.allowed(found, *key)),
            *(line[0].upper() + line[1:] for line in tables.flags(found, *key)),
        )


@settings(max_examples=5, deadline=None)
@given(seeds)
def test_an_arm_over_its_settings_is_what_it_is_without_other_arms(seed: int) -> None:
    found = study(seed)
    sure = intervals(found.pairs)
    made = decisions(found, sure)

    for one in overalls(found, sure, made):
        mine = [decision for decision in made if decision.arm_id == one.arm_id]
        rows = found.geomean[found.geomean["arm_id"] == one.arm_id]
        (alone,) = overalls(replace(found, geomean=rows), sure, mine)
        pd.testing.assert_frame_equal(one.lines, alone.lines, rtol=1e-12)
        assert replace(one, lines=None) == replace(alone, lines=None)


@settings(max_examples=3, deadline=None)
@given(seeds, st.sampled_from([Rule(), Rule(concurrency=16), Rule(slo=parse("ttft:p95<18ms"))]))
def test_what_an_arm_is_worth_does_not_hang_on_others(seed: int, rule: Rule) -> None:
    found = study(seed)
    terms = Terms(rule, lambda _: Basis(3.6), Demand(1e6), investment_usd=100.0)

    alone = [
        row
        for _, own in found.pairs.groupby(BY)
        for row in worth(replace(found, pairs=own), terms)
    ]  # fmt: skip

    assert worth(found, terms) == alone
    assert len(alone) == 8


def test_a_fit_says_of_a_row_given_by_name_what_it_says_of_a_frame() -> None:
    parts = {"step": 5.0, "drafting": 0.5, "sequence": 0.3, "experts 16": 2.0, "compute": 1e-4,
             "context": 1e-3, "prefill": 1e-4, "prompt for the draft": 0.01}  # fmt: skip
    fit = Fit(parts, 0.0, 0.0)
    row = {"batch": 7.5, "k": 3, "length": 2.2, "prompt_tokens": 512.0, "output_tokens": 100.0}

    assert float(fit.at(row)) == pytest.approx(float(fit.at(pd.DataFrame([row]))[0]), rel=1e-12)
