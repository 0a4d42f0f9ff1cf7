"""What holds for matching any cells."""

from collections.abc import Callable
from typing import Any

import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.matching.pairing import Matching, match

Row = Callable[..., dict[str, Any]]


def at(hour: int) -> pd.Timestamp:
    return pd.Timestamp("2026-01-02", tz="UTC") + pd.Timedelta(hours=hour)


def pairs(found: Matching) -> list[tuple[str, str]]:
    return list(zip(found.pairs["baseline_id"], found.pairs["speculative_id"], strict=True))


small = st.lists(
    st.tuples(
        st.sampled_from(["none", "none", "eagle3", "ngram", None]),
        st.sampled_from(["good", "good", "failed"]),
        st.sampled_from([0, 1, None]),
        st.sampled_from([4, 8, None]),
        st.sampled_from([at(0), at(1), at(3), None]),
    ),
    min_size=1,
    max_size=14,
)
FIELDS = ("spec_method", "status", "repeat", "concurrency", "started_at")
relaxed = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def drawn(row: Row, values: list[tuple[Any, ...]]) -> pd.DataFrame:
    made = [
        row(f"c{i:02}", **dict(zip(FIELDS[1:], v[1:], strict=True)), method=v[0])
        for i, v in enumerate(values)
    ]
    return pd.DataFrame(made)


@relaxed
@given(small, st.randoms(use_true_random=False), st.sampled_from([(), ("load",)]))
def test_the_order_of_the_rows_changes_nothing(
    row: Row, values: list[tuple[Any, ...]], random: Any, allow: tuple[str, ...]
) -> None:
    cells = drawn(row, values)
    order = list(range(len(cells)))
    random.shuffle(order)
    one, other = match(cells, allow), match(cells.iloc[order], allow)
    pd.testing.assert_frame_equal(one.pairs, other.pairs)
    pd.testing.assert_frame_equal(one.unmatched, other.unmatched)


@relaxed
@given(small, st.sampled_from(["none", "eagle3", None]))
def test_a_cell_that_finds_no_partner_changes_no_pair(
    row: Row, values: list[tuple[Any, ...]], method: str | None
) -> None:
    cells = drawn(row, values)
    more = pd.concat([cells, pd.DataFrame([row("a", method, gpu="x")])], ignore_index=True)
    pd.testing.assert_frame_equal(match(cells).pairs, match(more).pairs)


@relaxed
@given(small)
def test_every_cell_is_in_a_pair_or_has_a_reason_but_never_both(
    row: Row, values: list[tuple[Any, ...]]
) -> None:
    cells = drawn(row, values)
    found = match(cells)
    paired = {*found.pairs["baseline_id"], *found.pairs["speculative_id"]}
    assert paired.isdisjoint(found.unmatched["cell_id"])
    assert paired | set(found.unmatched["cell_id"]) == set(cells["cell_id"])
    assert found.pairs["speculative_id"].is_unique


def cost(speculative: Any, baseline: Any) -> tuple[int, bool, float]:
    """How badly a baseline suits, where only concurrency, repeat and time can differ."""
    differs = [
        not (one == other or (pd.isna(one) and pd.isna(other)))
        for one, other in (
            (speculative.concurrency, baseline.concurrency),
            (speculative.repeat, baseline.repeat),
        )
    ]
    apart = abs((speculative.started_at - baseline.started_at).total_seconds())
    return int(differs[0]), differs[1], float("inf") if pd.isna(apart) else apart


@relaxed
@given(small, st.sampled_from([(), ("load",)]))
def test_no_other_baseline_would_have_suited_better(
    row: Row, values: list[tuple[Any, ...]], allow: tuple[str, ...]
) -> None:
    cells = drawn(row, values)
    cells["started_at"] = pd.to_datetime(cells["started_at"], utc=True)
    good = cells[(cells["status"] == "good") & cells["spec_method"].notna()]
    arms = {c.cell_id: c for c in good.itertuples()}
    baselines = [c for c in arms.values() if c.spec_method == "none"]
    chosen = {s: b for b, s in pairs(match(cells, allow))}
    for cell_id, cell in arms.items():
        costs = [cost(cell, b) for b in baselines if allow or cost(cell, b)[0] == 0]
        if cell.spec_method != "none":
            best = cost(cell, arms[chosen[cell_id]]) if cell_id in chosen else None
            assert best == min(costs, default=None)
