"""A drift within a cell: found where one was planted, and not where none was."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from analysis.evidence.drift import drift
from analysis.flags.lints import lint
from warehouse.rows import Cell, Sample, Source

Floats = NDArray[np.float64]
Build = Callable[..., Cell]
HOUR, EVERY_S = 3600.0, 10.0


def noise(draw: np.random.Generator, count: int, alike: float) -> Floats:
    """A first-order process with a standard deviation of 1."""
    fresh, values = draw.standard_normal(count), np.zeros(count)
    for place in range(1, count):
        values[place] = alike * values[place - 1] + np.sqrt(1 - alike**2) * fresh[place]
    return values


def soak(seed: int, per_hour: float, hours: float = 1.0, alike: float = 0.4) -> list[Floats]:
    """Moments, accepted and drafted tokens of a server that accepts 60 % at first, 5 % noise."""
    draw = np.random.default_rng(seed)
    at = np.arange(0, hours * HOUR, EVERY_S)
    rate = 0.6 * np.exp(np.log1p(per_hour) * at / HOUR + 0.05 * noise(draw, len(at), alike))
    drafted = draw.poisson(600, len(at))
    return [at, draw.binomial(drafted, rate).astype(float), drafted.astype(float)]


def named(per_hour: float, alike: float, count: int = 200) -> float:
    """The share of hour-long soaks of which a drift is named."""
    found = [drift(*soak(seed, per_hour, alike=alike)) for seed in range(count)]
    return sum(one is not None and one.named for one in found) / count


@pytest.mark.parametrize("alike", [0.0, 0.4, 0.9])
def test_ten_percent_an_hour_are_found_and_none_are_not(alike: float) -> None:
    assert named(0.0, alike) <= 0.02
    if alike < 0.9:
        assert named(-0.10, alike) >= 0.98


def test_its_size_is_told_with_an_interval_that_holds_it() -> None:
    found = [drift(*soak(seed, -0.10)) for seed in range(100)]
    told = [(one.per_hour, one.low <= -0.10 <= one.high) for one in found if one is not None]
    assert np.mean([size for size, _ in told]) == pytest.approx(-0.10, abs=0.005)
    assert sum(inside for _, inside in told) >= 90


def test_a_short_cell_and_an_idle_one_say_nothing() -> None:
    assert drift(*soak(1, -0.5, hours=0.4)) is None
    at, accepted, _ = soak(1, 0.0)
    assert drift(at, accepted, np.zeros(len(at))) is None


def test_a_change_that_harms_nobody_is_not_named() -> None:
    at = np.arange(0, HOUR, EVERY_S)
    ones = np.ones(len(at))
    found = drift(at, np.exp(-0.01 * at / HOUR), ones)
    assert found is not None
    assert (found.p_value < 1e-6, found.named) == (True, False)


def sampled(at: Floats, accepted: Floats, drafted: Floats) -> tuple[Sample, ...]:
    names = ("spec_decode_num_accepted_tokens", "spec_decode_num_draft_tokens")
    return tuple(
        Sample(1.8e9 + when, name, total)
        for name, counts in zip(names, (accepted, drafted), strict=True)
        for when, total in zip(at, np.cumsum(counts), strict=True)
    )


@pytest.fixture
def cell_of(make_source: Callable[..., Source], make_cell: Callable[..., Cell]) -> Build:
    """A good cell with these changes."""
    return lambda **changes: make_cell(make_source("one"), 0, **changes)


def drifts(cell: Cell) -> dict[str, str]:
    return {flag.name: flag.sentence for flag in lint(cell) if flag.name.endswith("_drifts")}


def test_acceptance_that_falls_is_flagged_with_its_size(cell_of: Build) -> None:
    falls, stays = (cell_of(samples=sampled(*soak(3, per))) for per in (-0.10, 0.0))
    assert "Acceptance falls by" in drifts(falls)["acceptance_drifts"]
    assert "an hour (95 %:" in drifts(falls)["acceptance_drifts"]
    assert drifts(stays) == {}


def test_a_counter_that_restarts_is_no_drift(cell_of: Build) -> None:
    at, accepted, drafted = soak(3, 0.0)
    samples = sampled(at, accepted, drafted)
    half = 1.8e9 + HOUR / 2
    ends = {one.name: one.value for one in samples if one.at <= half}
    again = tuple(
        one if one.at <= half else Sample(one.at, one.name, one.value - ends[one.name])
        for one in samples
    )
    assert drifts(cell_of(samples=again)) == {}


def test_tokens_that_take_longer_and_longer_are_flagged(
    cell_of: Build, make_requests: Callable[..., pa.Table]
) -> None:
    def lasting(per_hour: float) -> Cell:
        rows = make_requests("a", 400)
        at = np.linspace(0, HOUR, 400)
        gaps = 10 * np.exp(np.log1p(per_hour) * at / HOUR)
        gaps *= np.exp(0.05 * np.random.default_rng(5).standard_normal(400))
        for name, values in (("start", 1.8e9 + at), ("itl", gaps)):
            rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name),
                                   pa.array(values))  # fmt: skip
        return cell_of(requests=rows)

    assert "time per output token (ITL) rises by" in drifts(lasting(0.10))["speed_drifts"]
    assert drifts(lasting(0.0)) == {}
